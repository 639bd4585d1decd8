"""The program itself: killed in the middle of fifty runs, started again, nothing lost."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from typer.testing import CliRunner, Result

from taofold.cli.serve.commands import app
from taofold.core.errors import ConfigError
from taofold.server.auth import LocalToken
from tests.server.live import PATIENCE, Event, read, settled

pytestmark = pytest.mark.anyio

AGENT = '''
import asyncio, json, pathlib
from taofold import Agent, Limits, tool
from taofold.testing.models import FunctionModel

def act(thought, name, /, **parameters):
    action = {"tool": name, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": thought, "thought_type": "reasoning", "action": action})

@tool(effect="read")
async def look(at: int, hold: bool = False) -> str:
    """Look; hold: until somebody says go."""
    while hold and not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return f"seen {at}"

@tool(effect="once", tier=3)
def publish(text: str) -> str:
    """Publish."""
    with open("published.txt", "a") as file:
        file.write(text + "\\n")
    return "published"

def answer(request):
    turn = sum(m.role == "assistant" for m in request.conversation)
    goal = request.conversation[1].content
    number = "".join(c for c in goal if c.isdigit())[:4] or "0"
    if turn < 6:
        return act(f"look {turn}", "look", at=turn, hold=turn == 3 and int(number) % 2 == 1)
    if turn == 6 and "publish" in goal:
        return act("write", "publish", text=number)
    return act("that is it", "finish", answer=f"done with {goal[:20]}")

agent = Agent(FunctionModel(answer), tools=[look, publish], limits=Limits(steps=20))
'''


class Program(NamedTuple):
    """The running program, and the file of its output."""

    process: "subprocess.Popen[str]"
    said: Path

    async def up(self) -> str:
        """Its address, once it answers there."""
        await settled(lambda: self.process.poll() is not None or "sign in" in self.said.read_text())
        (url,) = re.findall(r"^serving \S+ at (\S+)$", self.said.read_text(), re.MULTILINE)
        async with asyncio.timeout(PATIENCE), httpx2.AsyncClient(base_url=url) as client:
            assert (await client.get("/healthz", timeout=PATIENCE)).status_code == 200
        return str(url)


def program_client(url: str = "") -> httpx2.AsyncClient:
    """A program on this machine: it sends what `taofold serve tokens local` prints."""
    headers = {"Authorization": f"Bearer {LocalToken.of_user().value()}"}
    return httpx2.AsyncClient(base_url=url, timeout=PATIENCE, headers=headers)


@contextmanager
def program(folder: Path, name: str = "first") -> Iterator[Program]:
    """`taofold serve` at a port that it chooses itself."""
    command = [sys.executable, "-m", "taofold.cli", "serve", "agents:agent", "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "TAOFOLD_HOME"}
    said = folder / f"stderr-{name}.txt"
    with said.open("w") as errors:
        started = subprocess.Popen(command, cwd=folder, stderr=errors, text=True, env=environment)
    try:
        yield Program(started, said)
    finally:
        started.kill()
        started.wait(PATIENCE)


async def follow(
    url: str, run: str, after: str = "", *, into: list[Event] | None = None
) -> list[Event]:
    """Follows the stream until the run's end, or until the connection breaks."""
    seen: list[Event] = [] if into is None else into
    headers = {"Last-Event-ID": after} if after else {}
    try:
        async with (
            program_client(url) as client,
            client.stream("GET", f"/runs/{run}/events", headers=headers) as answer,
        ):
            if answer.status_code == 204:
                return seen
            async for event in read(answer):
                seen.append(event)
    except httpx2.TransportError:
        pass
    return seen


@pytest.mark.crash
@pytest.mark.scenario("RCT-30", "PEER-15")
async def test_a_server_killed_in_the_middle_of_fifty_runs_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENT)
    with program(tmp_path) as first:
        url = await first.up()
        async with program_client(url) as client:
            goals = [f"{'publish' if n % 3 == 0 else 'look'} {n}" for n in range(50)]
            bodies = [{"goal": goal} for goal in goals]
            answers = [await client.post("/runs", json=body) for body in bodies]
            runs = [answer.json()["id"] for answer in answers]
            watching = [asyncio.create_task(follow(url, run)) for run in runs]
            while len((await client.get("/approvals")).json()["items"]) < 9:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            unfinished = await client.get("/runs", params={"status": "running"})
            assert len(unfinished.json()["items"]) >= 25, (await client.get("/runs")).text[:3000]
            first.process.send_signal(signal.SIGKILL)
        before = [await task for task in watching]
    (tmp_path / "go").touch()
    with program(tmp_path, "second") as second:
        url = await second.up()
        places = [[event.id for event in seen if event.id] for seen in before]
        after = [
            asyncio.create_task(follow(url, run, place[-1] if place else ""))
            for run, place in zip(runs, places, strict=True)
        ]
        waiting = {run for run, goal in zip(runs, goals, strict=True) if "publish" in goal}
        async with (
            asyncio.timeout(2 * PATIENCE),
            program_client(url) as client,
        ):
            while waiting:
                for one in (await client.get("/approvals")).json()["items"]:
                    said = {"decision": "approve"}
                    answer = await client.post(f"/approvals/{one['id']}", json=said)
                    assert answer.status_code in (202, 409)
                    waiting.discard(one["run"])
                await asyncio.sleep(0.02)
            rest = [await task for task in after]
            for run, seen, more in zip(runs, before, rest, strict=True):
                found = (await client.get(f"/runs/{run}")).json()
                assert found["status"] == "finished", found
                whole = await follow(url, run)
                told = [event.id for event in seen + more if event.id]
                assert told == [event.id for event in whole if event.id]
                assert whole[-1].name == "done"
    published = (tmp_path / "published.txt").read_text().split()
    assert sorted(map(int, published)) == [n for n in range(50) if n % 3 == 0]


@pytest.mark.crash
async def test_two_programs_share_one_log(tmp_path: Path) -> None:
    """A run of the one is followed and approved at the other."""
    (tmp_path / "agents.py").write_text(AGENT)
    (tmp_path / "go").touch()
    with program(tmp_path) as first, program(tmp_path, "second") as second:
        one, other = await first.up(), await second.up()
        async with program_client() as client:
            answer = await client.post(f"{one}/runs", json={"goal": "publish 7"})
            run = answer.json()["id"]
            watching = [asyncio.create_task(follow(url, run)) for url in (one, other)]
            items: list[dict[str, str]] = []
            while not items:
                items = (await client.get(f"{other}/approvals")).json()["items"]
                await asyncio.sleep(0.01)
            said = {"decision": "approve"}
            answer = await client.post(f"{other}/approvals/{items[0]['id']}", json=said)
            assert answer.status_code == 202
            async with asyncio.timeout(PATIENCE):
                told = [[event.id for event in await task if event.id] for task in watching]
        assert told[0] == told[1]
        assert (tmp_path / "published.txt").read_text() == "7\n"


async def test_a_server_stops_quickly_with_streams_open(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENT)
    with program(tmp_path) as started:
        url = await started.up()
        async with program_client(url) as client:
            run = (await client.post("/runs", json={"goal": "publish 1"})).json()["id"]
        seen: list[Event] = []
        watching = asyncio.create_task(follow(url, run, into=seen))
        await settled(lambda: bool(seen))
        started.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(started.process.wait, PATIENCE) == 0
        await watching
        assert all(event.name != "done" for event in seen)


async def test_the_link_that_is_printed_signs_in_once(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENT)
    with program(tmp_path) as started:
        url = await started.up()
        (link,) = re.findall(r"http://\S+/signin/\S+", started.said.read_text())
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            assert (await client.get(link)).status_code == 200
            code = {"code": link.rpartition("/")[2]}
            session = (await client.post(f"{url}/signin", json=code)).json()["session"]
            me = await client.get(f"{url}/me", headers={"Authorization": f"Session {session}"})
            assert me.json()["id"] == "local"
            assert (await client.post(f"{url}/signin", json=code)).status_code == 401


def test_it_does_not_open_to_others_without_tokens(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENT)
    command = [sys.executable, "-m", "taofold.cli", "serve", "agents:agent", "--host", "0.0.0.0"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert "there are no tokens" in done.stderr


def test_tokens_are_made_listed_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    """Runs the program once. The other commands run in this process, where a start is cheap."""
    kept = ["--token-file", str(tmp_path / "tokens.json")]
    command = [sys.executable, "-m", "taofold.cli", "serve", "tokens", "add", "alice"]
    made = subprocess.run(
        [*command, "--role", "EDITOR", *kept],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip

    def tokens(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["tokens", *arguments, *kept])

    token = made.stdout.strip()
    assert re.fullmatch(r"tf_[0-9a-f]{8}_\S{43}", token)
    listed = tokens("list").output
    assert "alice" in listed
    assert token not in listed
    assert tokens("revoke", token.split("_")[1]).exit_code == 0
    assert "revoked" in tokens("list").output
    for wrong in (("add", "local"), ("add", "bob", "--role", "EMPEROR")):
        assert isinstance(tokens(*wrong).exception, ConfigError)

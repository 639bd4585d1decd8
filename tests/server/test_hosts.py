"""One run over several machines: each process has its own network, process ids and boot.

The run starts on A and waits for an approval; A is killed. An approver decides through B, which
only serves. A worker continues and is killed in the middle; a worker on C finishes. A client that
watches on B misses no event.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests import postgres

PATIENCE = 240.0
AGENTS = '''
import asyncio, pathlib
from taofold import Agent, Limits, tool
from taofold.testing.models import FunctionModel
from tests.server.agents import act

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
    if turn == 1:
        return act("write", "publish", text="one")
    if turn < 5:
        return act(f"look {turn}", "look", at=turn, hold=turn == 3)
    return act("that is it", "finish", answer="done")

agent = Agent(FunctionModel(answer), tools=[look, publish], limits=Limits(steps=20))
'''
HOST = """
set -e
mount --bind "$1" /proc/sys/kernel/random/boot_id
ip link set lo up
hostname "$2"
shift 2
exec "$@"
"""
ASK = """
import json, sys, urllib.request
method, url, token, body = sys.argv[1:]
request = urllib.request.Request(url, body.encode() or None, method=method)
request.add_header("Authorization", "Bearer " + token)
request.add_header("Content-Type", "application/json")
with urllib.request.urlopen(request, timeout=300) as answer:
    for line in answer:
        sys.stdout.write(line.decode())
        sys.stdout.flush()
"""


class Host:
    """A process with a network, process ids, a name and a boot id of its own."""

    def __init__(self, folder: Path, name: str, url: str, *command: str) -> None:
        self.folder, self.output = folder, folder / f"{name}.txt"
        boot = folder / f"{name}.boot"
        boot.write_text(f"{uuid.uuid4()}\n")
        environment = {**os.environ, "TAOFOLD_LOG": url, "TAOFOLD_HOME": str(folder / name)}
        environment["PYTHONPATH"] = f"{Path(__file__).parents[2]}:{folder}"
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [
                    "unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--mount-proc",
                    "--kill-child=SIGKILL", "sh", "-c", HOST, "sh", str(boot), name,
                    sys.executable, "-m", "taofold.cli", *command,
                ],
                cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return self.output.read_text()

    def until(self, text: str) -> None:
        settled(lambda: text in self.said(), lambda: self.said())

    def client(
        self, token: str, method: str, path: str, body: Any = None
    ) -> "subprocess.Popen[str]":
        """A client in the host's network."""
        url = f"http://127.0.0.1:8420{path}"
        said = "" if body is None else json.dumps(body)
        return subprocess.Popen(
            [
                "nsenter", "-t", str(self.process.pid), "-n", sys.executable, "-c", ASK,
                method, url, token, said,
            ],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, token: str, method: str, path: str, body: Any = None) -> Any:
        output, errors = self.client(token, method, path, body).communicate(timeout=PATIENCE)
        assert output, errors
        return json.loads(output)

    def kill(self) -> None:
        """Kills the machine as a power loss does."""
        self.process.kill()
        self.process.wait(PATIENCE)


def settled(holds: Callable[[], Any], shown: Callable[[], str] = str) -> Any:
    """Waits until `holds` returns a true value, and returns it."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, shown()
        time.sleep(0.02)
    return found


def copy(client: "subprocess.Popen[str]", into: Path) -> None:
    """Records the events that a client receives, as they arrive."""
    assert client.stdout is not None
    with into.open("w") as file:
        for line in client.stdout:
            file.write(line)
            file.flush()


def ids(stream: str) -> list[str]:
    """The places of the events in a stream, in order."""
    return [line for line in stream.splitlines() if line.startswith("id: ")]


@contextmanager
def host(*arguments: Any) -> Iterator[Host]:
    made = Host(*arguments)
    try:
        yield made
    finally:
        made.kill()


def namespaces() -> None:
    """Skips the test where a process cannot have a machine of its own."""
    if os.geteuid() != 0:
        pytest.skip("hosts of their own (network and process namespaces) need root")
    if not all(shutil.which(one) for one in ("unshare", "nsenter", "ip")):
        pytest.skip("hosts of their own need unshare, nsenter and ip")
    probe = ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--mount-proc", "true"]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("network and process namespaces are forbidden here")


def test_a_run_goes_from_machine_to_machine_and_nobody_misses_anything(tmp_path: Path) -> None:
    namespaces()
    url = postgres.server().url()
    (tmp_path / "agents.py").write_text(AGENTS)
    environment = {**os.environ, "TAOFOLD_LOG": url, "TAOFOLD_HOME": str(tmp_path / "any")}
    command = [sys.executable, "-m", "taofold.cli", "serve", "tokens", "add", "ann"]
    token = subprocess.run(
        [*command, "--role", "ADMIN"], env=environment, cwd=tmp_path, check=True,
        capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    with ExitStack() as stack:

        def start(name: str, *words: str) -> Host:
            return stack.enter_context(host(tmp_path, name, url, *words))

        a = start("a", "serve", "agents:agent")
        b = start("b", "serve", "agents:agent", "--max-runs", "0")
        a.until("sign in")
        b.until("sign in")
        run = a.ask(token, "POST", "/runs", {"goal": "publish"})["id"]
        watcher = stack.enter_context(b.client(token, "GET", f"/runs/{run}/events"))
        stack.callback(watcher.kill)
        seen = tmp_path / "seen.txt"
        copier = Thread(target=copy, args=(watcher, seen))
        copier.start()

        def asked() -> Any:
            return b.ask(token, "GET", f"/approvals?run={run}")["items"]

        (question,) = settled(asked)
        a.kill()
        first = start("first", "work", "agents:agent")
        first.until("working for")
        b.ask(token, "POST", f"/approvals/{question['id']}", {"decision": "approve"})
        settled(lambda: "look 3" in seen.read_text())
        settled(lambda: (tmp_path / "published.txt").exists())
        first.kill()
        killed = time.monotonic()
        c = start("c", "work", "agents:agent")
        c.until("working for")
        (tmp_path / "go").touch()
        row = settled(
            lambda: (found := b.ask(token, "GET", f"/runs/{run}"))["status"] == "finished"
            and found, lambda: c.said() + seen.read_text()[-2000:],
        )  # fmt: skip
        print(f"failover and the rest of the run: {time.monotonic() - killed:.1f} s")
        copier.join(PATIENCE)
        again, _ = b.client(token, "GET", f"/runs/{run}/events").communicate(timeout=PATIENCE)
    assert (tmp_path / "published.txt").read_text() == "one\n"
    assert row["status"] == "finished"
    assert ids(seen.read_text()) == ids(again)
    assert len(ids(again)) > 10
    assert all("Traceback" not in one.said() for one in (a, b, first, c))

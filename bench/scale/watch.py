"""Many clients watch runs on servers that only serve, while workers drive the runs.

    python bench/scale/watch.py [--clients 1000] [--runs 100] [--servers 2] [--workers 2]

Real processes (`taofold serve --max-runs 0`, `taofold work`) on one PostgreSQL with fsync. Each run
takes steps of a second and then streams an answer of 80 words, four per second. Each word is the
time at which the model sent it. Prints JSON: events that some client missed or got twice or in
another order than the log has them, how long an event took from its record's time, and a word from
the model, until a client had it (milliseconds), and the CPU that each kind of process used.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from bench.scale.load import of_server  # noqa: E402
from tests import postgres  # noqa: E402
from tests.ports import free_port  # noqa: E402

STEPS = 5
WORDS = 80
AGENTS = f'''
import asyncio, json, pathlib, time
from taofold import Agent, Limits, tool
from taofold.core.values import Reply
from taofold.testing.models import FunctionModel

@tool(effect="read")
async def look(at: int) -> str:
    """Look."""
    while at == 0 and not pathlib.Path("go").exists():
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    return f"seen {{at}}"

class Words:
    name = "words:model"
    profile = FunctionModel(lambda _: "").profile

    async def complete(self, request, on_text=None):
        turn = sum(m.role == "assistant" for m in request.conversation)
        said = {{"thought": "on", "thought_type": "progress"}}
        if turn < {STEPS}:
            action = {{"tool": "look", "parameters": {{"at": turn}}, "rationale": "needed"}}
            return Reply(json.dumps(said | {{"action": action}}), model=self.name)
        action = {{"tool": "finish", "parameters": {{"answer": ""}}, "rationale": "done"}}
        text, end = json.dumps(said | {{"action": action}}).rsplit('""', 1)
        pieces = [text + '"']
        for _ in range({WORDS}):
            if on_text:
                on_text(pieces[-1])
            await asyncio.sleep(0.25)
            pieces.append(f"{{time.time():.3f}} " + "x" * 20 + " ")
        pieces.append('"' + end)
        return Reply("".join(pieces), model=self.name)

    def price(self, input_tokens, output_tokens):
        return 0.0

agent = Agent(Words(), tools=[look], limits=Limits(steps={STEPS} + 5))
'''


class Process:
    """A `taofold` process."""

    def __init__(self, folder: Path, url: str, *command: str) -> None:
        environment = {
            **os.environ, "TAOFOLD_LOG": url, "TAOFOLD_HOME": str(folder / "home"),
            "PYTHONPATH": f"{ROOT}:{folder}",
        }  # fmt: skip
        self.output = folder / f"{'-'.join(command[:1])}{time.monotonic_ns()}.txt"
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "taofold.cli", *command],
                cwd=folder, env=environment, stdout=file, stderr=file,
            )  # fmt: skip

    async def until(self, text: str) -> None:
        while text not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            await asyncio.sleep(0.05)

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


async def request(
    port: int,
    token: str,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """The reader of a response, behind its headers, its writer, and how long the body is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    text = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    writer.write(head.encode() + text)
    status = await reader.readline()
    length = 0
    while (line := await reader.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if b" 20" not in status:
        raise RuntimeError(status + await reader.read(500))
    return reader, writer, length


class Watcher:
    """One client of one run."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.events: list[float] = []
        self.words: list[float] = []
        self.answer = ""

    async def watch(self, port: int, token: str, run: str) -> None:
        reader, writer, _ = await request(port, token, "GET", f"/runs/{run}/events")
        name = ""
        while line := await reader.readline():
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"id: "):
                self.ids.append(line[4:].strip().decode())
            elif line.startswith(b"data: "):
                self._hear(name, json.loads(line[6:]))
                if name == "done":
                    break
        writer.close()

    def _hear(self, name: str, data: Any) -> None:
        now = time.time()
        if name == "answer_chunk":
            self.answer = self.answer[: data["offset"]] + data["text"]
            stamps = [word for word in data["text"].split() if word[:1].isdigit() and "." in word]
            # Of several words that came together, the first waited longest.
            self.words += [now - float(stamps[0])] if stamps else []
        else:
            self.events.append(now - datetime.fromisoformat(data["timestamp"]).timestamp())


def spread(values: list[float]) -> dict[str, float]:
    """Returns the spread in milliseconds."""
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    found = {
        name: round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))])
        for name, share in at.items()
    }
    return {"count": len(ordered), **found}


async def main(options: argparse.Namespace) -> None:
    binaries = postgres.binaries()
    assert binaries is not None, "no PostgreSQL here"
    database = postgres.Server(binaries, safe=True)
    processes: list[Process] = []
    load = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory() as place:
            folder, url = Path(place), database.url()
            (folder / "agents.py").write_text(AGENTS)
            environment = {**os.environ, "TAOFOLD_LOG": url, "TAOFOLD_HOME": str(folder / "home")}
            command = [sys.executable, "-m", "taofold.cli", "serve", "tokens", "add", "ann"]
            token = subprocess.run(
                [*command, "--role", "ADMIN"], env=environment, cwd=folder, check=True,
                capture_output=True, text=True,
            ).stdout.strip()  # fmt: skip
            ports = [free_port() for _ in range(options.servers)]
            servers = [
                Process(
                    folder, url, "serve", "agents:agent", "--max-runs", "0", "--port", str(port)
                )
                for port in ports
            ]
            workers = [Process(folder, url, "work", "agents:agent") for _ in range(options.workers)]
            processes += [*servers, *workers]
            for server in servers:
                await server.until("sign in")
            for worker in workers:
                await worker.until("working for")
            runs: list[str] = []
            for number in range(options.runs):
                port = ports[number % len(ports)]
                reader, writer, length = await request(port, token, "POST", "/runs", {"goal": "go"})
                runs.append(json.loads(await reader.readexactly(length))["id"])
                writer.close()
            watchers = [Watcher() for _ in range(options.clients)]
            watching = []
            for number, watcher in enumerate(watchers):
                port, run = ports[number % len(ports)], runs[number % len(runs)]
                watching.append(asyncio.create_task(watcher.watch(port, token, run)))
                await asyncio.sleep(0.01)
            await asyncio.sleep(5)
            print(f"{len(watchers)} clients are there", file=sys.stderr)
            for watcher in watchers:
                watcher.events.clear()  # what had happened before they came
            used = {
                "server": [one.cpu() for one in servers],
                "worker": [one.cpu() for one in workers],
            }
            used["database"] = [of_server(database)]
            began = time.monotonic()
            (folder / "go").touch()
            await asyncio.wait_for(asyncio.gather(*watching), options.seconds)
            seconds = time.monotonic() - began
            after = {
                "server": [one.cpu() for one in servers],
                "worker": [one.cpu() for one in workers],
            }
            after["database"] = [of_server(database)]
            whole: dict[str, Watcher] = {}
            for run in runs:
                whole[run] = Watcher()
                await whole[run].watch(ports[0], token, run)
            wrong = sum(
                watcher.ids != whole[runs[number % len(runs)]].ids
                or watcher.answer != whole[runs[number % len(runs)]].answer
                for number, watcher in enumerate(watchers)
            )
            print(json.dumps({
                "clients": options.clients, "runs": options.runs, "servers": options.servers,
                "workers": options.workers, "load": [round(load, 1), round(os.getloadavg()[0], 1)],
                "seconds": round(seconds, 1),
                "clients_with_a_gap": wrong,
                "events_ms": spread([late for watcher in watchers for late in watcher.events]),
                "words_ms": spread([late for watcher in watchers for late in watcher.words]),
                "cpu_s": {
                    kind: [round(b - a, 1) for a, b in zip(used[kind], after[kind], strict=True)]
                    for kind in used
                },
            }, indent=2))  # fmt: skip
    finally:
        for process in processes:
            process.process.kill()
            process.process.wait()
        database.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=400.0)
    asyncio.run(main(parser.parse_args()))

"""How much one server process carries: clients on one run, and runs at once.

    python bench/server/load.py            # 1,000 clients, then 200 runs; some minutes
    python bench/server/load.py --clients 100 --runs 20

The server is a process of its own; the clients share another one, so the times include
theirs. Delivery is from the moment an event became durable (its own time stamp) to the
moment a client has read it; both processes read one clock. Prints one JSON object.
"""

import argparse
import asyncio
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from taofold.server.auth import LocalToken

AGENT = '''
import asyncio, json
from taofold import Agent, Limits, tool
from taofold.testing.models import FunctionModel

def act(thought, name, /, **parameters):
    action = {"tool": name, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": thought, "thought_type": "reasoning", "action": action})

@tool(effect="read")
async def look(at: int) -> str:
    """Look."""
    await asyncio.sleep(PAUSE)
    return f"seen {at}"

def answer(request):
    turn = sum(m.role == "assistant" for m in request.conversation)
    if turn < STEPS:
        return act(f"look {turn}", "look", at=turn)
    return act("so", "finish", answer="42")

agent = Agent(FunctionModel(answer), tools=[look], limits=Limits(steps=STEPS + 5))
'''


def rss(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


class Served:
    """The program, serving an agent that takes `steps` steps with `pause` seconds each."""

    def __init__(self, steps: int, pause: float) -> None:
        self.folder = tempfile.TemporaryDirectory()
        source = AGENT.replace("STEPS", str(steps)).replace("PAUSE", str(pause))
        (Path(self.folder.name) / "agents.py").write_text(source)
        with socket.create_server(("127.0.0.1", 0)) as one:
            self.port = one.getsockname()[1]
        command = [sys.executable, "-m", "taofold.cli", "serve", "agents:agent"]
        environment = {k: v for k, v in os.environ.items() if k != "TAOFOLD_HOME"}
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--max-rate", "10000"],
            cwd=self.folder.name,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def signed_in() -> str:
    """The headers of a program on this machine."""
    return f"Host: 127.0.0.1\r\nAuthorization: Bearer {LocalToken.of_user().value()}\r\n"


async def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, dict]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\n{signed_in()}Connection: close\r\n"
    if method == "POST":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"\r\n" + body)
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), json.loads(rest.partition(b"\r\n\r\n")[2] or b"{}")


async def ready(served: "Served") -> None:
    port = served.port
    while served.process.poll() is None:
        try:
            if (await ask(port, "GET", "/healthz"))[0] == 200:
                return
        except OSError:
            await asyncio.sleep(0.05)
    raise SystemExit("the server did not start")


async def client(
    port: int, run: str, opened: list[int], late: list[tuple[float, float]], ids: list
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /runs/{run}/events HTTP/1.1\r\n{signed_in()}\r\n".encode())
    mine, live = [], False
    while True:
        line = await reader.readline()
        if line.startswith(b"HTTP/1.1 4"):
            raise SystemExit(f"refused: {line.decode()}")
        if not line or line.startswith(b"event: done"):
            ids.append(mine)
            break
        if line.startswith(b"retry:"):
            opened[0] += 1
            live = True
        elif line.startswith(b"id: "):
            mine.append(line[4:].strip())
        elif line.startswith(b"data: ") and live:
            now = time.time()
            at = datetime.fromisoformat(json.loads(line[6:])["timestamp"]).timestamp()
            late.append((at, now - at))
    writer.close()


async def fan_out(clients: int, steps: int) -> dict:
    """`clients` on one run."""
    served = Served(steps, 0.5)
    try:
        await ready(served)
        before = rss(served.process.pid)
        _, made = await ask(served.port, "POST", "/runs", b'{"goal": "go"}')
        opened, late, ids = [0], [], []
        tasks = [
            asyncio.create_task(client(served.port, made["id"], opened, late, ids))
            for _ in range(clients)
        ]
        while opened[0] < clients:
            await asyncio.sleep(0.05)
        whole, taken = time.time(), rss(served.process.pid)
        await asyncio.gather(*tasks)
        live = sorted(seconds for at, seconds in late if at > whole)
        return {
            "clients": clients,
            "events_each": sorted({len(one) for one in ids}),
            "all_equal": all(one == ids[0] for one in ids),
            "deliveries_while_all_watched": len(live),
            "delivery_ms": {
                "median": round(statistics.median(live) * 1000, 1),
                "p99": round(live[int(len(live) * 0.99)] * 1000, 1),
                "max": round(live[-1] * 1000, 1),
            },
            "kilobytes_per_client": round((taken - before) / clients / 1024, 1),
        }
    finally:
        served.close()


async def many_runs(runs: int, steps: int) -> dict:
    """`runs` at once, each with `steps` calls of 20 ms."""
    served = Served(steps, 0.02)
    try:
        await ready(served)
        before, begin = rss(served.process.pid), time.perf_counter()
        answers = await asyncio.gather(
            *[ask(served.port, "POST", "/runs", b'{"goal": "go"}') for _ in range(runs)]
        )
        accepted = time.perf_counter() - begin
        most = 0
        while True:
            _, health = await ask(served.port, "GET", "/healthz")
            most = max(most, health["active_runs"])
            if not health["active_runs"] and not health["queued_runs"]:
                break
            await asyncio.sleep(0.05)
        seconds = time.perf_counter() - begin
        taken = rss(served.process.pid)
        states = [
            (await ask(served.port, "GET", f"/runs/{made['id']}"))[1]["status"]
            for _, made in answers
        ]
        return {
            "runs": runs,
            "finished": states.count("finished"),
            "steps": runs * (steps + 1),
            "seconds_until_accepted": round(accepted, 2),
            "seconds": round(seconds, 2),
            "steps_per_s": round(runs * (steps + 1) / seconds),
            "most_at_once": most,
            "kilobytes_per_run": round((taken - before) / runs / 1024, 1),
        }
    finally:
        served.close()


def main() -> None:
    said = argparse.ArgumentParser()
    said.add_argument("--clients", type=int, default=1000)
    said.add_argument("--runs", type=int, default=200)
    said.add_argument("--steps", type=int, default=20)
    given = said.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    result = {
        "fan_out": asyncio.run(fan_out(given.clients, given.steps)),
        "runs": asyncio.run(many_runs(given.runs, given.steps)),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

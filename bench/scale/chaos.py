"""Kills, freezes and stops servers and workers, under a database that crashes.

    python bench/scale/chaos.py --engine local|dbos|restate --runs 200 [--servers 2] [--old SRC]

Three workers, each a machine of its own (process ids, boot id, host name), drive runs whose tools
have effects that must happen once, and which need approvals. Two servers that drive nothing
(`taofold serve --max-runs 0`) begin the runs, take the truthful decisions of an approver, and
stream each tenth run to a client, which comes back to any of them when it is cut off. All get
SIGKILL, SIGSTOP and SIGTERM and are restarted, PostgreSQL is stopped as in a crash and started. In
the end every run must have finished, its events must have no gap, no effect may have happened
twice, and each client must have got every event once and in order. Failover is the time from a
SIGKILL until another machine owns the run. Exit code 0: all of that holds.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from bench.scale.watch import request  # noqa: E402
from tests import postgres  # noqa: E402
from tests.engine import restate  # noqa: E402
from tests.ports import free_port  # noqa: E402

from taofold import Agent, Decision  # noqa: E402
from taofold.core.call_ids import effect_id  # noqa: E402
from taofold.core.errors import LogError, Refused  # noqa: E402
from taofold.core.state import fold  # noqa: E402
from taofold.engine import RemoteEngine  # noqa: E402
from taofold.log.log import ENDED  # noqa: E402
from taofold.log.postgres import PostgresLog  # noqa: E402
from taofold.log.uncertain_writes import CertainLog  # noqa: E402
from taofold.runtime.control import decide, pending  # noqa: E402

WORLD = '''
import asyncio, json, os, random, time
from taofold import Agent, Limits, RunContext, tool
from taofold.testing.models import FunctionModel

def note(kind, effect):
    descriptor = os.open("effects.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{kind} {effect} {os.uname().nodename} {time.monotonic_ns()}\\n".encode())
    os.close(descriptor)

@tool(effect="read")
async def look(ctx: RunContext, at: int) -> str:
    """Look."""
    await asyncio.sleep(random.random())
    return "seen"

@tool(effect="once", tier=1, reversible=True)
async def fire(ctx: RunContext, at: int) -> str:
    """Fire, once."""
    note("fire", ctx.effect_id)
    await asyncio.sleep(random.random() / 2)
    return "fired"

@tool(effect="once", tier=3)
async def pay(ctx: RunContext, at: int) -> str:
    """Pay, once, with a person's word."""
    note("pay", ctx.effect_id)
    await asyncio.sleep(random.random() / 2)
    return "paid"

def answer(request):
    goal = next(m.text for m in request.conversation if m.role == "user").split()
    turn = sum(m.role == "assistant" for m in request.conversation)
    name, given = "finish", {"answer": "done"}
    if turn < len(goal):
        name, given = goal[turn], {"at": turn}
    action = {"tool": name, "parameters": given, "rationale": "needed"}
    return json.dumps({"thought": "on", "thought_type": "progress", "action": action})

agent = Agent(FunctionModel(answer), tools=[look, fire, pay], limits=Limits(steps=30))
'''
HOST = """
set -e
mount --bind "$1" /proc/sys/kernel/random/boot_id
hostname "$2"
shift 2
exec "$@"
"""
GOALS = ("look fire look fire", "fire pay look", "look fire look look fire fire")
REPLACED = "dbos._error.DBOSAwaitedWorkflowCancelledError"
_PROGRESS_S = 10
FAULTS = {"kill": 5, "stop": 3, "term": 2, "database": 1}


class Machine:
    """A process with its own process ids, boot id and name. It is restarted after its end."""

    def __init__(self, world: "World", name: str, *command: str) -> None:
        self.world, self.name, self.boots = world, name, 0
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.boot = ""
        self.frozen_until = 0.0
        self.start()

    def start(self) -> None:
        self.boots += 1
        self.boot = str(uuid.uuid4())
        folder = self.world.folder
        place = folder / f"{self.name}.boot"
        place.write_text(f"{self.boot}\n")
        source = self.world.options.old if self.name == "a" else ""
        environment = {
            **os.environ,
            "TAOFOLD_LOG": self.world.url,
            "TAOFOLD_ENGINE": self.world.engine,
            "TAOFOLD_HOME": str(folder / self.name),
            "PYTHONPATH": f"{source or ROOT / 'src'}:{folder}",
        }
        if self.command[0] == "serve":
            del environment["TAOFOLD_ENGINE"]
        with (folder / f"{self.name}.txt").open("ab") as file:
            self.process = subprocess.Popen(
                [
                    "unshare", "--pid", "--mount", "--uts", "--fork", "--mount-proc",
                    "--kill-child=SIGKILL", "sh", "-c", HOST, "sh", str(place),
                    f"{self.name}{self.boots}", sys.executable, "-m", "taofold.cli", *self.command,
                ],
                cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip

    def inside(self) -> int:
        """The id that the worker has for us."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])

    def signal(self, number: int) -> None:
        # It may just be starting, or have just ended.
        with suppress(IndexError, ProcessLookupError, FileNotFoundError):
            os.kill(self.inside(), number)

    def kill(self) -> None:
        assert self.process is not None
        self.signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()


class World:
    """The machines, the runs and the faults."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.random = random.Random(options.seed)
        self.folder = Path(tempfile.mkdtemp(prefix="scale-chaos-"))
        (self.folder / "world.py").write_text(WORLD)
        found = postgres.binaries()
        assert found is not None, "no PostgreSQL here"
        self.server = postgres.Server(found, safe=True)
        self.url = self.server.url()
        self.engine = options.engine
        if options.engine == "restate":
            self.engine = restate.server().engine(restate.ports(1)[0])
        self.log = CertainLog(PostgresLog(self.url))
        self.agent = Agent[Any, Any]("offline:repair", log=self.log, name="agent")
        self.remote = RemoteEngine(self.log)
        work = ("work", "world:agent", "--max-runs", "20", "--stop-seconds", "5")
        self.ports = [free_port() for _ in range(options.servers)]
        self.token = self.made_token() if self.ports else ""
        self.machines = [Machine(self, name, *work) for name in "abc"]
        self.machines += [
            Machine(self, f"s{n}", "serve", "world:agent", "--max-runs", "0", "--port", str(port))
            for n, port in enumerate(self.ports)
        ]
        self.clients: dict[str, list[str]] = {}
        """The positions of the events that each client received."""
        self.cuts = 0
        self.faults: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.orphans: dict[str, tuple[float, int]] = {}
        """Runs of killed machines: when they lost their driver, and its epoch."""
        self.failovers: list[float] = []

    def made_token(self) -> str:
        command = [sys.executable, "-m", "taofold.cli", "serve", "tokens", "add", "ann"]
        environment = {**os.environ, "TAOFOLD_LOG": self.url, "TAOFOLD_HOME": str(self.folder)}
        return subprocess.run(
            [*command, "--role", "ADMIN"], env=environment, cwd=self.folder, check=True,
            capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    async def ask(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        """Returns a server's response; None if it is down or refuses."""
        port = self.random.choice(self.ports)
        try:
            async with asyncio.timeout(5):
                reader, writer, length = await request(
                    port, self.token, "POST", path, body, headers
                )
                answer = json.loads(await reader.readexactly(length))
                writer.close()
                return answer
        except (OSError, RuntimeError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            return None

    async def begin_served(self, number: int) -> None:
        """Begin a run through any server, asked again until one answers."""
        body = {"goal": self.random.choice(GOALS), "session": str(number)}
        run = None
        while run is None:
            run = await self.ask("/runs", body, {"Idempotency-Key": f"chaos-{number}"})
            await asyncio.sleep(0 if run else 0.1)
        if number % 10 == 0:
            self.clients[run["id"]] = []
            self.watching.append(asyncio.create_task(self.follow(run["id"])))

    async def follow(self, run: str) -> None:
        """Follows one run as a client, at any server, until its end."""
        ids, last, event = self.clients[run], "", ""
        while event != "done":
            with suppress(OSError, RuntimeError, TimeoutError, asyncio.IncompleteReadError):
                port = self.random.choice(self.ports)
                path = f"/runs/{run}/events"
                async with asyncio.timeout(5):
                    reader, writer, _ = await request(
                        port, self.token, "GET", path, None, {"Last-Event-ID": last} if last else {}
                    )
                name = at = ""
                # A server sends something every 15 seconds at the latest, unless it is frozen.
                while line := await asyncio.wait_for(reader.readline(), 20):
                    if line.startswith(b"event: "):
                        name = line[7:].strip().decode()
                    elif line.startswith(b"id: "):
                        at = line[4:].strip().decode()
                    elif line == b"\n":
                        # An event is complete only at its empty line.
                        if at:
                            ids.append(at)
                            last, event = at, name
                        name = at = ""
                        if event == "done":
                            break
                writer.close()
            self.cuts += event != "done"
            await asyncio.sleep(0.2)

    async def begin(self) -> None:
        for number in range(self.options.runs):
            if self.ports:
                await self.begin_served(number)
                await asyncio.sleep(self.options.pace)
                continue
            run = f"r{number:04}"
            goal = self.random.choice(GOALS)
            await self.safely(
                self.agent.begin(goal, run_id=run, settings={"server": {"agent": "agent"}})
            )
            await self.safely(self.remote.wake(run))
            await asyncio.sleep(self.options.pace)

    async def safely(self, work: Any) -> Any:
        try:
            return await work
        except LogError as error:
            print(f"the log was away: {error}"[:150], flush=True)
            return None

    async def strike(self) -> None:
        """Causes one fault, then restarts killed or ended processes."""
        kind = self.random.choices([*FAULTS], [*FAULTS.values()])[0]
        machine = self.random.choice(self.machines)
        if machine.frozen_until and kind != "database":
            return
        self.faults[kind] += 1
        if kind == "kill":
            rows = await self.safely(self.log.rows(status="running", limit=0)) or []
            machine.kill()
            now = time.monotonic()
            for row in rows:
                if row.owner.startswith(machine.boot):
                    self.orphans[row.run] = (now, row.epoch)
            await asyncio.sleep(1)
            machine.start()
        elif kind == "stop":
            machine.signal(signal.SIGSTOP)
            machine.frozen_until = time.monotonic() + self.random.choice((2, 20))
        elif kind == "term":
            machine.signal(signal.SIGTERM)
        else:
            await asyncio.to_thread(self.server.stop, signal.SIGQUIT)
            await asyncio.sleep(1)
            await asyncio.to_thread(self.server.start)

    def revive(self) -> None:
        for machine in self.machines:
            if machine.frozen_until and time.monotonic() > machine.frozen_until:
                machine.signal(signal.SIGCONT)
                machine.frozen_until = 0.0
            if machine.process is not None and machine.process.poll() is not None:
                machine.start()

    def happened(self, effect: str) -> bool:
        path = self.folder / "effects.log"
        return path.exists() and any(
            line.split()[1] == effect for line in path.read_text().splitlines()
        )

    async def answer(self) -> None:
        for asked in await pending(self.log):
            doubt = "may already have happened" in asked.question
            state = fold(await self.log.read(asked.run))
            done = doubt and self.happened(effect_id(asked.run, state, asked.key, asked.index))
            self.answers["done" if done else "again" if doubt else "approve"] += 1
            decision = "done" if done else "approve"
            if self.ports:
                await self.ask(f"/approvals/{asked.id}", {"decision": decision})
                continue
            with suppress(Refused, LogError):
                await decide(self.log, asked.id, Decision(decision))

    async def watch(self) -> None:
        """Note when the runs of killed machines have another owner."""
        for run, (since, epoch) in list(self.orphans.items()):
            row = await self.log.row(run)
            if row.epoch > epoch or row.status != "running":
                del self.orphans[run]
                if row.epoch > epoch:
                    self.failovers.append(time.monotonic() - since)

    async def run(self) -> dict[str, Any]:
        began = time.monotonic()
        self.watching: list[asyncio.Task[None]] = []
        beginning = asyncio.create_task(self.begin())
        struck = time.monotonic()
        end = began + self.options.seconds
        open_ = {"running": 1}
        shown = began
        while open_ and time.monotonic() < end + self.options.patience:
            await asyncio.sleep(0.2)
            self.revive()
            if time.monotonic() - shown > _PROGRESS_S:
                shown = time.monotonic()
                self.show(shown - began, open_)
            try:
                await self.watch()
                await self.answer()
                open_ = {k: n for k, n in (await self.log.count()).items() if k not in ENDED}
            except LogError:
                continue
            peace = beginning.done() or time.monotonic() > end
            if time.monotonic() - struck > self.options.every and not peace:
                await self.strike()
                struck = time.monotonic()
            open_ = open_ or ({} if beginning.done() else {"new": 1})
        self.show(time.monotonic() - began, open_)
        # Runs that have not begun by now are missing in the count.
        beginning.cancel()
        await asyncio.wait([beginning])
        self.revive()
        if self.watching:
            await asyncio.wait(self.watching, timeout=60)
        return await self.judged(time.monotonic() - began)

    def show(self, seconds: float, statuses: dict[str, int]) -> None:
        """Print how far the test is: it runs for minutes."""
        clients = sum(task.done() for task in self.watching)
        print(
            f"{seconds:.0f} s: not ended {statuses}, faults {dict(self.faults)}, "
            f"answers {dict(self.answers)}, {clients} of {len(self.watching)} clients done",
            file=sys.stderr,
            flush=True,
        )

    async def judged(self, seconds: float) -> dict[str, Any]:
        wrong: list[str] = []
        rows = await self.log.rows(limit=0)
        if len(rows) != self.options.runs:
            wrong.append(f"{len(rows)} runs, not {self.options.runs}")
        for row in rows:
            if row.status != "finished":
                wrong.append(f"{row.run} is {row.status} ({row.waiting_for})")
            seqs = [record.seq for record in await self.log.read(row.run)]
            if seqs != list(range(len(seqs))):
                wrong.append(f"{row.run} has a gap")
        for run, ids in list(self.clients.items()):
            places = [int(place.partition(".")[0].partition("~")[0]) for place in ids]
            events = [record.seq for record in await self.log.read(run)]
            if len(ids) != len(set(ids)) or places != sorted(places) or places[-1:] != events[-1:]:
                wrong.append(f"a client of {run} got {ids}")
            try:
                whole = Counter(await self.read_again(run))
            except TimeoutError:
                wrong.append(f"a client of {run} that came afterwards was not told its end")
                continue
            if Counter(ids) != whole:
                wrong.append(f"a client of {run} missed {whole - Counter(ids)}")
        path = self.folder / "effects.log"
        lines = path.read_text().splitlines() if path.exists() else []
        effects = Counter(line.split()[1] for line in lines)
        repeated = {effect: count for effect, count in effects.items() if count > 1}
        wrong += [f"effect {effect} happened {count} times" for effect, count in repeated.items()]
        for machine in self.machines:
            output = (self.folder / f"{machine.name}.txt").read_text()
            # DBOS logs one for each workflow of its own that another worker replaced.
            if output.count("Traceback") > output.count("\n" + REPLACED):
                wrong.append(f"a traceback in {machine.name}.txt")
        failover = sorted(self.failovers)
        drivers: Counter[str] = Counter()
        for line in lines:
            drivers[line.split()[2].rstrip("0123456789")] += 1
        return {
            "engine": self.options.engine,
            "effects_of": dict(sorted(drivers.items())),
            "runs": len(rows),
            "seconds": round(seconds),
            "faults": dict(self.faults),
            "answers": dict(self.answers),
            "effects": len(effects),
            "servers": len(self.ports),
            "clients": len(self.clients),
            "clients_cut_off": self.cuts,
            "failovers": len(failover),
            "failover_p50_s": round(statistics.median(failover), 1) if failover else None,
            "failover_max_s": round(failover[-1], 1) if failover else None,
            "wrong": wrong,
        }

    async def read_again(self, run: str) -> list[str]:
        """Returns the events that a new client receives."""
        self.clients[run] = []
        await asyncio.wait_for(self.follow(run), 60)
        return self.clients[run]

    async def close(self) -> None:
        for machine in self.machines:
            machine.kill()
        await self.log.close()
        self.server.remove()


async def main(options: argparse.Namespace) -> int:
    world = World(options)
    try:
        report = await world.run()
    finally:
        await world.close()
        restate.stop()
    print(json.dumps(report, indent=2))
    if report["wrong"]:
        print(f"what is left lies in {world.folder}")
    else:
        shutil.rmtree(world.folder, ignore_errors=True)
    return int(bool(report["wrong"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=["local", "dbos", "restate"], default="local")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--pace", type=float, default=0.5, help="seconds between two new runs")
    parser.add_argument("--every", type=float, default=4.0, help="seconds between two faults")
    parser.add_argument("--seconds", type=float, default=300, help="no faults after so long")
    parser.add_argument("--patience", type=float, default=180, help="until all must have ended")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--old", default="", help="`src` of another release, for the first worker")
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(asyncio.run(main(parser.parse_args())))

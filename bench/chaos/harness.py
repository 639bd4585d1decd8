"""One world of the chaos benchmark: two machines, a project, users, faults, and the judge.

Two machines (`host.py`: own process ids, boot id, host name) share a project's folder, as two
containers share a volume. On each, a server, a program with its own engine, and command lines
(`run`, `runs resume`, `loop`, `loops resume`) work on runs with every kind of call. Users start
runs, answer truthfully, and resume interrupted runs of the command line. At the same time,
processes get SIGKILL, SIGSTOP, SIGTERM and SIGINT, machines are switched off and boot again, the
disk fills up, and the clock jumps. Afterwards every run must end by itself, and the real effects
are compared with the log.

A fault is due after work since the last one. A slow machine therefore gets fewer faults, not faults
without effect. The disk is a `tmpfs` if that may be mounted. `log_conformance` covers a power cut
that loses unsynced data. `run.py` starts this, once for each world.
"""

import argparse
import asyncio
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = Path()
GATE = "grep -q three words.py"
DISK_MB = 192


def settle_in(folder: Path) -> None:
    """This process is a world whose files lie in `folder`, on a small disk where that may be."""
    global FOLDER, CLOCK, SITE, DISK, HOME, LOG, TEMPORARY
    FOLDER, CLOCK, SITE, DISK = folder, folder / "clock", folder / "site", folder / "disk"
    HOME, TEMPORARY = DISK / ".taofold", DISK / "tmp"
    LOG = HOME / "runs.db"
    for place in (SITE, DISK, FOLDER / "out"):
        place.mkdir()
    if may_unshare():
        libc = ctypes.CDLL(None, use_errno=True)
        libc.unshare(machine.MOUNTS)
        libc.mount(b"none", b"/", None, machine.PRIVATE, None)
        options = f"size={DISK_MB}m,mode=700".encode()
        libc.mount(b"tmpfs", str(DISK).encode(), b"tmpfs", 0, options)
    for place in (HOME, TEMPORARY):
        place.mkdir()
    CLOCK.write_bytes(struct.pack("q", 0))
    machine.bend_clock(CLOCK)
    world.keep_in(FOLDER)


CLOCK = SITE = DISK = HOME = LOG = TEMPORARY = FOLDER
sys.path.insert(0, str(HERE))
import host as machine  # noqa: E402 - it bends the clock before taofold is imported
import httpx2  # noqa: E402
import world  # noqa: E402

from taofold import Decision  # noqa: E402
from taofold.core import events as e  # noqa: E402
from taofold.core.call_ids import effect_id  # noqa: E402
from taofold.core.errors import LogError, Refused  # noqa: E402
from taofold.core.state import fold  # noqa: E402
from taofold.core.values import Principal  # noqa: E402
from taofold.log.log import ENDED, RunRow  # noqa: E402
from taofold.log.sqlite.journal import SqliteJournal  # noqa: E402
from taofold.log.sqlite.log import SqliteLog  # noqa: E402
from taofold.log.sqlite.open import faults_in  # noqa: E402
from taofold.loop.stream import ids, load  # noqa: E402
from taofold.runtime.control import decide, pending  # noqa: E402
from taofold.server.auth import TokenStore  # noqa: E402
from taofold.tools.temporary_folders import sweep  # noqa: E402

PLANS = ("lpf", "ps", "yl", "fsp", "hl", "ypf", "sls", "lfy", "ld")
FAULTS = {"kill": 58, "stop": 12, "term": 12, "int": 6, "clock": 6, "off": 4, "disk": 2}
"""Relative frequency of each kind of fault."""
ONCE = ("fire", "dig", "shoot", "pay")
"""Tools whose effect must happen once."""
OF_EACH = 3
"""Runs of each kind that are under way at once."""
LAST = {"completed", "exhausted", "aborted"}
PACE = 2
"""Things that must have happened in the world since the last fault, or `SLOWEST_S` be over."""
LINE = 60
"""Bytes that something that happens in the world takes about."""
QUICKEST_S, SLOWEST_S = 0.25, 2.0
"""Seconds between two faults."""
GRACE_S = 10.0
"""Time in which a child of a killed process must end by itself."""
STALL_S = 1.5
"""Whoever had to wait for so long to run at all was as good as frozen, as all others were."""


@dataclass
class Process:
    """A process on one of the machines. `pid` is its id there."""

    host: "Host"
    pid: int
    kind: str
    run: str = ""
    frozen_until: float = 0.0

    @property
    def name(self) -> str:
        """Returns the name in the world's records."""
        return f"{self.host.label}.{self.pid}"


@dataclass
class Host:
    """One machine and its processes."""

    name: str
    port: int
    boot: int = 0
    nursery: socket.socket | None = None
    pid: int = 0
    lines: Any = None
    processes: dict[int, Process] = field(default_factory=dict[int, Process])
    deaths: dict[str, int] = field(default_factory=dict[str, int])
    """Latest end of each process, in monotonic nanoseconds."""
    real: bool = False

    @property
    def label(self) -> str:
        return f"{self.name}{self.boot}"

    def start(self) -> None:
        """Boot: another boot id, no processes."""
        assert self.nursery is not None
        self.boot += 1
        boot = FOLDER / f"{self.label}.boot"
        boot.write_text(f"{uuid.uuid4()}\n")
        ours, theirs = socket.socketpair()
        order = json.dumps({"label": self.label, "boot": str(boot)}).encode()
        socket.send_fds(self.nursery, [order], [theirs.fileno()])
        theirs.close()
        self.pid = int(self.nursery.recv(100))
        self.lines, self.processes = ours.makefile("rw", encoding="utf-8"), {}
        self.real = json.loads(self.lines.readline())["real"]

    def ask(self, **order: Any) -> Any:
        self.lines.write(json.dumps(order) + "\n")
        self.lines.flush()
        return json.loads(self.lines.readline())

    def fork(
        self, kind: str, arguments: list[str], run: str = "", folder: Path | None = None
    ) -> Process:
        out = str(FOLDER / "out" / f"{kind}.txt")
        order = {"kind": kind, "arguments": arguments, "out": out, "folder": str(folder or SITE)}
        pid = self.ask(do="fork", **order)
        self.processes[pid] = Process(self, pid, kind, run)
        return self.processes[pid]

    def signal(self, process: Process, number: int) -> bool:
        there = bool(self.ask(do="signal", pid=process.pid, number=number))
        if there and number == signal.SIGKILL:
            self.deaths[process.name] = time.monotonic_ns()
        return there

    def reap(self) -> None:
        for pid in self.ask(do="ended"):
            process = self.processes.pop(int(pid), None)
            if process is not None:
                self.deaths.setdefault(process.name, time.monotonic_ns())

    def off(self) -> None:
        """Switch it off: everything on it is gone at once."""
        if not self.real:
            for process in self.processes.values():
                self.signal(process, signal.SIGKILL)
        os.kill(self.pid, signal.SIGKILL)
        self.lines.read()  # its end is the end of everything on the machine
        self.lines.close()
        self.deaths |= {one.name: time.monotonic_ns() for one in self.processes.values()}
        self.processes = {}

    def strays(self) -> list[str]:
        """Returns processes whose parent was killed."""
        running = self.ask(do="others")
        return [
            line
            for pid, (parent, line) in running.items()
            if parent == 1 and int(pid) not in self.processes
        ]

    def of(self, *kinds: str) -> list[Process]:
        return [one for one in self.processes.values() if one.kind in kinds]


def may_unshare() -> bool:
    command = ["unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "true"]
    with suppress(OSError):
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    return False


def nursery() -> tuple[socket.socket, int]:
    """Forks the process that forks the machines. It ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    try:
        ours.close()
        os.setsid()
        os.environ |= {"TAOFOLD_HOME": str(HOME), "TMPDIR": str(TEMPORARY)}
        tempfile.tempdir = None
        machine.nurse(theirs)
    finally:
        os._exit(0)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Chaos:
    """The machines, the persons and the faults."""

    def __init__(self, faults: int, seed: int, loops: int) -> None:
        self.wanted, self.random, self.loops = faults, random.Random(seed), loops
        self.hosts = [Host("a", free_port()), Host("b", free_port())]
        self.faults: Counter[str] = Counter()
        self.stops: dict[str, list[tuple[int, int]]] = {}
        """Times at which each process was frozen and thawed, in monotonic nanoseconds."""
        self.stalls: list[tuple[int, int]] = []
        """Times at which this process itself was stalled, and therefore all others."""
        self.offset = 0
        self.numbers: Counter[str] = Counter()
        self.acknowledged: dict[str, str] = {}
        """Runs whose id a client received, and their plans."""
        self.asked: dict[str, tuple[str, str]] = {}
        """Idempotency keys of requests that may have arrived, with plan."""
        self.struck = 0.0, 0
        """Time of the last fault, and the amount of work by then."""
        self.full_until = 0.0
        self.token = ""
        self.log = SqliteLog(LOG)
        self.journal = SqliteJournal(LOG)
        self.client = httpx2.AsyncClient(timeout=3.0, verify=False)
        self.words: Counter[str] = Counter()
        self.left_since: dict[str, float] = {}
        """Times since which runs of the command line seem to have no owner."""

    # User actions.

    async def persons(self, *, more: bool) -> None:
        """Start runs, answer what is asked, carry on what the command line left."""
        rows = await self.log.rows(limit=0)
        open_ = [row for row in rows if row.status not in ENDED and not row.parent]
        if more:
            await self.start_served(open_)
            self.start_programmed(open_)
        self.start_commands(rows, more=more)
        await self.start_loops(more=more)
        await self.answer()

    async def start_served(self, open_: list[RunRow]) -> None:
        served = [row for row in open_ if not row.run.startswith(("api-", "cli-"))]
        if len(served) < OF_EACH and len(self.asked) < OF_EACH:
            key = f"key-{uuid.uuid4().hex}"
            self.asked[key] = ("", self.random.choice(PLANS))
        for key, (_, plan) in list(self.asked.items()):
            body, head = {"goal": f"plan {plan} served"}, {"Idempotency-Key": key}
            answer = await self.http("POST", "/runs", json=body, headers=head)
            if answer is not None and answer.status_code in (200, 201):
                self.acknowledged[answer.json()["id"]] = plan
                del self.asked[key]

    def start_programmed(self, open_: list[RunRow]) -> None:
        there = {row.run for row in open_ if row.run.startswith("api-")}
        if len(there) < OF_EACH:
            self.numbers["api"] += 1
            plan = self.random.choice(PLANS)
            run = f"api-{self.numbers['api']:05}"
            with (FOLDER / "wanted").open("a") as file:
                file.write(f"{run} plan {plan} programmed\n")
            self.acknowledged[run] = plan

    def start_commands(self, rows: list[RunRow], *, more: bool) -> None:
        """A person at each machine: carries on one's runs, or starts another."""
        driven = {one.run for host in self.hosts for one in host.processes.values()}
        mine = [row for row in rows if row.agent == "worker" and row.goal.endswith("typed")]
        left = [row for row in mine if self.left(row) and row.run not in driven]
        now = time.monotonic()
        self.left_since = {row.run: self.left_since.get(row.run, now) for row in left}
        for host in self.hosts:
            if len(host.of("command")) >= 2:
                continue
            if left:
                row = left.pop()
                arguments = ["runs", "resume", row.run, "--approve", "wait", "--quiet"]
                host.fork("command", arguments, row.run)
            elif more:
                plan = self.random.choice(PLANS)
                arguments = ["run", "world:agent", f"plan {plan} typed"]
                host.fork("command", [*arguments, "--approve", "wait", "--quiet"])

    def left(self, row: RunRow) -> bool:
        """Returns whether a run of the command line waits for a resume."""
        if row.status == "waiting":
            return row.wake_at > 0
        if row.status == "cancelled":  # by Ctrl-C: there is no other cancellation
            return True
        return row.status == "running" and not row.held

    async def start_loops(self, *, more: bool) -> None:
        busy = [one for host in self.hosts for one in host.of("loop")]
        if len(busy) >= 2:
            return
        host = self.random.choice(self.hosts)
        for loop in await ids(self.journal):
            state = (await load(self.journal, loop)).state
            if state.status in LAST or any(one.run == loop for one in busy):
                continue
            place = Path(state.wish.root) if state.wish is not None else SITE
            host.fork("loop", ["loops", "resume", loop, "--quiet", "--force"], loop, place)
            return
        if more and self.numbers["loop"] < self.loops:
            self.numbers["loop"] += 1
            place = SITE / f"loop{self.numbers['loop']}"
            place.mkdir()
            (place / "words.py").write_text("words = 'zero'\n")
            arguments = ["loop", "Write the words.", "-c", GATE, "--agent", "world:builder"]
            arguments += ["--quiet", "--force", "--max-iterations", "9"]
            host.fork("loop", arguments, folder=place)

    async def answer(self) -> None:
        """Say of everything that waits what is true, here or at a server."""
        for asked in await pending(self.log):
            doubt = "may already have happened" in asked.question
            state = fold(await self.log.read(asked.run))
            effect = effect_id(asked.run, state, asked.key, asked.index)
            verdict = "done" if doubt and world.happened(effect) else "approve"
            served = asked.requester == "chaos" and self.random.random() < 0.5
            if served:
                body = {"decision": verdict, "digest": asked.digest}
                heard = await self.http("POST", f"/approvals/{asked.id}", json=body)
                self.words[f"http {heard.status_code if heard is not None else 'lost'}"] += 1
            else:
                with suppress(Refused, LogError):
                    word = Decision(verdict, digest=asked.digest)
                    await decide(self.log, asked.id, word, by=Principal())
            self.words[verdict] += 1

    async def http(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """The answer of a server, None if there was none."""
        port = self.random.choice(self.hosts).port
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        url = f"http://127.0.0.1:{port}{path}"
        try:
            return await self.client.request(method, url, headers=headers, **options)
        except (httpx2.HTTPError, OSError):
            return None

    # Supervision.

    def tend(self) -> None:
        """Restarts the processes that should always run. Thaws those frozen long enough."""
        now = time.monotonic()
        for host in self.hosts:
            host.reap()
            for process in host.processes.values():
                if process.frozen_until and now > process.frozen_until:
                    self.thaw(process)
            if not host.of("server"):
                host.fork("server", [
                    "serve", "start", "world:agent", "--port", str(host.port),
                    "--approve-seconds", "0", "--token-file", str(FOLDER / "tokens"),
                ])  # fmt: skip
            if not host.of("engine"):
                host.fork("engine", [str(LOG), str(FOLDER / "wanted")])
        if self.full_until and now > self.full_until:
            self.free_disk()

    def thaw(self, process: Process) -> None:
        process.frozen_until = 0.0
        process.host.signal(process, signal.SIGCONT)
        stops = self.stops[process.name]
        stops[-1] = (stops[-1][0], time.monotonic_ns())

    # Faults.

    def disturb(self) -> None:
        """Causes one fault."""
        kind = self.random.choices(list(FAULTS), list(FAULTS.values()))[0]
        hit = False
        match kind:
            case "kill":
                hit = self.strike(signal.SIGKILL, "server", "engine", "command", "loop")
            case "term":
                hit = self.strike(signal.SIGTERM, "server", "engine", "command", "loop")
            case "int":
                hit = self.strike(signal.SIGINT, "command")
            case "stop":
                hit = self.freeze()
            case "clock":
                self.jump()
                hit = True
            case "off":
                host = self.random.choice(self.hosts)
                host.off()
                host.start()
                hit = True
            case _:
                hit = self.fill_disk()
        self.faults[kind] += hit

    def strike(self, number: int, *kinds: str) -> bool:
        there = [one for host in self.hosts for one in host.of(*kinds)]
        # Servers and engines come back at once: the others would hardly ever be hit.
        weights = [1 if one.kind in ("server", "engine") else 3 for one in there]
        if not there:
            return False
        process = self.random.choices(there, weights)[0]
        return process.host.signal(process, number)

    def freeze(self) -> bool:
        there = [
            one for host in self.hosts for one in host.processes.values() if not one.frozen_until
        ]
        if not there:
            return False
        process = self.random.choice(there)
        seconds = self.random.choice((0.3, 1.0, 2.0, 6.0, 14.0, 18.0))
        process.frozen_until = time.monotonic() + seconds
        self.stops.setdefault(process.name, []).append((time.monotonic_ns(), 0))
        return process.host.signal(process, signal.SIGSTOP)

    def jump(self) -> None:
        """Move everybody's clock: a little mostly, sometimes by an hour, either way."""
        seconds = self.random.choice((0.5, 5, 15, 60, 600, 3600)) * self.random.choice((-1, 1))
        if abs(self.offset + seconds * 1e9) > 6e12:
            seconds = -seconds
        self.offset += int(seconds * 1e9)
        with CLOCK.open("r+b") as file:
            file.write(struct.pack("q", self.offset))

    def fill_disk(self) -> bool:
        if self.full_until or not os.path.ismount(DISK):
            return False
        self.full_until = time.monotonic() + self.random.choice((0.5, 1.5, 4.0))
        with (DISK / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        file.write(b"x" * size)
        return True

    def free_disk(self) -> None:
        self.full_until = 0.0
        (DISK / "ballast").unlink(missing_ok=True)

    # The whole of it.

    async def run(self, children: socket.socket, seconds: float, patience: float) -> list[str]:
        begun, looked, seen = time.monotonic(), 0.0, time.monotonic()
        for host in self.hosts:
            host.nursery = children
            host.start()
        while sum(self.faults.values()) < self.wanted and time.monotonic() - begun < seconds:
            self.tend()
            if time.monotonic() - looked > 0.4:
                looked = time.monotonic()
                with suppress(LogError, OSError):
                    await self.persons(more=True)
            if self.is_due():
                self.disturb()
            seen = await self.breathe(seen)
        print(f"no more faults after {time.monotonic() - begun:.0f} s", flush=True)
        self.free_disk()
        for host in self.hosts:
            for process in host.processes.values():
                if process.frozen_until:
                    self.thaw(process)
        until = time.monotonic() + patience
        looked, seen = 0.0, time.monotonic()
        while time.monotonic() < until:
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                if not await self.unfinished():
                    break
                self.tend()
                with suppress(LogError, OSError):
                    await self.persons(more=False)
                    await self.hear_again()
            seen = await self.breathe(seen)
        unfinished = await self.unfinished()
        print(f"all quiet after {time.monotonic() - begun:.0f} s", flush=True)
        for host in self.hosts:
            until = time.monotonic() + GRACE_S
            while (strays := host.strays()) and time.monotonic() < until:
                await asyncio.sleep(0.5)
            unfinished += [f"process {line}" for line in strays]
            host.off()
        sweep(TEMPORARY)  # as the next process does that needs a folder
        unfinished += [f"folder {one.name}" for one in TEMPORARY.glob("taofold-*")]
        return [f"left behind: {one}" for one in unfinished]

    async def breathe(self, seen: float) -> float:
        """Sleeps for a moment so that others run. A long delay is a stall of all processes."""
        await asyncio.sleep(0.02)
        now = time.monotonic()
        if now - seen > STALL_S:
            self.stalls.append((int(seen * 1e9), int(now * 1e9)))
        return now

    def is_due(self) -> bool:
        """Returns whether work was done since the last fault."""
        size = world.EFFECTS.stat().st_size if world.EFFECTS.exists() else 0
        since = time.monotonic() - self.struck[0]
        if since < QUICKEST_S or (size < self.struck[1] + PACE * LINE and since < SLOWEST_S):
            return False
        self.struck = time.monotonic(), size
        return True

    async def hear_again(self) -> None:
        """Requests whose answer was lost are asked again with their key."""
        await self.start_served([RunRow("x")] * OF_EACH)

    async def unfinished(self) -> list[str]:
        rows = await self.log.rows(limit=0)
        known = {row.run for row in rows}
        left = [
            f"run {row.run} is {row.status} {row.waiting_for}"
            for row in rows
            if row.status != "finished" and not (row.parent and row.status in ENDED)
        ]
        left += [f"run {run} was acknowledged and is not there" for run in self.acknowledged
                 if run not in known]  # fmt: skip
        left += [f"request {key} was never answered" for key in self.asked]
        for loop in await ids(self.journal):
            state = (await load(self.journal, loop)).state
            if state.status != "completed":
                left.append(f"loop {loop} is {state.status}")
        return left


async def judged(chaos: Chaos) -> tuple[list[str], dict[str, Any]]:
    """Compares the real effects with the log. Returns faults and figures."""
    faults = [f"the log is damaged: {one}" for one in faults_in(LOG)]
    seen = read_world()
    figures: Counter[str] = Counter()
    rows = await chaos.log.rows(limit=0)
    for row in rows:
        records = await chaos.log.read(row.run)
        if [record.seq for record in records] != list(range(len(records))):
            faults.append(f"run {row.run} has gaps")
        figures["events"] += len(records)
        if row.agent != "worker" and row.agent != "helper":
            continue
        faults += judged_run(chaos, row, records, seen, figures)
    for effect, call in seen.items():
        if call.tool in ONCE and not call.started:
            faults.append(f"never recorded: {call.tool} {effect} began and no log knows of it")
    figures["runs"] = len(rows)
    figures["stalls of everybody"] = len(chaos.stalls)
    figures["loops"] = len(await ids(chaos.journal))
    figures |= {f"word: {word}": number for word, number in chaos.words.items()}
    return faults, dict(figures)


@dataclass
class Seen:
    """The effects of one call: its tool, the processes that began and ended it, and the times."""

    tool: str
    begun: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    done: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    stalls: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    started: bool = False
    """Whether a log records the start."""


def read_world() -> dict[str, Seen]:
    """Reads the effects by id."""
    seen: dict[str, Seen] = {}
    lines = world.EFFECTS.read_text().splitlines() if world.EFFECTS.exists() else []
    for line in lines:
        mark, tool, effect, who, at = line.split()
        call = seen.setdefault(effect, Seen(tool))
        {"begin": call.begun, "did": call.done, "stall": call.stalls}[mark].append((who, int(at)))
    return seen


def judged_run(
    chaos: Chaos,
    row: RunRow,
    records: Iterable[e.Record],
    seen: dict[str, Seen],
    figures: Counter[str],
) -> list[str]:
    """Checks that each call of the run happened as often as promised."""
    faults: list[str] = []
    started: set[str] = set()
    words: Counter[str] = Counter()
    records = list(records)
    state = fold(records)
    for record in records:
        event = record.event
        if isinstance(event, e.Started):
            figures["starts"] += 1
            started.add(effect_id(row.run, state, event.key, event.index))
        if isinstance(event, e.Resolved) and event.verdict == "allow":
            words[effect_id(row.run, state, event.key, event.index)] += 1
    for effect in sorted(started & seen.keys()):
        seen[effect].started = True
        call, of = seen[effect], f"{seen[effect].tool} {effect} of run {row.run}"
        figures["calls"] += 1
        thawed = is_excused(chaos, call)
        allowed = {"shoot": 1 + words[effect], "pay": words[effect]}.get(call.tool, 10**9)
        if not call.done and row.status == "finished":
            faults.append(f"lost: {of} never happened")
        if len(call.begun) > allowed:
            if thawed:
                figures["starts by thawed processes"] += 1
            else:
                times = f"{len(call.begun)} times with {words[effect]} words"
                faults.append(f"started unasked: {of}, {times}")
        if call.tool in ONCE and len(call.done) > 1:
            if thawed:
                figures["effects of thawed processes"] += 1
            else:
                faults.append(f"repeated: {of}, {len(call.done)} times")
    return faults


def is_excused(chaos: Chaos, call: Seen) -> bool:
    """Returns whether a frozen process took part, which no lease can prevent.

    Either it acted within three seconds of being thawed, or it had begun the call and was still
    alive when another process took over the run after such a freeze.
    """
    if any(was_frozen(chaos, *one) for one in call.begun + call.done):
        return True
    last = max(at for _, at in call.begun)
    deaths = {name: at for host in chaos.hosts for name, at in host.deaths.items()}
    stalls = chaos.stalls + [(at - 30_000_000_000, at) for _, at in call.stalls]
    return any(
        began < last
        and deaths.get(who, last) >= last
        and any(start <= last and end >= began for start, end in stalls)
        for who, began in call.begun
    )


def was_frozen(chaos: Chaos, who: str, at: int) -> bool:
    """Returns whether the process was thawed within the three seconds before `at`."""
    return any(
        start < at and (not end or at < end + 3_000_000_000)
        for start, end in chaos.stops.get(who, [])
    )


def main(folder: Path, faults: int, seed: int, options: argparse.Namespace) -> None:
    """Runs one world in this process, which has no thread yet. Writes `report.json`."""
    settle_in(folder)
    children, pid = nursery()
    report = asyncio.run(world_of(children, faults, seed, options))
    children.close()
    os.waitpid(pid, 0)
    report["cpu_seconds"] = round(sum(os.times()[:4]))
    if report["wrong"] and os.path.ismount(DISK):  # it goes with this process
        shutil.copytree(DISK, FOLDER / "kept", ignore_dangling_symlinks=True)
    (FOLDER / "report.json").write_text(json.dumps(report, indent=2))


async def world_of(
    children: socket.socket, faults: int, seed: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Faults, what became of them, and what was wrong."""
    chaos = Chaos(faults, seed, options.loops)
    chaos.token = TokenStore(FOLDER / "tokens").add("chaos", ["ADMIN"])
    begun = time.monotonic()
    wrong = await chaos.run(children, options.seconds, options.patience)
    found, figures = await judged(chaos)
    return {
        "faults": dict(chaos.faults),
        "figures": figures,
        "seconds": round(time.monotonic() - begun),
        "boots": sum(host.boot for host in chaos.hosts),
        "namespaces": chaos.hosts[0].real,
        "disk": os.path.ismount(DISK),
        "wrong": wrong + found,
    }

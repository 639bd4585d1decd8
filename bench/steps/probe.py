"""Measures in this process, contestants turn by turn, and prints one JSON object.

    probe.py TASK '{options}'       TASK: steps, sqlite, http, crowd, memory, stream

CPU is the time of all threads of this process; a server's time is not in it. Each round
takes one sample of every contestant, so that a ratio compares neighbours in time.
"""

import asyncio
import gc
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import common

WRITTEN = 4000
"""Steps that are written before a file's size is taken: it grows by whole pages."""


class Meter:
    """CPU and wall time of a block, garbage collected before it."""

    def __enter__(self):
        gc.collect()
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self.wall
        self.cpu = time.process_time() - self.cpu


class Side:
    """One contestant: a module and a variant of it, written `module:variant`."""

    def __init__(self, name, mode, **options):
        module, self.variant = name.split(":")
        self.module, self.name = importlib.import_module(module), name
        self.mode, self.options = mode, options

    def build(self, steps):
        return self.module.build(steps, self.mode, self.variant, **self.options)

    async def episode(self, loop, steps):
        before = common.TOOL_CALLS
        text = await self.module.arun(loop, steps)
        if text != common.final_text(steps) or common.TOOL_CALLS - before != steps - 1:
            raise AssertionError(f"{self.name} answered {text!r} for {steps} steps")


async def steps(options):
    """Measures microseconds of CPU per step at several lengths.

    A sample is one episode right after a garbage collection, whose walk over the heap leaves the
    processor's caches cold. With `repeated` it is as many in a row as make that many steps.
    """
    repeated = options.get("repeated", 0)
    sides = [
        Side(name, options["mode"], base_url=options.get("base_url", ""))
        for name in options["sides"]
    ]
    out = {side.name: {} for side in sides}
    for length in options["lengths"]:
        loops = [side.build(length) for side in sides]
        repeat = max(1, repeated // length)
        for side, loop in zip(sides, loops, strict=True):
            await side.episode(loop, length)
            out[side.name][length] = {"cpu_us": [], "wall_us": []}
        for _ in range(rounds(options, length)):
            for side, loop in zip(sides, loops, strict=True):
                with Meter() as meter:
                    for _ in range(repeat):
                        await side.episode(loop, length)
                note(out[side.name][length], meter, length * repeat)
        for side, loop in zip(sides, loops, strict=True):
            await side.module.aclose(loop)
    return out


async def sqlite(options):
    """As `steps`, with a file each, and the bytes by which it grows."""
    out = {name: {} for name in options["sides"]}
    with tempfile.TemporaryDirectory() as scratch:
        for length in options["lengths"]:
            opened = []
            for name in options["sides"]:
                folder = Path(scratch) / f"{name}-{length}"
                folder.mkdir()
                side = Side(name, "fake", path=str(folder))
                loop = side.build(length)
                await side.episode(loop, 3)  # makes the schema
                opened.append((side, loop, folder, size(folder)))
                out[name][length] = {"cpu_us": [], "wall_us": [], "bytes": []}
            taken = rounds(options, length)
            for _ in range(taken):
                for side, loop, _, _ in opened:
                    with Meter() as meter:
                        await side.episode(loop, length)
                    note(out[side.name][length], meter, length)
            more = max(0, WRITTEN // length - taken)
            for side, loop, folder, before in opened:
                for _ in range(more):
                    await side.episode(loop, length)
                await side.module.aclose(loop)
                grown = (size(folder) - before) / ((taken + more) * length)
                out[side.name][length]["bytes"].append(grown)
    return out


def note(found, meter, length):
    found["cpu_us"].append(meter.cpu / length * 1e6)
    found["wall_us"].append(meter.wall / length * 1e6)


def size(folder):
    import sqlite3

    for file in folder.glob("*.db"):
        db = sqlite3.connect(file)
        db.execute("pragma wal_checkpoint(truncate)")
        db.close()
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def crowd(options):
    """Steps per second of many concurrent episodes over HTTP."""
    length, agents = options["length"], options["agents"]
    sides = [Side(name, "http", base_url=options["base_url"]) for name in options["sides"]]
    out = {side.name: {agents: {"per_s": [], "cpu_us": []}} for side in sides}
    loops = [side.build(length) for side in sides]
    for count in (5, *[agents] * options["rounds"]):
        for side, loop in zip(sides, loops, strict=True):
            arun = side.module.arun
            with Meter() as meter:
                texts = await asyncio.gather(*[arun(loop, length) for _ in range(count)])
            if {*texts} != {common.final_text(length)}:
                raise AssertionError(f"{side.name} answered {texts[0]!r}")
            if count == agents:
                found = out[side.name][agents]
                found["per_s"].append(agents * length / meter.wall)
                found["cpu_us"].append(meter.cpu / agents / length * 1e6)
    for side, loop in zip(sides, loops, strict=True):
        await side.module.aclose(loop)
    return out


async def memory(options):
    """Kilobytes per agent when all of them wait for their last reply at the same time."""
    length, agents = options["length"], options["agents"]
    (name,) = options["sides"]
    reached, go, waiting = asyncio.Event(), asyncio.Event(), 0

    async def gate():
        nonlocal waiting
        waiting += 1
        if waiting == agents:
            reached.set()
        await go.wait()

    warm = Side(name, "fake")
    for _ in range(3):
        await warm.episode(warm.build(length), length)
    side = Side(name, "fake", gate=gate)
    loop = side.build(length)
    gc.collect()
    before = resident()
    tasks = [asyncio.create_task(side.module.arun(loop, length)) for _ in range(agents)]
    await reached.wait()
    held = resident()
    go.set()
    if {*await asyncio.gather(*tasks)} != {common.final_text(length)}:
        raise AssertionError(f"{name} gave a wrong answer")
    return {name: {length: {"kb": [(held - before) / agents / 1e3]}}}


def resident():
    """Bytes of this process in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def stream(options):
    """CPU per token, and from its sending to the callback: the first token and the median."""
    tokens = options["tokens"]
    sides = [Side(name, "http", base_url=options["base_url"]) for name in options["sides"]]
    loops = [side.build(2) for side in sides]
    out = {side.name: {tokens: {"cpu_us": [], "first_us": [], "token_us": []}} for side in sides}
    for turn in range(options["rounds"] + 1):
        for side, loop in zip(sides, loops, strict=True):
            delays: list[float] = []

            def hear(text, delays=delays):
                now = time.monotonic_ns()
                delays.extend((now - int(part)) / 1e3 for part in text.split() if part.isdigit())

            with Meter() as meter:
                await side.module.astream(loop, tokens, hear)
            if len(delays) != tokens:
                raise AssertionError(f"{side.name} heard {len(delays)} of {tokens} tokens")
            if turn:
                found = out[side.name][tokens]
                found["cpu_us"].append(meter.cpu / tokens * 1e6)
                found["first_us"].append(delays[0])
                found["token_us"].append(sorted(delays)[tokens // 2])
    for side, loop in zip(sides, loops, strict=True):
        await side.module.aclose(loop)
    return out


def rounds(options, length):
    """Short episodes are cheap to repeat, and need it: each is but a millisecond or two."""
    return max(4, min(options["rounds"] * 100 // length, options["rounds"] * 3))


TASKS = {task.__name__: task for task in (steps, sqlite, crowd, memory, stream)}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(TASKS[sys.argv[1]](json.loads(sys.argv[2])))))

"""taofold beside the bare loop, with nothing but what is in this folder."""

import sys
from statistics import median

from process import HERE, import_ms, probe, serving
from table import ratio, spread, verdict

FLOOR, AGENT, THREAD = "floor:floor", "taofold_:agent", "taofold_:agent+thread"
LISTENER, KEPT_FLOOR, KEPT = (
    "taofold_:agent+listener", "floor:floor+sqlite", "taofold_:agent+sqlite",
)  # fmt: skip
HEAD = ("", "bare loop", "taofold", "ratio", "target", "")
AGENTS = 200
TOKENS = 200
STATEMENTS = (
    "pass", "import pydantic", "from pydantic import BaseModel", "import taofold",
    "from taofold import Agent",
)  # fmt: skip


def collect(turns, rounds, lengths):
    """All samples, `turns` fresh processes for each measurement, in turn."""
    found = {}
    with serving(sys.executable, HERE / "server.py") as url:
        for turn in range(turns):
            print(f"round {turn + 1} of {turns}", file=sys.stderr)
            for name, samples in measurements(url, rounds, lengths):
                merge(found.setdefault(name, {}), samples)
    return found


def measurements(url, rounds, lengths):
    yield (
        "steps",
        probe("steps", mode="fake", sides=[FLOOR, AGENT, THREAD], lengths=lengths, rounds=rounds),
    )
    yield (
        "warm",
        probe("steps", mode="fake", sides=[FLOOR, AGENT], lengths=lengths, rounds=4, repeated=400),
    )
    yield "sqlite", probe("sqlite", sides=[KEPT_FLOOR, KEPT], lengths=lengths, rounds=rounds)
    yield (
        "http",
        probe(
            "steps", mode="http", base_url=url, sides=[FLOOR, AGENT], lengths=lengths,
            rounds=rounds,
        ),
    )  # fmt: skip
    yield (
        "crowd",
        probe("crowd", base_url=url, sides=[FLOOR, AGENT], length=10, agents=100, rounds=rounds),
    )
    for length in (10, 100):
        for side in (FLOOR, AGENT):
            yield "memory", probe("memory", sides=[side], length=length, agents=AGENTS)
    yield (
        "stream",
        probe("stream", base_url=url, sides=[FLOOR, AGENT, LISTENER], tokens=TOKENS, rounds=rounds),
    )
    for statement in STATEMENTS:
        import_ms(statement)  # compiles what was edited since
        samples = [import_ms(statement) for _ in range(5)]
        yield "import", {statement: {"": {"ms": samples}}}


def merge(into, samples):
    for side, by_length in samples.items():
        for length, figures in by_length.items():
            for figure, values in figures.items():
                at = into.setdefault(side, {}).setdefault(str(length), {})
                at.setdefault(figure, []).extend(values)


def rows(found, lengths):
    """The table's rows."""
    yield from timed(found["steps"], "in process", (FLOOR, AGENT), lengths, 100)
    yield from timed(found["warm"], "in process, run after run", (FLOOR, AGENT), lengths, 100)
    yield from timed(found["steps"], "in process, tool in a thread", (FLOOR, THREAD), lengths)
    yield from timed(found["sqlite"], "SQLite log", (KEPT_FLOOR, KEPT), lengths, 250)
    yield from written(found["sqlite"], lengths)
    for length in lengths:
        floor, ours = pair(found["http"], (FLOOR, AGENT), length, "cpu_us")
        times = ratio(ours, floor)
        yield (
            f"HTTP, {length} steps, µs/step", f"{median(floor):.0f}", f"{median(ours):.0f}",
            f"{times:.2f}", "<= 1.3 x", verdict(times, 1.3),
        )  # fmt: skip
    floor, ours = pair(found["crowd"], (FLOOR, AGENT), 100, "per_s")
    yield (
        "HTTP, 100 episodes at once, steps/s", f"{median(floor):.0f}", f"{median(ours):.0f}",
        f"{ratio(ours, floor):.2f}", "10 x best peer", "with --peers",
    )  # fmt: skip
    yield from held(found["memory"])
    yield from streamed(found["stream"])
    yield from imported(found["import"])


def pair(found, sides, length, figure):
    return [found[side][str(length)][figure] for side in sides]


def timed(found, what, sides, lengths, bound=0):
    medians = []
    for length in lengths:
        floor, ours = pair(found, sides, length, "cpu_us")
        medians.append(median(ours))
        yield (
            f"{what}, {length} steps, µs/step", f"{median(floor):.1f}", f"{median(ours):.0f}",
            f"{ratio(ours, floor):.0f}", f"<= {bound}" if bound else "",
            verdict(median(ours), bound) if bound else "",
        )  # fmt: skip
    if bound:
        yield flat(what, medians)


def flat(what, values):
    value = spread(values)
    said = "met" if value <= 0.2 else "missed"
    return f"{what}, largest over smallest", "", f"+{value:.0%}", "", "<= +20%", said


def written(found, lengths):
    grown = []
    for length in lengths:
        floor, ours = pair(found, (KEPT_FLOOR, KEPT), length, "bytes")
        grown.append(median(ours))
        yield (
            f"SQLite log, {length} steps, bytes/step", f"{median(floor):.0f}",
            f"{median(ours):.0f}", f"{ratio(ours, floor):.1f}", "<= 1000",
            verdict(median(ours), 1000),
        )  # fmt: skip
    yield flat("SQLite log, bytes", grown)


def held(found):
    for length in (10, 100):
        floor, ours = pair(found, (FLOOR, AGENT), length, "kb")
        more = median(ours) - median(floor)
        yield (
            f"memory per waiting agent after {length} steps, kB", f"{median(floor):.0f}",
            f"{median(ours):.0f}", f"+{more:.0f} kB", "<= +40 kB" if length == 10 else "",
            verdict(more, 40) if length == 10 else "",
        )  # fmt: skip


def streamed(found):
    for what, side in (("async for", AGENT), ("listener", LISTENER)):
        floor, ours = pair(found, (FLOOR, side), TOKENS, "cpu_us")
        yield (
            f"streaming ({what}), µs/token", f"{median(floor):.1f}", f"{median(ours):.1f}",
            f"{ratio(ours, floor):.2f}", "", "",
        )  # fmt: skip


def imported(found):
    start, *rest = (median(found[statement][""]["ms"]) for statement in STATEMENTS)
    pydantic, model, taofold, agent = (each - start for each in rest)
    yield (
        "import taofold, beyond import pydantic, ms", f"{pydantic:.0f}", f"{taofold:.0f}",
        f"{taofold - pydantic:+.0f} ms", "<= +30 ms", verdict(taofold - pydantic, 30),
    )  # fmt: skip
    yield (
        "from taofold import Agent, beyond BaseModel, ms", f"{model:.0f}", f"{agent:.0f}",
        f"{agent - model:+.0f} ms", "", "",
    )  # fmt: skip

"""The conditions: what the registry holds and what the model reads, one function each.

Held out: lessons for a bug come from bugs earlier in the same stream only. The second half of a
stream is what one cares about: by then there is something to know.
"""

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from corpus import Bug
from streams import Bench, Corrupter, Row, Shuffler, Ticks, learner, stream, wrong

from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.settings import Extraction
from taofold.loop.learner import CrossLoopLearner

Done = list[Row] | dict[str, Any]
MESSAGES = (
    ("AssertionError", r"assert \d+ == \d+"), ("AssertionError", r"assert \[.*\] == \[.*\]"),
    ("AssertionError", "assert '.*' == '.*'"), ("AssertionError", r"assert \{.*\} == \{.*\}"),
    ("AssertionError", "assert False"), ("AssertionError", r"assert \S+ == \S+"),
    ("AttributeError", "'NoneType' object has no attribute '.*'"),
    ("TypeError", "'NoneType' object is not subscriptable"),
    ("IndexError", "list index out of range"),
    ("ValueError", r"invalid literal for int\(\) with base \d+: '.*'"), ("KeyError", "'.*'"),
    ("RecursionError", "maximum recursion depth exceeded"),
)  # fmt: skip
JUNK = 60


async def learning(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Lessons from earlier bugs. Every setting is the default, except for the control share."""
    return await stream(bench, order, learner(clock=Ticks()), label=f"learn{seed}")


async def tolerant(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """The same with `min_success_rate` 0.2: a fix that works one time in three may be worth it."""
    return await stream(bench, order, learner(clock=Ticks(), least=0.2), label=f"tolerant{seed}")


async def poisoned(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """60 % of the fixes that are stored are wrong."""
    return await stream(
        bench, order, learner(clock=Ticks()), label=f"poison{seed}",
        draft=Corrupter(random.Random(seed), 0.6),
    )  # fmt: skip


async def junk(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Fills the registry with wrong fixes only. Lessons of loops become wrong too."""
    mind, chance = learner(clock=Ticks()), random.Random(seed)
    await _fill(mind, junk_patterns(chance))
    return await stream(bench, order, mind, label=f"junk{seed}", draft=Corrupter(chance, 1.0))


async def disjoint(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Learn on one half of the families, be judged on the other."""
    families = sorted({bug.family for bug in order})
    random.Random(seed).shuffle(families)
    known = set(families[: len(families) // 2])
    mind = learner(clock=Ticks())
    await stream(bench, [b for b in order if b.family in known], mind, label=f"known{seed}")
    other = [bug for bug in order if bug.family not in known]
    return await stream(bench, other, mind, label=f"disjoint{seed}", learn=False)


async def forged(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Imports wrong fixes, each claiming 50 of 50. Then learning continues as usual."""
    source, mind = learner(clock=Ticks()), learner(clock=Ticks())
    await _fill(source, junk_patterns(random.Random(seed)))
    made = await source.registry.export()
    files = {name: msgspec.json.encode(_boast(content)) for name, content in made.items()}
    await mind.registry.import_(files)
    return await stream(bench, order, mind, label=f"forged{seed}")


def _boast(content: Any) -> Any:
    """The same file, in which every pattern claims 50 successes of 50."""
    text = msgspec.json.encode(content).decode()
    for field in ("usage_count", "successful_applications"):
        text = re.sub(rf'("{field}":)\d+', r"\g<1>50", text)
    text = re.sub(r'("failed_applications":)\d+', r"\g<1>0", text)
    return msgspec.json.decode(re.sub(r'("success_rate":)[\d.]+', r"\g<1>1.0", text))


async def control(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Compares the registry's estimate of its own benefit with the truth, by a control share."""
    mind = learner(control=0.3, clock=Ticks())
    rows: list[Row] = []
    for lap in range(2):  # The second time as another project with the same habits.
        rows += await stream(bench, order, mind, label=f"control{seed}-{lap}")
    metrics = (await mind.registry.metrics()).as_json()["cross_loop_benefit"]
    told = [row for row in rows if row.shown and not row.control]
    without = sum(row.without for row in told)
    true = 100 * (1 - sum(row.tried for row in told) / without) if without else None
    return {"reported": metrics, "true": true, "n": len(told), "rows": [asdict(r) for r in rows]}


async def shuffled(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Ablation: each stored pattern has the fix of another one."""
    return await stream(
        bench, order, learner(clock=Ticks()), label=f"shuffled{seed}",
        draft=Shuffler(random.Random(seed), 1.0),
    )  # fmt: skip


async def readers(bench: Bench, order: Sequence[Bug], seed: int) -> Done:
    """Ablation: the readers' section alone. A search policy does not read it: nothing is saved."""

    def told(text: str) -> str:
        return text.partition("## Search Rates")[0]

    return await stream(bench, order, learner(clock=Ticks()), label=f"readers{seed}", told=told)


async def _fill(mind: CrossLoopLearner, patterns: Sequence[Pattern]) -> None:
    for number, one in enumerate(patterns):
        await mind.registry.discover(f"before-{number}", [one], Extraction())


def junk_patterns(chance: random.Random) -> list[Pattern]:
    """Real errors with fixes that have nothing to do with them."""
    made: list[Pattern] = []
    for number in range(JUNK):
        error, message = MESSAGES[number % len(MESSAGES)]
        body = ErrorFix(ErrorSignature("Other", message, ("*.py",), error), Fix(language="python"))
        made.append(wrong(Pattern("", f"{error}: junk {number}", body), chance))
    return made


CONDITIONS: dict[str, Callable[[Bench, Sequence[Bug], int], Awaitable[Done]]] = {
    "learning": learning,
    "tolerant": tolerant,
    "poisoned": poisoned,
    "junk": junk,
    "disjoint": disjoint,
    "forged": forged,
    "control": control,
    "shuffled": shuffled,
    "readers": readers,
}


async def run(name: str, bench: Bench, order: Sequence[Bug], seed: int) -> Any:
    """Returns the results of one condition as plain data."""
    done = await CONDITIONS[name](bench, order, seed)
    return done if isinstance(done, dict) else [asdict(row) for row in done]

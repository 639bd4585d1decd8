"""Streams of bugs: a loop for each bug in turn, all with one registry, through the real `Learner`.

A bug's lessons are requested before the bug is worked on, and its own are stored after it, so only
earlier bugs can help. Changes of the registry or of the lessons (poison, junk, ablations) are made
here, outside of it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench_loop import GOAL, Checks, Trial, repair, start
from corpus import Bug
from msgspec.structs import replace

from taofold.core.failing_checks import Check
from taofold.learning.extraction.history import LoopHistory
from taofold.learning.extraction.lessons import KINDS
from taofold.learning.patterns.kinds import CodeTemplate, ErrorFix, Fix
from taofold.learning.patterns.pattern import Pattern, Rate
from taofold.learning.registry import Registry
from taofold.learning.settings import Injection, Learning
from taofold.log.patterns.stores import memory_registry
from taofold.loop.learner import CrossLoopLearner, case_of
from taofold_repair import NAME
from taofold_repair.search import RepairSearch


class Draft(Protocol):
    """Transformation of a loop's lesson before the registry gets it."""

    def pattern(self, pattern: Pattern) -> Pattern: ...

    def rates(self, rates: dict[str, Rate]) -> dict[str, Rate]: ...


LEAST_RATE = Injection().min_success_rate
"""Setting of the runs: the default. The condition `tolerant` measures another."""


@dataclass(frozen=True)
class Row:
    """One bug of a stream: its cost with and without lessons."""

    bug: str
    family: str
    place: int
    tried: int
    without: int
    solved: bool
    solved_without: bool
    shown: int
    control: bool
    chars: int


Came = Callable[[str, list[Row]], None]
"""Hears of each pair of a stream as it comes: the stream's label and its pairs so far."""


class Bench:
    """Shared data of all streams: test results, known failures, the cost without lessons."""

    def __init__(self, checks: Checks, budget: int, came: Came) -> None:
        self.checks, self.budget, self.came = checks, budget, came
        self.faults: dict[str, tuple[Check, ...]] = {}
        self._trials: dict[tuple[str, str], Trial] = {}

    def start(self, bug: Bug) -> tuple[Check, ...]:
        if bug.name not in self.faults:
            self.faults[bug.name] = start(bug, self.checks)
        return self.faults[bug.name]

    async def trial(self, bug: Bug, lessons: str = "") -> Trial:
        """Deterministic, so the same bug with the same lessons is run once."""
        key = (bug.name, lessons)
        if key not in self._trials:
            self._trials[key] = await repair(bug, lessons, self.checks, self.budget)
        return self._trials[key]


def learner(
    control: float = 0.0, clock: Callable[[], int] | None = None, least: float = LEAST_RATE
) -> CrossLoopLearner:
    """A learner with an empty registry in memory."""
    registry = memory_registry(now=clock) if clock else memory_registry()
    learning = Learning(injection=Injection(control_share=control, min_success_rate=least))
    return CrossLoopLearner(registry, learning, search=RepairSearch(NAME))


class Ticks:
    """A clock that moves a minute per look, so that runs are the same every time."""

    def __init__(self) -> None:
        self._now = 1_700_000_000_000

    def __call__(self) -> int:
        self._now += 60_000
        return self._now


async def stream(
    bench: Bench,
    order: Sequence[Bug],
    mind: CrossLoopLearner,
    *,
    label: str,
    learn: bool = True,
    draft: Draft | None = None,
    told: Callable[[str], str] | None = None,
) -> list[Row]:
    """Run every bug of `order`.

    Args:
        learn: Stores the lessons of loops. Attribution continues without it.
        draft: Transformation of a pattern before the registry gets it.
        told: Transformation of the lessons before the model reads them.
    """
    rows: list[Row] = []
    if draft is not None:
        _through(mind.registry, draft)
    for place, bug in enumerate(order):
        faults, loop = bench.start(bug), f"{label}-{place}-{bug.name.replace('/', '-')}"
        case = case_of(GOAL, faults)
        lessons = await mind.inject(loop, case, mind.learning.injection)
        text = "" if lessons.control else f"{lessons.text}\n\n{await mind.rates()}".strip()
        text = told(text) if told and text else text
        trial, plain = await bench.trial(bug, text), await bench.trial(bug)
        history = LoopHistory(
            loop, GOAL, "python", "completed" if trial.solved else "exhausted", trial.attempts,
            trial.tried, agent="bench",
        )  # fmt: skip
        await mind.take_in(history, KINDS if learn else ())
        if trial.solved:
            await _searched(mind, loop, trial, learn, draft)
        rows.append(
            Row(
                bug.name, bug.family, place, trial.tried, plain.tried, trial.solved, plain.solved,
                len(lessons.patterns), lessons.control, len(text),
            )
        )  # fmt: skip
        bench.came(label, rows)
    return rows


async def _searched(
    mind: CrossLoopLearner, loop: str, trial: Trial, learn: bool, draft: Draft | None
) -> None:
    """Returns the search's result. Without learning only the gate gets it.

    A corrupted pattern corrupts this too: another edit is reported as right.
    """
    rates = await mind.registry.rates()
    found = mind.search.outcome(trial.records, rates) if mind.search else None
    if found is None:
        return
    keys, costs = found
    if draft is not None:
        keys = draft.rates(keys)
    await mind.registry.searched(loop, keys if learn else {}, costs)


def _through(registry: Registry, draft: Draft) -> None:
    """Applies `draft` to every later lesson for the registry."""
    discover = registry.discover

    async def corrupted(loop, drafts, extraction, **options):  # type: ignore[no-untyped-def]
        return await discover(loop, [draft.pattern(one) for one in drafts], extraction, **options)

    registry.discover = corrupted  # type: ignore[method-assign]


# Transformations of patterns. Wrong fixes look like real ones: same form, another shape.
WRONG = (
    ("convert_type", "add_type_validation", "-return {{variable}}", "+return str({{variable}})"),
    ("swap_comparison", "fix_logic_error", "-if {{variable}} is {{variable_2}}:",
     "+if {{variable}} is not {{variable_2}}:"),
    ("swap_arithmetic", "fix_logic_error", "-{{variable}} * {{variable_2}}",
     "+{{variable}} ** {{variable_2}}"),
    ("rename_key", "fix_logic_error", '-{{variable}}["{{text}}"]', '+{{variable}}["{{text_2}}"]'),
    ("fix_boolean", "fix_logic_error", "-if {{variable}}:", "+if not {{variable}}:"),
    ("wrong_constant", "fix_logic_error", "-{{variable}} = 0", "+{{variable}} = None"),
    ("off_by_one", "fix_logic_error", "-{{variable}}[:{{variable_2}}]",
     "+{{variable}}[:{{variable_2}} - 1]"),
    ("fix_string", "fix_logic_error", "-return {{variable}}", "+return {{variable}}.upper()"),
    ("fix_rounding", "fix_logic_error", "-return {{variable}}", "+return round({{variable}}, 1)"),
    ("add_guard", "add_error_handling", "-{{variable}}", "+if not {{variable}}:\n+    return 0"),
    ("wrong_variable", "fix_logic_error", "-return {{variable}}", "+return {{variable_2}}"),
    ("swap_function", "fix_logic_error", "-max({{variable}})", "+sum({{variable}})"),
)  # fmt: skip


@dataclass
class Corrupter:
    """Gives `share` of the patterns a wrong fix, and of the wins to another edit's keys."""

    chance: random.Random
    share: float

    def pattern(self, pattern: Pattern) -> Pattern:
        return wrong(pattern, self.chance) if self.chance.random() < self.share else pattern

    def rates(self, rates: dict[str, Rate]) -> dict[str, Rate]:
        if self.chance.random() >= self.share:
            return rates
        wins = sum(rate.wins > 0 for rate in rates.values())
        lucky = set(self.chance.sample(sorted(rates), min(int(wins), len(rates))))
        return {key: Rate(float(key in lucky), rate.expected) for key, rate in rates.items()}


def wrong(pattern: Pattern, chance: random.Random) -> Pattern:
    """Returns the pattern with another pattern's fix."""
    template, category, out, put = chance.choice(WRONG)
    match pattern.body:
        case ErrorFix(signature=signature, fix=fix):
            code = "\n".join(line.removeprefix("+") for line in put.split("\n"))
            bad = Fix(
                f"Apply {template} where the failure leads to", category, code,
                fix.language, f"{out}\n{put}",
            )  # type: ignore[arg-type]  # fmt: skip
            return replace(pattern, body=ErrorFix(signature, bad))
        case CodeTemplate() as body:
            return replace(pattern, body=replace(body, code=put.replace("+", "")))
        case _:
            return pattern


@dataclass
class Shuffler(Corrupter):
    """Gives every pattern the fix of an earlier one, for any error."""

    fixes: list[Fix] = field(default_factory=list)

    def pattern(self, pattern: Pattern) -> Pattern:
        if not isinstance(pattern.body, ErrorFix):
            return pattern
        self.fixes.append(pattern.body.fix)
        return replace(
            pattern, body=ErrorFix(pattern.body.signature, self.chance.choice(self.fixes))
        )

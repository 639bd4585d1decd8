"""Approaches that led to success: the order in which a loop worked, if its gates passed."""

from collections.abc import Iterator
from typing import Final

from taofold.learning.patterns.bodies import Approach, Spread
from taofold.learning.extraction.repair_kind import template_of
from taofold.learning.extraction.words import DOES, task_category, task_pattern
from taofold.learning.extraction.generalise import language_of
from taofold.learning.extraction.history import Attempt, History
from taofold.learning.patterns.values import Pattern, Scope

_MOST_STEPS: Final = 8


def approaches(history: History) -> Iterator[Pattern]:
    """The approach of a loop that succeeded by its own changes; of others there is none."""
    useful = [one for one in history.attempts if one.kept and one.changes and one.judged]
    if not history.succeeded or not useful:
        return
    category = task_category(history.task)
    settled = sum(len(one.turned) for one in useful)
    tools = tuple(dict.fromkeys([tool for one in useful for tool in one.tools]))
    language = history.language or language_of(useful[0].changes[0].path)
    yield Pattern(
        "",
        f"{category.capitalize()} in small steps, each judged by the checks"
        if len(useful) > 1
        else f"{category.capitalize()} by one change to what the checks name",
        Approach(
            category,
            f"{len(useful)} change{'s' if len(useful) > 1 else ''} kept out of "
            f"{len(history.attempts)} tried, each judged by running the checks",
            _steps(useful),
            tools,
            Spread(float(history.iterations), history.iterations, history.iterations),
            task_pattern(history.task),
            float(history.iterations),
            preconditions=("checks that can be run as a command, and failed at the start",),
            benefits=(f"{settled} failing check{'s' if settled != 1 else ''} turned green",),
        ),
        Scope(history.repository, language),
        tuple([tag for tag in (language, category) if tag != "other"]),
    )


def _steps(useful: list[Attempt]) -> tuple[str, ...]:
    steps = ["Run the checks and read the first failure"]
    for attempt in useful:
        error = attempt.turned[0].error_type if attempt.turned else ""
        template = next(
            filter(None, [template_of(change, error) for change in attempt.changes]), ""
        )
        does = DOES.get(template, "Change the code that the failure leads to")
        steps.append(f"{does}{f', which settled {error}' if error else ''}")
    steps.append("Run all checks again and stop when they pass")
    return tuple(dict.fromkeys(steps))[:_MOST_STEPS]

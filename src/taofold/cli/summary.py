"""A run that ended, in at most five lines. Pure."""

from collections import Counter
from typing import Final

from taofold.cli.clean import line
from taofold.core.state import RunState
from taofold.core.values import FINISH

WAVED: Final = "--approve all"
"""The reason of an approval that was given to everything."""
_LINES: Final = 4
"""Besides the one that names the log."""


def summary(state: RunState) -> list[str]:
    """What it called and how often, what failed and what was refused; no line says nothing."""
    calls, failed, refused = Counter[str](), Counter[str](), Counter[str]()
    for step in state.steps:
        for action, seen in zip(step.actions, step.observations, strict=False):
            if action.tool == FINISH:
                continue
            if seen.refused:
                refused[action.tool] += 1
                continue
            calls[action.tool] += 1
            failed[action.tool] += seen.status in ("failure", "timeout")
    told = [("calls", calls), ("failed", +failed), ("refused", refused)]
    return [_line(name, count) for name, count in told if count][:_LINES]


def _line(name: str, count: Counter[str]) -> str:
    return line(f"{name}: {', '.join(f'{tool} ×{n}' for tool, n in count.most_common())}", 160)

"""Reads the attempts in one run's log: edits, and the test run that judged them.

An action that changes a file is told by its parameters, a test run by its output; so the
names of tools do not matter. Pure: records in, values out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

import msgspec

from taofold.core.checks import Check
from taofold.core.events import Observed, Proposed, Record, Replied
from taofold.core.values import Action
from taofold.parsing import pytest_report
from taofold.parsing.failures import failing_checks
from taofold.learning.extraction.history import Attempt, Change

CITED: Final = re.compile(r"\b(?:pat-(?:error|success|anti)|tmpl)-[a-z0-9-]+-\d{3,}\b")
"""The id of a pattern, as the schema of patterns writes it."""
_TEXTS: Final = ("output", "stdout", "content", "text", "result", "stderr")
_PAIRS: Final = (("old", "new"), ("old_string", "new_string"), ("search", "replace"))


class _Made(NamedTuple):
    """A change that stands, and what failed before it."""

    change: Change
    known: tuple[Check, ...] | None


@dataclass(slots=True)
class _Fold:
    """The run so far. `known` is what failed in the newest test run; `open` waits for one."""

    iteration: int
    known: tuple[Check, ...] | None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    open: list[Change] = field(default_factory=list[Change])
    made: list[_Made] = field(default_factory=list[_Made])
    tools: list[str] = field(default_factory=list[str])
    cited: list[str] = field(default_factory=list[str])
    tokens: int = 0

    def make(self, change: Change) -> None:
        """A file was changed, or a change was taken back."""
        last = self.made[-1] if self.made else None
        if last is None or not change.undoes(last.change):
            self.open.append(change)
            self.made.append(_Made(change, self.known))
            return
        self.made.pop()
        if self.open and self.open[-1] == last.change:
            self.open.pop()
            return
        self.known = last.known
        self.cited, self.tools = [], []
        number = max(n for n, one in enumerate(self.attempts) if last.change in one.changes)
        self.attempts[number] = msgspec.structs.replace(self.attempts[number], kept=False)

    def close(self, after: tuple[Check, ...] | None) -> None:
        """The checks ran (or, with None, never will)."""
        if self.open and self.known is not None:
            judged = after is not None
            self.attempts.append(
                Attempt(
                    self.iteration, self.known, tuple(self.open), after or (), judged,
                    tuple(dict.fromkeys(self.tools)), tuple(dict.fromkeys(self.cited)),
                    tokens=self.tokens,
                )
            )  # fmt: skip
        if self.open or after is not None:
            self.open, self.tools, self.cited, self.tokens = [], [], [], 0
        if after is not None:
            self.known = after


def attempts_of(
    records: Iterable[Record], iteration: int, before: tuple[Check, ...] | None = None
) -> tuple[Attempt, ...]:
    """What was tried in a run, in order. `before` is what failed when it began, if known.

    Changes that no test run judged come last and are marked so.
    """
    fold = _Fold(iteration, before)
    actions: dict[tuple[str, int], Action] = {}
    for record in records:
        match record.event:
            case Replied(usage=usage):
                fold.tokens += usage.tokens
            case Proposed(key=key, thought=thought, actions=batch):
                actions.update({(key, n): action for n, action in enumerate(batch)})
                said = " ".join([thought.content, *[action.rationale for action in batch]])
                fold.cited += CITED.findall(said)
            case Observed(key=key, index=index, observation=seen) if not seen.refused:
                action = actions.get((key, index))
                if action is not None:
                    _observed(fold, action, seen.result, done=seen.status == "success")
            case _:
                pass
    fold.close(None)
    return tuple(fold.attempts)


def _observed(fold: _Fold, action: Action, result: Any, *, done: bool) -> None:
    change = changed(action)
    if change is not None:
        fold.tools.append(action.tool)
        if done:
            fold.make(change)
        return
    if not {"command", "cmd", "script"} & action.parameters.keys():
        return
    output = "\n".join(_texts(result))
    report = pytest_report.parse(output)
    failures = report.failures if report is not None else failing_checks(output)
    if report is not None or failures:
        fold.tools.append(action.tool)
        fold.close(failures)


def changed(action: Action) -> Change | None:
    """The change that an action makes to a file, if its parameters say one."""
    given = action.parameters
    path = given.get("path") or given.get("file_path") or given.get("file")
    if not isinstance(path, str):
        return None
    for old, new in _PAIRS:
        if isinstance(given.get(old), str) and isinstance(given.get(new), str):
            return Change(path, given[old], given[new])
    content = given.get("content")
    return Change(path, "", content) if isinstance(content, str) else None


def _texts(result: Any) -> Iterator[str]:
    if isinstance(result, str):
        yield result
    elif isinstance(result, dict):
        held = cast("dict[str, object]", result)
        for name in _TEXTS:
            text = held.get(name)
            if isinstance(text, str):
                yield text

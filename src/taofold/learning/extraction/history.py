"""The history of a finished loop, and its extraction from the logs of its runs.

Plain values between the log and the extraction: failing checks, the changes made after them, the
failures afterwards (`RepairAttempt`). An edit is judged by the next run of the checks. Also decides
which reports are about the same check (`name_of`, `same_finding`), and which errors hide later
failures (`stops`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from msgspec.structs import replace

from taofold.core.events import Observed, Proposed, Record, RunStarted
from taofold.core.failing_checks import Check, is_assertion, is_exception
from taofold.core.values import Action, Value
from taofold.diagnostics import failing_checks, parse_pytest
from taofold.learning.extraction.comments import without_comments

_OPENING: Final = 3
"""The number of first words that identify a finding that a compiler rewords."""
SUCCESS: Final = frozenset({"completed", "success"})
"""Outcomes of a loop whose gates passed; every other one is a failure."""


def stops(check: Check) -> bool:
    """Returns whether the error ends a program or a test, which hides later failures."""
    # Linters and compilers report all their findings.
    return is_exception(check) or is_assertion(check)


def name_of(check: str) -> str:
    """Returns the name of a check for any reporter: a test's own name with its parameters."""
    # Runners spell the same id differently (`a.py::T::test_b`, `a.T.test_b`, `a.js > b`), so only
    # the last part is compared. With parameters the whole id is, because they may hold dots.
    name = check.rpartition(" > ")[2]
    return name if "[" in name or name != check else name.replace("::", ".").rpartition(".")[2]


def same_finding(one: Check, other: Check) -> bool:
    """Returns whether two checks are equal: by id or, for a compiler, by line and first words."""
    begins = [check.message.split()[:_OPENING] for check in (one, other)]
    same = bool(one.place.line) and one.place == other.place and begins[0] == begins[1]
    return one.id == other.id or (same and len(begins[0]) == _OPENING)


class FileChange(Value, frozen=True):
    """One edit: a file before and after it, or the known part of its lines.

    `unsure`: the file was overwritten and its old content is unknown; nothing is learnt from it.
    `part`: only the edited lines are known, not their place in the file.
    """

    path: str
    before: str
    after: str
    unsure: bool = False
    part: bool = False


class RepairAttempt(Value, frozen=True):
    """Changes between two runs of the checks.

    `before` and `after` are the failures. `judged` is False if no check ran afterwards.
    """

    iteration: int
    before: tuple[Check, ...] = ()
    changes: tuple[FileChange, ...] = ()
    after: tuple[Check, ...] = ()
    judged: bool = True
    tools: tuple[str, ...] = ()
    kept: bool = True
    """False if the gates contradict the checks that it claims to have fixed."""
    passed: frozenset[str] | None = None
    """Names of the checks that passed when the iteration began; None = unknown."""

    def became(self, check: Check) -> Check | None:
        """Returns the current failure of a check that failed before, if any; a linter may reword
        it.
        """
        alike = [
            now
            for now in self.after
            if now.id == check.id or (not stops(check) and same_finding(check, now))
        ]
        return min(alike, key=lambda now: now.id != check.id, default=None)

    @property
    def turned(self) -> tuple[Check, ...]:
        """The checks that failed before and pass now."""
        return tuple([c for c in self.before if not self.became(c)]) if self.judged else ()

    @property
    def failing(self) -> tuple[Check, ...]:
        """The failures before and after it."""
        return (*self.before, *self.after)

    @property
    def broke(self) -> tuple[Check, ...]:
        """The checks that fail now and did not before, except those that were hidden.

        A program stops at the first exception, and a test file that cannot be loaded runs no test:
        a failure elsewhere after it is not new, unless the check is known to have passed.
        """
        known = {now.id for check in self.before if (now := self.became(check))}
        places = {check.place for check in self.before}
        return tuple(
            [
                check
                for check in self.after
                if self.judged
                and check.id not in known
                and (
                    self.passed is None
                    or name_of(check.id) in self.passed
                    or check.place in places
                    or not stops(check)
                )
            ]
        )


class LoopHistory(Value, frozen=True):
    """A loop from its task to its end. `at` is the time of its end, in ms since the epoch.

    Attempts are as fine as the log allows: an edit and the test run after it, or else a whole
    iteration. `iterations` counts the loop's own.
    """

    loop: str
    task: str = ""
    language: str = ""
    outcome: str = ""
    attempts: tuple[RepairAttempt, ...] = ()
    iterations: int = 0
    at: int = 0
    repository: str = ""
    agent: str = ""
    callers: dict[str, str] = {}
    """The lines of a test or a program that led to a failing check, by its signature."""

    def without_comments(self) -> "LoopHistory":
        """Returns the history with comments removed from all files."""
        attempts = [
            replace(attempt, changes=tuple(map(_uncommented, attempt.changes)))
            for attempt in self.attempts
        ]
        return replace(self, attempts=tuple(attempts))

    @property
    def kept_changes(self) -> list[FileChange]:
        """The changes that were not reverted, in order."""
        return [change for attempt in self.attempts if attempt.kept for change in attempt.changes]

    @property
    def succeeded(self) -> bool:
        """True if the gates passed in the end."""
        return self.outcome in SUCCESS


def _uncommented(change: FileChange) -> FileChange:
    texts = [without_comments(text, change.path) for text in (change.before, change.after)]
    return replace(change, before=texts[0], after=texts[1])


_TEXTS: Final = ("output", "stdout", "content", "text", "result", "stderr")
_COMMANDS: Final = ("command", "cmd", "script")
_CODES: Final = ("exit_code", "returncode", "code")
_PAIRS: Final = (("old", "new"), ("old_string", "new_string"), ("search", "replace"))


@dataclass(slots=True)
class _Fold:
    """The run so far. `known` are the failures of the newest test run; `open` changes await one."""

    iteration: int
    known: tuple[Check, ...] | None
    attempts: list[RepairAttempt] = field(default_factory=list[RepairAttempt])
    open: list[FileChange] = field(default_factory=list[FileChange])
    tools: list[str] = field(default_factory=list[str])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The known current contents of files."""
    writes: list["RecordedWrite"] = field(default_factory=list["RecordedWrite"])
    checking: set[str] = field(default_factory=set[str])
    """Commands that have reported failing checks: empty output of theirs is success."""
    effects: Mapping[str, str] | None = None

    def make(self, change: FileChange, result: Any = None) -> None:
        """Records a changed file."""
        text, whole = self.texts.get(change.path), change.unsure
        # The whole file: a comparison then shows the changed lines and their context.
        if text is not None and change.unsure:
            change = FileChange(change.path, text, change.after)
        elif text is not None and text.count(change.before) == 1:
            change = FileChange(change.path, text, text.replace(change.before, change.after))
        if change.part:
            # An edit that contradicts the known text: from here on the file is unknown.
            self.texts.pop(change.path, None)
        else:
            self.texts[change.path] = change.after
        self.writes.append(RecordedWrite(change, whole, result))
        self.open.append(change)

    def close(self, after: tuple[Check, ...] | None) -> None:
        """Closes the open changes after a run of the checks (None = none will follow)."""
        # Without the earlier failures an attempt has no comparison.
        if self.open and self.known is not None:
            judged = after is not None
            self.attempts.append(
                RepairAttempt(
                    self.iteration,
                    self.known,
                    tuple(self.open),
                    after or (),
                    judged,
                    tuple(dict.fromkeys(self.tools)),
                )
            )
        if self.open or after is not None:
            self.open, self.tools = [], []
        if after is not None:
            self.known = after


class RecordedWrite(NamedTuple):
    """A change that a tool made with the file's path and content in its parameters.

    `whole`: it replaced the whole file. `result` is the tool's result.
    """

    change: FileChange
    whole: bool
    result: Any


class RunReading(NamedTuple):
    """The attempts of a run, its recorded writes, and the files that it left, as far as known."""

    attempts: tuple[RepairAttempt, ...]
    texts: Mapping[str, str]
    writes: tuple[RecordedWrite, ...] = ()


def read_run(
    records: Iterable[Record],
    iteration: int,
    before: tuple[Check, ...] | None = None,
    texts: Mapping[str, str] = {},
) -> RunReading:
    """Returns the attempts of a run, in order, and the files that it left.

    Changes that no test run judged come last and are marked so.

    Args:
        records: The records of the run.
        iteration: Its iteration.
        before: The failures when the run began, if known.
        texts: The files' contents at that time; "" for a missing file. A file that is overwritten
            and not included teaches nothing.
    """
    fold = _Fold(iteration, before, texts=dict(texts))
    actions: dict[tuple[str, int], Action] = {}
    for record in records:
        match record.event:
            case RunStarted() as started:
                fold.effects = effects_of(started)
            case Proposed(key=key, actions=batch):
                actions.update({(key, n): action for n, action in enumerate(batch)})
            # A refused action never ran.
            case Observed(key=key, index=index, observation=seen) if not seen.refused:
                action = actions.get((key, index))
                if action is not None:
                    _observed(fold, action, seen.result, done=seen.status == "success")
            case _:
                pass
    fold.close(None)
    return RunReading(tuple(fold.attempts), fold.texts, tuple(fold.writes))


def _observed(fold: _Fold, action: Action, result: Any, *, done: bool) -> None:
    change = changed(action, fold.effects)
    if change is not None:
        fold.tools.append(action.tool)
        # A failed edit changed nothing, but its tool counts as tried.
        if done:
            fold.make(change, result)
        return
    parameters = action.parameters
    command = next((str(parameters[n]) for n in _COMMANDS if n in parameters), "")
    if not command:
        return
    output = "\n".join(_texts(result))
    report = parse_pytest(output)
    failures = report.failures if report is not None else failing_checks(output)
    if failures and all(_not_run(failure, command) for failure in failures):
        return
    # Empty output means success for a linter and nothing for a program. The first report of a
    # failing check by a command shows that it is a linter.
    if failures:
        fold.checking.add(command)
    if report is not None or failures or (command in fold.checking and _passed(result, output)):
        fold.tools.append(action.tool)
        fold.close(failures)


def _not_run(check: Check, command: str) -> bool:
    """Returns whether a shell reports that it did not find the command, or a program in it."""
    name, _, says = check.message.rpartition(": ")
    absent = check.error_type == "shell" and says.endswith("not found")
    return absent and re.split(r"[: /]", name)[-1] in re.split(r"[\s/;&|]+", command)


def _passed(result: Any, output: str) -> bool:
    """Returns whether the command's result reports exit code 0."""
    if isinstance(result, dict):
        held = cast("dict[str, object]", result)
        # A missing exit code is not success.
        return next((held[name] == 0 for name in _CODES if name in held), False)
    return output.startswith("exit code 0")


def effects_of(started: RunStarted | None) -> Mapping[str, str] | None:
    """Returns the recorded effects of the run's tools; None if the log does not hold them.

    A tool without an entry only reads.
    """
    if started is None or started.imported is not None:
        return None
    effects = started.settings.get("effects", {})
    return cast("dict[str, str]", effects) if isinstance(effects, dict) else {}


def changed(action: Action, effects: Mapping[str, str] | None) -> FileChange | None:
    """Returns the change that an action makes to a file, if its parameters describe one.

    For an overwritten file only the new text is known: the change is `unsure`.

    Args:
        action: The action. The caller decides whether it succeeded.
        effects: The effects of the tools (`effects_of`). A tool that only reads changes nothing,
            with any parameters. None: the parameters alone decide.
    """
    if effects is not None and effects.get(action.tool, "read") == "read":
        return None
    parameters = action.parameters
    path = parameters.get("path") or parameters.get("file_path") or parameters.get("file")
    if not isinstance(path, str):
        return None
    for old, new in _PAIRS:
        if isinstance(parameters.get(old), str) and isinstance(parameters.get(new), str):
            return FileChange(path, parameters[old], parameters[new], part=True)
    content = parameters.get("content")
    return FileChange(path, "", content, unsure=True) if isinstance(content, str) else None


def _texts(result: Any) -> Iterator[str]:
    if isinstance(result, str):
        yield result
    elif isinstance(result, dict):
        held = cast("dict[str, object]", result)
        for name in _TEXTS:
            text = held.get(name)
            if isinstance(text, str):
                yield text

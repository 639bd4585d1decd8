"""Reads the files of loops in a folder `.aiwg/ralph` that AIWG wrote.

AIWG's programs and its agents write states, iterations, analytics, debug memory and reflections, in
several spellings (`loopId`, `loop_id`; `iteration_2: {error: …}`). Each kind of file has its own
course of a loop (`LoopRound`): errors that a check reported, then changes, then the next report.

A wrong value is reported with its file and path, and the rest is read. A file that taofold exported
is left out: its patterns are in the files of patterns. Knows nothing about files on a disk, and
nothing about patterns.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip, milliseconds
from taofold.diagnostics import failing_checks
from taofold.learning.extraction.history import FileChange
from taofold.learning.patterns.kinds import FixCategory

_MOST_LOOPS: Final = 500
_MOST_ROUNDS: Final = 300
_MOST_ERRORS: Final = 20
_MOST_FILES: Final = 50
_MESSAGE: Final = 2000
_TEXT: Final = 4000
_DIFF: Final = 40_000
_MOST_FAULTS: Final = 20
"""The most faults of one file."""
_PLACES: Final = (
    re.compile(r"(?:loops|archive)/(?P<loop>[^/]+)/(?:[^/]+/){0,2}[^/]+"),
    re.compile(r"(?:memory/)?reflections/(?:loops/)?(?P<loop>[^/]+)/[^/]+"),
    re.compile(r"(?:memory/)?reflections/[^/]+"),
    re.compile(r"debug-memory/(?:sessions/)?[^/]+"),
    re.compile(r"analytics/[^/]+"),
    re.compile(r"iterations/[^/]+"),
    re.compile(r"current-loop\.(?:json|ya?ml)"),
)
_ROUND: Final = frozenset({"error", "errors", "failures", "fix_applied", "fix", "diff"})
"""Keys of an entry that is a round of a loop."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_NUMBERED: Final = re.compile(r"iteration[-_](\d{1,6})")
_CLASS: Final = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Warning))\b[:\s]*(.*)", re.DOTALL)
_WHERE: Final = re.compile(r"(.+?):(\d{1,7})(?::\d+)?(?: in (\S+))?")
_CATEGORIES: Final[Mapping[str, FixCategory]] = {
    "null_undefined_access": "add_null_check",
    "type_mismatch": "add_type_validation",
    "missing_validation": "add_type_validation",
    "missing_error_handling": "add_error_handling",
    "logic_error": "fix_logic_error",
    "off_by_one": "fix_logic_error",
    "dependency_issue": "update_dependency",
}
"""The schema's categories of causes, under its categories of fixes."""


def is_of_loop(name: str) -> bool:
    """Returns whether the file, by its path below `.aiwg/ralph`, is about a loop."""
    return any(place.fullmatch(name) for place in _PLACES)


@dataclass
class LoopRound:
    """One round of a course: the errors before it, what it did, and the errors after it.

    `after` and `before` are None where the file has no value. A change without a path is of the
    file in which the error before it occurred.
    """

    before: list[Check] | None = None
    after: list[Check] | None = None
    changes: list[FileChange] = field(default_factory=list[FileChange])
    text: str = ""
    cause: str = ""
    category: FixCategory = "other"
    at: int = 0


Course: TypeAlias = dict[int, LoopRound]


@dataclass
class ForeignLoop:
    """A loop as its files describe it. `courses` are its rounds by kind of file."""

    id: str
    task: str = ""
    status: str = ""
    agent: str = ""
    courses: dict[str, Course] = field(default_factory=dict[str, Course])

    def round(self, course: str, number: int) -> LoopRound | None:
        """Returns the round with this number; None if the course is too long."""
        rounds = self.courses.setdefault(course, {})
        if number not in rounds and len(rounds) >= _MOST_ROUNDS:
            return None
        return rounds.setdefault(number, LoopRound())


class _Faults:
    """The faults of one file, up to a number."""

    def __init__(self, name: str, faults: list[str]) -> None:
        self._name, self._faults = name, faults
        self._left = _MOST_FAULTS

    def add(self, path: str, message: str) -> None:
        """Reports a fault."""
        self._left -= 1
        if self._left >= 0:
            self._faults.append(f"{self._name}: {path}: {message}")


class _Entry:
    """An object of a file. A wrong type is a fault with its path, and counts as absent."""

    def __init__(self, content: Mapping[str, Any], faults: _Faults, path: str = "") -> None:
        self.content, self.path, self._faults = content, path, faults

    def fault(self, key: str, message: str) -> None:
        """Reports a fault of a key."""
        self._faults.add(f"{self.path}{key}", message)

    def full(self) -> None:
        """Reports that a course is too long for a further round."""
        text = f"only {_MOST_ROUNDS} rounds of a loop are read; this one is not"
        self._faults.add(self.path or "$", text)

    def inner(self, key: str, content: Mapping[str, Any]) -> "_Entry":
        """Returns an object that is under `key`."""
        return _Entry(content, self._faults, f"{self.path}{key}.")

    def text(self, *keys: str, most: int = _TEXT) -> str:
        """Returns the first text under `keys`, cut; "" if there is none."""
        for key in keys:
            value = self.content.get(key)
            if isinstance(value, str):
                if value.strip():
                    return value.strip()[:most]
            elif value is not None:
                self.fault(key, f"must be text, not {_kind(value)}")
        return ""

    def object(self, key: str) -> "_Entry":
        """Returns the object under `key`; an empty one if there is none."""
        value = self.content.get(key)
        if value is not None and not is_object(value):
            self.fault(key, f"must be an object, not {_kind(value)}")
        return self.inner(key, value if is_object(value) else {})

    def objects(self, key: str) -> Iterator["_Entry"]:
        """Yields the objects in the list under `key`."""
        for n, each in enumerate(self._listed(key, self.content.get(key), _MOST_ROUNDS)):
            if is_object(each):
                yield self.inner(f"{key}[{n}]", each)
            else:
                self.fault(f"{key}[{n}]", f"must be an object, not {_kind(each)}")

    def texts(self, key: str) -> list[str]:
        """Returns the texts in the list under `key`; a single text counts as a list of one."""
        value = self.content.get(key)
        listed = self._listed(key, [value] if isinstance(value, str) else value, _MOST_FILES)
        for n, each in enumerate(listed):
            if not isinstance(each, str):
                self.fault(f"{key}[{n}]", f"must be text, not {_kind(each)}")
        return [each[:_TEXT] for each in listed if isinstance(each, str)]

    def _listed(self, key: str, value: Any, most: int) -> list[Any]:
        if value is None:
            return []
        if not is_array(value):
            self.fault(key, f"must be a list, not {_kind(value)}")
            return []
        if len(value) > most:
            self.fault(key, f"only the first {most} of {len(value)} are read")
        return value[:most]

    def number(self, *keys: str) -> int | None:
        """Returns the first whole number from 0 to a million under `keys`."""
        for key in keys:
            value = self.content.get(key)
            if value is None:
                continue
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
                return value
            self.fault(key, f"must be a whole number up to a million, not {clip(repr(value), 40)}")
        return None

    def flag(self, key: str) -> bool | None:
        """Returns the value true or false under `key`; None if there is none."""
        value = self.content.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.fault(key, f"must be true or false, not {clip(repr(value), 40)}")
        return None

    def time(self, key: str) -> int:
        """Returns a time in milliseconds; 0 if there is none."""
        text = self.text(key, most=60)
        try:
            return milliseconds(text) if text else 0
        except (ValueError, OverflowError):
            self.fault(key, f"{clip(repr(text), 40)} is not an ISO 8601 time")
            return 0


def _kind(value: Any) -> str:
    return "list" if is_array(value) else "object" if is_object(value) else type(value).__name__


def foreign_loops(documents: Mapping[str, Any], faults: list[str]) -> list[ForeignLoop]:
    """Returns the loops in `documents`, decoded JSON by path below the folder.

    Args:
        documents: The files for which `is_of_loop` is true.
        faults: Receives a line for each fault.
    """
    loops: dict[str, ForeignLoop] = {}
    # States first: they name the task and the agent of the other files.
    for name in sorted(documents, key=lambda each: ("state.json" not in each, each)):
        content, found = documents[name], _Faults(name, faults)
        if not is_object(content):
            found.add("$", f"must be an object, not {_kind(content)}")
            continue
        if is_object(content.get("taofold")):
            continue
        file = _Entry(content, found)
        identity = _identity(name, file)
        if identity not in loops and len(loops) >= _MOST_LOOPS:
            faults.append(f"{name}: only the first {_MOST_LOOPS} loops are read")
            break
        _read(loops.setdefault(identity, ForeignLoop(identity)), name, file)
    return list(loops.values())


def _identity(name: str, file: _Entry) -> str:
    """Returns the id of the loop that the file is about: by its content, else by its folder."""
    stated = file.text("loop_id", "loopId", most=200) or file.object("metadata").text(
        "loop_id", "task_id", most=200
    )
    # Debug memory has the id of its session. In a loop's folder it is of that loop.
    session = file.text("session_id", most=200)
    matches = [match for place in _PLACES if (match := place.fullmatch(name))]
    folder = matches[0].groupdict().get("loop") or "" if matches else ""
    for identity in (stated, folder, session):
        if _NAME.fullmatch(identity):
            return identity
        if identity and identity != folder:
            shown = clip(repr(identity), 60)
            file.fault("loop_id", f"{shown} is no plain name: the folder's is used")
    return "current-loop"


def _read(loop: ForeignLoop, name: str, file: _Entry) -> None:
    """Adds the content of one file to the loop. Its keys determine its kind."""
    content = file.content
    loop.task = loop.task or file.text("task", "task_description", "objective")
    if "evaluator_output" in content:
        _reflection(loop, file)
        return
    if "executions" in content:
        _debug_memory(loop, name, file)
        return
    numbered = _NUMBERED.search(name.rpartition("/")[2])
    if numbered and not is_array(content.get("iterations")):
        _iteration(loop, int(numbered[1]), file)
        return
    known = "status" in content or "iterations" in content or "loopId" in content
    for key, value in content.items():
        if (inner := _NUMBERED.fullmatch(key)) and is_object(value):
            known = True
            _iteration(loop, int(inner[1]), file.inner(key, value))
    loop.status = loop.status or file.text("status", most=60)
    if True in [file.flag("completed"), file.flag("success")]:
        loop.status = "completed"
    loop.agent = loop.agent or file.text("agent", "owner", most=100)
    for n, each in enumerate(file.objects("iterations"), 1):
        number = each.number("number", "iteration_number", "iteration")
        _iteration(loop, n if number is None else number, each)
    for n, each in enumerate(file.object("progress").objects("completion_checks"), 1):
        number = each.number("iteration")
        _iteration(loop, n if number is None else number, each)
        known = True
    for key, value in content.items() if known else ():
        rounds = is_array(value) and any(is_object(each) and _ROUND & each.keys() for each in value)
        if rounds and key != "iterations":
            file.fault(clip(key, 60), "this list is of no known kind and was left out")
    if not known:
        file.fault("$", "no state, iteration, debug memory or reflection is in it")


def _iteration(loop: ForeignLoop, number: int, entry: _Entry) -> None:
    """Adds an entry of a state, or a file of an iteration."""
    now = loop.round("iterations", number)
    if now is None:
        entry.full()
        return
    now.at = now.at or entry.time("timestamp")
    errors = [error for key in ("error", "errors", "failures") for error in _errors(entry, key)]
    fix = entry.content.get("fix_applied", entry.content.get("fix"))
    fix = {"description": fix} if isinstance(fix, str) else fix
    passed = _passed(entry)
    if not errors and passed is not True:
        printed = entry.text("result", "output", "test_output", most=_DIFF)
        errors = list(failing_checks(printed))[:_MOST_ERRORS] or _of_text(printed)
    if errors and passed is True:
        # The round met the error and ended it.
        now.before = errors
    elif errors:
        now.after = errors
    if passed is True:
        now.after = []
    if is_object(fix):
        made = entry.inner("fix_applied", fix)
        now.text = now.text or made.text("description")
        now.changes += _changes(made, errors or now.before or [])
    now.text = now.text or entry.text("action", "description")
    now.changes += _changes(entry, errors) if "diff" in entry.content else []


def _passed(entry: _Entry) -> bool | None:
    """Returns whether the checks passed after the round; None if it is unknown."""
    stated = [entry.flag(key) for key in ("verified", "passed", "success", "completed")]
    if (first := next((each for each in stated if each is not None), None)) is not None:
        return first
    status = entry.text("verification_status", most=40)
    if status in ("passed", "failed"):
        return status == "passed"
    counts = entry.object("test_results")
    failed, raised = counts.number("failed"), counts.number("errors")
    return None if failed is None else not failed and not raised


def _errors(entry: _Entry, key: str) -> list[Check]:
    """Returns the errors under `key`: an object, a list of objects, or text."""
    value = entry.content.get(key)
    if isinstance(value, str):
        return _of_text(value)
    if is_object(value):
        return _error(entry.inner(key, value))
    if isinstance(value, bool | int | float):
        return []  # a count, such as `errors: 3`
    checks = [check for each in entry.objects(key) for check in _error(each)]
    if len(checks) > _MOST_ERRORS:
        entry.fault(key, f"only the first {_MOST_ERRORS} of {len(checks)} are read")
    return checks[:_MOST_ERRORS]


def _error(entry: _Entry) -> list[Check]:
    """Returns one error of a file as a check."""
    message = entry.text("message", "error_message", most=_MESSAGE)
    name = entry.text("error_class", "error_type", "type", most=100)
    extra = entry.content.get("taofold")
    if is_object(extra):
        name = entry.inner("taofold", extra).text("error_class", most=100) or name
    found = _CLASS.match(message)
    # `test_failure` is a category; the message names the class.
    if found and (name == found[1] or not name.endswith(("Error", "Exception"))):
        name, message = found[1], found[2].strip() or message
    if not message:
        return []
    place = _place(entry)
    test = entry.text("test_name", "test", "rule", most=300)
    trace = entry.text("stack_trace", "traceback", most=_MESSAGE)
    places = (place,) if place.path else ()
    return [Check(test or f"{name}: {message}"[:200], "failed", name, message, places, trace)]


def _place(entry: _Entry) -> Location:
    """Returns the place of an error: `location`, `source_location`, or `file` and `line`."""
    where = entry.content.get("location", entry.content.get("source_location"))
    if isinstance(where, str):
        found = _WHERE.fullmatch(where.strip()[:500])
        if found is None:
            return Location(_path(where[:300]))
        return Location(_path(found[1]), int(found[2]), found[3] or "")
    holder = entry.inner("location", where) if is_object(where) else entry
    file = holder.text("file", "file_path", most=300)
    return Location(_path(file), holder.number("line") or 0, holder.text("function", most=100))


def _path(text: str) -> str:
    """Returns a path relative to the project: AIWG writes `/src/a.ts` for the project's file."""
    return text.strip().replace("\\", "/").removeprefix("./").lstrip("/")


def _of_text(text: str) -> list[Check]:
    """Returns the error in a line such as `FAIL: TypeError: x is null`."""
    for line in text.splitlines()[:200]:
        if found := _CLASS.search(line[:_MESSAGE]):
            message = found[2].strip()
            if message:
                name = f"{found[1]}: {message}"[:200]
                return [Check(name, "failed", found[1], message[:_MESSAGE])]
    return []


def _debug_memory(loop: ForeignLoop, name: str, file: _Entry) -> None:
    """Adds a session: the fix of an attempt is what was done before the next one."""
    loop.agent = loop.agent or file.object("metadata").text("agent", most=100)
    status = file.text("status", most=40)
    loop.status = loop.status or ("completed" if status == "passed" else status)
    main = file.text("file_path", most=300)
    for n, each in enumerate(file.objects("executions"), 1):
        number = each.number("attempt")
        number = n if number is None else number
        now, then = loop.round(name, number), loop.round(name, number + 1)
        if now is None or then is None:
            each.full()
            return
        now.at = each.time("timestamp")
        failures = _errors(each, "failures")
        if failures or _passed(each) is True:
            now.after = failures
        fix, analysis = each.object("fix_applied"), each.object("analysis")
        then.text = fix.text("description")
        then.cause = analysis.text("root_cause")
        then.category = _CATEGORIES.get(analysis.text("root_cause_category", most=60), "other")
        then.changes += _changes(fix, failures, main)


def _reflection(loop: ForeignLoop, file: _Entry) -> None:
    """Adds a reflection: the actions of an iteration, then the report of its checks."""
    number = file.number("iteration")
    if number is None:
        file.fault("iteration", "is missing: the reflection has no place in the loop")
        return
    now = loop.round("reflections", number)
    if now is None:
        file.full()
        return
    now.at = file.time("timestamp")
    actor, judge = file.object("actor_output"), file.object("evaluator_output")
    printed = "\n".join(
        each.text("stderr", "stdout", most=_MESSAGE) for each in judge.objects("results")
    )
    errors = _errors(judge, "errors")
    named = any(each.error_type.endswith("Error") for each in errors)
    if (printed_errors := _of_text(printed)) and not named:
        # The entry names the test, and the program's output the error.
        errors = [
            replace(
                each, error_type=printed_errors[0].error_type, message=printed_errors[0].message
            )
            for each in errors
        ] or printed_errors
    if judge.flag("passed") is True:
        now.after = []
    elif errors:
        now.after = errors
    now.text = actor.text("strategy", "rationale")
    credit = file.object("self_reflection").object("credit_assignment")
    now.cause = credit.text("root_cause")
    for each in actor.objects("actions"):
        path = each.text("file_path", most=300)
        now.changes += _changes(each.object("changes"), errors, path)


_HEAD: Final = re.compile(r"^(?:diff --git |--- |\+\+\+ |index [0-9a-f])")
_NEW_FILE: Final = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)")


def _changes(fix: _Entry, errors: Sequence[Check], main: str = "") -> list[FileChange]:
    """Returns the changes in a diff, with or without the heads of a unified one.

    The path is "" if neither the diff nor the file names one.
    """
    diff = fix.text("diff", most=_DIFF)
    if not diff:
        return []
    named = fix.texts("files_changed")
    place = next((check.place.path for check in errors if check.place.path), "")
    file = _path(next(iter(named), "") or main or place)
    parts: dict[str, tuple[list[str], list[str]]] = {}
    for line in diff.split("\n"):
        if head := _NEW_FILE.match(line):
            file = _path(head[1])
        if _HEAD.match(line):
            continue
        gone, new = parts.setdefault(file, ([], []))
        text = line[1:]
        if line.startswith("-"):
            gone.append(text)
        elif line.startswith("+"):
            new.append(text)
        elif line.startswith(" "):
            gone.append(text)
            new.append(text)
    return [
        FileChange(name, "\n".join(gone), "\n".join(new), part=True)
        for name, (gone, new) in list(parts.items())[:_MOST_FILES]
        if gone != new
    ]

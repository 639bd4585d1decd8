"""What a runner reported, and the reading of the lines that our own reporters send.

Pure. A line without the nonce was written by what is being tested, not by the reporter.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from taofold.core.checks import Check, Location, Status
from taofold.core.text import excerpt
from taofold.core.values import Value

MOST: Final = 20_000
"""Checks of one gate; a report with more is not taken."""
MESSAGE: Final = 1_000
TRACEBACK: Final = 4_000
_RANK: Final[dict[Status, int]] = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}


class RunnerReport(Value, frozen=True):
    """The reading of one run. `whole` = it came to its end and nothing in it is doubtful."""

    checks: tuple[Check, ...] = ()
    collected: tuple[str, ...] = ()
    whole: bool = False
    code: int | None = None
    """The exit code that the runner was about to end with, where it says so."""
    patched: dict[str, str] = {}
    """Parts of the runner that were replaced, each with the file that the new one is from."""
    plugins: tuple[str, ...] = ()
    toolchain: tuple[str, ...] = ()
    """Files of the work root that the runner itself is made of: plugins."""
    files: tuple[str, ...] = ()
    """What a linter looked at."""
    doubts: tuple[str, ...] = ()


class _Line(msgspec.Struct):
    """One line of a reporter, of whatever kind."""

    n: str
    k: str
    id: str = ""
    status: Status = "error"
    type: str = ""
    message: str = ""
    places: list[tuple[str, int, str]] = []
    trace: str = ""
    ms: int = 0
    suite: bool = False
    ids: list[str] = []
    code: int = 1
    patched: dict[str, str] = {}
    plugins: list[str] = []
    toolchain: list[str] = []


_DECODER: Final = msgspec.json.Decoder(_Line)


def stream(raw: bytes, nonce: str, root: str) -> RunnerReport:
    """The report that our reporter sent as JSON lines."""
    checks: list[Check] = []
    collected: list[str] = []
    ended: _Line | None = None
    doubts: list[str] = []
    for text in raw.splitlines():
        try:
            line = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            doubts.append("the report holds a line that is not the reporter's")
            continue
        # The nonce is not secret from code in the same process; it tells mistakes from reports.
        if line.n != nonce:
            doubts.append("the report holds a line that somebody else wrote")
        # The reporter's last line is written after all tests: whoever writes later is not it.
        elif ended is not None:
            doubts.append("the report goes on after its end")
        elif line.k == "collected":
            collected += [relative(name, root) for name in line.ids]
        elif line.k == "check" and not (line.suite and line.status == "passed"):
            checks.append(_check(line, root))
        elif line.k == "end":
            ended = line
    if len(checks) > MOST:
        doubts.append(f"the report holds more than {MOST:,} checks")
        checks = checks[:MOST]
    if ended is None:
        return RunnerReport(worst(checks), tuple(collected), doubts=tuple(dict.fromkeys(doubts)))
    return RunnerReport(
        worst(checks),
        tuple(collected),
        not doubts,
        ended.code,
        ended.patched,
        tuple(ended.plugins),
        tuple(ended.toolchain),
        doubts=tuple(dict.fromkeys(doubts)),
    )


def _check(line: _Line, root: str) -> Check:
    places = [Location(relative(path, root), number, name) for path, number, name in line.places]
    return check(
        relative(line.id, root), line.status, line.type, line.message, places, line.trace, line.ms
    )


def check(
    name: str,
    status: Status,
    error_type: str = "",
    message: str = "",
    places: Iterable[Location] = (),
    trace: str = "",
    ms: int = 0,
) -> Check:
    """A check with its texts cut to what a reader can use."""
    return Check(
        name[:500],
        status,
        error_type[:200],
        excerpt(message.removeprefix(f"{error_type}: "), MESSAGE)
        if error_type
        else message[:MESSAGE],
        tuple(places)[-20:],
        excerpt(trace, TRACEBACK),
        ms,
    )


def worst(checks: Iterable[Check]) -> tuple[Check, ...]:
    """One check per id, the worst: who reports a test twice gains nothing."""
    by_id: dict[str, Check] = {}
    for check in checks:
        # The worst counts: a test that is reported twice must have passed twice.
        before = by_id.get(check.id)
        if before is None or _RANK[check.status] > _RANK[before.status]:
            by_id[check.id] = check
    return tuple(by_id.values())


def numbered(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Findings with equal ids told apart by a count, so that each is one check."""
    counts: dict[str, int] = {}
    unique: list[Check] = []
    for check in checks:
        counts[check.id] = counts.get(check.id, 0) + 1
        # Linters report the same message for several lines, and an id holds no line.
        if counts[check.id] > 1:
            check = msgspec.structs.replace(check, id=f"{check.id} #{counts[check.id]}")
        unique.append(check)
    return tuple(unique[:MOST])


def relative(path: str, root: str) -> str:
    """`path` below `root`, as text; others stay as they are."""
    return path.removeprefix("file://").removeprefix(root.rstrip("/") + "/")


def rows(text: str) -> list[dict[str, Any]]:
    """The lines of `text` that are JSON objects; all others are passed over."""
    objects: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                objects.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
    return objects

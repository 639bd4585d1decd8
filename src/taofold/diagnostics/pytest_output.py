"""Reads what pytest printed: which tests failed, where, and why.

Knows the short and the long traceback style and the summary lines; tolerates a cut
middle. Text only: nothing is run and no file is opened.
"""

import re
from dataclasses import dataclass
from typing import Final

from taofold.core.checks import Check, Location

_TITLE: Final = re.compile(r"^_{3,} (.+?) _{3,}$", re.MULTILINE)
_PLACE: Final = re.compile(r"^(\S[^\n:]*\.py):(\d+):(?: in (\S+)| ?\w*)", re.MULTILINE)
_FILE: Final = re.compile(
    r'^\s*(?:E\s+)?File "([^"\n]+\.py)", line (\d+)(?:, in (\S+))?', re.MULTILINE
)
_ERROR: Final = re.compile(r"^E {2,}(.*)$", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^(FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - (.*))?$", re.MULTILINE)
_COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_TAIL: Final = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in ([\d.]+)s.*$", re.MULTILINE)
_KIND: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*"
    r"([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration|Warning)|Failed)\b(?:: ?(.*))?$",
    re.DOTALL,
)
# pytest names a class with its module: decimal.InvalidOperation is an exception by its place alone.
# A few old ones of the library are written small: re.error, socket.timeout.
_QUALIFIED: Final = re.compile(
    r"^(?:[a-z_]\w*\.)+([A-Z]\w*|error|timeout|gaierror|herror)(?:: ?(.*))?$", re.DOTALL
)
_SECTION_END: Final = re.compile(r"^={3,} ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PytestReport:
    """A test run as far as its output shows it."""

    failures: tuple[Check, ...]
    passed: int
    broken: int
    """Failed tests and errors, as the last line counts them."""
    summary: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Did at least one test pass and none fail?"""
        return self.passed > 0 and self.broken == 0 and not self.failures

    @property
    def ids(self) -> frozenset[str]:
        """The ids of what failed."""
        return frozenset([failure.id for failure in self.failures])

    @property
    def collecting(self) -> bool:
        """Could a test file not be loaded?"""
        return any(failure.collecting for failure in self.failures)


def parse(text: str) -> PytestReport | None:
    """The report in `text`, or None if no test run left its traces there."""
    tails = list(_TAIL.finditer(text))
    counts: dict[str, int] = {}
    if tails:
        for number, word in _COUNT.findall(tails[-1][1]):
            # "1 error" and "2 errors" are one count; the `s` of "passed" is not at its end.
            counts[word.rstrip("s")] = counts.get(word.rstrip("s"), 0) + int(number)
    failures = _failures(text)
    if not counts and not failures:
        return None
    return PytestReport(
        failures,
        counts.get("passed", 0),
        counts.get("failed", 0) + counts.get("error", 0),
        tails[-1][1].strip() if tails else "",
        float(tails[-1][2]) if tails else 0.0,
    )


def _failures(text: str) -> tuple[Check, ...]:
    sections = _sections(text)
    checks: dict[str, Check] = {}
    for kind, test, message in _SUMMARY.findall(text):
        checks.setdefault(test, _failure(test, kind == "ERROR", message, sections))
    return tuple(checks.values())


def _sections(text: str) -> dict[str, str]:
    """The traceback of each failure under its title."""
    titles = list(_TITLE.finditer(text))
    sections: dict[str, str] = {}
    for number, title in enumerate(titles):
        end = titles[number + 1].start() if number + 1 < len(titles) else len(text)
        stop = _SECTION_END.search(text, title.end(), end)
        body = text[title.end() : stop.start() if stop else end]
        sections[title[1]] = sections.get(title[1], "") + body
    return sections


def _failure(test: str, errored: bool, said: str, sections: dict[str, str]) -> Check:
    path, _, name = test.partition("::")
    title = name.replace("::", ".") if name else f"ERROR collecting {path}"
    body = sections.get(title) or sections.get(f"ERROR at setup of {title}", "")
    lines = [line.rstrip() for line in _ERROR.findall(body)]
    error, message = _kind(lines, said)
    return Check(
        test, "error" if errored else "failed", error, message, _places(body), "\n".join(lines)
    )


def _kind(lines: list[str], said: str) -> tuple[str, str]:
    """The exception's class and message; a bare `assert` is an AssertionError."""
    # The last `E` line that names a class: of a chain of exceptions it is the one that was raised.
    for line in [*reversed(lines), said]:
        match = _KIND.match(line.strip())
        if match and match[1] != "AssertionError":
            return match[1], match[2] or ""
    first = lines[0] if lines else said
    qualified = _QUALIFIED.match(first)
    if qualified:
        return qualified[1], qualified[2] or ""
    return "AssertionError", first.removeprefix("AssertionError: ")


def _places(body: str) -> tuple[Location, ...]:
    places = [
        (match.start(), Location(match[1].removeprefix("./"), int(match[2]), match[3] or ""))
        for pattern in (_PLACE, _FILE)
        for match in pattern.finditer(body)
    ]
    return tuple([location for _, location in sorted(places, key=lambda entry: entry[0])])

"""Extracts failing checks from printed output of tests, compilers, linters and shells.

`failing_checks` takes the output of a program and returns a `Check` for each one that failed: usual
output of pytest, unittest, TAP, JUnit, cargo, go test, rustc, tsc, eslint, pylint, ruff, mypy,
Python and node tracebacks, and shells. `parse_pytest` returns the whole test run of pytest, with
its counts. Further functions read the names of passed tests, the frames of a traceback with their
code, and the exceptions that led to the last one.

For human-readable output: gates request machine-readable reports from runners that have them. Text
only and bounded: nothing is run, no file is opened, and an exit code is never a failure's
signature. Knows nothing about models.

Example: `failing_checks("m.py:3: error: Name 'x' is not defined  [name-defined]")[0].error_type`
is `"name-defined"`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import unescape
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import structs

from taofold.core.failing_checks import Check, Location

MOST: Final = 200
"""Maximum number of checks read from one output."""
_LONGEST: Final = 200_000
"""Maximum characters read: the last ones, which summarise failures."""
_MESSAGE: Final = 1_000
_LONGEST_LINE: Final = 2_000

_PY_FRAME: Final = re.compile(r'^\s*File "([^"\n]+)", line (\d+)(?:, in (\S+))?')
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CLASS: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?: \[\w+\])?(?::\s?(.*))?$")
_JS_FRAME: Final = re.compile(
    r"^\s*(?:at )?(?:(?:async |new )?([\w.<>$\[\] ]{1,120}) \()?(?:file://)?(/?[\w@./+-]+):(\d+):\d+\)?$"
)
_THROWN: Final = re.compile(
    r"\s*(?:Uncaught )?((?:[A-Z]\w*)?(?:Error|Exception))(?: \[(\w+)\])?: (.*)"
)
_COMPLAINT: Final = re.compile(
    r"(?:[\w./-]+: (?:line )?\d+: )?([\w./ -]{1,200}?): ((?:\S[^:]{0,200}: )?(?:command not found"
    r"|not found|No such file or directory|Permission denied|Is a directory|syntax error.*))$"
)
_SCRIPT: Final = re.compile(r"(?:^|[\s'\"])([\w.][\w./-]*): line (\d+): (\S.*?)'?$")
_FOREIGN: Final = ("node:", "node_modules/", "internal/")


def failing_checks(text: str) -> tuple[Check, ...]:
    """Returns every failing check in `text`, in order; () if none is recognised.

    Reports of test runners come first, then findings of linters and compilers. A traceback or a
    shell's error counts as a check only if there is neither.
    """
    # Bounded first: every pattern below searches every line.
    lines = [line[:_LONGEST_LINE] for line in _ANSI.sub("", text[-_LONGEST:]).splitlines()]
    checks = [check for reader in _RUNNERS for check in reader(lines)]
    checks += [check for reader in _FINDINGS for check in reader(lines)]
    return _named_apart((checks or _thrown(lines))[:MOST])


def _thrown(lines: list[str]) -> list[Check]:
    """Returns the error that ended a program, from the first reader that recognises it."""
    for reader in _UNCAUGHT:
        if checks := list(reader(lines)):
            return checks
    return []


_PASSED: Final = re.compile(
    r"\s*(?:ok \d+(?: -)? (.+?)(?: # .*)?|✔ (.+?)(?: \([\d.]+ms\))?|test (.+?) \.\.\. ok"
    r"|--- PASS: (\S+).*|(\S+::\S+) PASSED.*|(\w+) \(\S+\) \.\.\. ok)$"
)
"""Lines of TAP, node, cargo, go, pytest and unittest."""


def passing_names(text: str) -> frozenset[str] | None:
    """Returns the names of passed checks in an output with failures; None if it does not list them.

    An uncaught exception is the last event of a program: nothing ran or passed after it.
    """
    # Cut before it is read: the pattern searches every line.
    lines = [line[:_LONGEST_LINE] for line in text[-_LONGEST:].splitlines()]
    passed = [match for line in lines if (match := _PASSED.match(line))]
    names = frozenset([str(match[match.lastindex or 0]) for match in passed])
    if names:
        return names
    tested = any(True for reader in (*_RUNNERS, *_FINDINGS) for _ in reader(lines))
    return None if tested or len(failing_checks(text)) != 1 else names


class PrintedFrame(NamedTuple):
    """A frame printed by pytest or Python: its line of code, and the shown part of its code."""

    path: str
    line: int
    statement: str
    code: str


def printed_frames(traceback: str) -> tuple[PrintedFrame, ...]:
    """Returns the frames of a traceback that show code, the innermost last."""
    frames: list[PrintedFrame] = []
    above: list[str] = []
    rows = traceback.splitlines()
    for number, row in enumerate(rows):
        python, pytest = _PY_FRAME.match(row), _PLACE.match(row)
        below = rows[number + 1].strip() if number + 1 < len(rows) else ""
        below = "" if below.startswith("E  ") else below
        if python is not None:
            frames.append(PrintedFrame(python[1], int(python[2]), below, below))
        elif pytest is not None and pytest[3]:
            frames.append(PrintedFrame(pytest[1], int(pytest[2]), below, below))
        elif pytest is not None:
            # The last and the first one are shown from the function's head on, with the line
            # marked.
            raised = next((line[1:].strip() for line in reversed(above) if line[0] == ">"), "")
            code = [line[1:] for line in above if line[0] in "> "]
            frames.append(PrintedFrame(pytest[1], int(pytest[2]), raised, "\n".join(code)))
        above = [] if pytest or row.startswith("_ _") else [*above, row] if row else above
    return tuple([frame for frame in frames if frame.statement not in ("", "???")])


_MOST_CAUSES: Final = 4
_LINK: Final = re.compile(
    r"^(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):$",
    re.MULTILINE,
)
_CAUSE: Final = re.compile(
    r"^\s*(?:\[cause\]|Caused by): (?:[\w.$]+\.)?(\w+)(?:: (.*))?$", re.MULTILINE
)


_LOADER: Final = re.compile(r"^(?:ImportError: )?(?=Failed to import test module: )", re.MULTILINE)


class LoadingError(NamedTuple):
    """The exception for which a test module could not be imported."""

    error_type: str
    message: str
    places: tuple[Location, ...]
    printed: str


def loading_error(traceback: str) -> LoadingError | None:
    """Returns the exception quoted in the message of unittest's loader, or None.

    Only the quotation remains: the loader keeps no exception.
    """
    quoted = _LOADER.split(traceback, maxsplit=1)[1:]
    chain = list(_tracebacks(quoted[0].splitlines())) if quoted else []
    if not chain:
        return None
    error, message, places = chain[-1]
    return LoadingError(error, message, tuple(places), quoted[0])


def causes_of(check: Check) -> tuple[tuple[str, str], ...]:
    """Returns class and message of the exceptions that led to the check's error, first to last.

    Limited to the first `_MOST_CAUSES`. Recognises the chains printed by Python, pytest, node and
    Java.
    """
    causes: list[tuple[str, str]] = []
    for part in _LINK.split(check.traceback)[:-1]:
        rows = _ERROR.findall(part)
        # Python prints the error after its frames, without indentation.
        margin = [row for row in part.splitlines() if row[:1].strip()]
        rows = rows or [row for row in margin if not row.startswith("Traceback (most recent")]
        if rows:
            causes.append(_kind([row.rstrip() for row in rows], ""))
    causes += [(error, message) for error, message in reversed(_CAUSE.findall(check.traceback))]
    return tuple([cause for cause in causes if cause != check.error][:_MOST_CAUSES])


def _named_apart(found: list[Check]) -> tuple[Check, ...]:
    """Returns each check once. Another error under a known id gets its message into its id."""
    unique: dict[str, Check] = {}
    for check in found:
        if unique.setdefault(check.id, check).error != check.error:
            name = f"{check.id} {check.message}"[:500]
            unique.setdefault(name, structs.replace(check, id=name))
    return tuple(unique.values())


def _check(
    name: str, error_type: str, message: str, places: list[Location], printed: str = ""
) -> Check:
    return Check(
        name[:500],
        "failed",
        error_type[:200],
        message.strip()[:_MESSAGE],
        tuple(places),
        printed[:_MESSAGE],
    )


def _finding(path: str, line: str, code: str, message: str) -> Check:
    """Returns a finding. Its id holds no line number, so it survives moved lines."""
    path = path.removeprefix("./")
    return _check(f"{path}: {code} {message}".strip(), code, message, [Location(path, int(line))])


# Test runners


def _pytest(lines: list[str]) -> Iterator[Check]:
    report = parse_pytest("\n".join(lines))
    if report is not None:
        yield from report.failures


def _unittest(lines: list[str]) -> Iterator[Check]:
    heads = [n for n, line in enumerate(lines) if re.match(r"(?:ERROR|FAIL): \S", line)]
    for head, following in zip(heads, [*heads[1:], len(lines)], strict=False):
        body = lines[head + 1 : following]
        if not body or not body[0].startswith("----"):
            continue
        # Since Python 3.11 the parentheses repeat the test's name: `FAIL: test_a (m.T.test_a)`.
        name = re.sub(r"^\w+: (\S+) \((\S+?)(?:\.\1)?\)", r"\2.\1", lines[head])
        name = name.removeprefix("unittest.loader._FailedTest.")
        chain = list(_tracebacks(body))
        if chain:
            # The last one was raised, the others led to it.
            yield _check(name, *chain[-1], "\n".join(body))


def _tap(lines: list[str]) -> Iterator[Check]:
    """Yields `not ok` lines with their YAML block, except suites that failed by their tests."""
    for number, line in enumerate(lines):
        head = re.match(r"\s*not ok \d+(?: -)? ?(.*)", line)
        if head is None or "# TODO" in line or "# SKIP" in line:
            continue
        fields = _yaml_fields(lines[number + 1 : number + 60])
        if fields.get("failureType") == "subtestsFailed":
            continue
        message = fields.get("error") or fields.get("message") or ""
        if message == "test failed" and (thrown := _thrown_above(lines, number)) is not None:
            # A file that could not be run: its output has the reason.
            yield structs.replace(thrown, id=head[1])
            continue
        places = _js_places(fields.get("stack", "").split("\n"))
        if not places and (at := re.match(r"(.+?):(\d+):\d+$", fields.get("location", ""))):
            places = [Location(at[1], int(at[2]))]
        yield _check(head[1], fields.get("name", ""), message, places)


def _thrown_above(lines: list[str], number: int) -> Check | None:
    """Returns the error that ended a program, from TAP comments directly above a result."""
    comments: list[str] = []
    for above in range(number - 1, -1, -1):
        comment = re.match(r"\s*#(?: (.*))?$", lines[above])
        if comment is None:
            break
        comments.append((comment[1] or "").replace("\\#", "#"))
    return next(iter(_thrown(comments[::-1])), None)


def _yaml_fields(lines: list[str]) -> dict[str, str]:
    """Returns the scalar fields of a TAP diagnostic block. This subset needs no YAML parser."""
    fields: dict[str, str] = {}
    name, margin = "", 0
    if not lines or lines[0].strip() != "---":
        return fields
    for line in lines[1:]:
        if line.strip() == "...":
            break
        field = re.match(r"(\s*)([A-Za-z]\w*): ?(.*)", line)
        # A deeper line continues a block (`|-`), in any form.
        if field and (not name or len(field[1]) <= margin):
            margin, name, value = len(field[1]), field[2], field[3].strip()
            fields[name] = "" if value in ("|-", "|", ">-") else value.strip("'\"")
        elif name:
            fields[name] = f"{fields[name]}\n{line.strip()}".strip()
    return fields


def _junit(lines: list[str]) -> Iterator[Check]:
    text = "\n".join(lines)
    if "<testcase" not in text:
        return
    for case in text.split("<testcase")[1:]:
        failure = re.search(r"<(?:failure|error)\b([^>]{0,4000})", case)
        if failure is None:
            continue
        head = _attributes(case.partition(">")[0])
        attributes = _attributes(failure[1])
        body = unescape(case[failure.end() : failure.end() + 4000])
        error, message = attributes.get("type", ""), attributes.get("message", "")
        # Node writes `type="testCodeFailure"`: only the body has the exception's class.
        cause = re.search(r"\b([A-Z]\w*(?:Error|Exception))\b(?: \[\w+\])?:", body)
        if cause and not error.endswith(("Error", "Exception")):
            error = cause[1]
        suite, name = head.get("classname", ""), head.get("name", "")
        name = name if suite in ("", "test") else f"{suite}.{name}"
        frames = body.split("\n")
        places = _py_places(frames) or _js_places(frames)
        error = error.rpartition(".")[2]
        yield _check(name, error, message.removeprefix(f"{error}: "), places, body)


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', text)}


def _cargo(lines: list[str]) -> Iterator[Check]:
    for number, line in enumerate(lines):
        head = re.match(r"---- (\S+) stdout ----", line)
        if head is None:
            continue
        body: list[str] = []
        for following in lines[number + 1 : number + 40]:
            if following.startswith(("----", "stack backtrace")):
                break
            body.append(following)
        at = _first(re.compile(r".*?panicked at (\S+?):(\d+):\d+"), body)
        start = next((n for n, line in enumerate(body) if "panicked at" in line), -1)
        message = " ".join(
            line.strip() for line in body[start + 1 :] if line.strip()[:5] != "note:"
        )
        yield _check(head[1], "panic", message, [Location(at[1], int(at[2]))] if at else [])


def _first(pattern: re.Pattern[str], lines: Iterable[str]) -> re.Match[str] | None:
    """Returns the match of the first line that starts with the pattern."""
    return next(filter(None, map(pattern.match, lines)), None)


def _go(lines: list[str]) -> Iterator[Check]:
    for number, line in enumerate(lines):
        head = re.match(r"\s*--- FAIL: (\S+)", line)
        if head is None:
            continue
        margin = len(line) - len(line.lstrip())
        body: list[str] = []
        for following in lines[number + 1 : number + 40]:
            if len(following) - len(following.lstrip()) <= margin and following.strip():
                break
            body.append(following)
        if any("--- FAIL:" in line for line in body):  # its subtests have the failures
            continue
        # Searched after the body too: `panic:` is not indented, so it ended the body.
        panic = _first(re.compile(r"panic: (.*)"), lines[number:])
        message = _first(re.compile(r"\s*([\w./-]+\.go):(\d+): ?(.*)"), body)
        if message is not None:
            yield _check(head[1], "", message[3], [Location(message[1], int(message[2]))])
        elif panic is not None:
            yield _check(head[1], "panic", panic[1].partition(" [recovered]")[0], [])
        else:
            yield _check(head[1], "", " ".join(line.strip() for line in body), [])


# Compilers, linters, type checkers

_LINE_FINDINGS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Check]], ...]] = (
    (  # tsc, plain and pretty
        re.compile(r"^([^\s(:][^(:\n]{0,300})[(:](\d+)[,:]\d+\)?(?: -|:) error (TS\d+): (.*)$"),
        lambda m: _finding(m[1], m[2], m[3], m[4]),
    ),
    (  # mypy
        re.compile(r"^([^\s:][^:\n]{0,300}):(\d+)(?::\d+)?: error: (.*?)  \[([\w-]+)\]$"),
        lambda m: _finding(m[1], m[2], m[4], m[3]),
    ),
    (  # pylint: the symbol is the name, not the number beside it
        re.compile(
            r"^([^\s:][^:\n]{0,300}):(\d+):\d+: ([CEFIRW]\d{4}): (.*?)(?: \(([a-z][\w-]+)\))?$"
        ),
        lambda m: _finding(m[1], m[2], m[5] or m[3], m[4]),
    ),
    (  # ruff, flake8
        re.compile(r"^([^\s:][^:\n]{0,300}):(\d+):\d+: ([A-Z]{1,4}\d{2,4}) (?:\[\*\] )?(.*)$"),
        lambda m: _finding(m[1], m[2], m[3], m[4]),
    ),
    (  # gcc, clang, go build and vet
        re.compile(
            r"^(?:vet: )?([^\s:][^:\n]{0,300}\.\w{1,5}):(\d+):\d+: (?:(?:fatal )?error: )?"
            r"(?!warning|note)(\S.*)$"
        ),
        lambda m: _finding(m[1], m[2], "", m[3]),
    ),
)


def _line_findings(lines: list[str]) -> Iterator[Check]:
    for line in lines:
        for form, build in _LINE_FINDINGS:
            match = form.match(line)
            if match is not None:
                yield build(match)
                break


def _arrow_findings(lines: list[str]) -> Iterator[Check]:
    """Yields findings of rustc and ruff: the message first, then `--> file:line:column`."""
    for line, following in pairwise(lines):
        at = re.match(r"\s*--> ([^:\s][^:\n]{0,300}):(\d+):\d+", following)
        if at is None:
            continue
        rust = re.match(r"error(?:\[(E\d+)\])?: (.*)", line)
        ruff = re.match(r"([A-Z]{1,4}\d{2,4}|invalid-syntax):? (?:\[\*\] )?(.*)", line)
        head = rust or ruff
        if head is not None:
            yield _finding(at[1], at[2], head[1] or "", head[2])


def _eslint(lines: list[str]) -> Iterator[Check]:
    path = ""
    for line in lines:
        match = re.match(r"\s+(\d+):\d+\s+error\s+(\S.*?)(?:\s{2,}([\w@/-]+))?\s*$", line)
        if match and path:
            yield _finding(path, match[1], match[3] or "parsing", match[2])
        elif re.match(r"\S.*\.[cm]?[jt]sx?$", line):
            path = line.strip()
        elif not line.strip():
            path = ""


# Uncaught errors


def _tracebacks(lines: list[str]) -> Iterator[tuple[str, str, list[Location]]]:
    """Yields Python tracebacks: class, message, places."""
    start = -1
    for number, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)") or (
            start < 0 and _PY_FRAME.match(line) and "Syntax" in " ".join(lines[number : number + 5])
        ):
            start = number
        elif start >= 0 and line and not line[0].isspace() and (head := _CLASS.match(line)):
            yield head[1], head[2] or "", _py_places(lines[start:number])
            start = -1


def _python(lines: list[str]) -> Iterator[Check]:
    for error, message, places in _tracebacks(lines):
        yield _uncaught(error, message, places)


def _node(lines: list[str]) -> Iterator[Check]:
    for number, line in enumerate(lines):
        head = _THROWN.match(line)
        frames = lines[number + 1 : number + 30]
        if head and any(re.match(r"\s+at ", frame) for frame in frames):
            places = _js_places(frames)
            if not places:  # a syntax error is located above its message only
                at = _first(re.compile(r"(/\S+):(\d+)$"), lines[:number])
                places = [Location(at[1], int(at[2]))] if at else []
            # A plain `Error` is unspecific, but its code is not.
            error = head[2] if head[1] == "Error" and head[2] else head[1]
            yield _uncaught(error, head[3], places, "\n".join(frames))


def _panic(lines: list[str]) -> Iterator[Check]:
    for line in lines:
        go = re.match(r"panic: (.*)", line)
        rust = re.match(r"thread '[^']*'.* panicked at (\S+?):(\d+):\d+:?$", line)
        if go or rust:
            yield _uncaught(
                "panic", go[1] if go else "", [Location(rust[1], int(rust[2]))] if rust else []
            )


def _shell(lines: list[str]) -> Iterator[Check]:
    """Yields `bash: line 3: foo: command not found`, `cat: /x: No such file or directory`."""
    for line in lines:
        head = _COMPLAINT.match(line)
        own = _SCRIPT.search(line)
        if head is not None:
            yield _uncaught("shell", f"{head[1]}: {head[2]}", [])
        elif own is not None:  # any error of a shell about a line of a script
            yield _uncaught("shell", own[3], [Location(own[1].removeprefix("./"), int(own[2]))])


def _uncaught(error: str, message: str, places: list[Location], printed: str = "") -> Check:
    """Returns the check for an error that ended a program, with the error as its id."""
    where = places[-1].path if places else ""
    return _check(f"{where}: {error}" if where else error, error, message, places, printed)


def _py_places(lines: list[str]) -> list[Location]:
    frames = [match for line in lines if (match := _PY_FRAME.match(line))]
    return [
        Location(match[1], int(match[2]), (match[3] or "").strip("<>").replace("module", ""))
        for match in frames
        if not match[1].startswith("<") and not match[1].endswith("/unittest/loader.py")
    ]


def _js_places(lines: list[str]) -> list[Location]:
    """Returns the frames of a JavaScript stack, the innermost last as in all other formats."""
    frames = [match for line in lines if (match := _JS_FRAME.match(line))]
    return [
        Location(match[2], int(match[3]), (match[1] or "").rpartition(".")[2].strip("<>"))
        for match in reversed(frames)
        if not any(part in match[2] for part in _FOREIGN)
    ]


_Reader = Callable[[list[str]], Iterator[Check]]
_RUNNERS: Final[tuple[_Reader, ...]] = (_pytest, _unittest, _tap, _junit, _cargo, _go)
_FINDINGS: Final[tuple[_Reader, ...]] = (_line_findings, _arrow_findings, _eslint)
_UNCAUGHT: Final[tuple[_Reader, ...]] = (_python, _node, _panic, _shell)


_TITLE: Final = re.compile(r"^_{3,} (.+?) _{3,}$", re.MULTILINE)
_PLACE: Final = re.compile(r"^(\S[^\n:]*\.py):(\d+):(?: in (\S+)| ?\w*)", re.MULTILINE)
_FILE: Final = re.compile(
    r'^\s*(?:E\s+)?File "([^"\n]+\.py)", line (\d+)(?:, in (\S+))?', re.MULTILINE
)
_ERROR: Final = re.compile(r"^E {2,}(.*)$", re.MULTILINE)
_SAYS: Final = re.compile(rf"^E {{2,}}(.*?)\s*$|{_LINK.pattern}", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^(FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - (.*))?$", re.MULTILINE)
_CONFTEST: Final = re.compile(r"^ImportError while loading conftest '(.+)'\.$", re.MULTILINE)
_COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_TAIL: Final = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in ([\d.]+)s.*$", re.MULTILINE)
_KIND: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*"
    r"([A-Z]\w*(?:Error|Exception|Exit|Interrupt|Iteration|Warning)|Failed)\b(?:: ?(.*))?$",
    re.DOTALL,
)
# pytest qualifies a class with its module: decimal.InvalidOperation is recognised as an exception
# only by its position. A few old library exceptions have lower-case names: re.error,
# socket.timeout.
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
    """The number of failed tests and errors in the last line."""
    summary: str
    seconds: float

    @property
    def ok(self) -> bool:
        """True if at least one test passed and none failed."""
        return self.passed > 0 and self.broken == 0 and not self.failures

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the failures."""
        return frozenset([failure.id for failure in self.failures])

    @property
    def collecting(self) -> bool:
        """True if a test file could not be loaded."""
        return any(failure.collecting for failure in self.failures)


def parse_pytest(text: str) -> PytestReport | None:
    """Returns the report in `text`, or None if it holds no test run."""
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
    # It ends pytest before there is a section or a summary: all following text belongs to it.
    conftest = _CONFTEST.search(text)
    if conftest is not None and not checks:
        sections = {f"ERROR collecting {conftest[1]}": text[conftest.end() :]}
        return (_failure(conftest[1], errored=True, said="", sections=sections),)
    return tuple(checks.values())


def _sections(text: str) -> dict[str, str]:
    """Returns the traceback of each failure by its title."""
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
    printed = "\n".join([match[1] or match[0] for match in _SAYS.finditer(body)])
    return Check(test, "error" if errored else "failed", error, message, _places(body), printed)


def _kind(lines: list[str], said: str) -> tuple[str, str]:
    """Returns the exception's class and message; a bare `assert` is an AssertionError."""
    # The last `E` line that names a class: in a chain of exceptions it is the raised one.
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

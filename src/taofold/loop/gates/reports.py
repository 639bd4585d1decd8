"""Parses machine-readable reports of test runners, linters and compilers to checks. Pure.

`stream` reads the lines of our own reporters (`runners/`): a line without the nonce was written by
the tested code, not by the reporter. `printed_report` reads the output of cargo, go, ruff, mypy and
tsc, and the files that a linter reports to check. A finding of a linter or type checker is a
failing check. Its id holds the file, the rule and the message but no line, so that it stays the
same when lines move. A finding that is gone counts as passed.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import structs

from taofold.core.failing_checks import Check, Location, Status
from taofold.core.text import excerpt
from taofold.core.values import Value
from taofold.diagnostics import loading_error
from taofold.loop.verdict import Runner

MOST_CHECKS: Final = 20_000
"""The most checks of one gate; a larger report is rejected."""
MESSAGE: Final = 1_000
TRACEBACK: Final = 4_000
_RANK: Final[dict[Status, int]] = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}


class RunnerReport(Value, frozen=True):
    """The parsed report of one run. `whole` = it is complete and nothing in it is doubtful."""

    checks: tuple[Check, ...] = ()
    collected: tuple[str, ...] = ()
    whole: bool = False
    code: int | None = None
    """The exit code with which the runner was about to end, if it reports it."""
    patched: dict[str, str] = {}
    """Parts of the runner that were replaced, each with the file of the new one."""
    plugins: tuple[str, ...] = ()
    toolchain: tuple[str, ...] = ()
    """Files of the work root that are part of the runner itself: plugins."""
    files: tuple[str, ...] = ()
    """The files that a linter checked."""
    doubts: tuple[str, ...] = ()


class _Line(msgspec.Struct):
    """One line of a reporter, of any kind."""

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
    """Returns the report that our reporter sent as JSON lines."""
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
        # The nonce is not secret from code in the same process; it separates mistakes from reports.
        if line.n != nonce:
            doubts.append("the report holds a line that its reporter did not write")
        # The reporter's last line comes after all tests: a later line is not from the reporter.
        elif ended is not None:
            doubts.append("the report goes on after its end")
        elif line.k == "collected":
            collected += [relative(name, root) for name in line.ids]
        elif line.k == "check" and not (line.suite and line.status == "passed"):
            checks.append(_check(line, root))
        elif line.k == "end":
            ended = line
    if len(checks) > MOST_CHECKS:
        doubts.append(f"the report holds more than {MOST_CHECKS:,} checks")
        checks = checks[:MOST_CHECKS]
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
    error, message, trace = line.type, line.message, line.trace
    places = [Location(path, number, name) for path, number, name in line.places]
    # The error of unittest's loader only wraps the actual error.
    quoted = loading_error(trace) if error == "ImportError" else None
    if quoted is not None:
        error, message, trace = quoted.error_type, quoted.message, quoted.printed
        places = list(quoted.places)
    places = [structs.replace(place, path=relative(place.path, root)) for place in places]
    return check(relative(line.id, root), line.status, error, message, places, trace, line.ms)


def check(
    name: str,
    status: Status,
    error_type: str = "",
    message: str = "",
    places: Iterable[Location] = (),
    trace: str = "",
    ms: int = 0,
) -> Check:
    """Returns a check with its texts cut to a useful length."""
    # Some runners write the class before its message, some with its module.
    named = re.match(rf"(?:\w+\.)*{re.escape(error_type)}: ", message) if error_type else None
    said = message[named.end() :] if named else message
    return Check(
        name[:500],
        status,
        error_type[:200],
        excerpt(said, MESSAGE) if error_type else said[:MESSAGE],
        # `<frozen codecs>` and `<string>` are not files.
        tuple([location for location in places if not location.path.startswith("<")])[-20:],
        excerpt(trace, TRACEBACK),
        ms,
    )


def worst(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Returns one check per id, the worst, so that reporting a test twice gains nothing."""
    by_id: dict[str, Check] = {}
    for check in checks:
        # The worst counts: a test that is reported twice must have passed twice.
        before = by_id.get(check.id)
        if before is None or _RANK[check.status] > _RANK[before.status]:
            by_id[check.id] = check
    return tuple(by_id.values())


def numbered_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Numbers findings with equal ids, so that each is one check."""
    counts: dict[str, int] = {}
    unique: list[Check] = []
    for check in checks:
        counts[check.id] = counts.get(check.id, 0) + 1
        # Linters report the same message for several lines, and an id holds no line.
        if counts[check.id] > 1:
            check = structs.replace(check, id=f"{check.id} #{counts[check.id]}")
        unique.append(check)
    return tuple(unique[:MOST_CHECKS])


def relative(path: str, root: str) -> str:
    """Returns `path` relative to `root`; others unchanged."""
    return path.removeprefix("file://").removeprefix(root.rstrip("/") + "/")


def rows(text: str) -> list[dict[str, Any]]:
    """Returns the lines of `text` that are JSON objects; all others are ignored."""
    objects: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                objects.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
    return objects


_BINARY: Final = re.compile(
    r"(?m)^\s+(?:Running (?P<run>.+?) \((?P<file>\S+)\)|Doc-tests (?P<doc>\S+))\s*$"
)
_RUNNING: Final = re.compile(r"(?m)^running (\d+) tests?$")
_TEST: Final = re.compile(
    r"(?m)^test (?P<name>.+?)(?: - should panic)? \.\.\. (?P<said>ok|FAILED|ignored)\b"
)
_RESULT: Final = re.compile(
    r"(?m)^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored;"
)
_OUTPUT: Final = re.compile(
    r"(?ms)^---- (?P<name>.+?) stdout ----\n(?P<said>.*?)(?=^---- .+? stdout ----$|^failures:$|\Z)"
)
_PANIC: Final = re.compile(r"panicked at (?:'.*?', )?(?P<path>[^\s:]+):(?P<line>\d+):\d+:?\n?")
_COMPILER: Final = re.compile(
    r"(?m)^error(?:\[(?P<code>E\d+)\])?: (?P<said>.+)\n\s+--> (?P<path>[^:\n]+):(?P<line>\d+)"
)
_LINE: Final = re.compile(r" \(line \d+\)\Z")
"""The line of a documentation example, which changes when lines above it do."""
_STATUS: Final[dict[str, Status]] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def cargo(text: str) -> RunnerReport:
    """Returns one check per test, named by its binary's source; compiler errors are errors."""
    checks: list[Check] = []
    doubts: list[str] = []
    heads = list(_BINARY.finditer(text))
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        part = text[head.end() : end]
        results, doubt = _binary(part, head["run"] or f"doc {head['doc']}")
        checks += results
        doubts += [doubt] if doubt else []
    errors = [
        check(
            f"{match['path']}: {match['code'] or 'error'} {match['said']}",
            "error",
            match["code"] or "error",
            match["said"],
            [Location(match["path"], int(match["line"]))],
        )
        for match in _COMPILER.finditer(text)
    ]
    whole = bool(heads) and not doubts and not errors
    return RunnerReport(worst([*errors, *checks]), whole=whole, doubts=tuple(doubts))


def _binary(text: str, name: str) -> tuple[list[Check], str]:
    outputs = {match["name"]: match["said"] for match in _OUTPUT.finditer(text)}
    tests = list(_TEST.finditer(text))
    checks = [
        _cargo_check(name, m["name"], _STATUS[m["said"]], outputs.get(m["name"], "")) for m in tests
    ]
    running, results = _RUNNING.findall(text), _RESULT.findall(text)
    if len(running) != 1 or len(results) != 1:
        return checks, f"{name} did not come to its end"
    counts = [sum([result.status == status for result in checks]) for status in _STATUS.values()]
    # A test that prints such lines itself makes them differ from cargo's count.
    if counts != [int(count) for count in results[0]] or len(tests) != int(running[0]):
        return checks, f"{name} printed other results than it counted"
    return checks, ""


def _cargo_check(binary: str, name: str, status: Status, result: str) -> Check:
    name = _LINE.sub("", name)
    if status != "failed":
        return check(f"{binary}::{name}", status)
    panic = _PANIC.search(result)
    places = [Location(panic["path"], int(panic["line"]))] if panic else []
    message = result[panic.end() :].strip().partition("\nnote:")[0] if panic else result.strip()
    return check(f"{binary}::{name}", status, "panic", message, places, result)


_PLACE: Final = re.compile(r"(?m)^\s*(?P<path>[\w./-]+\.go):(?P<line>\d+): ?(?P<said>.*)$")
_GO_PANIC: Final = re.compile(r"(?m)^panic: (?P<said>.*?)(?: \[recovered.*\])?$")
_GO_FRAME: Final = re.compile(
    r"(?m)^\S*?(?P<function>\w+)\(.*\)\n\t(?P<path>/\S+\.go):(?P<line>\d+)"
)
_COURSE: Final = re.compile(r"=== |\s*--- ")
_CUT_OFF: Final = "taofold: these tests did not come to their end"
"""The output of `go_exec.sh` for a binary that ended before its tests did."""
_ENDED: Final[dict[str, Status]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def go(text: str, root: str) -> RunnerReport:
    """Returns one check per test; a package that failed without a failing test is an error."""
    output: dict[tuple[str, str], list[str]] = {}
    checks: list[Check] = []
    open_packages: set[str] = set()
    failed: set[str] = set()
    for row in rows(text):
        package, test = str(row.get("Package") or row.get("ImportPath") or ""), _said(row, "Test")
        action = _said(row, "Action")
        if action == "start":
            open_packages.add(package)
        elif action in ("output", "build-output"):
            output.setdefault((package, test), []).append(_said(row, "Output"))
        elif action in _ENDED and test:
            printed = "".join(output.get((package, test), ()))
            # The package fails because of its test: this is not a second failure.
            failed |= {package} if action == "fail" else set()
            checks.append(_go_check(f"{package}.{test}", _ENDED[action], printed, row, root))
        elif action in ("fail", "build-fail") and package not in failed:
            printed = "".join(output.get((package, ""), ()))
            checks.append(_go_check(package, "error", printed, row, root))
            open_packages.discard(package)
        elif action in _ENDED:
            open_packages.discard(package)
    # A binary that ends before its tests have run has printed their results itself.
    forged = [
        package
        for (package, _), lines in output.items()
        if any([line.startswith(_CUT_OFF) for line in lines])
    ]
    claimed = [
        package
        for package in dict.fromkeys(forged)
        if any([c.status == "passed" and c.id.startswith(f"{package}.") for c in checks])
    ]
    doubts = [f"{package} ended before its tests did, and printed results" for package in claimed]
    # A package that began and did not end was cut off.
    whole = bool(checks) and not open_packages - failed and not doubts
    return RunnerReport(worst(checks), whole=whole, doubts=tuple(doubts))


def _go_check(name: str, status: Status, printed: str, row: dict[str, Any], root: str) -> Check:
    elapsed = row.get("Elapsed", 0)
    ms = int(elapsed * 1000) if isinstance(elapsed, int | float) else 0
    if status in ("passed", "skipped"):
        return check(name, status, ms=ms)
    panic = _GO_PANIC.search(printed)
    if panic is not None:
        return check(name, status, "panic", panic["said"], _go_frames(printed, root), printed, ms)
    positions = list(_PLACE.finditer(printed))
    places = [Location(match["path"], int(match["line"])) for match in positions]
    kind = "build" if status == "error" else "FAIL"
    # Go's own lines about a test's progress are not messages.
    lines = [line for line in printed.splitlines() if line.strip() and not _COURSE.match(line)]
    message = positions[0]["said"] if positions else next(iter(lines), "").strip()
    return check(name, status, kind, message, places, printed, ms)


def _go_frames(printed: str, root: str) -> list[Location]:
    """Returns the frames of a panic's goroutine below `root`, the innermost last."""
    frames = [
        Location(relative(match["path"], root), int(match["line"]), match["function"])
        for match in _GO_FRAME.finditer(printed)
    ]
    return [frame for frame in reversed(frames) if not frame.path.startswith("/")]


def _said(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


_TSC: Final = re.compile(
    r"(?m)^(?P<path>[^\s(][^(\n]*)\((?P<line>\d+),\d+\): error (?P<code>TS\d+): (?P<said>.*)$"
)
_PARSING: Final = re.compile(r"(?m)^LOG:  Parsing (.+) \([\w.]+\)$")
_LISTED: Final = re.compile(r"(?m)^(/.+\.(?:[cm]?[jt]sx?|pyi?|ipynb))$")
_CHATTER: Final = re.compile(r"(?m)^(?:LOG:  .*|/.+\.d\.ts)\n?")
_INSTALLED: Final = ("node_modules", "site-packages", "typeshed")
_ERROR: Final = 2
"""ESLint's severity of an error."""
_TSC_BARE: Final = re.compile(r"(?m)^error (?P<code>TS\d+): (?P<said>.*)$")


def ruff(text: str, root: str) -> RunnerReport:
    """Reads the lines of `ruff check --output-format json-lines`."""
    findings: list[Check] = []
    for row in rows(text):
        if "filename" in row and "message" in row:
            path = relative(str(row["filename"]), root)
            line = _number(row.get("location"), "row")
            # A syntax error has no code.
            findings.append(_finding(path, line, str(row.get("code") or "syntax"), row["message"]))
    return RunnerReport(numbered_checks(findings), whole=True)


def mypy(text: str, root: str) -> RunnerReport:
    """Reads the lines of `mypy --output json`, without notes."""
    findings: list[Check] = []
    for row in rows(text):
        # Notes belong to the error above them.
        if row.get("severity") == "error" and "file" in row:
            path = relative(str(row["file"]), root)
            line = _number(row, "line")
            findings.append(
                _finding(path, line, str(row.get("code") or "misc"), row.get("message"))
            )
    return RunnerReport(numbered_checks(findings), whole=True)


def tsc(text: str, root: str) -> RunnerReport:
    """Reads the lines of `tsc --pretty false`."""
    findings = [
        _finding(relative(m["path"], root), int(m["line"]), m["code"], m["said"])
        for m in _TSC.finditer(text)
    ]
    findings += [_finding("", 0, m["code"], m["said"]) for m in _TSC_BARE.finditer(text)]
    return RunnerReport(numbered_checks(findings), whole=True)


def eslint(text: str, root: str) -> RunnerReport:
    """Reads `eslint --format json`; warnings are not findings."""
    findings = [
        _finding(
            relative(str(row.get("filePath", "")), root),
            _number(each, "line"),
            str(each.get("ruleId") or "syntax"),
            each.get("message"),
        )
        for row in _eslint_rows(text)
        for each in row.get("messages", ())
        if each.get("severity") == _ERROR
    ]
    return RunnerReport(numbered_checks(findings), whole=True)


def _eslint_rows(text: str) -> list[dict[str, Any]]:
    """Returns ESLint's rows, one per checked file."""
    for line in text.splitlines():
        if line.startswith("["):
            try:
                return msgspec.json.decode(line, type=list[dict[str, Any]])
            except msgspec.DecodeError:
                continue
    return []


def files(runner: Runner, text: str, root: str) -> tuple[str, ...]:
    """Returns the files of the project that a linter reports to check."""
    match runner:
        case "mypy":
            names = _PARSING.findall(text)
        case "ruff" | "tsc":
            names = _LISTED.findall(text)
        case "eslint":
            names = [str(row.get("filePath", "")) for row in _eslint_rows(text)]
        case _:
            return ()
    # mypy names files as they were asked for: `mypy .` looks at `./a.py`.
    paths = {relative(name, root).removeprefix("./") for name in names}
    inside = [n for n in paths if not n.startswith("/") and not {*n.split("/")} & {*_INSTALLED}]
    return tuple(sorted(inside))


def printed_report(runner: Runner, text: str, root: str, census: str = "") -> RunnerReport:
    """Returns the report of a runner that prints it; empty and whole for others."""
    report = _printed(runner, text, root)
    paths = files(runner, census or text, root)
    return structs.replace(report, files=paths)


def _printed(runner: Runner, text: str, root: str) -> RunnerReport:
    match runner:
        case "go":
            return go(text, root)
        case "cargo":
            return cargo(text)
        case "tsc":
            return tsc(text, root)
        case "ruff":
            return ruff(text, root)
        case "mypy":
            return mypy(text, root)
        case "eslint":
            return eslint(text, root)
        case _:
            return RunnerReport(whole=True)


def readable_output(runner: Runner, text: str) -> str:
    """Returns the output in a form for users."""
    if runner == "eslint":
        found = _eslint_rows(text)
        lines = [
            f"{row.get('filePath')}:{_number(each, 'line')} {each.get('ruleId')} "
            f"{each.get('message')}"
            for row in found
            for each in row.get("messages", ())
        ]
        return "\n".join(lines) if found else text
    return _CHATTER.sub("", text) if runner in ("mypy", "tsc") else text


def _finding(path: str, line: int, code: str, text: Any) -> Check:
    message = str(text)
    name = f"{path}: {code} {message}".lstrip(": ")
    return check(name, "failed", code, message, [Location(path, line)] if path else [])


def _number(row: Any, key: str) -> int:
    value = row.get(key, 0) if isinstance(row, dict) else 0  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value if isinstance(value, int) else 0

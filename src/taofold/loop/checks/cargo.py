"""Reads what `cargo test` prints: libtest's text, since its JSON is not stable. Pure.

Each binary says `running N tests` and ends with `test result:`, whose counts must agree with
the lines between; otherwise something else printed them.
"""

import re
from typing import Final

from taofold.loop.check import Check, Place, Status
from taofold.loop.checks.report import Report, check, worst

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
"""Where an example of the documentation stands: it moves when lines above it do."""
_STATUS: Final[dict[str, Status]] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def cargo(text: str) -> Report:
    """One check per test, named by its binary's source; compiler errors are errors."""
    checks: list[Check] = []
    doubts: list[str] = []
    heads = list(_BINARY.finditer(text))
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(text)
        part = text[head.end() : end]
        found, doubt = _binary(part, head["run"] or f"doc {head['doc']}")
        checks += found
        doubts += [doubt] if doubt else []
    errors = [
        check(
            f"{match['path']}: {match['code'] or 'error'} {match['said']}",
            "error",
            match["code"] or "error",
            match["said"],
            [Place(match["path"], int(match["line"]))],
        )
        for match in _COMPILER.finditer(text)
    ]
    whole = bool(heads) and not doubts and not errors
    return Report(worst([*errors, *checks]), whole=whole, doubts=tuple(doubts))


def _binary(text: str, name: str) -> tuple[list[Check], str]:
    said = {match["name"]: match["said"] for match in _OUTPUT.finditer(text)}
    tests = list(_TEST.finditer(text))
    found = [_check(name, m["name"], _STATUS[m["said"]], said.get(m["name"], "")) for m in tests]
    running, results = _RUNNING.findall(text), _RESULT.findall(text)
    if len(running) != 1 or len(results) != 1:
        return found, f"{name} did not come to its end"
    counts = [sum([one.status == status for one in found]) for status in _STATUS.values()]
    if counts != [int(count) for count in results[0]] or len(tests) != int(running[0]):
        return found, f"{name} printed other results than it counted"
    return found, ""


def _check(binary: str, name: str, status: Status, said: str) -> Check:
    name = _LINE.sub("", name)
    if status != "failed":
        return check(f"{binary}::{name}", status)
    panic = _PANIC.search(said)
    places = [Place(panic["path"], int(panic["line"]))] if panic else []
    message = said[panic.end() :].strip().partition("\nnote:")[0] if panic else said.strip()
    return check(f"{binary}::{name}", status, "panic", message, places, said)

"""Findings of ruff, mypy and tsc. Each is a failing check; what is no longer found passes.

An id holds the file, the rule and the message but no line, so that it stays the same when
lines move. Pure.
"""

import re
from typing import Any, Final

from taofold.loop.check import Check, Place, Runner
from taofold.loop.checks.report import Report, check, numbered, relative, rows

_TSC: Final = re.compile(
    r"(?m)^(?P<path>[^\s(][^(\n]*)\((?P<line>\d+),\d+\): error (?P<code>TS\d+): (?P<said>.*)$"
)
_PARSING: Final = re.compile(r"(?m)^LOG:  Parsing (.+) \([\w.]+\)$")
_LISTED: Final = re.compile(r"(?m)^(/.+\.(?:[cm]?[jt]sx?|pyi?|ipynb))$")
_CHATTER: Final = re.compile(r"(?m)^(?:LOG:  .*|/.+\.d\.ts)\n?")
_INSTALLED: Final = ("node_modules", "site-packages", "typeshed")
_TSC_BARE: Final = re.compile(r"(?m)^error (?P<code>TS\d+): (?P<said>.*)$")


def ruff(text: str, root: str) -> Report:
    """Lines of `ruff check --output-format json-lines`."""
    found: list[Check] = []
    for row in rows(text):
        if "filename" in row and "message" in row:
            path = relative(str(row["filename"]), root)
            line = _number(row.get("location"), "row")
            found.append(_finding(path, line, str(row.get("code") or "syntax"), row["message"]))
    return Report(numbered(found), whole=True)


def mypy(text: str, root: str) -> Report:
    """Lines of `mypy --output json`; notes are left out."""
    found: list[Check] = []
    for row in rows(text):
        if row.get("severity") == "error" and "file" in row:
            path = relative(str(row["file"]), root)
            line = _number(row, "line")
            found.append(_finding(path, line, str(row.get("code") or "misc"), row.get("message")))
    return Report(numbered(found), whole=True)


def tsc(text: str, root: str) -> Report:
    """Lines of `tsc --pretty false`."""
    found = [
        _finding(relative(m["path"], root), int(m["line"]), m["code"], m["said"])
        for m in _TSC.finditer(text)
    ]
    found += [_finding("", 0, m["code"], m["said"]) for m in _TSC_BARE.finditer(text)]
    return Report(numbered(found), whole=True)


def files(runner: Runner, text: str, root: str) -> tuple[str, ...]:
    """The files of the project that a linter says it looked at."""
    match runner:
        case "mypy":
            names = _PARSING.findall(text)
        case "ruff" | "tsc":
            names = _LISTED.findall(text)
        case _:
            return ()
    found = {relative(name, root) for name in names}
    inside = [n for n in found if not n.startswith("/") and not {*n.split("/")} & {*_INSTALLED}]
    return tuple(sorted(inside))


def shown(runner: Runner, text: str) -> str:
    """What a person wants to read of it."""
    return _CHATTER.sub("", text) if runner in ("mypy", "tsc") else text


def _finding(path: str, line: int, code: str, said: Any) -> Check:
    message = str(said)
    name = f"{path}: {code} {message}".lstrip(": ")
    return check(name, "failed", code, message, [Place(path, line)] if path else [])


def _number(row: Any, key: str) -> int:
    value = row.get(key, 0) if isinstance(row, dict) else 0  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value if isinstance(value, int) else 0

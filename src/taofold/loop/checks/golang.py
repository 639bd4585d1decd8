"""Reads `go test -json`: one event per line, `Package`, `Test`, `Action`, `Output`. Pure."""

import re
from typing import Any, Final

from taofold.loop.check import Check, Place, Status
from taofold.loop.checks.report import Report, check, rows, worst

_PLACE: Final = re.compile(r"(?m)^\s*(?P<path>[\w./-]+\.go):(?P<line>\d+): ?(?P<said>.*)$")
_ENDED: Final[dict[str, Status]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def go(text: str, root: str) -> Report:
    """One check per test; a package that failed without a failing test is an error."""
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
            said = "".join(output.get((package, test), ()))
            failed |= {package} if action == "fail" else set()
            checks.append(_check(f"{package}.{test}", _ENDED[action], said, row))
        elif action in ("fail", "build-fail") and package not in failed:
            said = "".join(output.get((package, ""), ()))
            checks.append(_check(package, "error", said, row))
            open_packages.discard(package)
        elif action in _ENDED:
            open_packages.discard(package)
    return Report(worst(checks), whole=bool(checks) and not open_packages - failed)


def _check(name: str, status: Status, said: str, row: dict[str, Any]) -> Check:
    elapsed = row.get("Elapsed", 0)
    ms = int(elapsed * 1000) if isinstance(elapsed, int | float) else 0
    if status in ("passed", "skipped"):
        return check(name, status, ms=ms)
    found = list(_PLACE.finditer(said))
    places = [Place(match["path"], int(match["line"])) for match in found]
    kind = "panic" if "panic: " in said else "build" if status == "error" else "FAIL"
    message = found[0]["said"] if found else said.strip().partition("\n")[0]
    return check(name, status, kind, message, places, said, ms)


def _said(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""

"""Is this goal one for the repair policy, and how are its tests run?"""

import re
from typing import Final

COMMAND: Final = "python -m pytest -q --tb=short"
"""How the tests are run where neither goal nor instructions say it."""
_TESTS: Final = re.compile(r"(?i)\b(?:unit)?tests?\b|\bpytest\b|\btest suite\b")
_REPAIR: Final = re.compile(
    r"(?i)\b(?:fail\w*|fix\w*|repair\w*|pass|passes|passing|green|broken|red|bugs?|debug)\b"
)
_OTHER: Final = re.compile(
    r"(?i)^\W*(?:please\s+)?(?:write|add|create|generate|delete|remove|skip|disable|explain|describe"
    r"|summari[sz]e|translate|list|count|rename)\b"
)
_NAMED: Final = re.compile(
    r"(?:[\w./-]*python[\d.]*(?: -[A-Za-z]+)*? -m )?(?<![\w./-])(?:[\w./-]*/)?pytest\b"
    r"(?:[ ](?:-[\w-]+(?:=[\w./:-]+)?|[\w./-]+\.py(?:::\w+)*|tests?/?[\w./-]*))*"
)
_STOP_EARLY: Final = re.compile(r" (?:-x|--exitfirst|--maxfail=\d+|--tb=\w+)(?= |$)")


def about_tests(goal: str) -> bool:
    """Is `goal` to make failing tests pass? Reference data below it does not count."""
    said = re.split(r"(?i)^#+ .*learning context", goal, maxsplit=1, flags=re.MULTILINE)[0]
    return bool(_TESTS.search(said) and _REPAIR.search(said) and not _OTHER.match(said))


def command_in(said: str) -> str:
    """The command that people named, without what stops at the first failure."""
    found = _NAMED.search(said)
    if found is None or found[0] == "pytest":
        return COMMAND
    return f"{_STOP_EARLY.sub('', found[0]).rstrip('.')} --tb=short"

"""Finds in the run before iteration 1 that a gate names something which is not there. Pure.

Only the program's own word for it counts, about exactly what the command names: a module that
a test cannot import is what the loop may be there to repair.
"""

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from taofold.loop.check import Gate, GateResult

_PYTHON: Final = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?")
_SHELL_LACKS: Final = re.compile(
    r"^\S*sh: (?:line \d+: |\d+: )?(\S+): (?:command )?not found", re.MULTILINE
)
_NOT_FOUND: Final = 127
_PYTHON_TOOLS: Final = {"pytest": "pytest", "unittest": "unittest"}


def absent(results: Iterable[GateResult]) -> tuple[Gate, str] | None:
    """The first gate that can never be run as it is written, and why; None if all could."""
    for result in results:
        why = "" if result.passed else _why(result)
        if why:
            return result.gate, why
    return None


def _why(result: GateResult) -> str:
    if result.code is None and not result.timed_out and not result.output:
        return next((one for one in result.reasons if "cannot be started" in one), "")
    if result.code == _NOT_FOUND:
        words = set(re.split(r"[\s;|&()]+", result.gate.command))
        lacking = [name for name in _SHELL_LACKS.findall(result.output) if name in words]
        return f"there is no program {lacking[0]!r}" if lacking else ""
    name = _module(result)
    if name and not result.checks and _lacks(result.output, name):
        python = next((one for one in result.ran if _is_python(one)), "python")
        made = shlex.join(["sh", "-c", result.gate.command])
        return (
            f"{python} has no module {name!r}. Install it there; or, if the work is to make it, "
            f"say {made!r}"
        )
    return ""


def _module(result: GateResult) -> str:
    """The module that the command starts with `python -m`, or that a test runner is."""
    words = result.gate.argv
    for at, word in enumerate(words[:-2]):
        if _is_python(word) and words[at + 1] == "-m":
            return words[at + 2]
    return _PYTHON_TOOLS.get(result.runner, "")


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(PurePath(word).name) is not None


def _lacks(output: str, name: str) -> bool:
    """Does Python end with the word that it has no such module?"""
    last = output.strip().rpartition("\n")[2].strip()
    top = name.partition(".")[0]
    return (
        last.endswith((f": No module named {name}", f": No module named {name!r}"))
        or last == f"ModuleNotFoundError: No module named {name!r}"
        or (f"finding module specification for {name!r}" in last and f"named {top!r}" in last)
    )

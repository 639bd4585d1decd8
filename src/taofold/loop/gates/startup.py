"""Finds what a gate could not start: its program, a script's interpreter, or a called program.

Checks the files that a command names beforehand, and the exit code and output of shells, `env`,
`make` and the container afterwards. Programs called by a bare name are looked up on the gates'
`PATH`, which the agent's work is not part of. Programs called by a path may be the product, and are
not checked. Runs nothing.
"""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from taofold.tools.process import shebang

_EXEC_FAILED: Final = re.compile(r"bwrap: execvp [^\n]+: ([^\n:]+)\n*")
"""The complete output if the container cannot start the program."""
_BARE: Final = r"([^\s/:'‘’\"]+)"
_LACKED: Final = (
    re.compile(rf"(?m)^[^\s:]+: (?:(?:line )?\d+: )?{_BARE}: (?:command )?not found$"),
    re.compile(rf"(?m)^\S*env: ['‘]?{_BARE}['’]?: No such file or directory$"),
    re.compile(rf"(?m)^make(?:\[\d+\])?: {_BARE}: No such file or directory$"),
)
"""The output of shells, `env` and `make` for a missing program."""
_SHIM: Final = re.compile(
    r"(?m)^([^\n:]+): line \d+: (/[^\n:]+): (?:not found|No such file or directory)$"
)
"""The output of a shell whose script, such as a shim, starts a missing program."""
_NOT_FOUND: Final = 127


class Unstarted(NamedTuple):
    """Something that a gate could not start."""

    why: str
    """Its name, and the place where it was searched."""
    whole: bool
    """True if it was the gate itself, so that nothing of it ran."""


def unstarted(
    program: Path,
    root: Path,
    path: str,
    code: int | None,
    printed: str,
    seen: Path | None = None,
) -> Unstarted | None:
    """Returns what could not be started; None if nothing is known to be missing.

    Args:
        program: The path of the gate's program for this process.
        root: The folder with the gate's view of the work root.
        path: The gates' `PATH`.
        code: The exit code; None = the operating system refused to start the program.
        printed: The output.
        seen: The work root from which the tree's links lead; `root` by default.
    """
    refused = _EXEC_FAILED.fullmatch(printed)
    if code is None or (code == 1 and refused):
        return Unstarted(
            _refused(program, root, seen or root, "" if refused is None else refused[1]), True
        )
    by_make = code == 2 and f"Error {_NOT_FOUND}" in printed
    if code == _NOT_FOUND or by_make:
        # The last one ended the command; earlier ones may have been optional.
        shim = _SHIM.search(printed)
        if shim and shim[1] == str(program):
            why = (
                f"{program} cannot be started: it is a script that starts {shim[2]!r}, which a "
                "contained gate does not see. Name the program itself by its full path"
            )
            return Unstarted(why, True)
        names = [match for pattern in _LACKED for match in pattern.findall(printed)]
        if names:
            why = f"there is no program {names[-1]!r} on the gates' PATH ({path})"
            return Unstarted(why, names[-1] == shebang(program)[1])
    return None


def _refused(program: Path, root: Path, seen: Path, error: str) -> str:
    """Returns why the operating system, or the container, did not start the program."""
    name = program.relative_to(root).as_posix() if program.is_relative_to(root) else str(program)
    for part in reversed([program, *program.parents]):
        # A container shows the work root, not the targets of links in it.
        if part != root and part.is_relative_to(root) and part.is_symlink():
            link = part.relative_to(root).as_posix()
            target = Path(os.path.realpath(seen / Path(link).parent / part.readlink()))
            if not target.is_relative_to(seen.resolve()):
                return (
                    f"{name} cannot be started: {link!r} is a link to {str(target)!r}, outside of "
                    "the work root, which a contained gate does not see. Have the folder itself in "
                    "the work root, or name a program outside of it by its full path"
                )
    interpreter, _ = shebang(program)
    if interpreter and not Path(interpreter).exists():
        return f"{name} cannot be started: its first line names {interpreter!r}, which is not there"
    return f"{name} cannot be started{f': {error}' if error else ''}"

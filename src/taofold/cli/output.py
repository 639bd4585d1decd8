"""Output and exit codes of commands.

Results go to standard output, messages to standard error. Exit codes, also those of errors
(`explain`): 0 success, 1 the goal was not reached, 2 usage or configuration, 3 waiting for an
approval or answer, 130 interrupted.

`invocation` returns the program's own command, for suggestions.
"""

import errno
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import typer

from taofold.cli.tracebacks import redacted
from taofold.core.errors import (
    ConfigError,
    Conflict,
    Incompatible,
    LogError,
    Refused,
    ReplayDiverged,
    RunError,
    TaofoldError,
)
from taofold.core.text import times, visible

if TYPE_CHECKING:
    from taofold.core.state import RunState


OK: Final = 0
UNREACHED: Final = 1
USAGE: Final = 2
WAITING: Final = 3
INTERRUPTED: Final = 130


def code_of(state: "RunState") -> int:
    """Returns the exit code of a run in `state` (D1)."""
    if state.status == "waiting":
        return WAITING
    if state.status == "cancelled":
        return INTERRUPTED
    return OK if state.success else UNREACHED


def say(text: str = "") -> None:
    """Prints a message to standard error."""
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()


def give(text: str) -> None:
    """Prints a result to standard output. On a terminal, control characters are made visible."""
    sys.stdout.write(f"{visible(text, prose=True) if sys.stdout.isatty() else text}\n")
    sys.stdout.flush()


def give_json(value: Any, *, indent: int | None = 2) -> None:
    """Prints a result as JSON."""
    give(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def fail(message: str, code: int = USAGE) -> NoReturn:
    """Prints an error and exits with `code`."""
    say(f"error: {message}")
    raise typer.Exit(code)


def explain(error: Exception) -> int | None:
    """Prints an error. Returns its exit code, or None if it is a bug."""
    if isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error)
        faults = leaves(error)
        # A group that contains a bug gets a traceback.
        if not all(isinstance(fault, TaofoldError) for fault in faults):
            return None
        say(f"error: {error.message}: {times(len(faults), 'fault')}")
        for fault in faults:
            say(f"  {redacted(str(fault), guesses=False)}")
        return USAGE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" ({error.filename})" if error.filename else ""
        say(f"error: the disk is full{where}: free some space, then continue")
        return UNREACHED
    if not isinstance(error, TaofoldError):
        return None
    # The text may quote an error of foreign code.
    say(f"error: {redacted(_text(error), guesses=False)}")
    # A wrong name of a run, a pattern or a loop.
    if isinstance(error, LookupError):
        return USAGE
    # By the exact class: `UnknownRun` and `Conflict` are `LogError`s with other codes.
    return _CODES.get(type(error), UNREACHED)


_CODES: Final[Mapping[type[Exception], int]] = {
    ConfigError: USAGE,
    Conflict: UNREACHED,
    Refused: UNREACHED,
    ReplayDiverged: UNREACHED,
    RunError: UNREACHED,
    LogError: USAGE,
    Incompatible: USAGE,
}
"""Exit codes by error. `cli.runs.drive.drive` handles a `LogError` during a run (1)."""


def leaves(error: Exception) -> list[Exception]:
    """Returns the errors in a group at any depth; a single error as a list."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    inner = cast("ExceptionGroup[Exception]", error).exceptions
    return [leaf for inner_error in inner for leaf in leaves(inner_error)]


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def invocation() -> str:
    """Returns the shell command of this program, valid in any folder."""
    me = Path(sys.argv[0]).absolute()
    # With `python -m`, argv[0] is a file of the package.
    if me.name != "taofold" or not me.is_file():
        return f"{quote(sys.executable)} -m taofold.cli"
    installed = shutil.which("taofold")
    # Another installation may be first on the PATH.
    return "taofold" if installed and me.samefile(installed) else quote(str(me))

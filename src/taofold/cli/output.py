"""What commands print (the result on standard output, prose on standard error) and end with.

Exit codes, also those of errors (`explain`): 0 success, 1 the goal was not reached, 2 usage or
configuration, 3 waiting for a person, 130 interrupted.

Also how the program itself is called, for the commands that a person is told to type.
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
    """The exit code of a run that is in `state` (D1)."""
    if state.status == "waiting":
        return WAITING
    if state.status == "cancelled":
        return INTERRUPTED
    return OK if state.success else UNREACHED


def say(text: str = "") -> None:
    """A line of prose, for the person: standard error."""
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()


def give(text: str) -> None:
    """The result: standard output, as it is; a terminal gets it without control characters."""
    sys.stdout.write(f"{visible(text, prose=True) if sys.stdout.isatty() else text}\n")
    sys.stdout.flush()


def give_json(value: Any, *, indent: int | None = 2) -> None:
    """The result as JSON."""
    give(json.dumps(value, ensure_ascii=False, indent=indent, default=str))


def fail(message: str, code: int = USAGE) -> NoReturn:
    """Say what is wrong and end with `code`."""
    say(f"error: {message}")
    raise typer.Exit(code)


def explain(error: Exception) -> int | None:
    """Say what `error` means; its exit code, None if it is a bug of ours."""
    if isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error)
        faults = leaves(error)
        # A group with one bug in it is a bug: it gets a traceback, not a tidy line.
        if not all(isinstance(fault, TaofoldError) for fault in faults):
            return None
        say(f"error: {error.message}: {times(len(faults), 'fault')}")
        for fault in faults:
            say(f"  {redacted(str(fault), guesses=False)}")
        return USAGE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f" ({error.filename})" if error.filename else ""
        say(f"error: the disk is full{where}: free some space, then go on where it stopped")
        return UNREACHED
    if not isinstance(error, TaofoldError):
        return None
    # It may quote what code of others raised.
    say(f"error: {redacted(_text(error), guesses=False)}")
    # What does not exist was named wrongly: a run, a pattern, a loop.
    if isinstance(error, LookupError):
        return USAGE
    # By the exact class: `UnknownRun` and `Conflict` are `LogError`s with codes of their own.
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
"""A log that fails a run that has begun is `cli.runs.drive.drive`'s to tell (1)."""


def leaves(error: Exception) -> list[Exception]:
    """The faults in a group, however deep; an error that is no group by itself."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    inner = cast("ExceptionGroup[Exception]", error).exceptions
    return [leaf for inner_error in inner for leaf in leaves(inner_error)]


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def invocation() -> str:
    """How a shell calls this very program, from any folder."""
    me = Path(sys.argv[0]).absolute()
    # Started with `python -m`: argv[0] is then a file of the package.
    if me.name != "taofold" or not me.is_file():
        return f"{quote(sys.executable)} -m taofold.cli"
    installed = shutil.which("taofold")
    # Another installation may come first on the PATH.
    return "taofold" if installed and me.samefile(installed) else quote(str(me))

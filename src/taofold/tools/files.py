"""The built-in file tools: list, read, search, write and edit below one directory.

Every path goes through `jail`; nothing here opens a file by name.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

from taofold.core.errors import ConfigError
from taofold.tools.context import Outcome
from taofold.tools.editing import Editing
from taofold.tools.jail import PROTECTED, jail
from taofold.tools.make import make
from taofold.tools.reading import Reading
from taofold.tools.tool import Tool
from taofold.tools.toolset import Toolset

TOOLSET: Final = "files"


def file_tools(
    root: Path | str, write: bool = True, *, protected: tuple[str, ...] = PROTECTED
) -> Toolset:
    """Tools for the files below `root`; without the writing ones if not `write`.

    Reads are tier 1. Writes are tier 2 and idempotent: after a crash they are repeated with
    the same result. Names in `protected` (default `.git`) are read-only at any depth, and
    `.taofold` does not exist for them.

    Raises:
        ConfigError: `root` is no directory.
    """
    try:
        inside = jail(root, protected=protected)
    except OSError as error:
        raise ConfigError(f"the work root {str(root)!r} cannot be used: {error}") from error
    reading = Reading(inside)
    tools: list[Tool] = [
        make(_told(function), effect="read", toolset=TOOLSET)
        for function in (reading.list_files, reading.read_file, reading.search)
    ]
    if write:
        editing = Editing(inside)
        tools += [
            make(
                _told(function),
                effect="idempotent",
                toolset=TOOLSET,
                preview=preview,
                sequential=True,
            )
            for function, preview in (
                (editing.write_file, editing.preview_write),
                (editing.edit_file, editing.preview_edit),
            )
        ]
    return Toolset(tools)


def _told(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """What the file system or the jail refuses becomes a failure that the model can read."""

    @wraps(function)
    def telling(*args: Any, **kwargs: Any) -> Outcome:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            return Outcome(f"it failed: {error.strerror or error}", "failure")
        except ValueError as error:
            return Outcome(str(error), "failure")

    return telling

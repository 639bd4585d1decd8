"""Finds out whether an agent started this process, and refuses what agents may not do.

A command that is not contained has the user's rights, so it can read what the user can: its
approval names that. A descendant of such a command is refused all the same: taofold marks the
environment of every process that it starts for an agent, and looks at the marks of its ancestors.
"""

import os
from pathlib import Path

from taofold.core.errors import Refused
from taofold.reserved_places import MARK, SERVER


def refuse(what: str, *, mcp: bool = False) -> None:
    """Go on only if no agent started this process.

    `mcp`: being started as the MCP server of an agent is in order, because then a client asks.

    Raises:
        Refused: One did. The message names the tool, and who can do it instead.
    """
    by = started_by()
    if by and not (mcp and by.startswith(SERVER)):
        raise Refused(
            f"a process that an agent started ({by}) may not {what}: "
            "a person does that, at a terminal or in the console"
        )


def started_by() -> str:
    """The tool through which an agent started this process or an ancestor; "" if none did."""
    mark = os.environ.get(MARK, "")
    pid = os.getppid()
    # A command can clear its own environment, not that of the processes it descends from.
    while not mark and pid > 1:
        mark, pid = _of(pid)
    return mark


def _of(pid: int) -> tuple[str, int]:
    """The mark that a process was started with, and its parent. Linux; elsewhere nothing."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "", 0
    start = f"{MARK}=".encode()
    marks = [variable for variable in environment.split(b"\0") if variable.startswith(start)]
    parent = status.rpartition(b")")[2].split()[1]  # the name before it may hold anything
    return (marks[0][len(start) :].decode("utf-8", "replace") if marks else ""), int(parent)

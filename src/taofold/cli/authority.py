"""Finds out whether an agent started this process, and refuses what agents may not do.

A command without a sandbox has the user's rights, which its approval shows. Its descendants are
refused all the same: taofold marks the environment of every process that it starts for an agent,
and checks the marks of its own ancestors.
"""

import os
from pathlib import Path

from taofold.core.errors import Refused
from taofold.reserved_places import MARK, SERVER


def refuse(what: str, *, mcp: bool = False) -> None:
    """Refuses a process that an agent started.

    `mcp`: an agent may start this process as its MCP server.

    Raises:
        Refused: An agent started it. The message names the tool.
    """
    by = started_by()
    if by and not (mcp and by.startswith(SERVER)):
        raise Refused(
            f"a process that an agent started ({by}) may not {what}: "
            "do it at a terminal or in the console"
        )


def started_by() -> str:
    """Returns the tool by which an agent started this process or an ancestor; "" if none did."""
    mark = os.environ.get(MARK, "")
    pid = os.getppid()
    # A command can clear its own environment, but not that of its ancestors.
    while not mark and pid > 1:
        mark, pid = _of(pid)
    return mark


def _of(pid: int) -> tuple[str, int]:
    """Returns a process's mark and its parent. Linux only; elsewhere "" and 0."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "", 0
    start = f"{MARK}=".encode()
    marks = [variable for variable in environment.split(b"\0") if variable.startswith(start)]
    parent = status.rpartition(b")")[2].split()[1]  # the name before it may contain anything
    return (marks[0][len(start) :].decode("utf-8", "replace") if marks else ""), int(parent)

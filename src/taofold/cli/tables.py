"""Lists as tables on standard output: coloured on a terminal, aligned text in a pipe."""

import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from taofold.cli.clean import ago, line

if TYPE_CHECKING:
    from taofold.runtime.setup import Approval
    from taofold.store.log import RunRow

_COLOURS: Final = {
    "finished": "green",
    "running": "cyan",
    "waiting": "yellow",
    "interrupted": "yellow",
    "forked": "cyan",
    "limited": "magenta",
    "failed": "red",
    "cancelled": "dim",
}


def runs_table(rows: "Sequence[RunRow]", now: int) -> None:
    """Runs, one line each."""
    told = [
        (row.run, row.status, ago(row.updated_at or row.created_at, now), line(row.agent, 20),
         _for(row), line(row.goal, 60))
        for row in rows
    ]  # fmt: skip
    table(("run", "status", "changed", "agent", "", "goal"), told)


def approvals_table(pending: "Sequence[Approval]", now: int, live: Collection[str]) -> None:
    """Pending actions, one line each; the runs `live` ask at a terminal of their own."""
    told = [
        (one.id, line(one.action.tool, 24), str(int(one.tier)), ago(one.asked_at, now),
         _until(one, now), "asked at a terminal" if one.run in live else "",
         line(one.question or one.preview, 70))
        for one in pending
    ]  # fmt: skip
    table(("id", "tool", "tier", "asked", "open", "", "what"), told)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _rich(head, rows)
        return
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (tuple(name.upper() for name in head), *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(head):
        last = position == len(head) - 1
        drawn.add_column(name, no_wrap=not last, overflow="fold" if last else "ellipsis")
    for row in rows:
        drawn.add_row(*[Text(cell, _COLOURS.get(cell, "")) for cell in row])
    Console(highlight=False).print(drawn)


def _for(row: "RunRow") -> str:
    if row.parent:
        return "child"
    return line(row.session, 16) if row.session else ""


def _until(one: "Approval", now: int) -> str:
    if not one.expires_at:
        return ""
    left = (one.expires_at - now) // 1000
    return f"{left} s" if left > 0 else "expired"

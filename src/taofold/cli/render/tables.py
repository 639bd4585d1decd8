"""Tables of runs, approvals and other rows, and times as `ago`.

On a terminal tables have colours, and columns that do not fit are left out. In a pipe they are
aligned text. Control characters in cells are made visible, so that foreign text cannot act on the
terminal.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from taofold.core.text import line, visible
from taofold.policy.redaction.views import shown_value

if TYPE_CHECKING:
    from taofold.log.log import RunRow
    from taofold.runtime.setup import Approval


def ago(then: int, now: int) -> str:
    """Returns the time since `then` in one unit, as in "3 min ago".

    Times are milliseconds since the epoch.
    """
    seconds = max(0, now - then) // 1000
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {name} ago"
    return f"{seconds} s ago"


_COLOURS: Final = {
    "finished": "green",
    "running": "cyan",
    "waiting": "yellow",
    "queued": "cyan",
    "interrupted": "yellow",
    "forked": "cyan",
    "rewound": "cyan",
    "limited": "magenta",
    "failed": "red",
    "cancelled": "dim",
    "completed": "green",
    "paused": "yellow",
    **dict.fromkeys(("exhausted", "timeout", "budget", "no_progress"), "magenta"),
    **dict.fromkeys(("crashed", "tampered"), "red"),
    "aborted": "dim",
}
_LEAST: Final = 20
"""Minimum characters of the last column."""


def runs_table(rows: "Sequence[RunRow]", now: int) -> None:
    """Prints runs, one per line."""
    table_rows = [
        (
            row.run,
            row.status,
            ago(row.updated_at or row.created_at, now),
            line(row.agent, 20),
            _for(row),
            line(shown_value(row.goal), 60),
        )
        for row in rows
    ]
    table(("run", "status", "changed", "agent", "", "goal"), table_rows)


def approvals_table(pending: "Sequence[Approval]", now: int, notes: Mapping[str, str]) -> None:
    """Prints pending actions, one per line; `notes` has remarks by id."""
    table_rows = [
        (
            approval.id,
            line(approval.action.tool, 24),
            str(int(approval.tier)),
            ago(approval.asked_at, now),
            _until(approval, now),
            notes[approval.id],
            line(approval.question or approval.preview, 70),
        )
        for approval in pending
    ]
    table(("id", "tool", "tier", "asked", "open", "", "what"), table_rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table. Control characters are made visible, and each cell is one line."""
    rows = [tuple([" ".join(visible(cell).splitlines()) for cell in row]) for row in rows]
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

    console = Console(highlight=False)
    columns = fitting(head, rows, console.width)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position in columns:
        # The first column is folded, not cut: other commands need whole ids.
        whole = position not in (0, len(head) - 1)
        drawn.add_column(head[position], no_wrap=whole, overflow="ellipsis" if whole else "fold")
    for row in rows:
        drawn.add_row(*[Text(row[at], _COLOURS.get(row[at], "")) for at in columns])
    console.print(drawn)


def fitting(head: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Returns the columns that fit into `room` characters; columns are never cut.

    The first column, which other commands need, always stays. Then come the second and the last
    one; the columns between them are dropped from the right.
    """
    widths = [max([len(row[at]) for row in (head, *rows)]) + 3 for at in range(len(head))]
    widths[-1] = min(widths[-1], _LEAST + 3)
    columns = list(range(len(head)))
    while len(columns) > 1 and sum([widths[at] for at in columns]) > room:
        # Of three columns the last one is dropped, so that the second stays.
        columns.pop(-2 if len(columns) > 3 else -1)
    return columns


def _for(row: "RunRow") -> str:
    if row.parent:
        return "child"
    return line(row.session, 16) if row.session else ""


def _until(approval: "Approval", now: int) -> str:
    if not approval.expires_at:
        return ""
    left = (approval.expires_at - now) // 1000
    return f"{left} s" if left > 0 else "expired"

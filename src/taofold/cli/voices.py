"""Two ways to tell a run: with colours on a terminal, and as plain lines for a pipe."""

import os
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from taofold.cli.clean import clean, duration, line, parameters, value
from taofold.core import events as e
from taofold.core.values import Action, Observation, Thought

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    from taofold.cli.story import Voice

_COLOURS: Final = {
    "goal": "cyan",
    "progress": "blue",
    "extraction": "magenta",
    "reasoning": "white",
    "exception": "red",
    "synthesis": "green",
    "research": "yellow",
}
_SIGNS: Final = {
    "success": ("✓", "green"),
    "failure": ("✗", "red"),
    "partial": ("◐", "yellow"),
    "timeout": ("⏱", "red"),
}
_THOUGHT: Final = 400
"""Characters of a thought that are shown."""
_TAIL: Final = 200
"""Characters of a streaming reply that are kept for its one line."""


def coloured(stream: TextIO) -> bool:
    """Is `stream` a terminal that may be coloured?"""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def voice(*, quiet: bool = False) -> "Voice":
    """The voice for standard error as it is."""
    if quiet:
        return Silent()
    return Rich() if coloured(sys.stderr) else Plain(sys.stderr)


class Silent:
    """Says nothing."""

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Nothing."""

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Nothing."""

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Nothing."""

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Nothing."""

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """Nothing."""

    def busy(self, doing: str) -> None:
        """Nothing."""

    def delta(self, text: str) -> None:
        """Nothing."""

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """Nothing."""


class Plain(Silent):
    """One line for each thing that happens, without colours."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _say(self, text: str, *, child: bool) -> None:
        self._stream.write(f"{'    ' * child}{clean(text)}\n")
        self._stream.flush()

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Run, agent, model, goal."""
        self._say(f"run {run}: {started.agent} with {started.model}", child=child)
        self._say(f"goal: {line(started.goal, 200)}", child=child)

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Its number, type and text."""
        self._say(f"step {number} {thought.type}: {line(thought.content, _THOUGHT)}", child=child)

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Tool and parameters."""
        place = f"[{mark}]" if mark else ""
        self._say(
            f"  action{place} {action.tool} {parameters(action.parameters, 160)}", child=child
        )

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Status, duration, key line."""
        place = f"[{mark}]" if mark else ""
        said = key_line(seen, 160)
        self._say(f"  {seen.status}{place} {duration(seen.duration_ms)}: {said}", child=child)
        if totals:
            self._say(f"  so far {totals}", child=child)

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """The text."""
        self._say(f"  {'! ' * alarm}{line(text, 300)}", child=child)

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """How it ended, and what it cost."""
        self._say(f"{ended(event)} ({totals})", child=False)


class Rich(Silent):
    """Compact blocks in colour, and a line that shows what is going on."""

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console

        self.console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._doing = self._tail = ""

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Run, agent, model, goal."""
        from rich.text import Text

        head = Text.assemble(
            ("● ", "bold cyan"), (line(started.agent, 40), "bold"),
            (f"  {line(started.model, 60)}  {run}", "dim"),
        )  # fmt: skip
        self._print("", head, child=child)
        self._print("", Text(f"  {line(started.goal, 300)}"), child=child)

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Its number, type and text."""
        from rich.text import Text

        colour = _COLOURS.get(thought.type, "white")
        text = Text.assemble(
            (f"{thought.type}{' (critical)' * thought.critical}  ", f"bold {colour}"),
            (line(thought.content, _THOUGHT), colour if thought.type == "exception" else ""),
        )
        self._print("", Text(""), child=child)
        self._print(f"{number}", text, child=child, style="bold")

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Tool and parameters."""
        from rich.text import Text

        width = max(30, self.console.width - 12 - len(action.tool))
        text = Text.assemble(
            (f"{mark} " if mark else "", "dim"),
            (line(action.tool, 40), "bold"), "  ", (parameters(action.parameters, width), "dim"),
        )  # fmt: skip
        self._print("→", text, child=child, style="cyan")

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Status, key line, duration; the sums at the right."""
        from rich.text import Text

        sign, colour = _SIGNS.get(seen.status, ("?", "white"))
        took = duration(seen.duration_ms) if seen.duration_ms else ""
        width = max(30, self.console.width - 14 - len(took))
        text = Text.assemble(
            (f"{mark} " if mark else "", "dim"),
            (key_line(seen, width), "" if seen.status == "success" else colour),
            (f"  {took}" if took else "", "dim"),
        )  # fmt: skip
        self._print(sign, text, child=child, style=colour)
        if totals:
            self._print("", Text(totals, "dim"), child=child)

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """The text."""
        from rich.text import Text

        style = "red" if alarm else "yellow"
        self._print("!", Text(line(text, 300), style), child=child, style=style)

    def busy(self, doing: str) -> None:
        """A line with a spinner, which goes away."""
        self._doing, self._tail = doing, ""
        if not doing:
            self._stop()
            return
        if self._status is None:
            self._status = self.console.status(self._now(), spinner="dots")
            self._status.start()
        else:
            self._status.update(self._now())

    def delta(self, text: str) -> None:
        """The end of the reply so far, on the same line."""
        self._tail = (self._tail + text)[-_TAIL:]
        if self._status is not None:
            self._status.update(self._now())

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """How it ended, and what it cost."""
        from rich.text import Text

        good = isinstance(event, e.RunFinished) and event.success
        colour = "green" if good else "yellow" if isinstance(event, e.Parked) else "red"
        self._print("", Text(""), child=False)
        text = Text.assemble((line(ended(event), 300), f"bold {colour}"), (f"  {totals}", "dim"))
        self._print("■", text, child=False, style=colour)

    def _now(self) -> "Text":
        from rich.text import Text

        width = max(10, self.console.width - len(self._doing) - 8)
        said = line(self._tail, _TAIL)
        return Text.assemble((self._doing, "dim"), "  ", (said[-width:], "dim italic"))

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _print(self, gutter: str, text: "Text", *, child: bool, style: str = "") -> None:
        from rich.table import Table

        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=3 + 4 * child, justify="right", style=style, no_wrap=True)
        grid.add_column(overflow="fold")
        row: list[Any] = [gutter, text]
        grid.add_row(*row)
        self.console.print(grid)


def key_line(seen: Observation, width: int) -> str:
    """What matters of an observation, on one line."""
    if seen.extraction:
        return line(seen.extraction, width)
    return (
        value(seen.result, width) if not isinstance(seen.result, str) else line(seen.result, width)
    )


def ended(event: e.RunFinished | e.Parked) -> str:
    """The end in words."""
    if isinstance(event, e.Parked):
        what = "an answer" if event.reason == "awaiting_input" else "an approval"
        return f"waiting for {what}"
    said = f"{event.status}: {event.stop_reason}"
    if event.status == "finished" and not event.success:
        said += " (not verified)"
    return f"{said} — {event.error}" if event.error else said

"""`RichVoice`: shows the steps of a run in colour, with a line for the current activity.

`story` decides which steps are shown. Imported only for a terminal with colours.
"""

from typing import Final

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from taofold.cli.render.story import Voice, ending_text, key_line, thought_line
from taofold.core import events as e
from taofold.core.text import duration, line, parameters
from taofold.core.values import Action, Observation, Thought

_COLOURS: Final = {
    "goal": "cyan",
    "progress": "blue",
    "extraction": "magenta",
    "reasoning": "default",
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
"""Maximum characters of a thought."""
_TAIL: Final = 200
"""Maximum characters of a streaming reply on its line."""


class RichVoice(Voice):
    """Shows compact blocks in colour, and a line for the current activity."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._doing = self._tail = ""

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Shows run, agent, model and goal."""
        head = Text.assemble(
            (line(started.agent, 40), "bold"), (f"  {line(started.model, 60)}  {run}", "dim")
        )
        self._print("●", head, child=child, style="cyan")
        self._print("", Text(line(started.goal, 300)), child=child)

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Shows a thought's number, type and text, and what the last results showed."""
        colour = _COLOURS.get(thought.type, "default")
        text = Text.assemble(
            (f"{thought.type}{' (critical)' * thought.critical}  ", f"bold {colour}"),
            (line(thought.content, _THOUGHT), colour if thought.type == "exception" else ""),
        )
        self._print("", Text(""), child=child)
        self._print(f"{number}", text, child=child, style="bold")
        if thought.learned:
            learned = f"learned: {line(thought.learned, _THOUGHT)}"
            self._print("", Text(learned, "dim"), child=child)

    def thinking(self, text: str, *, child: bool) -> None:
        """Shows the size and the beginning of thinking."""
        self._print("", Text(thought_line(text), "dim italic"), child=child)

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Shows a tool and its parameters."""
        width = max(30, self.console.width - 12 - len(action.tool))
        text = Text.assemble(
            (f"{mark} " if mark else "", "dim"),
            (line(action.tool, 40), "bold"),
            "  ",
            (parameters(action.parameters, width), "dim"),
        )
        self._print("→", text, child=child, style="cyan")

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Shows status, key line and duration, with totals at the right."""
        sign, colour = _SIGNS.get(seen.status, ("?", "default"))
        took = duration(seen.duration_ms) if seen.duration_ms else ""
        room = self.console.width - 12 - 4 * child - len(took)
        result = key_line(seen, max(30, room))
        text = Text.assemble(
            (f"{mark} " if mark else "", "dim"),
            (result, "" if seen.status == "success" else colour),
            (f"  {took}" if took else "", "dim"),
        )
        # Totals go beside the result if both fit, else on their own line.
        beside = totals if len(result) + len(totals) + 4 <= room else ""
        self._print(sign, text, child=child, style=colour, right=beside)
        if totals and not beside:
            self._print("", Text(""), child=child, right=totals)

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """Shows a note."""
        style = "red" if alarm else "yellow"
        self._print("!", Text(line(text, 300), style), child=child, style=style)

    def busy(self, doing: str) -> None:
        """Shows a temporary line with a spinner."""
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
        """Shows the end of the current reply on that line."""
        self._tail = (self._tail + text)[-_TAIL:]
        if self._status is not None:
            self._status.update(self._now())

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """Shows the end of the run and its costs."""
        good = isinstance(event, e.RunFinished) and event.success
        colour = "green" if good else "yellow" if isinstance(event, e.Parked) else "red"
        self._print("", Text(""), child=False)
        text = Text.assemble(
            (line(ending_text(event), 300), f"bold {colour}"), (f"  {totals}", "dim")
        )
        self._print("■", text, child=False, style=colour)

    def _now(self) -> Text:
        width = max(10, self.console.width - len(self._doing) - 8)
        tail = line(self._tail, _TAIL)
        return Text.assemble((self._doing, "dim"), "  ", (tail[-width:], "dim italic"))

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _print(
        self, gutter: str, text: Text, *, child: bool, style: str = "", right: str = ""
    ) -> None:
        grid = Table.grid(padding=(0, 1), expand=bool(right))
        grid.add_column(width=3 + 4 * child, justify="right", style=style, no_wrap=True)
        grid.add_column(overflow="fold", ratio=1 if right else None)
        row = [Text(gutter), text]
        if right:
            grid.add_column(justify="right", style="dim", no_wrap=True)
            row.append(Text(right))
        grid.add_row(*row)
        self.console.print(grid)


class StillVoice(RichVoice):
    """Shows recorded runs, without the line for current activity."""

    def busy(self, doing: str) -> None:
        """Does nothing."""

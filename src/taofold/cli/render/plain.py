"""Ways to tell a run: not at all, and as plain lines for a pipe."""

import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from taofold.cli.render.text import clean, duration, line, parameters, value
from taofold.core import events as e
from taofold.core.content import media_of
from taofold.core.values import Action, Observation, Thought

if TYPE_CHECKING:
    from taofold.cli.render.story import Voice


_THOUGHT: Final = 400
"""Characters of a thought that are shown."""


def can_colour(stream: TextIO) -> bool:
    """Is `stream` a terminal that may be coloured?"""
    # no-color.org: a variable that is set but empty does not count.
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def voice(*, quiet: bool = False) -> "Voice":
    """The voice for standard error as it is."""
    if quiet:
        return SilentVoice()
    if not can_colour(sys.stderr):
        return PlainVoice(sys.stderr)
    from taofold.cli.render.terminal import RichVoice

    return RichVoice()


class SilentVoice:
    """Says nothing."""

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Nothing."""

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Nothing."""

    def thinking(self, text: str, *, child: bool) -> None:
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


class PlainVoice(SilentVoice):
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

    def thinking(self, text: str, *, child: bool) -> None:
        """Its size and its beginning."""
        self._say(f"  {thought_line(text)}", child=child)

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Tool and parameters."""
        label = f"[{mark}]" if mark else ""
        self._say(
            f"  action{label} {action.tool} {parameters(action.parameters, 160)}", child=child
        )

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Status, duration, key line."""
        label = f"[{mark}]" if mark else ""
        result = key_line(seen, 160)
        self._say(f"  {seen.status}{label} {duration(seen.duration_ms)}: {result}", child=child)
        if totals:
            self._say(f"  so far {totals}", child=child)

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """The text."""
        self._say(f"  {'! ' * alarm}{line(text, 300)}", child=child)

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """How it ended, and what it cost."""
        self._say(f"{ending_text(event)} ({totals})", child=False)


def thought_line(thinking: str) -> str:
    """What a model thought, on one line: `runs log --json` has it all."""
    return f"thinking, {len(thinking):,} characters: {line(thinking, 100)}"


def key_line(seen: Observation, width: int) -> str:
    """What matters of an observation, on one line."""
    if seen.extraction:
        media = [part.line for part in media_of(seen.parts) if part.line not in seen.extraction]
        return line(" ".join([seen.extraction, *media]), width)
    return (
        value(seen.result, width) if not isinstance(seen.result, str) else line(seen.result, width)
    )


def ending_text(event: e.RunFinished | e.Parked) -> str:
    """The end in words."""
    if isinstance(event, e.Parked):
        what = "an answer" if event.reason == "awaiting_input" else "an approval"
        return f"waiting for {what}"
    text = f"{event.status}: {event.stop_reason}"
    if event.status == "finished" and not event.success:
        text += " (not verified)"
    return f"{text} — {event.error}" if event.error else text

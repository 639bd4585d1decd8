"""How `taofold runs show` renders a run: its state and steps, in words or as JSON.

The verb itself is in `read`.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taofold.cli.render.story import PlainVoice, Story, totals
from taofold.cli.render.terminal import RichVoice
from taofold.cli.render.text import clean
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.state import RunState, fold, live
from taofold.core.text import parameters, value
from taofold.core.trace import opening
from taofold.views import run_state_json

if TYPE_CHECKING:
    from taofold.cli.render.story import Voice


def started_of(run: str, records: Sequence[e.Record]) -> e.RunStarted:
    """How the run began.

    Raises:
        ConfigError: the log does not say.
    """
    started = opening(records)
    if started is None:
        raise ConfigError(f"run {run!r} has no start: its log is damaged")
    return started


def state_json(run: str, records: Sequence[e.Record]) -> dict[str, Any]:
    """The state after the last of `records` as JSON, with the session that the run belongs to."""
    started = opening(records)
    return {**run_state_json(run, records), "session": started.session if started else ""}


def tell(run: str, records: Sequence[e.Record], *, travelled: bool, status: str) -> None:
    """The run on standard output, as its trace was; `status` is what a person sees it as now."""
    # Without the branches that a rewind took back.
    alive = live(records)
    story = Story(_voice(), run, waved=True)
    for record in alive:
        story(record)
    state = fold(records)
    for text in _state(
        state, records[-1].seq if records else -1, travelled=travelled, status=status
    ):
        sys.stdout.write(f"{clean(text)}\n")


def _state(state: RunState, seq: int, *, travelled: bool, status: str) -> list[str]:
    lines = [""]
    if travelled:
        lines.append(f"state after event {seq}: {state.status} ({totals(state)})")
    elif state.status in ("running", "new"):
        lines.append(f"status: {status} ({totals(state)})")
    # Calls without a result: what a resumed run has to begin with.
    for opened in state.open.values():
        for slot in opened.slots:
            if slot.observation is None:
                doing = "started, not observed" if slot.started else "not started"
                call = f"{slot.action.tool} {parameters(slot.action.parameters, 80)}"
                lines.append(f"open: {call} ({doing})")
    lines += [f"data: {name} = {value(datum, 100)}" for name, datum in state.data.items()]
    if state.output is not None:
        output = state.output
        lines += ["answer:", output if isinstance(output, str) else value(output, 2000)]
    return lines if len(lines) > 1 else []


def _voice() -> "Voice":
    """On standard output; without the line that shows what is going on."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return PlainVoice(sys.stdout)
    from rich.console import Console

    return _Still(Console(highlight=False, width=shutil.get_terminal_size().columns))


class _Still(RichVoice):
    """A trace of the past: nothing is going on."""

    def busy(self, doing: str) -> None:
        """Nothing."""

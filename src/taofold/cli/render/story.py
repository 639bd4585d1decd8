"""Turns the events of a run into displayed steps, and prints them as plain lines.

`Story` listens to a run and its children and displays them through a `Voice`: silent, plain lines
for a pipe, or colours (`rich_voice`). `question` shows a waiting approval with the commands that
decide it. `summary` describes an ended run.
"""

import os
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, TextIO

from taofold.cli.output import invocation
from taofold.core import events as e
from taofold.core.content import media_of
from taofold.core.happenings import Delta, Happening, Progress
from taofold.core.state import RunState
from taofold.core.text import (
    BAR,
    CONTINUED,
    clip,
    dollars,
    duration,
    framed,
    line,
    parameters,
    times,
    tokens,
    value,
    visible,
    visible_line,
)
from taofold.core.values import ASK_USER, FINISH, Action, Observation, Thought
from taofold.core.watched import UNKNOWN, WatchedChange, WatchedRun
from taofold.policy.redaction.views import shown

if TYPE_CHECKING:
    from taofold.runtime.setup import Approval


_WHY = {
    "tier 2 asks": "it writes, or its author or your policy requires approval",
    "tier 3 always asks": "its author or your policy requires approval every time",
}
"""Better texts for the policy's reasons that only repeat the tier."""


def approval_reason(reason: str) -> str:
    """Returns a reason that explains more than the tier."""
    return _WHY.get(reason, reason)


def doubtful(approval: "Approval") -> bool:
    """Returns whether the action was started before an interruption, so that its result is
    unknown.
    """
    return bool(approval.question) and approval.action.tool != ASK_USER and approval.form is None


def question(approval: "Approval") -> list[str]:
    """Returns the lines of a question, with the commands that answer it."""
    call = f"{invocation()} approvals"
    if approval.action.tool == ASK_USER:
        return [
            "it asks:",
            *_foreign(approval.question),
            f'  {call} approve {approval.id} --answer "…"',
        ]
    if approval.form is not None:
        asks = [f"{approval.action.tool} asks:", *_foreign(approval.question)]
        if not approval.form:
            return [*asks, f"  {call} approve {approval.id}    (or deny)"]
        fields = ", ".join(map(str, approval.form.get("properties", {})))
        field_lines = [f"  it wants: {line(fields, 200)}"] if fields else []
        return [*asks, *field_lines, f'  {call} approve {approval.id} --answer "…"    (or deny)']
    preview = approval.preview or approval.action.tool
    beginning = clip(visible_line(preview.partition("\n")[0]), 1000)
    what = _foreign(beginning, first="waits for approval: ")
    if beginning != preview:
        what.append(f"  … (all of it: {call} list {approval.run} --json)")
    if not doubtful(approval):
        return [*what, f"  {call} approve {approval.id}    (or deny)"]
    return [
        *what,
        f"  {line(approval.question, 300)}",
        f"  it happened:   {call} approve {approval.id} --done",
        f"  run it again:  {call} approve {approval.id}",
        f"  skip it:       {call} deny {approval.id}",
    ]


def _foreign(text: str, first: str = f"  {BAR}") -> list[str]:
    """Returns the text of a model or a tool behind bars, so that it cannot look like a command."""
    from taofold.runtime.approvers import terminal_columns

    return framed(text, terminal_columns() - 2, first=first, further=f"  {CONTINUED}")


WAVED: Final = "--approve all"
"""The recorded reason of an approval by `--approve all`."""
_LINES: Final = 4
"""Maximum lines, besides the one that names the log."""


def summary(state: RunState) -> list[str]:
    """Returns lines with the number of calls, failures and refusals by tool; empty lines are
    skipped.
    """
    calls, failed, refused = Counter[str](), Counter[str](), Counter[str]()
    for step in state.steps:
        for action, observation in zip(step.actions, step.observations, strict=False):
            if action.tool == FINISH:
                continue
            if observation.refused:
                refused[action.tool] += 1
                continue
            calls[action.tool] += 1
            # Adding False makes an entry of 0, which `+failed` drops below.
            failed[action.tool] += observation.status in ("failure", "timeout")
    counted = [("calls", calls), ("failed", +failed), ("refused", refused)]
    return [_line(name, count) for name, count in counted if count][:_LINES]


def _line(name: str, count: Counter[str]) -> str:
    return line(f"{name}: {', '.join(f'{tool} ×{n}' for tool, n in count.most_common())}", 160)


class Voice:
    """Displays the steps of a run: this one shows nothing. `child` marks steps of a child run."""

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Shows the beginning of a run."""

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Shows the beginning of a step."""

    def thinking(self, text: str, *, child: bool) -> None:
        """Shows the model's thinking before the step, if the model returns it."""

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Shows an action; `mark` is its place in a batch, "" for a single action."""

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Shows an observation; `totals` only after the last one of a step."""

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """Shows a note besides the steps: an approval, a violation, a limit."""

    def busy(self, doing: str) -> None:
        """Shows the current activity; "" = none."""

    def delta(self, text: str) -> None:
        """Shows a part of a streaming reply."""

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """Shows that the run ended or waits."""


class Story:
    """A listener for a run and its children, for `Agent.run(listener=…)`.

    `waved`: an approval by `--approve all` is shown on one line, without its question.
    """

    def __init__(self, voice: Voice, run: str, *, waved: bool = False) -> None:
        self._voice, self._run, self._waved = voice, run, waved
        self._held: list[tuple[str, bool]] = []
        self._runs: defaultdict[str, WatchedRun] = defaultdict(WatchedRun)

    def before(self, records: list[e.Record]) -> None:
        """Reads records that were shown before the run was resumed."""
        for record in records:
            self._runs[record.run].feed(shown(record))

    def __call__(self, happening: Happening) -> None:
        """Shows one happening."""
        if isinstance(happening, Delta):
            self._voice.delta(happening.text)
            return
        if isinstance(happening, Progress):
            self._voice.busy(f"{happening.tool}: {line(happening.text, 80)}")
            return
        watched = self._runs[happening.run]
        self._tell(watched.feed(shown(happening)), watched.state)

    def totals(self, run: str) -> str:
        """Returns the totals of the run so far."""
        return totals(self._runs[run].state) if run in self._runs else ""

    def _tell(self, change: WatchedChange, state: RunState) -> None:
        voice, run, event = self._voice, change.record.run, change.record.event
        child = run != self._run
        match event:
            case e.RunStarted():
                voice.opening(run, event, child=child)
                voice.busy("the model thinks")
            case e.Proposed():
                self._proposed(change, event, child=child)
            case e.Decided():
                self._decided(event, child=child)
            case e.Started():
                tool = "a tool" if change.slot is UNKNOWN else change.slot.action.tool
                voice.busy(f"{tool} is running")
            case e.Observed():
                self._observed(change, event, state, child=child)
            # The end of a child run is shown as the result of its call.
            case e.RunFinished() | e.Parked() if not child:
                voice.busy("")
                self._release()
                voice.ending(run, event, totals(state))
            case e.Replied():
                voice.busy("reading the reply")
            case _:
                announcement = event.announcement
                if announcement is not None:
                    voice.note(line(announcement, 160), alarm=event.alarming, child=child)

    def _proposed(self, change: WatchedChange, event: e.Proposed, *, child: bool) -> None:
        self._voice.thought(change.step, event.thought, child=child)
        if change.reasoning:
            self._voice.thinking(change.reasoning, child=child)
        for index, action in enumerate(event.actions):
            if action.tool != FINISH:
                self._voice.action(action, _mark(index, change.batch > 1), child=child)

    def _observed(
        self, change: WatchedChange, event: e.Observed, state: RunState, *, child: bool
    ) -> None:
        sums = totals(state) if change.closes else ""
        observation = event.observation
        if change.slot.action.tool != FINISH:
            mark = _mark(event.index, change.batch > 1)
            self._voice.observation(observation, mark, sums, child=child)
        elif observation.status != "success":
            self._voice.observation(observation, "", sums, child=child)
        for text in observation.conflicts.lines if observation.conflicts else ():
            self._voice.note(text, alarm=True, child=child)
        if change.closes:
            self._voice.busy("the model thinks")

    def _decided(self, event: e.Decided, *, child: bool) -> None:
        voice = self._voice
        match event.verdict:
            case "ask":
                text = f"asks for approval (tier {event.tier}): {approval_reason(event.reason)}"
                if event.deciders is not None and event.deciders.own is None:
                    text += "; you started the run and cannot approve it"
                if event.request is not None:
                    text = f"asks during its call: {event.reason}"
                # Held back until the decision is known, for `--approve all`.
                self._held.append((text, child))
                if not self._waved:
                    self._release()
            # The question was held back, so only one line is shown.
            case "allow" if event.reason == WAVED:
                self._held.clear()
                voice.note("allowed by --approve all", child=child)
            case "allow" if event.by != "policy":
                self._release()
                edited = " with edited parameters" if event.action is not None else ""
                voice.note(f"approved by {event.decider}{edited}", child=child)
            case "allow":
                pass
            case _:
                self._release()
                text = f": {event.reason}" if event.reason else ""
                voice.note(f"{event.verdict} by {event.decider}{text}", alarm=True, child=child)

    def _release(self) -> None:
        """Shows the questions that were held back."""
        for text, child in self._held:
            self._voice.note(text, child=child)
        self._held.clear()


def totals(state: RunState) -> str:
    """Returns totals such as `3 steps · 4 calls · 2.1k tokens · $0.00 · 12.0 s`."""
    return " · ".join(
        (
            times(len(state.steps), "step"),
            times(state.tool_calls, "call"),
            tokens(state.usage.tokens),
            dollars(state.usage.usd),
            duration(state.active_ms),
        )
    )


def _mark(index: int, batch: bool) -> str:
    return chr(ord("a") + index % 26) if batch else ""


_THOUGHT: Final = 400
"""Maximum characters of a thought."""


def can_colour(stream: TextIO) -> bool:
    """Returns whether `stream` is a terminal that supports colours."""
    # no-color.org: an empty variable does not count.
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def voice(*, quiet: bool = False) -> Voice:
    """Returns the voice for the current standard error."""
    if quiet:
        return Voice()
    if not can_colour(sys.stderr):
        return PlainVoice(sys.stderr)
    from taofold.cli.render.rich_voice import RichVoice

    return RichVoice()


class PlainVoice(Voice):
    """A voice that prints one line for each event, without colours."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _say(self, text: str, *, child: bool) -> None:
        self._stream.write(f"{'    ' * child}{visible(text)}\n")
        self._stream.flush()

    def opening(self, run: str, started: e.RunStarted, *, child: bool) -> None:
        """Prints run, agent, model and goal."""
        self._say(f"run {run}: {started.agent} with {started.model}", child=child)
        self._say(f"goal: {line(started.goal, 200)}", child=child)

    def thought(self, number: int, thought: Thought, *, child: bool) -> None:
        """Prints a thought's number, type and text, and what the last results showed."""
        self._say(f"step {number} {thought.type}: {line(thought.content, _THOUGHT)}", child=child)
        if thought.learned:
            self._say(f"  learned: {line(thought.learned, _THOUGHT)}", child=child)

    def thinking(self, text: str, *, child: bool) -> None:
        """Prints the size and the beginning of thinking."""
        self._say(f"  {thought_line(text)}", child=child)

    def action(self, action: Action, mark: str, *, child: bool) -> None:
        """Prints a tool and its parameters."""
        label = f"[{mark}]" if mark else ""
        self._say(
            f"  action{label} {action.tool} {parameters(action.parameters, 160)}", child=child
        )

    def observation(self, seen: Observation, mark: str, totals: str, *, child: bool) -> None:
        """Prints status, duration and key line."""
        label = f"[{mark}]" if mark else ""
        result = key_line(seen, 160)
        self._say(f"  {seen.status}{label} {duration(seen.duration_ms)}: {result}", child=child)
        if totals:
            self._say(f"  so far {totals}", child=child)

    def note(self, text: str, *, alarm: bool = False, child: bool = False) -> None:
        """Prints a note."""
        self._say(f"  {'! ' * alarm}{line(text, 300)}", child=child)

    def ending(self, run: str, event: e.RunFinished | e.Parked, totals: str) -> None:
        """Prints the end of the run and its costs."""
        self._say(f"{ending_text(event)} ({totals})", child=False)


def thought_line(thinking: str) -> str:
    """Returns the model's thinking on one line; `runs log --json` has the whole text."""
    return f"thinking, {len(thinking):,} characters: {line(thinking, 100)}"


def key_line(observation: Observation, width: int) -> str:
    """Returns the key facts of an observation on one line."""
    remark = f" ({clip(observation.remark, width // 3)})" if observation.remark else ""
    width -= len(remark)
    if observation.extraction:
        media = [
            part.line
            for part in media_of(observation.parts)
            if part.line not in observation.extraction
        ]
        return line(" ".join([observation.extraction, *media]), width) + remark
    result = observation.result
    return (line(result, width) if isinstance(result, str) else value(result, width)) + remark


def ending_text(event: e.RunFinished | e.Parked) -> str:
    """Returns the end of a run as text."""
    if isinstance(event, e.Parked):
        what = "an answer" if event.reason == "awaiting_input" else "an approval"
        return f"waiting for {what}"
    text = f"{event.status}: {event.stop_reason}"
    if event.status == "finished" and not event.success:
        text += " (not verified)"
    return f"{text} — {event.error}" if event.error else text

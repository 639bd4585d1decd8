"""`LoopDisplay`: shows a running loop, one line for each step: results of its gates, its lessons,
the steps of its runs, and its end.

`cli/loops/commands` prints lists of loops and their states.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

from taofold.cli.render.story import can_colour, key_line
from taofold.core import events as run
from taofold.core.text import dollars, duration, line, parameters, times, tokens
from taofold.core.values import FINISH, Action, Observation
from taofold.loop import events as e
from taofold.loop.debug_memory import root_cause
from taofold.loop.gates.verdict_texts import JOINED, proof
from taofold.loop.state import START, LoopState, fold, reduce
from taofold.parsing.untrusted_text import join_names, readable
from taofold.policy.redaction.views import shown, shown_value

if TYPE_CHECKING:
    from taofold.core.happenings import Happening
    from taofold.loop.verdict import Verdict


Part = str | tuple[str, str]

_SIGNS: Final = {
    "success": ("✓", "green"),
    "failure": ("✗", "red"),
    "partial": ("◐", "yellow"),
    "timeout": ("⏱", "red"),
}
_LEVELS: Final = {
    "log": "dim",
    "warn": "yellow",
    "redirect": "yellow",
    "pause": "red",
    "abort": "red",
}
_ERRORS: Final = 3
"""Maximum failing checks shown."""
_WIDE: Final = 160


def _safe(text: str) -> str:
    """Returns a part of a line without control characters. Spaces are kept, as they are layout."""
    return " ".join(readable(text).splitlines())


class LoopDisplay:
    """A listener for `LoopDependencies(hear=…)` that writes to standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        colours = can_colour(sys.stderr)
        # `soft_wrap`, because lines are cut to `width` here, and rich would break them in a pipe at
        # 80 characters.
        self._console = Console(stderr=True, highlight=False, no_color=not colours, soft_wrap=True)
        self._live, self._quiet = colours and not quiet, quiet
        self._status: Status | None = None
        self._state: LoopState = START
        self._steps = 0
        self._actions: dict[tuple[str, int], Action] = {}
        self._loop = ""

    @property
    def width(self) -> int:
        """The maximum characters of a line."""
        return min(self._console.width, _WIDE) if self._live else _WIDE

    def _others(self, author: str, paths: Sequence[str]) -> None:
        if paths:
            title = f"   changed by {author}: "
            self._say((title + line(join_names(paths, 6), self._room(len(title))), "dim"))

    def _room(self, taken: int) -> int:
        """Returns the characters of a line that are left beside `taken` ones, at least 24."""
        return max(24, self.width - taken)

    def named(self, loop: str) -> "LoopDisplay":
        """Sets the loop's id and returns the display."""
        self._loop = loop
        return self

    def before(self, records: Sequence[e.LoopRecord]) -> None:
        """Reads the records that an earlier process showed."""
        self._state = fold(records)

    def __call__(self, happening: "e.LoopRecord | Happening") -> None:
        """Shows one happening."""
        if self._quiet:
            return
        if isinstance(happening, e.LoopRecord):
            # The previous state is kept to compare verdicts.
            before, self._state = self._state, reduce(self._state, happening)
            self._fact(happening.event, before)
        elif isinstance(happening, run.Record):
            self._step(shown(happening).event)

    def busy(self, doing: str) -> None:
        """Shows the current activity on a temporary line; "" removes it."""
        if not doing or not self._live:
            if self._status is not None:
                self._status.stop()
                self._status = None
            return
        text = Text(_safe(doing), "dim")
        if self._status is None:
            self._status = self._console.status(text, spinner="dots")
            self._status.start()
        else:
            self._status.update(text)

    def _say(self, *parts: Part) -> None:
        """Prints one line. All text passes here, so foreign text is made safe."""
        safe = [
            _safe(part) if isinstance(part, str) else (_safe(part[0]), part[1]) for part in parts
        ]
        self._console.print(Text.assemble(*safe))

    def _fact(self, event: e.LoopEvent, before: LoopState) -> None:  # noqa: C901  # one case per fact
        match event:
            case e.LoopStarted():
                self._opening(event)
                self.busy("the gates run on the initial files")
            case e.BaselineTaken():
                self._verdict("start", event.verdict, None)
                self.busy("looking for lessons of earlier loops")
            case e.LessonsInjected():
                self._lessons(event)
            case e.IterationStarted():
                self._steps = 0
                self._say("")
                of = f"iteration {event.number} of at most {self._state.bounds.iterations}"
                self._say(("━━ ", "cyan"), (of, "bold cyan"), ("  " + event.run, "dim"))
                self.busy("the model thinks")
            case e.IterationEnded():
                self._ended(event, before)
            case e.Intervened():
                colour = _LEVELS[event.level]
                why = line(event.why, self._room(30))
                self._say((f"   ! {event.kind} → {event.level}: ", f"bold {colour}"), (why, colour))
            case e.LoopPaused():
                self.busy("")
                self._say(("‖ ", "yellow"), (f"paused: {line(event.reason, 600)}", "bold yellow"))
            case e.PauseAsked():
                self._say(("‖ ", "yellow"), (f"{event.by} requested a pause", "yellow"))
            case e.Edited():
                how = "are accepted" if event.kept else "were restored"
                named = line(", ".join(event.paths), self._room(40))
                self._say(("   ! ", "yellow"), (f"edited files {how}: {named}", "yellow"))
            case e.BaselineRetaken():
                self._say(("   ! ", "yellow"), ("the baseline was taken again", "yellow"))
                self._verdict("start", event.verdict, None)
            case e.LoopResumed():
                self._say(("▸ ", "cyan"), ("resumed", "bold"), (f"  {self._limits()}", "dim"))
            case e.LoopCrashed():
                self._say(("! ", "red"), (f"crashed: {event.why}", "red"))
            case e.Completing():
                self.busy("finishing")
            case e.FilesRestored():
                self._say(("   ", ""), (f"files of iteration {event.number} restored", "yellow"))
            case e.LoopEnded():
                self._last(event)
            case e.Cleared():
                self._cleared(event)
            case e.Taught():
                self._taught(event)

    def _opening(self, event: e.LoopStarted) -> None:
        wish = event.wish
        self._say(("◆ ", "cyan"), ("loop ", "bold"), (self._loop, "bold"))
        self._say("  ", line(shown_value(wish.task), 300))
        how = f"  {wish.model}  {wish.mode}  {self._limits()}"
        self._say((how, "dim"))
        for command in wish.commands:
            self._say(("  done when ", "dim"), (line(command, 200), "bold"))

    def _limits(self) -> str:
        bounds = self._state.bounds
        usd = f" · {dollars(bounds.usd)}" if bounds.usd is not None else ""
        steps = f" · {times(bounds.steps, 'step')} each" if bounds.steps else ""
        count = f"{times(bounds.iterations, 'iteration')}"
        return f"{count} · {duration(bounds.seconds * 1000)}{usd}{steps}"

    def _verdict(self, name: str, verdict: "Verdict", before: "Verdict | None") -> None:
        self.busy("")
        good, every = verdict.counts
        sign, colour = ("✓", "green") if verdict.passed else ("✗", "red")
        passing = f"{good} of {times(every, 'check')}"
        moved = good - before.counts[0] if before is not None else 0
        took = duration(sum(result.ms for result in verdict.results))
        self._say(
            ("   gates ", "bold"),
            (f"{sign} ", colour),
            (passing, colour),
            (f" ({moved:+d})" if moved else "", "green" if moved > 0 else "red"),
            (f"  {took}{'' if verdict.contained else '  not contained'}  {name}".rstrip(), "dim"),
        )
        if verdict.unstarted:
            # Shown in full: no work of the agent can make such a gate pass.
            self._say(("   ! ", "yellow"), (verdict.unstarted, "yellow"))
        self._failures(verdict)
        for change in verdict.changes:
            if change.tampering:
                self._say((f"   ! {change.path} was {change.did}, {change.done}", "bold red"))
        if not (verdict.passed or verdict.errors) and verdict.reasons:
            self._say((f"         {line(verdict.reasons[0], self._room(9))}", "red"))
        # Joined files are listed under "changed".
        left = [text for text in proof(verdict, 5) if not text.startswith(JOINED)]
        for text in (*left, *verdict.notes):
            self._say((f"   {line(text, 400)}", "dim"))

    def _failures(self, verdict: "Verdict") -> None:
        errors = verdict.errors
        for failure in errors[:_ERRORS]:
            name = line(failure.id, 80)
            # If the command printed nothing useful, the verdict's reason is shown.
            known = failure.message or not verdict.reasons
            cause = root_cause(failure) if known else verdict.reasons[0]
            cause = line(cause, max(30, self.width - 14 - len(name)))
            self._say("         ", (name, "red"), (f"  {cause}", "dim"))
        if len(errors) > _ERRORS:
            self._say((f"         and {len(errors) - _ERRORS} more", "dim"))

    def _lessons(self, event: e.LessonsInjected) -> None:
        lessons = event.lessons
        if lessons.patterns:
            count = len(lessons.patterns)
            self._say(
                ("   lessons ", "bold"),
                (f"{count} of earlier loops: ", ""),
                (line(", ".join(lessons.patterns), self._room(30)), "magenta"),
            )
        else:
            why = lessons.reasons[0] if lessons.reasons else "no pattern fits"
            reason = "control loop: none, to measure their benefit" if lessons.control else why
            if lessons.rates:
                reason += "; the search uses the rates of earlier loops"
            self._say(("   lessons ", "bold"), (line(reason, self._room(12)), "dim"))

    def _ended(self, event: e.IterationEnded, before: LoopState) -> None:
        self._verdict("", event.verdict, before.verdict)
        added = sum(
            row.startswith("+") and not row.startswith("+++") for row in event.diff.splitlines()
        )
        gone = sum(
            row.startswith("-") and not row.startswith("---") for row in event.diff.splitlines()
        )
        changed = join_names(event.changed, 6)
        spent = event.spent
        self._say(
            ("   changed ", "bold"),
            (line(changed, self._room(60)) or "nothing", ""),
            (f" +{added}", "green"),
            (f" −{gone}", "red"),
            (
                f"  {times(spent.steps, 'step')} · {times(spent.tool_calls, 'call')} · "
                f"{tokens(spent.usage.tokens)} · {dollars(spent.usage.usd)} · "
                f"{duration(spent.ms)}",
                "dim",
            ),
        )
        if event.shared is not None:
            self._others("others", event.shared.others)
            self._others("this loop or others", event.shared.unsure)
        if event.stop_reason not in ("final_answer", "no_tool_call", ""):
            detail = f": {line(event.said, 160)}" if event.status == "failed" else ""
            self._say(
                (f"   its run ended as {event.status} ({event.stop_reason}){detail}", "yellow")
            )
        if event.blocked:
            self._say((f"   ! not complete: {event.blocked}", "yellow"))

    def _last(self, event: e.LoopEnded) -> None:
        self.busy("")
        good = event.ending == "completed"
        colour = "green" if good else "red"
        self._say("")
        self._say(("■ ", colour), (f"{event.ending}: {line(event.reason, 300)}", f"bold {colour}"))
        spent = self._state.spent
        ran = len(self._state.done)
        total = (
            f"{times(ran, 'iteration')} · {times(spent.steps, 'step')} · "
            f"{tokens(spent.usage.tokens)} · {dollars(spent.usage.usd)} · "
            f"{duration(spent.ms)}"
        )
        self._say((f"  {total}", "dim"))
        if event.why_best and not good:
            self._say((f"  kept: {event.why_best}", ""))
        if event.warning:
            self._say((f"  ! {event.warning}", "yellow"))

    def _cleared(self, event: e.Cleared) -> None:
        left = event.left
        if left.removed:
            self._say((f"  the {self._state.wish.mode} was removed", "dim"))
        elif left.remove:
            self._say((f"  ! {left.folder} stays: {left.why}", "yellow"))
            self._say((f"    remove it with: {left.remove}", "dim"))

    def _taught(self, event: e.Taught) -> None:
        for used in event.learnt.injected:
            if used.applied:
                how = "and its check turned green" if used.successful else "without success"
                self._say(
                    ("  applied ", "bold"),
                    (line(used.pattern, 80), "magenta"),
                    (f" in iteration {used.iteration}, {how}", "dim"),
                )
        for extraction in event.learnt.extracted:
            word = "  learnt  " if extraction.new else "  again   "
            self._say((word, "bold"), (line(extraction.pattern, 80), "magenta"))
        if event.learnt.injected:
            self._say((f"  improvement: {event.learnt.effect_text}", "dim"))
        for note in event.learnt.notes:
            self._say((f"  {line(note, 200)}", "dim"))

    def _step(self, event: run.Event) -> None:
        match event:
            case run.Proposed():
                self._steps += 1
                for index, action in enumerate(event.actions):
                    self._actions[event.key, index] = action
                tools = ", ".join([action.tool for action in event.actions])
                self.busy(f"step {self._steps}: {tools}")
            case run.Observed():
                done = self._actions.pop((event.key, event.index), None)
                if done is not None:
                    self._observed(done, event.observation)
                self.busy("the model thinks")
            case run.RunFinished() | run.Parked():
                self._actions.clear()
                self.busy("the gates run")
            case _ if event.announcement is not None:
                text = line(event.announcement, self._room(5))
                self._say((f"   ! {text}", "red" if event.alarming else "yellow"))
            case _:
                pass

    def _observed(self, action: Action, observation: Observation) -> None:
        sign, colour = _SIGNS.get(observation.status, ("?", ""))
        if action.tool == FINISH and observation.status == "success":
            answer = action.parameters.get("answer", "")
            self._say(
                (f"{self._steps:>4} ", "dim"),
                ("says ", "bold"),
                (line(answer, self._room(12)), "italic"),
            )
            return
        room = max(30, self.width - 12 - len(action.tool))
        # Three fifths for the call, the rest for the result.
        arguments = parameters(action.parameters, room * 3 // 5)
        self._say(
            (f"{self._steps:>4} ", "dim"),
            (f"{sign} ", colour),
            (action.tool, "bold"),
            " ",
            (arguments, "dim"),
            "  ",
            (
                key_line(observation, max(24, room - len(arguments) - 4)),
                "" if colour == "green" else colour,
            ),
        )

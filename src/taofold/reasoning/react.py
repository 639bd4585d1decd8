"""ReAct: think, act, observe, until the answer is there (Yao et al., 2022).

A pure generator: limits, policy, tools and repetition are the runtime's; it hears of
them through the `Outlook` of each turn and the observations.
"""

from collections.abc import Sequence
from typing import Protocol

from taofold.core.effects import Act, Answer, Begin, Halt, Outlook, Strategy, note
from taofold.core.values import Action, Observation
from taofold.reasoning.talk import Talk
from taofold.reasoning.task import Task
from taofold.reasoning.turn import Lost, Taken, take_turn

VERSION = 1


class OwnActions(Protocol):
    """Actions that the strategy answers itself: see `taofold.reasoning.system`."""

    def observed(self, actions: Sequence[Action]) -> Strategy[tuple[Observation | None, ...]]:
        """The observations of those of `actions` that are its own, else None."""
        ...

    def saw(self, actions: Sequence[Action], observations: Sequence[Observation]) -> None:
        """Hear what came back from a step."""
        ...

    def ending(self) -> Strategy[Answer | None]:
        """The run's answer, if one of these actions has ended it."""
        ...


def react(task: Task, system: OwnActions | None = None) -> Strategy[Answer]:
    """Turn after turn until the model finishes, a limit is reached, or no reply can be read.

    `system` answers actions of the strategy's own; without it there are none.
    """
    talk = Talk(task)
    failed = False
    number = 0
    try:
        while True:
            outlook: Outlook = yield Begin()
            if outlook.stop:
                return Answer(None, outlook.stop)
            if talk.crowded:
                folded = talk.compact()
                if folded is not None:
                    upto, before, after = folded
                    yield from note("compacted", upto=upto, chars_before=before, chars_after=after)
            talk.open(outlook)
            taken = yield from take_turn(task, talk, outlook, after_failure=failed)
            if isinstance(taken, Lost):
                wrap_up = outlook.wrap_up
                if wrap_up == "max_tool_calls":
                    # The attempts may have reached the limit of model calls, which then ends it.
                    left: Outlook = yield Begin()
                    wrap_up = left.stop or wrap_up
                return _lost(task, taken, wrap_up, outlook.toolless)
            if taken.final:
                yield from _close(taken)
                stop = "loop_detected" if outlook.toolless else taken.final
                if outlook.wrap_up and task.offers:
                    stop = outlook.wrap_up
                return Answer(taken.answer, stop, taken.failed)
            number += 1
            local = () if system is None else (yield from system.observed(taken.actions))
            observations: tuple[Observation, ...] = yield Act(taken.thought, taken.actions, local)
            if system is not None:
                system.saw(taken.actions, observations)
                ended = yield from system.ending()
                if ended is not None:
                    return ended
            failed = any([o.status in ("failure", "timeout") for o in observations])
            talk.tell(number, taken.reply, taken.kept, taken.actions, observations)
    except Halt as halt:
        return Answer(None, halt.reason)


def _close(taken: Taken) -> Strategy[None]:
    """The last triplet: `finish`, whose observation is the accepted output (R2)."""
    observation = Observation(taken.answer, extraction="answer accepted", auto=True)
    yield Act(taken.thought, taken.actions, (observation,))


def _lost(task: Task, lost: Lost, wrap_up: str, toolless: bool) -> Answer:
    """No usable reply: at a limit that is the limit's doing, else an error."""
    if wrap_up and task.offers:
        return Answer(None, wrap_up, f"the limit was reached, and then: {lost.error}")
    if toolless:
        return Answer(None, "loop_detected", f"a loop was detected, and then: {lost.error}")
    return Answer(None, "error", lost.error)

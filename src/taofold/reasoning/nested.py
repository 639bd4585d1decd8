"""A strategy inside a strategy: it runs in a branch of its own and ends in a named step. And the
steps that strategies make themselves: the last of each (`closing`), one that failed (`failure`).

Every inner strategy runs inside a fork, alone or beside others: its effects get keys of
their own, it has its own repetition guard (a fresh conversation may look again at what an
earlier one saw), and a limit that stops it in the middle of a turn gives its partial
answer back to the outer strategy, which may still act. Knows nothing about what the inner
strategy does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from taofold.core.effects import Act, Answer, Begin, Effect, Halt, Strategy, fork
from taofold.core.values import FINISH, Action, Message, Observation, Thought
from taofold.reasoning.task import Output, Task

Inner: TypeAlias = Callable[[Task], Strategy[Any]]
"""What every strategy is: from a task to a generator."""

DONE: Final = frozenset({"final_answer", "no_tool_call", "criteria_met"})
"""The reasons for which a strategy stops that has done its work."""

OWN: Final = frozenset({"error", "loop_detected"})
"""The reasons that concern the inner strategy alone."""


@dataclass(frozen=True, slots=True)
class Solved:
    """How an inner strategy ended, and what people said while it ran."""

    answer: Answer
    heard: tuple[Message, ...] = ()

    @property
    def good(self) -> bool:
        """Is its output an answer?"""
        return self.answer.stop in DONE and not self.answer.error

    @property
    def usable(self) -> bool:
        """Is there an answer, if only the best one within a limit or out of a loop?"""
        return self.good or (self.answer.output is not None and not self.answer.error)

    @property
    def limit(self) -> str:
        """The limit of the whole run that stopped it, or ""."""
        stop = self.answer.stop
        return "" if stop in DONE or stop in OWN else stop

    @property
    def error(self) -> str:
        """Why its output is no answer, or ""."""
        if self.good:
            return ""
        return self.answer.error or f"stopped: {self.answer.stop}"


def named_step(inner: Inner, task: Task, name: str, **parameters: Any) -> Strategy[Solved]:
    """Run `inner`; its last step, `finish`, is recorded as the step `name` of the outer one.

    If it fails, a failed step `name` is recorded instead.
    """
    strategy: Strategy[Any] = inner(task)
    heard: list[Message] = []
    result: Any = None
    try:
        while True:
            effect = _renamed(strategy.send(result), name, parameters)
            try:
                result = yield effect
            # The inner strategy may answer a Halt by returning: its StopIteration is caught below.
            except Halt as halt:
                strategy.throw(halt)
                raise
            # Told to the outer strategy: the inner conversation ends with the branch.
            if isinstance(effect, Begin):
                heard += result.heard
    except StopIteration as stop:
        answer = stop.value if isinstance(stop.value, Answer) else Answer(stop.value)
    except Halt as halt:
        return Solved(Answer(None, halt.reason), tuple(heard))
    finally:
        strategy.close()

    solved = Solved(answer, tuple(heard))
    # At a limit of the run no further step may be taken, so none is recorded.
    if not solved.usable and not solved.limit:
        yield failure(name, solved.error, parameters)
    return solved


def alone(inner: Inner, task: Task, name: str, **parameters: Any) -> Strategy[Solved]:
    """Run one `inner` in a branch of its own."""
    solved = yield from fork([named_step(inner, task, name, **parameters)])
    return solved[0]


def failure(name: str, error: str, parameters: dict[str, Any], content: str = "") -> Act:
    """A step of the strategy's own that failed."""
    thought = Thought(content or f"{name} could not be done", "exception", synthesized=True)
    observation = Observation(error, "failure", error.partition("\n")[0][:200], auto=True)
    return Act(thought, (Action(name, parameters),), (observation,))


def closing(thought: Thought, answer: Any, output: Output) -> Act:
    """The last triplet of every strategy: `finish`, whose observation is the answer (R2).

    What the type of `output` hides is masked in it.
    """
    shown = output.shown(answer)
    observation = Observation(shown, extraction="answer accepted", auto=True)
    return Act(thought, (Action(FINISH, {"answer": shown}),), (observation,))


def _renamed(effect: Effect, name: str, parameters: dict[str, Any]) -> Effect:
    """The effect; if it is the inner strategy's `finish`, as the outer one's step `name`."""
    # A `finish` without a local observation was not accepted yet.
    if not isinstance(effect, Act) or not effect.local or effect.actions[0].tool != FINISH:
        return effect
    finish = effect.actions[0]
    action = Action(name, parameters, finish.rationale, finish.id)
    return replace(effect, actions=(action,))

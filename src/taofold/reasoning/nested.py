"""Runs a strategy inside another strategy, in its own branch, as one named step.

Also builds the steps that strategies make themselves: the last one (`closing`) and a failed one
(`failure`). Every inner strategy runs inside a fork, alone or beside others. Its effects get their
own keys. It has its own repetition guard, because a new conversation may repeat the reads of an
earlier one. A limit in the middle of a turn returns its partial answer to the outer strategy, which
may still act. Knows nothing about the work of the inner strategy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from taofold.core.effects import Act, Answer, Begin, Effect, Halt, Strategy, fork
from taofold.core.values import FINISH, Action, Message, Observation, Thought
from taofold.reasoning.task import Output, Task

Inner: TypeAlias = Callable[[Task], Strategy[Any]]
"""The type of every strategy: from a task to a generator."""

DONE: Final = frozenset({"final_answer", "no_tool_call", "criteria_met"})
"""The stop reasons of a strategy that has finished its work."""

OWN: Final = frozenset({"error", "loop_detected"})
"""The stop reasons that concern only the inner strategy."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The result of an inner strategy, and the steering received while it ran."""

    answer: Answer
    heard: tuple[Message, ...] = ()

    @property
    def good(self) -> bool:
        """True if its output is a complete answer."""
        return self.answer.stop in DONE and not self.answer.error

    @property
    def usable(self) -> bool:
        """True if it has an answer, possibly only the best one within a limit or after a loop."""
        return self.good or (self.answer.output is not None and not self.answer.error)

    @property
    def limit(self) -> str:
        """The limit of the whole run that stopped it, or ""."""
        stop = self.answer.stop
        return "" if stop in DONE or stop in OWN else stop

    @property
    def error(self) -> str:
        """The reason why its output is not an answer, or ""."""
        if self.good:
            return ""
        return self.answer.error or f"stopped: {self.answer.stop}"


def named_step(inner: Inner, task: Task, name: str, **parameters: Any) -> Strategy[Solved]:
    """Runs `inner` and records its last step, `finish`, as the step `name` of the outer strategy.

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
            # Passed to the outer strategy: the inner conversation ends with the branch.
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
    """Runs one `inner` strategy in its own branch."""
    solved = yield from fork([named_step(inner, task, name, **parameters)])
    return solved[0]


def failure(name: str, error: str, parameters: dict[str, Any], content: str = "") -> Act:
    """Returns a failed step of the strategy's own."""
    thought = Thought(content or f"{name} could not be done", "exception", synthesized=True)
    observation = Observation(error, "failure", error.partition("\n")[0][:200], auto=True)
    return Act(thought, (Action(name, parameters),), (observation,))


def closing(thought: Thought, answer: Any, output: Output) -> Act:
    """Returns the last triplet of every strategy: `finish`, whose observation is the answer (R2).

    Fields that the type of `output` hides are masked in it.
    """
    shown = output.shown(answer)
    observation = Observation(shown, extraction="answer accepted", auto=True)
    return Act(thought, (Action(FINISH, {"answer": shown}),), (observation,))


def _renamed(effect: Effect, name: str, parameters: dict[str, Any]) -> Effect:
    """Returns the effect, with the inner strategy's `finish` renamed to the outer step `name`."""
    # A `finish` without a local observation was not accepted yet.
    if not isinstance(effect, Act) or not effect.local or effect.actions[0].tool != FINISH:
        return effect
    finish = effect.actions[0]
    action = Action(name, parameters, finish.rationale, finish.id)
    return replace(effect, actions=(action,))

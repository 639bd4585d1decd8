"""Plan, execute, evaluate, replan: tasks with dependencies, judged by somebody else.

The planner lists tool calls, the runtime carries them out in waves of independent ones, the
evaluator says whether the goal is reached. Its objections are in the next plan's prompt;
after `rejections` of them the run ends as not achieved, never as success. Roles: planner,
executor (how to retry a failed task), evaluator, finalizer (the answer's form).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import BaseModel

from taofold.core.effects import Act, Answer, Halt, Strategy, note
from taofold.core.errors import ConfigError
from taofold.core.rules import detect_action_loop, detect_alternation, fingerprint
from taofold.core.values import Action, Observation, Thought, ThoughtType
from taofold.reasoning import planning as p
from taofold.reasoning.asking import Unread, stopped, typed
from taofold.reasoning.executing import Ended, Execution
from taofold.reasoning.nested import failure
from taofold.reasoning.task import Task

_SAID: Final = {"plan": "Plan the next tasks.", "evaluate": "Is the goal reached?"}
"""The thought of a step whose reply gave none."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan, execute, evaluate.

    Raises:
        ConfigError: `rejections` is less than 1 or `retries` negative.
    """

    name: ClassVar[str] = "plan"
    rejections: int = 3
    """How often the evaluator may say no before the run ends as not achieved."""
    retries: int = 1
    """How often one failed task may be tried in another way."""

    def __post_init__(self) -> None:
        if self.rejections < 1:
            raise ConfigError(f"must be 1 or more, not {self.rejections!r}", path="rejections")
        if self.retries < 0:
            raise ConfigError(f"must be 0 or more, not {self.retries!r}", path="retries")

    def __call__(self, task: Task) -> Strategy[Answer]:
        """The strategy for `task`."""
        return _Planning(self, task).run()


class _Planning(Execution):
    """One run: the tasks so far, what came of them, and what the evaluator said."""

    def __init__(self, options: Plan, task: Task) -> None:
        super().__init__(task, options.retries)
        self.options = options
        self.plans: list[str] = []
        self.hint = ""
        self.feedback = ""
        self.rejected = 0
        self.flags = 0

    def run(self) -> Strategy[Answer]:
        try:
            while True:
                yield from self._cycle()
        except Ended as ended:
            return ended.answer
        except Halt as halt:
            return Answer(None, halt.reason)

    def _cycle(self) -> Strategy[None]:
        yield from self.turn()
        got = yield from self.ask(
            "planner",
            p.PLANNER % p.tools(self.task),
            p.plan_reader(self.task, self.seen),
            p.PLAN_SCHEMA,
            self.feedback,
            self.hint,
        )
        if isinstance(got, Unread):
            raise Ended(stopped(got))
        plan = got.value
        self.guessed |= {one.id: got.guessed for one in plan.tasks}
        circles = self._circles(plan.tasks)
        yield self._step("plan", plan.thought, "goal", plan)
        if circles:
            yield from self._flag()
            return
        yield from self._execute(plan)
        yield from self._evaluate()

    def _step(self, name: str, said: str, kind: ThoughtType, value: BaseModel) -> Act:
        thought = Thought(said or _SAID[name], self.kind(kind), synthesized=not said)
        result = value.model_dump(exclude={"thought", "reasoning"})
        action = Action(name, {"cycle": len(self.plans)})
        return Act(thought, (action,), (Observation(result, extraction=name, auto=True),))

    def _circles(self, tasks: Sequence[p.PlannedTask]) -> bool:
        """Is this plan the last one again, or one of two that take turns?"""
        calls = [fingerprint(Action(one.tool, one.args)) for one in tasks]
        self.plans.append("\n".join(sorted(calls)))
        if not tasks:
            return False
        return detect_action_loop(self.plans) or detect_alternation(self.plans)

    def _flag(self) -> Strategy[None]:
        """Going in circles: a hint the first time, the end the second."""
        self.flags += 1
        self.hint = p.strategy_hint(self.task, self.used)
        yield from note("violation", rule="repetition", detail=self.hint)
        if self.flags > 1:
            yield from self.turn(last=True)
            yield from self.finish("loop_detected")

    def _execute(self, plan: p.Tasks) -> Strategy[None]:
        self.hint = ""
        listed = {one.id: one for one in plan.tasks}
        known = dict(self.seen)
        self.tasks.update(listed)
        for number, wave in enumerate(p.order(plan.tasks, known)):
            yield from self.turn()
            said = plan.thought if not number and plan.thought else ""
            yield from self.wave([listed[id_] for id_ in wave], said)
            for id_ in wave:
                yield from self.mend(listed[id_])

    def _evaluate(self) -> Strategy[None]:
        yield from self.turn()
        got = yield from self.ask(
            "evaluator", p.EVALUATOR, typed(p.Evaluation), p.EVALUATION_SCHEMA
        )
        if isinstance(got, Unread):
            yield failure("evaluate", got.error, {"cycle": len(self.plans)})
            self.failed = True
            self._reject(p.Evaluation(achieved=False, feedback="the evaluator gave no verdict"))
            return
        verdict: p.Evaluation = got.value
        yield self._step("evaluate", verdict.reasoning, "reasoning", verdict)
        if verdict.achieved:
            yield from self.finish("")
        self._reject(verdict)

    def _reject(self, verdict: p.Evaluation) -> None:
        self.rejected += 1
        self.feedback = p.feedback(verdict)
        if self.rejected >= self.options.rejections:
            said = "; ".join([verdict.feedback, *verdict.missing]).strip("; ")
            raise Ended(
                Answer(None, error=f"not achieved after {self.rejected} rejections: {said}")
            )

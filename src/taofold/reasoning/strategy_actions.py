"""TAgent's `plan`, `evaluate` and `summarize` as actions of the strategy itself.

The model calls them by name like tools; the models in the roles planner, evaluator and finalizer
answer them. Their results enter the state's data under `plan`, `achieved`, `evaluation` and
`summary`. A positive evaluation ends the run; after `REJECTIONS` negative ones it ends as not
achieved. `tagent` is the strategy that offers all three. Knows nothing about the loop around it.
"""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

from taofold.core.effects import Answer, HandOff, Strategy, note
from taofold.core.values import Action, Observation, Thought
from taofold.reasoning.direct import Read, Reader, Unread, answer, ask_for, typed_reader
from taofold.reasoning.nested import closing
from taofold.reasoning.plan import (
    EVALUATION_SCHEMA,
    EVALUATOR,
    FINALIZER,
    Evaluation,
    PlannedTask,
    digest,
    feedback,
    question,
)
from taofold.reasoning.react_loop import react
from taofold.reasoning.task import Task

SYSTEM_ACTIONS: Final[dict[str, str]] = {
    "plan": "Write down the next steps towards the goal. Give them as `steps`, or nothing: "
    "then the planner is asked.",
    "evaluate": "Let the evaluator judge whether the goal is reached. If it is, the run ends.",
    "summarize": "Let the finalizer sum up what is known so far.",
}
"""The names of the actions with their descriptions for the model."""

REJECTIONS: Final = 3
_ALONE: Final = "{} judges what is there so far: send it alone, not beside other actions"
_PLAN: Final = """\
You plan the next steps towards a goal. You do not act.
Tools:
%s
Reply with exactly one JSON object, nothing before or after it:
{"steps": ["<step>", …]}"""
_SUMMARY: Final = "Sum up in plain text what these results say about the goal. Invent nothing."


class Steps(BaseModel):
    """The steps of a plan."""

    steps: list[str]


class SystemActions:
    """The strategy's own actions in one run, and the results of its steps so far.

    Example: `local = yield from system.observed(actions)`, then `Act(thought, actions, local)`.
    """

    def __init__(self, task: Task, names: Sequence[str]) -> None:
        self.task, self.names = task, frozenset(names)
        # An evaluation may be the last action of a run; a plan or summary never is.
        self.last: tuple[str, ...] = ("evaluate",) if "evaluate" in self.names else ()
        self.achieved = False
        self.objections: list[str] = []
        self._calls: dict[str, PlannedTask] = {}
        self._seen: dict[str, Observation] = {}

    @property
    def shortfall(self) -> str:
        """The evaluator's last objection, or ""."""
        return f"not achieved: {self.objections[-1]}" if self.objections else ""

    def observed(self, actions: Sequence[Action]) -> Strategy[tuple[Observation | None, ...]]:
        """Returns an observation for each of the strategy's own `actions`, else None."""
        observations: list[Observation | None] = []
        for action in actions:
            if action.tool not in self.names or action.error:
                observations.append(None)
            # An evaluation beside actions would be made before their results are known.
            elif len(actions) > 1:
                observations.append(
                    Observation(_ALONE.format(action.tool), "failure", refused="batch")
                )
            else:
                observations.append((yield from self._perform(action)))
        return tuple(observations)

    def saw(self, actions: Sequence[Action], observations: Sequence[Observation]) -> None:
        """Records the results of a step for the next evaluation."""
        for action, observation in zip(actions, observations, strict=True):
            id_ = str(len(self._seen) + 1)
            self._calls[id_] = PlannedTask(id=id_, tool=action.tool)
            self._seen[id_] = observation

    def ending(self) -> Strategy[Answer | None]:
        """Returns the run's answer if the evaluator ended it; a positive verdict asks the
        finalizer.
        """
        if self.achieved:
            got = yield from answer(self.task, self._question(FINALIZER), role="finalizer")
            if isinstance(got, Unread):
                error = f"the results could not be put into the answer's form: {got.error}"
                return Answer(None, "error", error)
            thought = Thought("The answer from the results.", "synthesis", synthesized=True)
            yield closing(thought, got.value, self.task.output)
            return Answer(got.value, "criteria_met")
        if len(self.objections) >= REJECTIONS:
            why = self.objections[-1]
            error = f"not achieved after {len(self.objections)} rejections: {why}"
            return Answer(None, error=error)
        return None

    def _perform(self, action: Action) -> Strategy[Observation]:
        match action.tool:
            case "plan":
                return (yield from self._plan(action))
            case "evaluate":
                return (yield from self._evaluate())
            case _:
                return (yield from self._summarize())

    def _plan(self, action: Action) -> Strategy[Observation]:
        steps: Any = action.parameters.get("steps") or action.parameters.get("plan")
        if not steps:
            got = yield from self._ask(
                "planner", _PLAN % self.task.tool_lines(), typed_reader(Steps)
            )
            if isinstance(got, Unread):
                return Observation(got.error, "failure")
            steps = got.value.steps
        yield from note("state", plan=steps)
        return Observation(steps, extraction="plan written down", auto=True)

    def _evaluate(self) -> Strategy[Observation]:
        got = yield from self._ask(
            "evaluator", EVALUATOR, typed_reader(Evaluation), EVALUATION_SCHEMA
        )
        if isinstance(got, Unread):
            # An unreadable verdict counts as a rejection, as in `plan`.
            self.objections.append("the evaluator gave no verdict")
            return Observation(got.error, "failure")
        verdict: Evaluation = got.value
        self.achieved = verdict.achieved
        yield from note("state", achieved=verdict.achieved, evaluation=verdict.model_dump())
        if verdict.achieved:
            return Observation(verdict.model_dump(), extraction="goal achieved", auto=True)
        self.objections.append("; ".join([verdict.feedback, *verdict.missing]).strip("; "))
        return Observation(feedback(verdict), extraction="not achieved yet", auto=True)

    def _summarize(self) -> Strategy[Observation]:
        got = yield from self._ask("finalizer", _SUMMARY, typed_reader(str))
        if isinstance(got, Unread):
            return Observation(got.error, "failure")
        yield from note("state", summary=got.value)
        return Observation(got.value)

    def _ask(
        self, role: Any, rules: str, reader: Reader[Any], schema: dict[str, Any] | None = None
    ) -> Strategy[Read[Any] | Unread]:
        conversation = self.task.opening(rules, self._question(), history=role == "planner")
        return (
            yield from ask_for(
                reader, conversation, attempts=self.task.attempts, role=role, schema=schema
            )
        )

    def _question(self, *words: str) -> str:
        results = digest(self._calls, self._seen, self.task.budget // 2)
        return question(self.task.goal, results, *words)


def tagent(task: Task, names: Sequence[str] = tuple(SYSTEM_ACTIONS)) -> Strategy[Answer | HandOff]:
    """ReAct whose model may also call TAgent's `plan`, `evaluate` and `summarize`.

    Args:
        task: Must offer `names`.
        names: The actions that the strategy answers.
    """
    return react(task, SystemActions(task, names))

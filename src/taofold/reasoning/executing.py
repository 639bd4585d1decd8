"""Carrying out planned tasks: waves of tool calls, references resolved, failures mended.

What cannot run (a reference that leads nowhere, a task that needs one which failed) is
observed as a failure with its reason and never reaches a tool. Knows nothing about plans
and evaluations.
"""

from collections.abc import Sequence
from typing import Any, Final

from taofold.core.effects import Act, Answer, Outlook, Strategy, act, begin
from taofold.core.values import Action, Message, Observation, StepRole, Thought, ThoughtType
from taofold.reasoning import planning as p
from taofold.reasoning.asking import Read, Reader, Unread, ask_for, opening
from taofold.reasoning.direct import answer
from taofold.reasoning.nested import closing
from taofold.reasoning.references import Unresolved, resolved
from taofold.reasoning.task import Task

_FINAL: Final = ("denied", "expired", "limit", "unresolved", "skipped")
"""Refusals that asking the executor cannot mend."""


class Ended(Exception):
    """The story is over: with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.answer = answer


class Execution:
    """The tasks so far and what came of them."""

    def __init__(self, task: Task, retries: int) -> None:
        self.task, self.retries = task, retries
        self.tasks: dict[str, p.PlannedTask] = {}
        self.seen: dict[str, Observation] = {}
        self.heard: list[Message] = []
        self.used: set[str] = set()
        self.guessed: dict[str, tuple[str, ...]] = {}
        """Tasks whose plan could only be read by changing what it says, and how (D7)."""
        self.failed = False
        """Did the last step fail? Then the next thought is an exception."""

    def turn(self, *, last: bool = False) -> Strategy[Outlook]:
        """Open a turn. Unless it may be the last one, a limit that is near ends the run."""
        outlook = yield from begin()
        self.heard += outlook.heard
        if outlook.stop:
            raise Ended(Answer(None, outlook.stop))
        if outlook.wrap_up and not last:
            yield from self.finish(outlook.wrap_up)
        return outlook

    def ask(
        self,
        role: StepRole,
        rules: str,
        reader: Reader[Any],
        schema: dict[str, Any],
        *words: str,
    ) -> Strategy[Read[Any] | Unread]:
        asked = p.question(self.task.goal, self.results(), *words)
        planner = role == "planner"
        conversation = opening(self.task, rules, asked, self.heard, history=planner)
        return (
            yield from ask_for(
                reader, conversation, attempts=self.task.attempts, role=role, schema=schema
            )
        )

    def results(self) -> str:
        return p.digest(self.tasks, self.seen, self.task.budget // 2)

    def kind(self, kind: ThoughtType) -> ThoughtType:
        failed, self.failed = self.failed, False
        return "exception" if failed else kind

    def finish(self, limit: str) -> Strategy[None]:
        """Put the results into the answer's form: the last call, and the last step."""
        asked = p.question(self.task.goal, self.results(), p.FINALIZER)
        got = yield from answer(self.task, asked, role="finalizer", heard=tuple(self.heard))
        if isinstance(got, Unread):
            error = f"the results could not be put into the answer's form: {got.error}"
            raise Ended(Answer(None, limit or "error", error))
        kind = self.kind("synthesis")
        yield closing(Thought("The answer from the results.", kind, synthesized=True), got.value)
        raise Ended(Answer(got.value, limit or "criteria_met"))

    def wave(self, tasks: Sequence[p.PlannedTask], said: str) -> Strategy[None]:
        """Run independent tasks at once, as one batch. What cannot run is observed as such."""
        actions: list[Action] = []
        local: list[Observation | None] = []
        for one in tasks:
            action, refused = self._action(one)
            actions.append(action)
            local.append(refused)
        content = said or f"Next: {', '.join([one.description or one.id for one in tasks])}."
        thought = Thought(content, self.kind("progress"), synthesized=not said)
        observations = yield Act(thought, tuple(actions), tuple(local))
        self.saw(tasks, observations)

    def _action(self, task: p.PlannedTask) -> tuple[Action, Observation | None]:
        """The call with its references resolved, or why it cannot be made."""
        why = task.description or f"{task.id} of the plan"
        failed = sorted([id_ for id_ in task.needs(self.seen) if not self._good(id_)])
        if failed:
            text = f"not run: it depends on {failed[0]!r}, which failed"
            refused = Observation(text, "failure", text, refused="skipped")
            return Action(task.tool, task.args, why, task.id), refused
        try:
            args = resolved(task.args, self._output, self.tasks.keys())
        except Unresolved as error:
            text = f"not run: {error}"
            refused = Observation(text, "failure", text, refused="unresolved")
            return Action(task.tool, task.args, why, task.id), refused
        repairs = self.guessed.get(task.id, ())
        return Action(task.tool, args, why, task.id, repairs, bool(repairs)), None

    def _good(self, id_: str) -> bool:
        seen = self.seen.get(id_)
        return seen is not None and seen.status in ("success", "partial")

    def _output(self, id_: str) -> Any:
        seen = self.seen.get(id_)
        if seen is None:
            raise Unresolved(f"there is no result of a task {id_!r}")
        if seen.blob or seen.cut:
            raise Unresolved(f"the output of {id_!r} is too large to be passed on whole")
        return seen.result

    def saw(self, tasks: Sequence[p.PlannedTask], observations: Sequence[Observation]) -> None:
        for one, seen in zip(tasks, observations, strict=True):
            self.seen[one.id] = seen
            if not seen.refused:
                self.used.add(one.tool)
        self.failed = any([seen.status in ("failure", "timeout") for seen in observations])

    def mend(self, task: p.PlannedTask) -> Strategy[None]:
        """Try a failed task in another way, as often as allowed."""
        for _ in range(self.retries):
            seen = self.seen[task.id]
            if seen.status not in ("failure", "timeout") or seen.refused in _FINAL:
                return
            yield from self.turn()
            asked = f"The failed task: {task.id} {task.description}\ntool {task.tool}, args "
            asked += f"{task.args!r}\nIt failed: {seen.result}"
            rules = p.EXECUTOR % p.tools(self.task)
            got = yield from self.ask(
                "executor", rules, p.retry_reader(self.task), p.RETRY_SCHEMA, asked
            )
            if isinstance(got, Unread) or got.value.give_up:
                return
            retry: p.Retry = got.value
            task = task.model_copy(update={"tool": retry.tool, "args": retry.args})
            self.guessed[task.id] = got.guessed
            action, refused = self._action(task)
            thought = Thought(retry.thought or "Try it in another way.", "exception")
            self.tasks[task.id] = task
            observations = (
                yield from act(thought, action)
                if refused is None
                else _given(thought, action, refused)
            )
            self.saw([task], observations)


def _given(
    thought: Thought, action: Action, refused: Observation
) -> Strategy[Sequence[Observation]]:
    """A step whose observation is known beforehand."""
    observations: Sequence[Observation] = yield Act(thought, (action,), (refused,))
    return observations

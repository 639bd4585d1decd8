"""Plan, execute, evaluate, replan: tasks with dependencies, and a separate evaluator.

The planner lists tool calls, the runtime performs them in waves of independent ones, and the
evaluator decides if the goal is reached. Its objections are in the next plan's prompt; after
`rejections` of them the run ends as not achieved, never as success. A task that cannot run (a
reference that leads nowhere, a failed dependency) is observed as a failure with its reason and
never reaches a tool. Roles: planner, executor (retries of a failed task), evaluator, finalizer (the
answer's form).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict

from taofold.core.effects import Act, Answer, Halt, Outlook, Strategy, act, begin, note
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.rules import detect_action_loop, detect_alternation, fingerprint
from taofold.core.values import Action, Message, Observation, Reply, StepRole, Thought, ThoughtType
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.dependencies import Tangle, Unresolved, references, resolve, waves
from taofold.reasoning.direct import (
    Read,
    Reader,
    Unread,
    Wrong,
    answer,
    ask_for,
    stopped_answer,
    typed_reader,
)
from taofold.reasoning.nested import closing, failure
from taofold.reasoning.task import Task

PLANNER: Final = """\
You plan how to reach a goal with tools. You do not act: the tasks you list are carried out.
Tools:
%s
Reply with exactly one JSON object, nothing before or after it:
{"thought": "<why these tasks>", "tasks": [{"id": "task_1", "description": "<what for>", \
"tool": "<name>", "args": {…}, "depends": ["<ids of tasks that come first>"]}]}
Tasks that do not depend on each other run at the same time. Ids are never used twice.
To pass on a result write "{{ task_1.output.key[0] }}" as an argument: the value itself is passed.
If the results so far are enough, "tasks" is empty."""
EXECUTOR: Final = """\
A task failed. Say how to do it otherwise, or give it up.
Tools:
%s
Reply with exactly one JSON object, nothing before or after it:
{"thought": "<why it failed and what you change>", "tool": "<name>", "args": {…}, \
"give_up": <true if it cannot be done>}
Never repeat the call unchanged."""
EVALUATOR: Final = """\
You judge whether a goal is reached, by the results alone: what they do not show is not done.
Reply with exactly one JSON object, nothing before or after it:
{"reasoning": "<how you judged>", "achieved": <true or false>, "feedback": "<what is wrong>", \
"missing": ["<what is missing>", …], "suggestions": ["<what to try>", …]}"""
FINALIZER: Final = "Give the answer to the goal from these results. Invent nothing."
SHOWN: Final = 4000
"""The most characters of one result in a prompt."""
SHORT: Final = 200
"""The most characters of one result once the prompt is nearly full."""


class PlannedTask(BaseModel):
    """One task of a plan: a tool call that may refer to the results of others."""

    id: str
    description: str = ""
    tool: str
    args: dict[str, Any] = {}
    depends: list[str] = []

    def needs(self, known: Iterable[str] = ()) -> set[str]:
        """Returns the tasks that must come first: the named ones, and the referenced ones among
        `known`.
        """
        return set(self.depends) | (set(references(self.args)) & set(known))


class Tasks(BaseModel):
    """A plan."""

    thought: str = ""
    tasks: list[PlannedTask]


class _Retry(BaseModel):
    """How a failed task is to be done otherwise."""

    model_config = ConfigDict(title="Retry")  # the schema is sent to models and recorded
    thought: str = ""
    tool: str = ""
    args: dict[str, Any] = {}
    give_up: bool = False


class Evaluation(BaseModel):
    """Is the goal reached, and if not, what is missing?"""

    reasoning: str = ""
    achieved: bool
    feedback: str = ""
    missing: list[str] = []
    suggestions: list[str] = []


def order(tasks: Sequence[PlannedTask], known: Iterable[str]) -> list[list[str]]:
    """Returns the ids of the tasks in waves. Raises Tangle."""
    before = set(known)
    ids = before | {task.id for task in tasks}
    return waves([(task.id, task.needs(ids)) for task in tasks], before)


def digest(tasks: Mapping[str, PlannedTask], seen: Mapping[str, Observation], budget: int) -> str:
    """Returns the results for a prompt: older ones shortened, the oldest omitted.

    Args:
        tasks: The tasks by id.
        seen: Their observations, oldest first.
        budget: Characters for complete results; half as many more are used for short ones.
    """
    lines: list[str] = []
    used = 0
    # Newest first, so that the budget goes to the results that the next call builds on.
    for left, id_ in enumerate(reversed(list(seen))):
        line = _line(tasks[id_], seen[id_], SHOWN if used + SHOWN <= budget else SHORT)
        used += len(line)
        if used > budget + budget // 2:
            lines.append(f"({len(seen) - left} older results are not shown)")
            break
        lines.append(line)
    return "\n".join(reversed(lines)) or "(no results yet)"


def _line(task: PlannedTask, seen: Observation, most: int) -> str:
    text = render(seen.result)
    if len(text) > most:
        text = f"{text[:most]} […{len(text) - most} more characters]"
    return f"[{task.id}] {task.tool} {task.description} [{seen.status}]: {text}"


def feedback(evaluation: Evaluation) -> str:
    """Returns the evaluator's objections for the next plan."""
    parts = [f"The goal is not reached yet: {evaluation.feedback or 'no reason was given'}"]
    if evaluation.missing:
        parts.append("Missing:\n" + "\n".join([f"- {line}" for line in evaluation.missing]))
    if evaluation.suggestions:
        parts.append("Suggestions:\n" + "\n".join([f"- {line}" for line in evaluation.suggestions]))
    return "\n".join(parts)


def question(goal: str, results: str, *words: str) -> str:
    """Returns the goal, the results so far, and any further paragraphs."""
    rest = "".join([f"\n\n{word}" for word in words if word])
    return f"The goal:\n{goal}\n\nResults so far:\n{results}{rest}"


PLAN_SCHEMA: Final = Tasks.model_json_schema()
RETRY_SCHEMA: Final = _Retry.model_json_schema()
EVALUATION_SCHEMA: Final = Evaluation.model_json_schema()


_LIMITS: Final = ("limit", "tool_limit", "time_limit")
_FINAL: Final = ("denied", "expired", *_LIMITS, "unresolved", "skipped")
"""Refusals that a retry by the executor cannot fix."""


_STEPS: Final = "max_steps"
_EVALUABLE: Final = (_STEPS, "max_tool_calls")
"""Limits that leave room for an evaluation and the answer after it."""


class _Ended(Exception):
    """Ends the strategy with this answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self.answer = answer


class Execution:
    """The tasks so far and their results."""

    def __init__(self, task: Task, retries: int) -> None:
        self.task, self.retries = task, retries
        self.tasks: dict[str, PlannedTask] = {}
        self.seen: dict[str, Observation] = {}
        self.heard: list[Message] = []
        self.used: set[str] = set()
        self.guessed: dict[str, tuple[str, ...]] = {}
        """Tasks whose plan was read with a repair of its content, and those repairs (D7).
        """
        self.failed = False
        """True if the last step failed. The next thought is then an exception."""

    def turn(self, *, evaluates: bool = False, last: bool = False) -> Strategy[Outlook]:
        """Opens a turn. A limit that is near ends the run, unless this may be the last turn.

        Args:
            evaluates: True for an evaluation. It needs no tools, and it may be the last step.
            last: True if this may be the last turn.
        """
        outlook = yield from begin()
        self.heard += outlook.heard
        if outlook.stop:
            raise _Ended(Answer(None, outlook.stop))
        if outlook.wrap_up and not last and not (evaluates and outlook.wrap_up in _EVALUABLE):
            # The remaining turn is used for the answer, not for another plan.
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
        text = question(self.task.goal, self.results(), *words)
        planner = role == "planner"
        conversation = self.task.opening(rules, text, self.heard, history=planner)
        return (
            yield from ask_for(
                reader, conversation, attempts=self.task.attempts, role=role, schema=schema
            )
        )

    def results(self) -> str:
        return digest(self.tasks, self.seen, self.task.budget // 2)

    def kind(self, kind: ThoughtType) -> ThoughtType:
        # Reset on reading: only the first thought after the failure must be an exception.
        failed, self.failed = self.failed, False
        return "exception" if failed else kind

    def finish(self, limit: str) -> Strategy[None]:
        """Converts the results to the answer's form: the last call, and the last step."""
        text = question(self.task.goal, self.results(), FINALIZER)
        got = yield from answer(self.task, text, role="finalizer", heard=tuple(self.heard))
        if isinstance(got, Unread):
            error = f"the results could not be put into the answer's form: {got.error}"
            raise _Ended(Answer(None, limit or "error", error))
        kind = self.kind("synthesis")
        yield closing(
            Thought("The answer from the results.", kind, synthesized=True),
            got.value,
            self.task.output,
        )
        raise _Ended(Answer(got.value, limit or "criteria_met"))

    def wave(self, tasks: Sequence[PlannedTask], said: str) -> Strategy[None]:
        """Runs independent tasks as one batch. Tasks that cannot run get a failed observation."""
        actions: list[Action] = []
        local: list[Observation | None] = []
        for task in tasks:
            action, refused = self._action(task)
            actions.append(action)
            local.append(refused)
        content = said or f"Next: {', '.join([task.description or task.id for task in tasks])}."
        thought = Thought(content, self.kind("progress"), synthesized=not said)
        observations = yield Act(thought, tuple(actions), tuple(local))
        self.saw(tasks, observations)

    def plan_reader(self) -> Reader[Tasks]:
        """Returns a reader of plans: known tools, new ids, a possible order."""

        def read(reply: Reply) -> Parsed[Tasks] | Unparsed | Wrong:
            parsed: Parsed[Tasks] | Unparsed = parse(
                reply.text, Tasks, finish_reason=reply.finish or None
            )
            return parsed if isinstance(parsed, Unparsed) else _checked(parsed)

        def _checked(parsed: Parsed[Tasks]) -> Parsed[Tasks] | Wrong:
            for planned in parsed.value.tasks:
                wrong = self.unknown_tool(planned.tool)
                if wrong is not None:
                    return wrong
                # A failed task may be planned again under its id. A result must not change after
                # others read it.
                if planned.id in self.seen and self.seen[planned.id].status in (
                    "success",
                    "partial",
                ):
                    return Wrong(
                        "duplicate_id", f"the id {planned.id!r} has a result already: use new ids"
                    )
            try:
                order(parsed.value.tasks, self.seen)
            except Tangle as tangle:
                return Wrong(tangle.kind, str(tangle))
            return parsed

        return read

    def retry_reader(self) -> Reader[_Retry]:
        """Returns a reader of retries: the tool must exist."""

        def read(reply: Reply) -> Parsed[_Retry] | Unparsed | Wrong:
            parsed: Parsed[_Retry] | Unparsed = parse(
                reply.text, _Retry, finish_reason=reply.finish or None
            )
            if isinstance(parsed, Unparsed) or parsed.value.give_up:
                return parsed
            return self.unknown_tool(parsed.value.tool) or parsed

        return read

    def unknown_tool(self, name: str) -> Wrong | None:
        """Returns the error for an unknown tool, or None."""
        names = [offer.name for offer in self.task.offers]
        if name in names:
            return None
        have = ", ".join(names) or "none; leave the tasks empty"
        return Wrong("unknown_tool", f"there is no tool {name!r}; there is: {have}")

    def untried_hint(self) -> str:
        """Returns the hint for a planner in a loop: the tools that were not tried."""
        unused = sorted({offer.name for offer in self.task.offers} - self.used)
        other = f"Tools not used yet: {', '.join(unused)}." if unused else "Every tool was used."
        return f"This plan repeats an earlier one and was not run. Find another way. {other}"

    def _action(self, task: PlannedTask) -> tuple[Action, Observation | None]:
        """Returns the call with its references resolved, or why it cannot be made."""
        why = task.description or f"{task.id} of the plan"
        # Includes tasks that the arguments reference without a mention in `depends`.
        failed = sorted([id_ for id_ in task.needs(self.seen) if not self._good(id_)])
        if failed:
            text = f"not run: it depends on {failed[0]!r}, which failed"
            refused = Observation(text, "failure", text, refused="skipped")
            return Action(task.tool, task.args, why, task.id), refused
        try:
            # Resolved here, just before the call, so that the log holds the parameters that were
            # sent.
            args = resolve(task.args, self._output, self.tasks.keys())
        except Unresolved as error:
            text = f"not run: {error}"
            refused = Observation(text, "failure", text, refused="unresolved")
            return Action(task.tool, task.args, why, task.id), refused
        # If a plan was read with a guess, each of its calls is marked as guessed: the runtime asks
        # or refuses (D7).
        repairs = self.guessed.get(task.id, ())
        return Action(task.tool, args, why, task.id, repairs, bool(repairs)), None

    def _good(self, id_: str) -> bool:
        observation = self.seen.get(id_)
        return observation is not None and observation.status in ("success", "partial")

    def _output(self, id_: str) -> Any:
        observation = self.seen.get(id_)
        if observation is None:
            raise Unresolved(f"there is no result of a task {id_!r}")
        # The log stores large outputs apart and shows only their beginning: a partial value is not
        # used.
        if observation.blob or observation.cut:
            raise Unresolved(f"the output of {id_!r} is too large to be passed on whole")
        return observation.result

    def saw(self, tasks: Sequence[PlannedTask], observations: Sequence[Observation]) -> None:
        for task, observation in zip(tasks, observations, strict=True):
            self.seen[task.id] = observation
            if not observation.refused:
                self.used.add(task.tool)
        self.failed = any(
            [observation.status in ("failure", "timeout") for observation in observations]
        )

    def mend(self, task: PlannedTask) -> Strategy[None]:
        """Tries a failed task in another way, at most `retries` times."""
        for _ in range(self.retries):
            observation = self.seen[task.id]
            if observation.status not in ("failure", "timeout") or observation.refused in _FINAL:
                return
            yield from self.turn()
            problem = f"The failed task: {task.id} {task.description}\ntool {task.tool}, args "
            problem += f"{task.args!r}\nIt failed: {observation.result}"
            rules = EXECUTOR % self.task.tool_lines()
            got = yield from self.ask("executor", rules, self.retry_reader(), RETRY_SCHEMA, problem)
            if isinstance(got, Unread) or got.value.give_up:
                return
            retry: _Retry = got.value
            # A copy: the recorded plan does not change.
            task = task.model_copy(update={"tool": retry.tool, "args": retry.args})
            self.guessed[task.id] = got.guessed
            action, refused = self._action(task)
            thought = Thought(retry.thought or "Try it in another way.", "exception")
            self.tasks[task.id] = task
            observations = (
                yield from act(thought, action)
                if refused is None
                else _answered_step(thought, action, refused)
            )
            self.saw([task], observations)


def _answered_step(
    thought: Thought, action: Action, refused: Observation
) -> Strategy[Sequence[Observation]]:
    """Records a step whose observation is known beforehand."""
    observations: Sequence[Observation] = yield Act(thought, (action,), (refused,))
    return observations


_SAID: Final = {"plan": "Plan the next tasks.", "evaluate": "Is the goal reached?"}
"""The thought of a step whose reply gave none."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan, execute, evaluate.

    Raises:
        ConfigError: `rejections` is less than 1 or `retries` negative.

    Example: `Agent(model, tools=[search], strategy=Plan(rejections=2))`.
    """

    name: ClassVar[str] = "plan"
    rejections: int = 3
    """The number of rejections by the evaluator after which the run ends as not achieved."""
    retries: int = 1
    """The most retries of one failed task."""

    def __post_init__(self) -> None:
        if self.rejections < 1:
            raise ConfigError(f"must be 1 or more, not {self.rejections!r}", path="rejections")
        if self.retries < 0:
            raise ConfigError(f"must be 0 or more, not {self.retries!r}", path="retries")

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _Planning(self, task).run()


class _Planning(Execution):
    """One run: the tasks so far, their results, and the evaluator's verdicts."""

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
        except _Ended as ended:
            return ended.answer
        except Halt as halt:
            return Answer(None, halt.reason)

    def _cycle(self) -> Strategy[None]:
        yield from self.turn()
        got = yield from self.ask(
            "planner",
            PLANNER % self.task.tool_lines(),
            self.plan_reader(),
            PLAN_SCHEMA,
            self.feedback,
            self.hint,
        )
        if isinstance(got, Unread):
            raise _Ended(stopped_answer(got))
        plan = got.value
        self.guessed |= {planned.id: got.guessed for planned in plan.tasks}
        circles = self._circles(plan.tasks)
        yield self._step("plan", plan.thought, "goal", plan)
        # The plan is recorded in either case; if it repeats an earlier one it is not run.
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

    def _circles(self, tasks: Sequence[PlannedTask]) -> bool:
        """Returns whether this plan equals the last one, or alternates with another."""
        # Compares the calls, not their descriptions: the same tasks in another order are the same
        # plan.
        calls = [fingerprint(Action(planned.tool, planned.args)) for planned in tasks]
        self.plans.append("\n".join(sorted(calls)))
        if not tasks:
            return False
        return detect_action_loop(self.plans) or detect_alternation(self.plans)

    def _flag(self) -> Strategy[None]:
        """Handles a repeated plan: first with a hint, the second time by ending the run."""
        self.flags += 1
        self.hint = self.untried_hint()
        yield from note("violation", rule="repetition", detail=self.hint)
        # After a second repetition another hint would not help.
        if self.flags > 1:
            yield from self.turn(last=True)
            yield from self.finish("loop_detected")

    def _execute(self, plan: Tasks) -> Strategy[None]:
        self.hint = ""
        listed = {planned.id: planned for planned in plan.tasks}
        # Before the new tasks run: the tasks that they may refer to.
        earlier = dict(self.seen)
        self.tasks.update(listed)
        for number, wave in enumerate(order(plan.tasks, earlier)):
            yield from self.turn()
            thought = plan.thought if not number and plan.thought else ""
            yield from self.wave([listed[id_] for id_ in wave], thought)
            for id_ in wave:
                yield from self.mend(listed[id_])

    def _evaluate(self) -> Strategy[None]:
        outlook = yield from self.turn(evaluates=True)
        got = yield from self.ask(
            "evaluator", EVALUATOR, typed_reader(Evaluation), EVALUATION_SCHEMA
        )
        if isinstance(got, Unread):
            yield failure("evaluate", got.error, {"cycle": len(self.plans)})
            self.failed = True
            # A missing verdict is a rejection: an unreadable evaluator must not let anything pass.
            verdict = Evaluation(achieved=False, feedback="the evaluator gave no verdict")
        else:
            verdict = got.value
            yield self._step("evaluate", verdict.reasoning, "reasoning", verdict)
            if verdict.achieved:
                yield from self.finish("")
        self._reject(verdict)
        if outlook.wrap_up == _STEPS:
            yield from self.finish(_STEPS)

    def _reject(self, verdict: Evaluation) -> None:
        self.rejected += 1
        self.feedback = feedback(verdict)
        if self.rejected >= self.options.rejections:
            objections = "; ".join([verdict.feedback, *verdict.missing]).strip("; ")
            raise _Ended(
                Answer(None, error=f"not achieved after {self.rejected} rejections: {objections}")
            )

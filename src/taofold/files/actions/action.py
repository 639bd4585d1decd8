"""What an action of a flow is, and how one runs a strategy.

A `Kind` is a name, the schema of its keys (`Keys`) and a generator of effects, which is given an
`ActionCall` and returns `Done`. With `think` that generator runs a strategy on a task of its own,
watched and in a branch of its own. `Asking` are the keys of every action that asks a model.

Watched means: sent to the node's models, kept to its tools and steps, and traced. Effects are
changed on their way out and results on their way in; what runs inside knows nothing of it. Branches
of a fork are watched too, and their traces are joined in order. Knows nothing about YAML.

All actions share what keys for the answer's type, for tools and for models mean in a run
(`output_of`, `offered_tools`, `roles`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from taofold.core.effects import (
    Act,
    Answer,
    Ask,
    Begin,
    Effect,
    Fork,
    Halt,
    Note,
    Outlook,
    Strategy,
)
from taofold.core.values import FINISH, Action, Effort, ModelSettings, Observation, Reply
from taofold.files.expressions.template import Unrenderable
from taofold.files.types import NoType, type_of
from taofold.policy.limits import STOP_REASON
from taofold.reasoning import Offer, Output, Task
from taofold.reasoning.nested import Inner, alone

K = TypeVar("K", bound="Keys")

Render: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""Renders a deferred key with the variables that only the action has."""


class Keys(BaseModel):
    """The keys under `with`: unknown ones are errors, and text is never taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Asking(Keys):
    """The keys of whatever asks a model."""

    model: str = ""
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    effort: Effort | None = None
    """How hard the model shall think: none, minimal, low, medium, high, xhigh, max."""
    max_tokens: Annotated[int, Field(ge=0)] = 0
    extra: dict[str, Any] = {}
    """Further fields of the request, as the provider documents them."""

    @property
    def settings(self) -> ModelSettings:
        """How the model is asked here; what is not set is the run's."""
        return ModelSettings(
            effort=self.effort,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            extra=self.extra,
        )


class Open(BaseModel):
    """Keys that somebody else checks: the parameters of a tool, the state of a flow."""

    model_config = ConfigDict(extra="allow", frozen=True)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else msgspec.json.encode(value).decode()


Text = Annotated[str, BeforeValidator(_text)]
"""Text; any other JSON value stands there as JSON."""


@dataclass(frozen=True, slots=True)
class ActionCall(Generic[K]):
    """One use of an action, its keys rendered and checked."""

    node: str
    keys: K
    task: Task
    """The run's: its goal is the run's, its offers are all the run's tools."""
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """From the keys that name a model to its name among the run's models."""
    deferred: frozenset[str] = frozenset()
    """The deferred keys that were given."""
    render: Render = lambda key, variables: None
    seconds: float | None = None
    """How long one call of a model or a tool may take."""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """How it ended: a value, or an error, or the limit of the run that stopped it.

    `state` holds the variables that the action sets besides its output.
    """

    value: Any = None
    error: str = ""
    stop: str = ""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def good(self) -> bool:
        """Did it do what it should?"""
        return not self.error and not self.stop


@dataclass(frozen=True, slots=True)
class Kind:
    """An action as a file may use it."""

    name: str
    description: str
    keys: type[BaseModel]
    run: Callable[[ActionCall[Any]], Strategy[Done]]
    deferred: frozenset[str] = frozenset()
    """Keys that are templates of the action's own, rendered inside it."""
    models: tuple[str, ...] = ()
    """Keys that name a model."""
    tools: tuple[str, ...] = ()
    """Tools that it calls."""
    literal: tuple[str, ...] = ()
    """Keys that name code, so they stand in the file as they are and are never templates."""
    settings: str = ""
    """The part of a file's `settings` whose values stand in for keys that are not given."""


_STEPS: Final = STOP_REASON["steps"]
_SPARE = 3
"""Model calls that a node may make beyond its steps: replies that could not be read."""


@dataclass(frozen=True, slots=True)
class ActionRules:
    """What a node's file says about the strategy inside it."""

    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """From roles to the run's models; `executor` also stands for roles not named."""
    settings: ModelSettings = ModelSettings()
    seconds: float | None = None
    """For one call of a model."""
    allowed: frozenset[str] | None = None
    """The only tools it may call; None = all."""
    steps: int | None = None
    """Turns; the last of them is without tools. Model calls: `_SPARE` more."""
    key: str = "max_steps"
    """The key in the file."""
    bound: int | None = None
    """The value of that key; None = `steps`."""

    def reached(self) -> str:
        """Why the node ended at its turns, and what to change."""
        bound = self.steps if self.bound is None else self.bound
        return f"all {bound} of {self.key} were used: raise {self.key}"


@dataclass(slots=True)
class Trace:
    """What happened inside."""

    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """As the ReAct seed has them: step, thought, action, action_input, observation."""
    notes: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    models: dict[str, str] = field(default_factory=dict[str, str])
    """Who answered last, by role."""
    failures: list[str] = field(default_factory=list[str])
    """What the models' providers said when they failed."""
    reached: str = ""
    """Which bound of the node was reached, and what to change."""

    def failed(self, name: str, error: str) -> None:
        """Add how it ended, if it ended without an answer."""
        self.steps.append(
            {
                "step": len(self.steps) + 1,
                "thought": f"{name} could not be done",
                "action": name,
                "action_input": {},
                "observation": error,
                "status": "failure",
            }
        )

    def joined(self, other: "Trace") -> None:
        """Add what happened in a branch."""
        for entry in other.steps:
            self.steps.append({**entry, "step": len(self.steps) + 1})
        self.notes += other.notes
        self.failures += other.failures
        self.reached = self.reached or other.reached
        self.models |= other.models

    def model(self, *roles: str) -> str:
        """The model that answered in the first of these roles that somebody played, or ""."""
        return next((self.models[role] for role in roles if role in self.models), "")


def watched(strategy: Strategy[Any], rules: ActionRules, trace: Trace) -> Strategy[Any]:
    """`strategy`, under `rules`; what it does is added to `trace`."""
    turns = calls = 0
    try:
        effect = next(strategy)
        while True:
            calls += isinstance(effect, Ask)
            # Counted in calls as well: a reply that cannot be read is no turn, and
            # would otherwise be free.
            if rules.steps is not None and calls > rules.steps + _SPARE:
                trace.reached = f"all {calls - 1} model calls were used: raise {rules.key}"
                effect = strategy.throw(Halt(_STEPS))
                continue
            branches: list[Trace] = []
            try:
                result = yield _changed(effect, rules, branches)
                if isinstance(effect, Begin):
                    result = _outlook(result, turns, rules, trace)
                    turns += 1
                _see(effect, result, trace, branches)
            except Halt as halt:
                effect = strategy.throw(halt)
            else:
                effect = strategy.send(result)
    except StopIteration as stop:
        return stop.value
    finally:
        strategy.close()


def _changed(effect: Effect, rules: ActionRules, branches: list[Trace]) -> Effect:
    match effect:
        case Ask():
            model = rules.models.get(effect.role) or rules.models.get("executor", "")
            return msgspec.structs.replace(
                effect,
                model=effect.model or model,
                # What the node's file says wins over what the strategy inside would ask for.
                settings=rules.settings.over(effect.settings),
                seconds=rules.seconds if effect.seconds is None else effect.seconds,
                # A provider's failure is the node's, whose file says what to do on errors.
                tolerant=True,
            )
        case Act() if rules.allowed is not None:
            return _kept_to(effect, rules.allowed)
        case Fork():
            # A trace for each branch, so that what ran at once is joined in declared order.
            branches += [Trace() for _ in effect.branches]
            pairs = zip(effect.branches, branches, strict=True)
            return Fork(tuple([watched(branch, rules, trace) for branch, trace in pairs]))
        case _:
            return effect


def _kept_to(effect: Act, allowed: frozenset[str]) -> Act:
    """Calls of tools that this node does not have are answered here."""
    local: list[Observation | None] = list(effect.local)
    local += [None] * (len(effect.actions) - len(local))
    for index, action in enumerate(effect.actions):
        if local[index] is None and action.tool not in allowed and action.tool != FINISH:
            names = ", ".join(sorted(allowed)) or "none"
            error = f"unknown tool {action.tool!r}; available tools: {names}"
            local[index] = Observation(error, "failure", refused="unknown")
    return msgspec.structs.replace(effect, local=tuple(local))


def _outlook(outlook: Outlook, turns: int, rules: ActionRules, trace: Trace) -> Outlook:
    # What the run itself forbids comes first: then the node's bound is not the reason.
    if rules.steps is None or outlook.stop:
        return outlook
    if turns >= rules.steps:
        trace.reached = rules.reached()
        return msgspec.structs.replace(outlook, stop=_STEPS)
    if turns == rules.steps - 1 and not outlook.wrap_up:
        trace.reached = rules.reached()
        return msgspec.structs.replace(outlook, wrap_up=_STEPS)
    return outlook


def _see(effect: Effect, result: Any, trace: Trace, branches: list[Trace]) -> None:
    match effect:
        case Ask():
            reply: Reply = result
            if reply.finish == "error":
                trace.failures.append(reply.reasoning)
                # Thrown into the strategy, which may still give the partial answer that it has.
                raise Halt("error")
            trace.models[effect.role] = reply.model
        case Act():
            for action, observation in zip(effect.actions, result, strict=True):
                trace.steps.append(entry(len(trace.steps) + 1, effect, action, observation))
        case Note():
            trace.notes.append((effect.kind, effect.data))
        case Fork():
            for branch in branches:
                trace.joined(branch)
        case Begin():
            pass


def entry(number: int, effect: Act, action: Action, observation: Observation) -> dict[str, Any]:
    """One step as the ReAct seed writes it, and how it went."""
    return {
        "step": number,
        "thought": effect.thought.content,
        "action": action.tool,
        "action_input": action.parameters,
        "observation": observation.result,
        "status": observation.status,
    }


# Values here are JSON of any shape, or come from a library without types.


STEP_KEYS: Final = frozenset({"thought", "action", "action_input", "observation", "final_answer"})
"""An `output_format` with these types the steps; only its `final_answer` types the answer."""


class Unusable(ValueError):
    """A key says something that cannot be done; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a strategy inside an action ended."""

    output: Any
    error: str
    stop: str
    trace: Trace

    def done(self, value: Any, **state: Any) -> Done:
        """As the end of the action: the variables are set on success and on failure."""
        return Done(value, self.error, self.stop, {**state, "reasoning_answer": self.output})


def output_of(written: Any) -> Output:
    """The type of the answer that `output_format` asks for."""
    if written is None:
        return Output()
    if isinstance(written, Mapping) and "final_answer" in written and set(written) <= STEP_KEYS:
        written = written["final_answer"]
    try:
        return Output(type_of(written))
    except NoType as error:
        where = f" at {'.'.join(error.path)}" if error.path else ""
        raise Unusable(f"output_format{where}: {error}") from None


def offered_tools(task: Task, names: list[str] | None) -> tuple[Offer, ...]:
    """The run's tools of these names; all, if nothing is said."""
    if names is None:
        return task.offers
    offered_tools = {offer.name: offer for offer in task.offers}
    missing = [name for name in names if tool_name(name) not in offered_tools]
    if missing:
        raise Unusable(
            f"tools: there is no {missing[0]!r}; there are {', '.join(offered_tools) or 'none'}"
        )
    return tuple(offered_tools[name] for name in dict.fromkeys(map(tool_name, names)))


def tool_name(name: str) -> str:
    """The tool's own name: `tool.` before it says only that it is one."""
    return name.removeprefix("tool.")


def roles(call: ActionCall[Any], **keys: str) -> dict[str, str]:
    """From roles to the run's models, by the keys that name them."""
    return {role: call.models[key] for role, key in keys.items() if key in call.models}


def think(
    inner: Inner,
    call: ActionCall[Any],
    name: str,
    goal: str,
    *,
    models: Mapping[str, str],
    output: Output | None = None,
    offers: tuple[Offer, ...] = (),
    instructions: str = "",
    steps: int | None = None,
    bound: tuple[str, int | None] = ("max_steps", None),
    settings: ModelSettings = ModelSettings(),
) -> Strategy[Ended]:
    """Run `inner` on `goal`.

    Args:
        steps: the turns it may take; the last of them is for the answer.
        bound: the key of the file that bounds them, and what it says if that is not `steps`.
    """
    base = call.task
    own_words = "\n\n".join([part for part in (base.instructions, instructions) if part])
    task = replace(
        base,
        goal=goal,
        instructions=own_words,
        offers=offers,
        output=output or Output(),
        # A node with a model of its own may be asked through one without native tools.
        native=base.native and bool(offers) and not models,
        ask_user=False,
        data={},
    )
    trace = Trace()
    allowed = frozenset([offer.name for offer in offers])
    rules = ActionRules(models, settings, call.seconds, allowed, steps, *bound)

    def inside(task: Task) -> Strategy[Answer]:
        try:
            answer: Any = yield from watched(inner(task), rules, trace)
        except Unrenderable as error:  # a deferred key, rendered by the strategy
            return Answer(None, "error", str(error))
        if isinstance(answer, Answer) and answer.stop == "error" and not answer.error:
            failures = trace.failures[-1:] or ["the strategy gave up"]
            return Answer(answer.output, "error", f"the model could not be asked: {failures[0]}")
        return answer if isinstance(answer, Answer) else Answer(answer)

    solved = yield from alone(inside, task, name, node=call.node)
    answer = solved.answer
    if solved.good:
        return Ended(answer.output, "", "", trace)
    # What a node's own bound stopped is the node's failure, not the end of the run.
    own = trace.reached if solved.limit == _STEPS else ""
    reason = "; ".join(filter(None, [own, answer.error])) or solved.error
    trace.failed(name, reason)
    if solved.limit and not own:
        return Ended(answer.output, "", solved.limit, trace)
    return Ended(answer.output, reason, "", trace)

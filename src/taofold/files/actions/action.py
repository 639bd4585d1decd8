"""Actions of a flow, and how an action runs a strategy.

A `Kind` is a name, the schema of its keys (`Keys`) and a generator of effects, which takes an
`ActionCall` and returns `Done`. `think` runs a strategy on a separate task, watched and in its own
branch. `Asking` are the keys of every action that asks a model.

A watched strategy uses the node's models, tools and steps, and is traced. Its effects are changed
on the way out and its results on the way in, without the strategy's knowledge. Branches of a fork
are watched too, and their traces are joined in order. This module does not depend on YAML.

`output_of`, `offered_tools` and `roles` interpret the keys that all actions share: type of the
answer, tools and models.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from taofold.core.effects import (
    Act,
    Answer,
    Ask,
    Assess,
    Begin,
    Effect,
    Fork,
    Halt,
    HandOff,
    Note,
    Outlook,
    Strategy,
)
from taofold.core.values import (
    FINISH,
    Action,
    Effort,
    Message,
    ModelSettings,
    Observation,
    Reply,
    Usage,
)
from taofold.files.expressions.template import Unrenderable
from taofold.files.types import NoType, type_of
from taofold.policy.limits import STOP_REASON
from taofold.reasoning import Offer, Output, Task
from taofold.reasoning.nested import Inner, alone
from taofold.reasoning.task import is_native
from taofold.tools.python_code import PROCESS, RUN

K = TypeVar("K", bound="Keys")

Render: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""Renders a deferred key with the action's own variables."""


class Keys(BaseModel):
    """The keys under `with`: unknown keys are errors, text is never converted to a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Keys that are often tried here, and the right place for each."""


class Asking(Keys):
    """The keys of every action that asks a model."""

    model: str = ""
    provider: str = ""
    """The provider of `model`, if its name has none."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    effort: Effort | None = None
    """Reasoning effort: none, minimal, low, medium, high, xhigh, max."""
    max_tokens: Annotated[int, Field(ge=0)] = 0
    extra: dict[str, Any] = {}
    """Further fields of the request, as the provider documents them."""

    @model_validator(mode="after")
    def _provides_a_model(self) -> Self:
        named = [key for key in self.model_fields_set if key.endswith("model")]
        if self.provider and not named:
            raise ValueError("needs 'model' beside 'provider'")
        return self

    @property
    def settings(self) -> ModelSettings:
        """The settings of the model here. Unset ones are the run's."""
        return ModelSettings(
            effort=self.effort,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            extra=self.extra,
        )


class Open(BaseModel):
    """Keys that are checked elsewhere: the parameters of a tool, the state of a flow."""

    model_config = ConfigDict(extra="allow", frozen=True)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else msgspec.json.encode(value).decode()


Text = Annotated[str, BeforeValidator(_text)]
"""Text. Other JSON values are written as JSON."""


@dataclass(frozen=True, slots=True)
class ActionCall(Generic[K]):
    """One use of an action, with its keys rendered and checked."""

    node: str
    keys: K
    task: Task
    """The run's task: its goal is the run's, its offers are all tools of the run."""
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys that name a model, with the model's name in the run."""
    deferred: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The deferred keys that the file has, with the names that each reads."""
    render: Render = lambda key, variables: None
    seconds: float | None = None
    """Maximum seconds of one model or tool call."""
    thought: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The names that templates read at this node: `state`, `variables`, `goal` and others."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an action: a value, an error, or the run's limit that stopped it.

    `state` holds the variables that the action sets besides its output.
    """

    value: Any = None
    error: str = ""
    stop: str = ""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def good(self) -> bool:
        """True if the action succeeded."""
        return not self.error and not self.stop


@dataclass(frozen=True, slots=True)
class Misuse:
    """A fault of a key under `with`. `line` counts from 1 in a text of several lines."""

    key: str
    message: str
    line: int = 1
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """An action that a file can use."""

    name: str
    description: str
    keys: type[BaseModel]
    run: Callable[[ActionCall[Any]], Strategy[Done]]
    deferred: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys that hold the action's own templates, rendered inside it, each with the name that only
    the action has a value for.
    """
    models: tuple[str, ...] = ()
    """Keys that name a model."""
    tools: tuple[str, ...] = ()
    """Tools that it calls."""
    own: tuple[str, ...] = ()
    """Keys of an action that calls one tool which the tool does not have."""
    literal: tuple[str, ...] = ()
    """Keys that name code. They are settings: no value of a run may choose them."""
    verbatim: tuple[str, ...] = ()
    """Keys whose text stays as it is, also with braces in it: code, patterns."""
    settings: str = ""
    """The section of a file's `settings` with defaults for missing keys."""
    misuses: Callable[[Mapping[str, Any]], "Iterable[Misuse]"] = lambda written: ()
    """Returns faults of the keys that their schema does not find."""


def asking(
    name: str,
    description: str,
    keys: type[Asking],
    run: Callable[[ActionCall[Any]], Strategy[Done]],
    deferred: Mapping[str, str] = {},
) -> Kind:
    """Returns an action that asks models: those that its keys name."""
    models = tuple([key for key in keys.model_fields if key.endswith("model")])
    return Kind(name, description, keys, run, deferred, models, literal=("provider",))


_STEPS: Final = STOP_REASON["steps"]
_SPARE = 3
"""Model calls that a node may make beyond its steps, for unreadable replies."""


@dataclass(frozen=True, slots=True)
class ActionRules:
    """The rules of a node's file for the strategy inside it."""

    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Roles with the run's models. `executor` also applies to roles without an entry."""
    settings: ModelSettings = ModelSettings()
    seconds: float | None = None
    """Maximum seconds of one model call."""
    allowed: frozenset[str] | None = None
    """The tools that it may call. None = all."""
    steps: int | None = None
    """Turns. The last one is without tools. Model calls: `_SPARE` more."""
    key: str = "max_steps"
    """The key in the file."""
    bound: int | None = None
    """The value of that key. None = `steps`."""

    def reached(self) -> str:
        """Returns why the node ended at its turns, and how to change that."""
        bound = self.steps if self.bound is None else self.bound
        return f"all {bound} of {self.key} were used: raise {self.key}"


@dataclass(slots=True)
class Trace:
    """The record of a strategy inside an action."""

    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """In the ReAct seed's format: step, thought, action, action_input, observation."""
    notes: list[tuple[str, dict[str, Any]]] = field(
        default_factory=list[tuple[str, dict[str, Any]]]
    )
    models: dict[str, str] = field(default_factory=dict[str, str])
    """The model that answered last, by role."""
    usage: Usage = Usage()
    failures: list[str] = field(default_factory=list[str])
    """Error messages of the models' providers."""
    reached: str = ""
    """The bound of the node that was reached, and how to change it."""

    def failed(self, name: str, error: str) -> None:
        """Adds the end of the strategy, if it has no answer."""
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
        """Adds the trace of a branch."""
        for entry in other.steps:
            self.steps.append({**entry, "step": len(self.steps) + 1})
        self.notes += other.notes
        self.failures += other.failures
        self.reached = self.reached or other.reached
        self.models |= other.models
        self.usage += other.usage

    def model(self, *roles: str) -> str:
        """Returns the model that answered in the first used of these roles, or ""."""
        return next((self.models[role] for role in roles if role in self.models), "")


def watched(strategy: Strategy[Any], rules: ActionRules, trace: Trace) -> Strategy[Any]:
    """Runs `strategy` under `rules`, and records it in `trace`."""
    turns = calls = 0
    try:
        effect = next(strategy)
        while True:
            calls += isinstance(effect, Ask)
            # Calls are counted too, because an unreadable reply is not a turn.
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
                # The node's settings override those of the strategy inside.
                settings=rules.settings.over(effect.settings),
                seconds=rules.seconds if effect.seconds is None else effect.seconds,
                # A provider's failure is the node's. The file decides how errors are handled.
                tolerant=True,
            )
        case Act() if rules.allowed is not None:
            return _kept_to(effect, rules.allowed)
        case Fork():
            # One trace for each branch, so that concurrent work is joined in declared order.
            branches += [Trace() for _ in effect.branches]
            pairs = zip(effect.branches, branches, strict=True)
            return Fork(tuple([watched(branch, rules, trace) for branch, trace in pairs]))
        case _:
            return effect


def _kept_to(effect: Act, allowed: frozenset[str]) -> Act:
    """Answers calls of tools that this node does not have."""
    local: list[Observation | None] = list(effect.local)
    local += [None] * (len(effect.actions) - len(local))
    for index, action in enumerate(effect.actions):
        if local[index] is None and action.tool not in allowed and action.tool != FINISH:
            names = ", ".join(sorted(allowed)) or "none"
            error = f"unknown tool {action.tool!r}; available tools: {names}"
            local[index] = Observation(error, "failure", refused="unknown")
    return msgspec.structs.replace(effect, local=tuple(local))


def _outlook(outlook: Outlook, turns: int, rules: ActionRules, trace: Trace) -> Outlook:
    # A limit of the run comes first, so that the node's bound is not named as the reason.
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
            trace.usage += reply.usage
            if reply.finish == "error":
                trace.failures.append(reply.reasoning)
                # Raised in the strategy, which may still return a partial answer.
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
        case Begin() | Assess() | HandOff():
            pass


def entry(number: int, effect: Act, action: Action, observation: Observation) -> dict[str, Any]:
    """Returns one step in the ReAct seed's format, with its status."""
    return {
        "step": number,
        "thought": effect.thought.content,
        "action": action.tool,
        "action_input": action.parameters,
        "observation": observation.result,
        "status": observation.status,
    }


# Values here are any JSON, or come from an untyped library.


STEP_KEYS: Final = frozenset({"thought", "action", "action_input", "observation", "final_answer"})
"""An `output_format` with these keys types the steps. Only its `final_answer` types the answer."""


class Unusable(ValueError):
    """A key has a value that cannot be used. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a strategy inside an action."""

    output: Any
    error: str
    stop: str
    trace: Trace

    def done(self, value: Any, **state: Any) -> Done:
        """Returns the end of the action. Its variables are set on success and on failure."""
        return Done(value, self.error, self.stop, {**state, "reasoning_answer": self.output})


def output_of(written: Any) -> Output:
    """Returns the type of the answer that `output_format` requests."""
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
    """Returns the run's tools with these names, or for None all that a model may call unasked."""
    if names is None:
        # The flow needs them for its own code. A model gets them only from a list of its node.
        return tuple([offer for offer in task.offers if offer.name not in (RUN, PROCESS)])
    offered_tools = {offer.name: offer for offer in task.offers}
    missing = [name for name in names if tool_name(name) not in offered_tools]
    if missing:
        raise Unusable(
            f"tools: there is no {missing[0]!r}; there are {', '.join(offered_tools) or 'none'}"
        )
    return tuple(offered_tools[name] for name in dict.fromkeys(map(tool_name, names)))


def tool_name(name: str) -> str:
    """Returns the tool's own name, without the prefix `tool.`."""
    return name.removeprefix("tool.")


def roles(call: ActionCall[Any], **keys: str) -> dict[str, str]:
    """Returns the run's models by role, from the keys that name them."""
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
    before: tuple[Message, ...] = (),
    steps: int | None = None,
    bound: tuple[str, int | None] = ("max_steps", None),
    settings: ModelSettings = ModelSettings(),
) -> Strategy[Ended]:
    """Runs `inner` on `goal`.

    Args:
        before: The conversation before the goal.
        steps: Maximum turns. The last one is for the answer.
        bound: The file's key for this maximum, and its value if that differs from `steps`.
    """
    base = call.task
    own_words = "\n\n".join([part for part in (base.instructions, instructions) if part])
    task = replace(
        base,
        goal=goal,
        instructions=own_words,
        history=(*base.history, *before),
        offers=offers,
        output=output or Output(),
        # A node may use a model without native tools.
        native=is_native(calls=base.native and not models, offers=bool(offers), strict=base.strict),
        enforces_schema=base.enforces_schema and not models,
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
    # A node's own bound fails the node, and does not end the run.
    own = trace.reached if solved.limit == _STEPS else ""
    reason = "; ".join(filter(None, [own, answer.error])) or solved.error
    trace.failed(name, reason)
    if solved.limit and not own:
        return Ended(answer.output, "", solved.limit, trace)
    return Ended(answer.output, reason, "", trace)

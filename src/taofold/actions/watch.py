"""A strategy, watched: sent to the node's models, kept to its tools and steps, and traced.

It changes effects on their way out and results on their way in; what runs inside knows
nothing of it. Branches of a fork are watched too, and their traces are joined in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from taofold.core.effects import Act, Ask, Begin, Effect, Fork, Halt, Note, Outlook, Strategy
from taofold.core.values import RESERVED, Action, ModelSettings, Observation, Reply

_SPARE = 3
"""Model calls that a node may make beyond its steps: replies that could not be read."""


@dataclass(frozen=True, slots=True)
class Rules:
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
        self.models |= other.models

    def model(self, *roles: str) -> str:
        """The model that answered in the first of these roles that somebody played, or ""."""
        return next((self.models[role] for role in roles if role in self.models), "")


def watched(strategy: Strategy[Any], rules: Rules, trace: Trace) -> Strategy[Any]:
    """`strategy`, under `rules`; what it does is added to `trace`."""
    turns = asked = 0
    try:
        effect = next(strategy)
        while True:
            asked += isinstance(effect, Ask)
            if rules.steps is not None and asked > rules.steps + _SPARE:
                effect = strategy.throw(Halt("max_steps"))
                continue
            branches: list[Trace] = []
            try:
                result = yield _changed(effect, rules, branches)
                if isinstance(effect, Begin):
                    result = _outlook(result, turns, rules.steps)
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


def _changed(effect: Effect, rules: Rules, branches: list[Trace]) -> Effect:
    match effect:
        case Ask():
            model = rules.models.get(effect.role) or rules.models.get("executor", "")
            return replace(
                effect,
                model=effect.model or model,
                settings=rules.settings.over(effect.settings),
                seconds=rules.seconds if effect.seconds is None else effect.seconds,
                tolerant=True,
            )
        case Act() if rules.allowed is not None:
            return _kept_to(effect, rules.allowed)
        case Fork():
            branches += [Trace() for _ in effect.branches]
            pairs = zip(effect.branches, branches, strict=True)
            return Fork(tuple([watched(one, rules, trace) for one, trace in pairs]))
        case _:
            return effect


def _kept_to(effect: Act, allowed: frozenset[str]) -> Act:
    """Calls of tools that this node does not have are answered here."""
    local: list[Observation | None] = list(effect.local)
    local += [None] * (len(effect.actions) - len(local))
    for place, action in enumerate(effect.actions):
        if local[place] is None and action.tool not in allowed and action.tool not in RESERVED:
            names = ", ".join(sorted(allowed)) or "none"
            said = f"unknown tool {action.tool!r}; available tools: {names}"
            local[place] = Observation(said, "failure", refused="unknown")
    return replace(effect, local=tuple(local))


def _outlook(outlook: Outlook, turns: int, steps: int | None) -> Outlook:
    if steps is None or outlook.stop:
        return outlook
    if turns >= steps:
        return replace(outlook, stop="max_steps")
    if turns == steps - 1 and not outlook.wrap_up:
        return replace(outlook, wrap_up="max_steps")
    return outlook


def _see(effect: Effect, result: Any, trace: Trace, branches: list[Trace]) -> None:
    match effect:
        case Ask():
            reply: Reply = result
            if reply.finish == "error":
                trace.failures.append(reply.reasoning)
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

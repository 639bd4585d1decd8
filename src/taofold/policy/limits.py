"""Limits: independent counters, all checked before the call, with `>=` (D2).

Also the reservations of running calls (`Reserved`), the remainder for child runs, the tighter of
two limits, and readable explanations. Pure: consumption comes from the run's state, the possible
cost of a call from the caller. `runtime.allowance` decides which limits apply to a resumed run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf
from typing import Any, Final, Literal, NamedTuple, get_args

from taofold.core import option_values
from taofold.core.agent_shares import AgentShare
from taofold.core.errors import ConfigError
from taofold.core.events import LimitHit
from taofold.core.state import RunState
from taofold.core.text import times

Limit = Literal["steps", "model_calls", "tool_calls", "seconds", "tokens", "usd"]

_OWN: Final[tuple[Limit, ...]] = get_args(Limit)
STOP_REASON: Final[Mapping[str, str]] = {name: f"max_{name}" for name in (*_OWN, "budget")}
"""The `stop_reason` of a run that a limit or a budget ended (D1): `max_` and the limit's name."""

LIMIT_OF: Final[Mapping[str, str]] = {reason: name for name, reason in STOP_REASON.items()}
"""The limit for each `stop_reason`."""

REFUSED_ROW: Final = 3
"""Number of consecutive calls that could not be run, after which the run must answer."""

LIMIT_REFUSALS: Final = ("limit", "tool_limit", "time_limit")
"""Values of `Observation.refused` for limits of the run, of one tool, and of the time."""


class Blocked(NamedTuple):
    """The limit that blocks a call: its value in `LIMIT_REFUSALS`, and the reason."""

    refused: str
    why: str


class Reserved(NamedTuple):
    """The amounts reserved for a running or starting call; other calls cannot use them."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    per_tool: Mapping[str, int] = {}

    def plus(self, other: "Reserved") -> "Reserved":
        """Returns the sum of both."""
        tools = {*self.per_tool, *other.per_tool}
        return Reserved(
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            {tool: self.per_tool.get(tool, 0) + other.per_tool.get(tool, 0) for tool in tools},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one run, checked before each call. None means unbounded.

    The consumption of child runs counts, except for `steps` and for a `model_calls` bound that is
    derived from `steps`.

    Args:
        steps: Accepted turns.
        model_calls: Calls of models. None: three more than `steps`.
        tool_calls: Calls actually started.
        seconds: Seconds of activity, without time spent waiting for an answer.
        tokens: Input plus output tokens.
        usd: US dollars; needs a known price of the model.
        per_tool: Calls by name of a tool.
        parse_retries: Extra attempts at one unreadable reply.
        depth: Maximum nesting of agents that call agents.

    Raises:
        ConfigError: A bound is negative or not a number.

    Example:
        ```python
        from taofold import Agent, Limits

        limits = Limits(steps=5, usd=0.20, per_tool={"search": 3})
        print(limits.calls)  # 8
        agent = Agent("openai:gpt-5", limits=limits)
        ```
    """

    steps: int | None = 10
    model_calls: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    usd: float | None = None
    per_tool: Mapping[str, int] = field(default_factory=dict[str, int])
    parse_retries: int = 2
    depth: int = 3

    def __post_init__(self) -> None:
        for name in _OWN:
            value = getattr(self, name)
            if value is None:
                continue
            # `not value >= 0` instead of `value < 0`: it rejects NaN as well.
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ConfigError(f"limit {name} must be 0 or more, not {value!r}", path="limits")
            if value == inf:  # infinity is not a JSON number; the log writes null
                object.__setattr__(self, name, None)
        option_values.check_table(
            self.per_tool,
            "limits.per_tool",
            "{'search': 3}",
            option_values.is_count,
            "must be 0 or more",
        )
        for count in ("parse_retries", "depth"):
            value = getattr(self, count)
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"is a whole number, not {value!r}", path=f"limits.{count}")

    @classmethod
    def chat(cls) -> "Limits":
        """Returns the bounds of the react-loop seed: 8 model calls and 5 tool calls a request."""
        return cls(steps=8, model_calls=8, tool_calls=5)

    @property
    def calls(self) -> int | None:
        """Model calls allowed; three more than `steps` unless `model_calls` is set."""
        if self.model_calls is not None or self.steps is None:
            return self.model_calls
        # Some replies are no steps: unreadable ones are asked for again, and the last turn wraps
        # up.
        return 0 if self.steps == 0 else self.steps + 3

    def hit(self, state: RunState, *, turn: bool = True) -> Limit | None:
        """Returns the limit that forbids another turn, or without `turn` another model call.

        A limit on steps ends turns, not calls: a critic or a judge may still be asked.
        """
        # In a fixed order, so that a replay names the same limit if two are reached at once.
        if turn and self.steps is not None and len(state.steps) >= self.steps:
            return "steps"
        calls = self.calls
        if calls is not None and self.asked(state) >= calls:
            return "model_calls"
        if self.seconds is not None and state.active_ms >= self.seconds * 1000:
            return "seconds"
        if self.tokens is not None and state.usage.tokens >= self.tokens:
            return "tokens"
        if self.usd is not None and state.usage.priced_usd >= self.usd:
            return "usd"
        return None

    def last(self, state: RunState) -> Limit | None:
        """Returns the limit that makes the coming turn the last one, without tools."""
        if self.steps is not None and len(state.steps) + 1 >= self.steps:
            return "steps"
        calls = self.calls
        if calls is not None and self.asked(state) + 1 >= calls:
            return "model_calls"
        if self.tool_calls is not None and _acted(state) >= self.tool_calls:
            return "tool_calls"
        return None

    def asked(self, state: RunState) -> int:
        """Returns the number of model calls that count against `calls`."""
        # A bound derived from `steps` concerns this run's own turns; children have their own.
        children = 0 if self.model_calls is None else state.child_model_calls
        return state.model_calls + children

    def blocks(self, state: RunState, tool: str, shares: Iterable[Reserved] = ()) -> Blocked | None:
        """Returns the limit that forbids a call of `tool` beside the reserved `shares`, or None."""
        bound = self.per_tool.get(tool)
        if self.tool_calls is not None or bound is not None:
            shares = tuple(shares)
            reserved = sum([share.tool_calls for share in shares])
            if self.tool_calls is not None and _acted(state) + reserved >= self.tool_calls:
                return Blocked("limit", f"limit reached: {times(self.tool_calls, 'tool call')}")
            reserved = sum([share.per_tool.get(tool, 0) for share in shares])
            if bound is not None and state.per_tool.get(tool, 0) + reserved >= bound:
                return Blocked("tool_limit", f"limit reached: {times(bound, 'call')} of {tool!r}")
        # Checked for calls too: a batch may run past the deadline that held when its turn began.
        if self.seconds is not None and state.active_ms >= self.seconds * 1000:
            return Blocked("time_limit", f"limit reached: {self.seconds:g} seconds")
        return None

    def left(self, state: RunState, shares: Iterable[Reserved] = (), among: int = 1) -> "Limits":
        """Returns the remainder for a child run, of which `among` are about to start at once.

        Shares are rounded up for the first child, so the last call of a bound is not lost between
        two.

        Args:
            state: The consumption so far.
            shares: The reservations of running calls, so that all together keep the bound.
            among: The number of children that share the remainder evenly.
        """
        whole = reduce(Reserved.plus, shares, Reserved())
        spent = {
            "model_calls": self.asked(state) + whole.model_calls,
            "tool_calls": _acted(state) + whole.tool_calls,
            "tokens": state.usage.tokens + whole.tokens,
        }
        rest: dict[str, Any] = {
            name: _share(bound - gone, among)
            for name, gone in spent.items()
            if (bound := getattr(self, name)) is not None
        }
        if self.usd is not None:
            # Dollars divide evenly; counts are rounded up in `_share`, for the first child.
            rest["usd"] = max(0.0, self.usd - state.usage.priced_usd - whole.usd) / among
        if self.seconds is not None:
            rest["seconds"] = max(0.0, self.seconds - state.active_ms / 1000)
        rest["per_tool"] = {
            tool: _share(bound - state.per_tool.get(tool, 0) - whole.per_tool.get(tool, 0), among)
            for tool, bound in self.per_tool.items()
        }
        # `steps` is passed on unshared: a child's turns are its own.
        return replace(self, **rest, depth=self.depth - 1)

    def explained(
        self, hit: LimitHit, state: RunState, where: str = "", *, assumed: bool = False
    ) -> str:
        """Returns the allowed and consumed amounts when `hit` ended the run, and the change to
        make.

        Args:
            hit: The limit that was reached.
            state: The consumption so far.
            where: The owner of the limit, if it is not obvious.
            assumed: True if the length of the answer was not bounded, so that one was assumed.
        """
        bound: float = hit.allowed or getattr(self, hit.limit) or 0
        change = f"raise limits.{hit.limit}{where and f' {where}'}"
        match hit.limit:
            case "steps":
                return f"{_all_used(int(bound), 'step')}: {change}"
            case "model_calls":
                calls = self.calls or 0
                derived = "" if self.model_calls is not None else ", 3 more than limits.steps"
                return f"{_all_used(calls, 'model call')}{derived}: {change}"
            case "tool_calls":
                return f"{_acted(state)} of {times(int(bound), 'tool call')} were used: {change}"
            case "seconds":
                return f"it worked for {state.active_ms / 1000:.1f} of {bound:g} seconds: {change}"
            case "tokens":
                spent = f"{state.usage.tokens:,} of {bound:,.0f} tokens were spent"
                need = f", and the next prompt alone has about {hit.needed:,.0f}"
            case _:
                spent = f"${state.usage.priced_usd:.4f} of ${bound:.4f} was spent"
                need = f", and the next call may cost up to ${hit.needed:.4f}"
                change += ", or bound the answer with max_tokens"
                if assumed:
                    change += " (without it 4,096 tokens are assumed, 16,384 if the model thinks)"
        return f"{spent}{need if hit.needed else ''}: {change}"

    def covering(self, aliases: Mapping[str, Iterable[str]]) -> "Limits":
        """Returns the same limits with the bounds of aliases applied to their tools.

        Args:
            aliases: The aliases by name of each tool.
        """
        bounds = dict(self.per_tool)
        for name, own in aliases.items():
            of_tool = [self.per_tool[form] for form in (name, *own) if form in self.per_tool]
            if of_tool:
                bounds[name] = min(of_tool)
        return self if bounds == self.per_tool else replace(self, per_tool=bounds)

    def reserved(self) -> Reserved:
        """Returns all of it as a reservation for a child run."""
        # 0 for unbounded: a child without a bound takes nothing from a bounded one.
        whole = (self.model_calls or 0, self.tool_calls or 0, self.tokens or 0, self.usd or 0.0)
        return Reserved(*whole, self.per_tool)

    def beside(self, others: AgentShare) -> "Limits":
        """Returns the limits of one agent as bounds of a run in which others were active too.

        Args:
            others: The consumption of the run by other agents. It is added to each bound.
        """
        more: dict[str, float] = {
            "steps": others.steps,
            "model_calls": others.model_calls,
            "tool_calls": others.tool_calls,
            "seconds": others.active_ms / 1000,
            "tokens": others.usage.tokens,
            "usd": others.usage.priced_usd,
        }
        bounds: dict[str, Any] = {
            name: bound + more[name] for name in _OWN if (bound := getattr(self, name)) is not None
        }
        per_tool = {
            tool: bound + others.per_tool.get(tool, 0) for tool, bound in self.per_tool.items()
        }
        return replace(self, **bounds, per_tool=per_tool)

    def within(self, other: "Limits") -> "Limits":
        """Returns the tighter of both limits, bound by bound."""

        def tighter(name: str) -> float | None:
            bounds = [b for b in (getattr(self, name), getattr(other, name)) if b is not None]
            return min(bounds) if bounds else None

        per_tool = {
            tool: min(own.per_tool[tool] for own in (self, other) if tool in own.per_tool)
            for tool in {*self.per_tool, *other.per_tool}
        }
        bounds: dict[str, Any] = {name: tighter(name) for name in _OWN}
        return replace(
            self,
            **bounds,
            per_tool=per_tool,
            depth=min(self.depth, other.depth),
        )


def _share(rest: int, among: int) -> int:
    """Returns the first of `among` shares of `rest`, rounded up."""
    # Rounds up: -(-7 // 2) is 4, whereas 7 // 2 is 3.
    return -(-max(0, rest) // among)


def _all_used(bound: int, noun: str) -> str:
    return f"the only {noun} was used" if bound == 1 else f"all {bound} {noun}s were used"


def _acted(state: RunState) -> int:
    return state.tool_calls + state.child_tool_calls

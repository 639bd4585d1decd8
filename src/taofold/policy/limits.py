"""Limits: independent counters, all checked before the call, with `>=` (D2).

Pure: what was spent comes from the run's state, what a call may cost from its caller.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from taofold.core.errors import ConfigError
from taofold.core.state import RunState

Limit = Literal["steps", "model_calls", "tool_calls", "seconds", "tokens", "usd"]

STOP_REASON: Final[Mapping[str, str]] = {
    "steps": "max_steps",
    "model_calls": "max_steps",
    "tool_calls": "max_tool_calls",
    "seconds": "timeout",
    "tokens": "budget",
    "usd": "budget",
}
"""Which `stop_reason` a limit leads to (D1)."""

REFUSED_ROW: Final = 3
"""Turns in a row in which no action could be run, after which the run must answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one run. None means unbounded; `seconds` counts activity, not waiting.

    `steps` are accepted turns, `tool_calls` calls actually started, `parse_retries`
    extra attempts at one unreadable reply. `tool_seconds` is a ceiling for every call.
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
    """How deep agents may call agents."""

    def __post_init__(self) -> None:
        for name in ("steps", "model_calls", "tool_calls", "seconds", "tokens", "usd"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ConfigError(f"limit {name} must be 0 or more, not {value!r}", path="limits")
        for tool, value in self.per_tool.items():
            if value < 0:
                raise ConfigError(
                    f"must be 0 or more, not {value!r}", path=f"limits.per_tool.{tool}"
                )

    @classmethod
    def chat(cls) -> "Limits":
        """The react-loop seed's bounds: 8 model calls and 5 tool calls a request."""
        return cls(steps=8, model_calls=8, tool_calls=5)

    @property
    def calls(self) -> int | None:
        """Model calls allowed: three more than steps, if nothing else is said."""
        if self.model_calls is not None or self.steps is None:
            return self.model_calls
        return 0 if self.steps == 0 else self.steps + 3

    def hit(self, state: RunState) -> Limit | None:
        """The limit that forbids another turn, if any."""
        if self.steps is not None and len(state.steps) >= self.steps:
            return "steps"
        calls = self.calls
        if calls is not None and state.model_calls >= calls:
            return "model_calls"
        if self.seconds is not None and state.active_ms >= self.seconds * 1000:
            return "seconds"
        if self.tokens is not None and state.usage.tokens >= self.tokens:
            return "tokens"
        if self.usd is not None and state.usage.usd >= self.usd:
            return "usd"
        return None

    def last(self, state: RunState) -> Limit | None:
        """The limit that makes the coming turn the last one: it is offered without tools."""
        if self.steps is not None and len(state.steps) + 1 >= self.steps:
            return "steps"
        if self.calls is not None and state.model_calls + 1 >= self.calls:
            return "model_calls"
        if self.tool_calls is not None and state.tool_calls >= self.tool_calls:
            return "tool_calls"
        return None

    def blocks(self, state: RunState, tool: str, started: int = 0) -> str:
        """Why one more call of `tool` may not start, or "".

        `started` are calls of this batch that are about to start and not in `state` yet.
        """
        if self.tool_calls is not None and state.tool_calls + started >= self.tool_calls:
            return f"limit reached: {self.tool_calls} tool calls"
        bound = self.per_tool.get(tool)
        if bound is not None and state.per_tool.get(tool, 0) >= bound:
            return f"limit reached: {bound} calls of {tool!r}"
        if self.seconds is not None and state.active_ms >= self.seconds * 1000:
            return f"limit reached: {self.seconds:g} seconds"
        return ""

    def left(self, state: RunState) -> "Limits":
        """What remains: the bounds of a child run."""
        spent = _spent(state)

        def rest(name: Limit) -> float | None:
            bound = dict(self._bounds())[name]
            return None if bound is None else max(0, bound - spent[name])

        tool_calls, tokens, seconds, usd = map(rest, ("tool_calls", "tokens", "seconds", "usd"))
        calls = rest("model_calls")
        return replace(
            self,
            steps=self.steps,
            model_calls=None if calls is None else int(calls),
            tool_calls=None if tool_calls is None else int(tool_calls),
            tokens=None if tokens is None else int(tokens),
            seconds=seconds,
            usd=usd,
            depth=self.depth - 1,
        )

    def within(self, other: "Limits") -> "Limits":
        """The tighter of both, bound by bound."""

        def tighter(name: str) -> float | None:
            bounds = [b for b in (getattr(self, name), getattr(other, name)) if b is not None]
            return min(bounds) if bounds else None

        names = ("steps", "model_calls", "tool_calls", "seconds", "tokens", "usd")
        per_tool = {
            tool: min(b for b in (self.per_tool.get(tool), other.per_tool.get(tool)) if b is not None)
            for tool in {*self.per_tool, *other.per_tool}
        }
        return replace(
            self,
            **{name: tighter(name) for name in names},  # type: ignore[arg-type]
            per_tool=per_tool,
            depth=min(self.depth, other.depth),
        )

    def _bounds(self) -> tuple[tuple[Limit, float | None], ...]:
        return (
            ("steps", self.steps),
            ("model_calls", self.calls),
            ("tool_calls", self.tool_calls),
            ("seconds", self.seconds),
            ("tokens", self.tokens),
            ("usd", self.usd),
        )


def _spent(state: RunState) -> dict[Limit, float]:
    return {
        "steps": len(state.steps),
        "model_calls": state.model_calls,
        "tool_calls": state.tool_calls,
        "seconds": state.active_ms / 1000,
        "tokens": state.usage.tokens,
        "usd": state.usage.usd,
    }

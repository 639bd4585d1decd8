"""US dollars per million tokens: a dated table that users may override.

List prices as the vendors published them up to `AS_OF`, standard tier, without batch,
long-context or region surcharges. Check before you rely on one; a budget is only as
right as its prices.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from taofold.core.errors import ConfigError
from taofold.core.values import Usage
from taofold.models.profiles import longest

AS_OF: Final = "2026-01"


class Price(NamedTuple):
    """Dollars per million tokens."""

    input: float
    cached: float
    output: float

    def upper(self, input_tokens: int, output_tokens: int) -> float:
        """Dollars for a call of this size if nothing is cached."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6

    def cost(self, usage: Usage) -> float:
        """Dollars for what was used; cached tokens are part of the input tokens."""
        fresh = usage.input_tokens - usage.cached_tokens
        return (
            self.input * fresh
            + self.cached * usage.cached_tokens
            + self.output * usage.output_tokens
        ) / 1e6


Prices: TypeAlias = Mapping[str, tuple[float, float, float] | tuple[float, float]]
"""By model name: (input, cached, output), or (input, output)."""

FREE: Final = Price(0.0, 0.0, 0.0)
"""Of a model that runs on one's own machine."""

PRICES: Final[dict[str, tuple[float, float, float]]] = {
    "gpt-5": (1.25, 0.125, 10.0),
    "gpt-5-mini": (0.25, 0.025, 2.0),
    "gpt-5-nano": (0.05, 0.005, 0.40),
    "gpt-5-pro": (15.0, 15.0, 120.0),
    "gpt-5-chat": (1.25, 0.125, 10.0),
    "gpt-5-codex": (1.25, 0.125, 10.0),
    "gpt-5.1": (1.25, 0.125, 10.0),
    "gpt-5.2": (1.75, 0.175, 14.0),
    "gpt-4.1": (2.0, 0.5, 8.0),
    "gpt-4.1-mini": (0.4, 0.1, 1.6),
    "gpt-4.1-nano": (0.1, 0.025, 0.4),
    "gpt-4o": (2.5, 1.25, 10.0),
    "gpt-4o-mini": (0.15, 0.075, 0.6),
    "gpt-4-turbo": (10.0, 10.0, 30.0),
    "gpt-4": (30.0, 30.0, 60.0),
    "gpt-3.5-turbo": (0.5, 0.5, 1.5),
    "o1": (15.0, 7.5, 60.0),
    "o1-mini": (1.1, 0.55, 4.4),
    "o3": (2.0, 0.5, 8.0),
    "o3-mini": (1.1, 0.55, 4.4),
    "o3-pro": (20.0, 20.0, 80.0),
    "o4-mini": (1.1, 0.275, 4.4),
    "claude-opus-4-5": (5.0, 0.5, 25.0),
    "claude-opus-4-1": (15.0, 1.5, 75.0),
    "claude-opus-4": (15.0, 1.5, 75.0),
    "claude-sonnet-4-5": (3.0, 0.3, 15.0),
    "claude-sonnet-4": (3.0, 0.3, 15.0),
    "claude-haiku-4-5": (1.0, 0.1, 5.0),
    "claude-3-7-sonnet": (3.0, 0.3, 15.0),
    "claude-3-5-sonnet": (3.0, 0.3, 15.0),
    "claude-3-5-haiku": (0.8, 0.08, 4.0),
    "claude-3-haiku": (0.25, 0.03, 1.25),
    "claude-3-opus": (15.0, 1.5, 75.0),
    "gemini-3-pro": (2.0, 0.2, 12.0),
    "gemini-2.5-pro": (1.25, 0.125, 10.0),
    "gemini-2.5-flash": (0.3, 0.03, 2.5),
    "gemini-2.5-flash-lite": (0.1, 0.01, 0.4),
    "gemini-2.0-flash": (0.1, 0.025, 0.4),
    "deepseek-chat": (0.28, 0.028, 0.42),
    "deepseek-reasoner": (0.28, 0.028, 0.42),
    "mistral-large": (2.0, 2.0, 6.0),
    "mistral-small": (0.1, 0.1, 0.3),
    "codestral": (0.3, 0.3, 0.9),
    "grok-4": (3.0, 0.75, 15.0),
}

_EXACT: Final = frozenset({"gpt-4", "gpt-5", "o1", "o3", "claude-opus-4", "claude-sonnet-4"})
"""Names whose variants (`o1-pro`, `gpt-5.3`) are other models at other prices; dates are not."""


def price_of(model: str, overrides: Prices | None = None) -> Price | None:
    """The price of `model`; None if unknown. An override needs the exact name.

    Raises `ConfigError` for an override that is not two or three numbers >= 0.
    """
    name = model.partition(":")[2] if overrides and model not in overrides else model
    if overrides and name in overrides:
        return _checked(name, overrides[name])
    found = longest(PRICES, model)
    if not found:
        return None
    rest = model.lower().rpartition("/")[2].partition(":")[0][len(found) :]
    if found in _EXACT and not _dated(rest):
        return None
    return Price(*PRICES[found])


def _dated(rest: str) -> bool:
    digits = rest[1:].replace("-", "")
    return not rest or rest == "-latest" or (len(digits) in (4, 6, 8) and digits.isdigit())


def _checked(name: str, price: tuple[float, ...]) -> Price:
    if len(price) not in (2, 3) or any(part < 0 for part in price):
        raise ConfigError(
            f"the price of {name!r} is {price!r}: give (input, output) or (input, cached, output) "
            "in dollars per million tokens"
        )
    return Price(price[0], price[-2] if len(price) == 3 else price[0], price[-1])

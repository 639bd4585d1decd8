"""US dollars per million tokens, with what changes them: long prompts and service tiers.

A price is looked up in `catalogue`, or is the user's own. It knows no provider's format.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from taofold.core.errors import ConfigError
from taofold.core.values import Usage


class Rates(NamedTuple):
    """Dollars per million tokens: fresh input, input from the cache, output, written to it."""

    input: float
    cached: float
    output: float
    written: float


class Price(NamedTuple):
    """What a model costs.

    `above` holds the rates of calls with more input tokens than a number, in rising order;
    `services` the prices of service tiers other than the usual one.
    """

    rates: Rates
    above: tuple[tuple[int, Rates], ...] = ()
    services: "tuple[tuple[str, Price], ...]" = ()

    def at(self, tier: str) -> "Price":
        """The price in a service tier; the usual one if nothing else is known of it."""
        return dict(self.services).get(tier, self)

    def rates_for(self, input_tokens: int) -> Rates:
        """The rates of a call with so many input tokens."""
        found = self.rates
        for start, rates in self.above:
            if input_tokens > start:
                found = rates
        return found

    def upper(self, input_tokens: int, output_tokens: int, tier: str = "") -> float:
        """Dollars for a call of this size if nothing is read from the cache."""
        rates = self.at(tier).rates_for(input_tokens)
        dearest = max(rates.input, rates.written)
        return (dearest * input_tokens + rates.output * output_tokens) / 1e6

    def cost(self, usage: Usage, tier: str = "") -> float:
        """Dollars for what was used; what was cached or written is part of the input."""
        rates = self.at(tier).rates_for(usage.input_tokens)
        fresh = usage.input_tokens - usage.cached_tokens - usage.written_tokens
        return (
            rates.input * max(fresh, 0)
            + rates.cached * usage.cached_tokens
            + rates.written * usage.written_tokens
            + rates.output * usage.output_tokens
        ) / 1e6


Prices: TypeAlias = Mapping[str, tuple[float, float, float] | tuple[float, float]]
"""A user's own, by exact model name: (input, cached, output), or (input, output)."""

FREE: Final = Price(Rates(0.0, 0.0, 0.0, 0.0))
"""Of a model that runs on one's own machine."""


def own_price(model: str, prices: Prices | None) -> Price | None:
    """The user's price of `model`, None if there is none.

    Raises:
        ConfigError: it is not two or three numbers >= 0.
    """
    if not prices:
        return None
    name = model if model in prices else model.partition(":")[2]
    price = prices.get(name)
    if price is None:
        return None
    if len(price) not in (2, 3) or any(part < 0 for part in price):
        raise ConfigError(
            f"the price of {name!r} is {price!r}: give (input, output) or (input, cached, output) "
            "in dollars per million tokens"
        )
    cached = price[1] if len(price) == 3 else price[0]
    return Price(Rates(price[0], cached, price[-1], price[0]))

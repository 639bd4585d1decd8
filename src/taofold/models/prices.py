"""US dollars per million tokens, and the catalogue of public models that they are taken from, which
also has their windows (`find`).

A price changes with the length of a prompt and with the service tier. It is the user's own, or
that of `genai-prices`: where that library is installed (`taofold[prices]`) its data are used, which
are newer; else the snapshot of it that lies beside this module, made by
`python -m taofold.models.prices`. Nothing is ever fetched. A provider or a name that is not in it
has no price. Knows no provider's format.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.values import Usage


class TokenRates(NamedTuple):
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

    rates: TokenRates
    above: tuple[tuple[int, TokenRates], ...] = ()
    services: "tuple[tuple[str, Price], ...]" = ()

    def at(self, tier: str) -> "Price":
        """The price in a service tier; the usual one if nothing else is known of it."""
        return dict(self.services).get(tier, self)

    def rates_for(self, input_tokens: int) -> TokenRates:
        """The rates of a call with so many input tokens."""
        rates_now = self.rates
        for start, rates in self.above:
            if input_tokens > start:
                # `above` rises, so the last one that is passed
                # holds: for the whole call, not for the part above.
                rates_now = rates
        return rates_now

    def upper(self, input_tokens: int, output_tokens: int, tier: str = "") -> float:
        """Dollars for a call of this size if nothing is read from the cache."""
        rates = self.at(tier).rates_for(input_tokens)
        # A budget is checked before the call, when nobody knows what the cache will hold.
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

FREE: Final = Price(TokenRates(0.0, 0.0, 0.0, 0.0))
"""Of a model that runs on one's own machine."""


def own_price(model: str, prices: Prices | None) -> Price | None:
    """The user's price of `model`, None if there is none.

    Raises:
        ConfigError: it is not two or three numbers >= 0.
    """
    if not prices:
        return None
    value: Any = prices
    if not isinstance(value, Mapping):
        raise ConfigError(f"write prices={{{model!r}: (1.0, 2.0)}}, not {value!r}", path="prices")
    for key, numbers in prices.items():
        if not _is_price(numbers):
            raise ConfigError(
                f"the price of {key!r} is {numbers!r}: give (input, output) or "
                "(input, cached, output) in dollars per million tokens",
                path="prices",
            )
    # Under its own name or with its provider, as people write it elsewhere.
    names = [key for key in prices if model in (key, key.partition(":")[2])]
    names += [key for key in prices if key == model.partition(":")[2]]
    if not names:
        return None
    price = prices[names[0]]
    cached = price[1] if len(price) == 3 else price[0]
    return Price(TokenRates(price[0], cached, price[-1], price[0]))


def _is_price(numbers: Any) -> bool:
    if not isinstance(numbers, list | tuple):
        return False
    parts = cast("Sequence[object]", numbers)
    return len(parts) in (2, 3) and all(isinstance(p, int | float) and p >= 0 for p in parts)


SNAPSHOT: Final = Path(__file__).with_name("catalogue.json")
PROVIDERS: Final[dict[str, str]] = {
    "openai": "openai",
    "openai-chat": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "gemini-compatible": "google",
    "vertex": "google",
    "vertex-anthropic": "google",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "xai": "x-ai",
    "moonshot": "moonshotai",
    "zai": "zai",
    "groq": "groq",
    "together": "together",
    "fireworks": "fireworks",
    "cerebras": "cerebras",
    "openrouter": "openrouter",
    "bedrock": "aws",
    "azure": "azure",
}
"""Ours to theirs."""
_FIELDS: Final = ("input_mtok", "cache_read_mtok", "output_mtok", "cache_write_mtok")


class CatalogueEntry(NamedTuple):
    """What the catalogue says of a model. `source` names the data and their date."""

    window: int
    price: Price | None
    deprecated: bool
    source: str


def find(provider: str, model: str) -> CatalogueEntry | None:
    """The entry of `model` at one of our providers, None if there is none."""
    theirs = PROVIDERS.get(provider)
    if theirs is None:
        return None
    library = _library()
    if library is not None:
        return _from_library(library, theirs, model)
    snapshot = _snapshot()
    for row in snapshot["providers"].get(theirs, ()):
        # The first row that matches counts, as in the library.
        if _matches(row["match"], model.lower()):
            return CatalogueEntry(
                row.get("window", 0),
                _read(row["price"]) if "price" in row else None,
                bool(row.get("deprecated")),
                f"{snapshot['source']}, snapshot of {snapshot['as_of']}",
            )
    return None


@cache
def _snapshot() -> dict[str, Any]:
    snapshot: dict[str, Any] = msgspec.json.decode(SNAPSHOT.read_bytes())
    return snapshot


@cache
def _library() -> Any:
    try:
        return import_module("genai_prices.data")
    except ImportError:
        return None


# --- the library's objects -----------------------------------------------------------------------


def _from_library(library: Any, provider: str, model: str) -> CatalogueEntry | None:
    for vendor in library.providers:
        if vendor.id == provider:
            info = vendor.find_model(model.lower())
            if info is None:
                return None
            # Prices are dated, so today's are taken, not those of the library's release.
            now = datetime.now(UTC)
            source = f"genai-prices {metadata.version('genai-prices')}, {now.date().isoformat()}"
            price = price_of(info, now.date())
            return CatalogueEntry(info.context_window or 0, price, bool(info.deprecated), source)
    return None


def price_of(model: Any, day: date) -> Price | None:
    """The price of one of the library's models on `day`.

    Where it depends on the time of day, the dearest is taken: a budget must hold at any hour.
    """
    usual = _tiered(_valid(model.prices, day))
    if usual is None:
        return None
    services: list[tuple[str, Price]] = []
    for variant in model.price_variants or ():
        # Variants by anything else (a region, say) depend on what we do not know.
        if set(variant.when) != {"service_tier"}:
            continue
        started = getattr(variant.constraint, "start_date", None)
        price = _tiered(variant.prices)
        if price is not None and (started is None or started <= day):
            services.append((variant.when["service_tier"], price))
    return Price(usual.rates, usual.above, tuple(services))


def _valid(prices: Any, day: date) -> Any:
    """The newest of dated prices; of those at hours of the day the dearest."""
    if not isinstance(prices, list):
        return prices
    usable: list[Any] = []
    for conditional in cast("list[Any]", prices):
        constraint = conditional.constraint
        started = getattr(constraint, "start_date", None)
        if started is None or started <= day:
            usable.append((started or date.min, conditional.prices))
    newest = max([started for started, _ in usable], default=None)
    hourly = [prices for started, prices in usable if started == newest]
    return max(hourly, key=lambda one: _number(one.output_mtok, 0), default=None)


def _tiered(prices: Any) -> Price | None:
    if prices is None or prices.input_mtok is None or prices.output_mtok is None:
        return None
    starts = sorted(
        {tier.start for name in _FIELDS for tier in getattr(getattr(prices, name), "tiers", ())}
    )
    # All fields at every start: each may have tiers of its own.
    above = tuple([(start, _rates(prices, start + 1)) for start in starts])
    return Price(_rates(prices, 0), above)


def _rates(prices: Any, tokens: int) -> TokenRates:
    fresh, cached, output, written = [
        None if getattr(prices, name) is None else _number(getattr(prices, name), tokens)
        for name in _FIELDS
    ]
    assert fresh is not None
    assert output is not None
    return TokenRates(
        fresh,
        # What has no price of its own is paid like fresh input.
        fresh if cached is None else cached,
        output,
        fresh if written is None else written,
    )


def _number(value: Any, tokens: int) -> float:
    if value is None:
        return 0.0
    if not hasattr(value, "tiers"):
        return float(value)
    price = value.base
    for tier in value.tiers:
        if tokens > tier.start:
            price = tier.price
    return float(price)


# --- the snapshot --------------------------------------------------------------------------------


def _matches(clause: list[Any], name: str) -> bool:
    kind, value = clause
    match kind:
        case "equals":
            return bool(name == value)
        case "starts_with":
            return name.startswith(value)
        case "ends_with":
            return name.endswith(value)
        case "contains":
            return value in name
        case "regex":
            return re.search(value, name) is not None
        case "or":
            return any(_matches(inner, name) for inner in value)
        case "and":
            return all(_matches(inner, name) for inner in value)
        case _:
            return False


def _read(row: list[Any]) -> Price:
    rates, above, services = row
    return Price(
        TokenRates(*rates),
        tuple([(start, TokenRates(*inner)) for start, inner in above]),
        tuple([(tier, _read(inner)) for tier, inner in services]),
    )


def _clause(clause: Any) -> list[Any]:
    for kind in ("equals", "starts_with", "ends_with", "contains", "regex"):
        if hasattr(clause, kind):
            value = getattr(clause, kind)
            return [kind, value if kind == "regex" else value.lower()]
    for kind in ("or", "and"):
        if hasattr(clause, f"{kind}_"):
            return [kind, [_clause(inner) for inner in getattr(clause, f"{kind}_")]]
    raise TypeError(f"{clause!r} is a kind of match that this release does not know")


def make_snapshot(day: date) -> dict[str, Any]:
    """The library's data of our providers, as they are on `day`."""
    library = import_module("genai_prices.data")
    rows: dict[str, list[Any]] = {}
    for provider in library.providers:
        if provider.id in PROVIDERS.values():
            rows[provider.id] = [_row(model, day) for model in provider.models]
    return {
        "as_of": day.isoformat(),
        "source": f"genai-prices {metadata.version('genai-prices')}",
        "providers": rows,
    }


def _row(model: Any, day: date) -> dict[str, Any]:
    price = price_of(model, day)
    row: dict[str, Any] = {"id": model.id, "match": _clause(model.match)}
    if model.context_window:
        row["window"] = model.context_window
    if price is not None:
        row["price"] = price
    if model.deprecated:
        row["deprecated"] = True
    return row


def main() -> None:
    """Write the snapshot, from the library that is installed."""
    snapshot = make_snapshot(datetime.now(UTC).date())
    lines = [f'"{name}": [\n{_lines(rows)}\n]' for name, rows in snapshot["providers"].items()]
    head = f'{{"as_of": "{snapshot["as_of"]}", "source": "{snapshot["source"]}", "providers": {{\n'
    SNAPSHOT.write_text(head + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    sys.stdout.write(f"{SNAPSHOT}: {sum(map(len, snapshot['providers'].values()))} models\n")


def _lines(rows: list[dict[str, Any]]) -> str:
    return ",\n".join([json.dumps(row) for row in rows])


if __name__ == "__main__":
    main()

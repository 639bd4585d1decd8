"""Prices of models in US dollars per million tokens, and the catalogue of public models.

The catalogue also has the models' windows (`find`). A price depends on the length of the prompt,
the service tier, the day and the hour. Sources in order: the user's own prices, the library
`genai-prices` if installed (`taofold[prices]`, newer data), its snapshot beside this module, and
LiteLLM's list, which is part of the snapshot. `python -m taofold.models.prices` makes the snapshot.
Nothing is fetched. Other providers and names have no price. This module does not depend on formats.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.values import Usage


class TokenRates(NamedTuple):
    """Dollars per million tokens: fresh input, cached input, output, cache writes.

    `written_long`: the separate price of writes to a cache that lasts an hour.
    """

    input: float
    cached: float
    output: float
    written: float
    written_long: float = 0.0


class Price(NamedTuple):
    """The price of a model.

    `above` holds the rates of calls with more input tokens than a number, in rising order.
    `services` holds the prices of service tiers. `validities` are prices of certain days and hours:
    the last one in force counts, else the price itself.
    """

    rates: TokenRates
    above: tuple[tuple[int, TokenRates], ...] = ()
    services: "tuple[tuple[str, Price], ...]" = ()
    validities: "tuple[Validity, ...]" = ()

    def on(self, moment: datetime, *, any_hour: bool = False) -> "Price":
        """Returns the highest price that may be in force at `moment`, in UTC.

        The time zone in which a vendor's day begins is undocumented, and a call takes time. A
        budget uses `any_hour`, because the hour of a planned call is unknown.
        """
        if not self.validities:
            return self
        days = {(moment + timedelta(hours=hours)).date() for hours in (-_ZONE_H, 0, _ZONE_H)}
        minutes = [
            (moment.hour * 60 + moment.minute + late) % _DAY_MIN for late in (-_CALL_MIN, _CALL_MIN)
        ]
        if any_hour:
            bounds = [(each.begins, each.ends) for each in self.validities]
            minutes = [0, *[minute for bound in bounds for minute in bound if minute is not None]]
        prices = [self._in_force(day.isoformat(), minute) for day in days for minute in minutes]
        return max(prices, key=lambda price: (price.rates.output, price.rates.input))

    def _in_force(self, day: str, minute: int) -> "Price":
        chosen = self._replace(validities=())
        for validity in self.validities:
            if validity.holds(day, minute):
                chosen = validity.price._replace(services=validity.price.services or self.services)
        return chosen

    def at(self, tier: str) -> "Price":
        """Returns the price in a service tier, or the usual price."""
        return dict(self.services).get(tier, self)

    def rates_for(self, input_tokens: int) -> TokenRates:
        """Returns the rates of a call with this many input tokens."""
        rates_now = self.rates
        for start, rates in self.above:
            if input_tokens > start:
                # `above` rises, so the last threshold that is exceeded applies, to the whole call.
                rates_now = rates
        return rates_now

    def upper(
        self, input_tokens: int, output_tokens: int, tier: str = "", *, long_cache: bool = False
    ) -> float:
        """Returns the dollars for a call of this size without cache reads.

        `long_cache`: cache writes last an hour.
        """
        rates = self.at(tier).rates_for(input_tokens)
        # A budget is checked before the call, when cache hits are unknown.
        dearest = max(rates.input, rates.written, rates.written_long if long_cache else 0.0)
        return (dearest * input_tokens + rates.output * output_tokens) / 1e6

    def cost(self, usage: Usage, tier: str = "", *, written_long: int = 0) -> float:
        """Returns the dollars for a usage, whose cached and written tokens are part of the input.

        `written_long`: the written tokens that the cache keeps for an hour.
        """
        rates = self.at(tier).rates_for(usage.input_tokens)
        long = min(written_long, usage.written_tokens) if rates.written_long else 0
        fresh = usage.input_tokens - usage.cached_tokens - usage.written_tokens
        return (
            rates.input * max(fresh, 0)
            + rates.cached * usage.cached_tokens
            + rates.written * (usage.written_tokens - long)
            + rates.written_long * long
            + rates.output * usage.output_tokens
        ) / 1e6


class Validity(NamedTuple):
    """A price from a day on, or between two minutes of each day (UTC)."""

    price: Price
    since: str = ""
    begins: int | None = None
    ends: int | None = None

    def holds(self, day: str, minute: int) -> bool:
        """Returns True if it is in force on `day` (ISO) at `minute` of the day."""
        if day < self.since:
            return False
        if self.begins is None or self.ends is None:
            return True
        if self.ends < self.begins:  # over midnight
            return minute >= self.begins or minute < self.ends
        return self.begins <= minute < self.ends


_ZONE_H: Final = 12
"""Hours by which a vendor's midnight may differ from UTC's."""
_CALL_MIN: Final = 10
"""Uncertainty in minutes of the start of a call, which determines its price."""
_DAY_MIN: Final = 24 * 60

Prices: TypeAlias = Mapping[str, tuple[float, float, float] | tuple[float, float]]
"""The user's prices by exact model name: (input, cached, output), or (input, output)."""

FREE: Final = Price(TokenRates(0.0, 0.0, 0.0, 0.0))
"""The price of a model on the user's machine."""


def own_price(model: str, prices: Prices | None) -> Price | None:
    """Returns the user's price of `model`, or None.

    Raises:
        ConfigError: The price is not two or three numbers >= 0.
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
    # Matches names with and without their provider.
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
"""taofold's provider names to those of the library."""
_FIELDS: Final = (
    *("input_mtok", "cache_read_mtok", "output_mtok", "cache_write_mtok"),
    "cache_write_1h_mtok",
)


class CatalogueEntry(NamedTuple):
    """An entry of the catalogue. `source` names the data and their date."""

    window: int
    price: Price | None
    deprecated: bool
    source: str


def find(provider: str, model: str) -> CatalogueEntry | None:
    """Returns the entry of `model` at a provider, or None."""
    theirs = PROVIDERS.get(provider)
    if theirs is None:
        return None
    library = _library()
    snapshot = _snapshot()
    if library is not None:
        entry = _from_library(library, theirs, model)
    else:
        entry = _from_rows(snapshot, theirs, model)
    if entry is not None and entry.price is not None:
        return entry
    other = _from_rows(snapshot["others"], theirs, model)
    if entry is None or other is None:
        return entry or other
    return entry._replace(price=other.price, window=entry.window or other.window)


def _from_rows(data: dict[str, Any], provider: str, model: str) -> CatalogueEntry | None:
    for row in data["providers"].get(provider, ()):
        # The first matching row counts, as in the library.
        if _matches(row["match"], model.lower()):
            return CatalogueEntry(
                row.get("window", 0),
                _read(row["price"]) if "price" in row else None,
                bool(row.get("deprecated")),
                f"{data['source']}, snapshot of {data['as_of']}",
            )
    return None


@cache
def _snapshot() -> dict[str, Any]:
    snapshot: dict[str, Any] = msgspec.json.decode(SNAPSHOT.read_bytes())
    return snapshot


class TableState(NamedTuple):
    """The state of the price table: its source, its day, and future price changes."""

    source: str
    as_of: date
    changes: tuple[tuple[str, str, Price], ...]
    """Provider and model, the ISO date of the change, the new price."""


def table_state(today: date) -> TableState:
    """Returns the state of the price table, ignoring the library even if it is installed."""
    snapshot = _snapshot()
    changes: list[tuple[str, str, Price]] = []
    for provider, rows in snapshot["providers"].items():
        for row in rows:
            validities = _read(row["price"]).validities if "price" in row else ()
            changes += [
                (f"{provider}:{row['id']}", each.since, each.price)
                for each in validities
                if each.since > today.isoformat()
            ]
    source = f"{snapshot['source']}, {snapshot['others']['source']}"
    ordered = sorted(changes, key=lambda change: (change[1], change[0]))
    return TableState(source, date.fromisoformat(snapshot["as_of"]), tuple(ordered))


@cache
def _library() -> Any:
    try:
        return import_module("genai_prices.data")
    except ImportError:
        return None


def _from_library(library: Any, provider: str, model: str) -> CatalogueEntry | None:
    for vendor in library.providers:
        if vendor.id == provider:
            info = vendor.find_model(model.lower())
            if info is None:
                return None
            # Prices are dated, so today's are used instead of those of the library's release date.
            now = datetime.now(UTC)
            source = f"genai-prices {metadata.version('genai-prices')}, {now.date().isoformat()}"
            price = price_of(info, now.date())
            return CatalogueEntry(info.context_window or 0, price, bool(info.deprecated), source)
    return None


def price_of(model: Any, day: date) -> Price | None:
    """Returns the price of one of the library's models, with later days' and hours' prices."""
    services: list[tuple[str, Price]] = []
    for variant in model.price_variants or ():
        # Variants by other properties, such as a region, depend on unknown facts.
        if set(variant.when) != {"service_tier"}:
            continue
        started = getattr(variant.constraint, "start_date", None)
        price = _tiered(variant.prices)
        if price is not None and (started is None or started <= day):
            services.append((variant.when["service_tier"], price))
    listed: Any = model.prices
    conditional = cast("list[Any]", listed) if isinstance(listed, list) else []
    usual = None if conditional else _tiered(listed)
    validities: list[Validity] = []
    for each in conditional:
        price, constraint = _tiered(each.prices), each.constraint
        if price is None:
            continue
        since = getattr(constraint, "start_date", None)
        begins = getattr(constraint, "start_time", None)
        if begins is not None:
            ends = constraint.end_time
            validities.append(Validity(price, "", _minute(begins), _minute(ends)))
        elif since is None or since <= day:
            # The last price counts, and earlier ones are over.
            usual, validities = price, []
        else:
            validities.append(Validity(price, since.isoformat()))
    if usual is None:
        return None
    return Price(usual.rates, usual.above, tuple(services), tuple(validities))


def _minute(hour: Any) -> int:
    """Returns the minutes since midnight UTC. The library's times are UTC without a zone."""
    moment = datetime.combine(date(2000, 1, 2), hour)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.hour * 60 + moment.minute


def _tiered(prices: Any) -> Price | None:
    if prices is None or prices.input_mtok is None or prices.output_mtok is None:
        return None
    starts = sorted(
        {tier.start for name in _FIELDS for tier in getattr(getattr(prices, name), "tiers", ())}
    )
    # Every field at every threshold, because each may have its own tiers.
    above = tuple([(start, _rates(prices, start + 1)) for start in starts])
    return Price(_rates(prices, 0), above)


def _rates(prices: Any, tokens: int) -> TokenRates:
    fresh, cached, output, written, long = [
        None if getattr(prices, name) is None else _number(getattr(prices, name), tokens)
        for name in _FIELDS
    ]
    assert fresh is not None
    assert output is not None
    return _whole(fresh, cached, output, written, long)


def _whole(
    fresh: float, cached: float | None, output: float, written: float | None, long: float | None
) -> TokenRates:
    """Returns the rates. Input without a separate price costs as much as fresh input."""
    return TokenRates(
        fresh,
        fresh if cached is None else cached,
        output,
        fresh if written is None else written,
        long or 0.0,
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
    rates, above, services, validities = row
    return Price(
        TokenRates(*rates),
        tuple([(start, TokenRates(*inner)) for start, inner in above]),
        tuple([(tier, _read(inner)) for tier, inner in services]),
        tuple([Validity(_read(inner), *when) for inner, *when in validities]),
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
    """Returns the library's data of the supported providers on `day`."""
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


_LITELLM: Final = "model_prices_and_context_window_backup.json"
_THEIRS: Final = {"anthropic": "anthropic", "gemini": "google", "xai": "x-ai", "mistral": "mistral"}
"""LiteLLM's provider names to those of genai-prices."""
_COSTS: Final = (
    *("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token"),
    *("cache_creation_input_token_cost", "cache_creation_input_token_cost_above_1hr"),
)


def make_others(snapshot: dict[str, Any], listed: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Returns LiteLLM's rows for the models without a price in `snapshot`."""
    rows: dict[str, list[Any]] = {}
    for full, facts in sorted(listed.items()):
        provider = _THEIRS.get(facts.get("litellm_provider", ""))
        name = full.rpartition("/")[2]
        if provider is None or facts.get("mode") != "chat":
            continue
        known = _from_rows(snapshot, provider, name)
        price = _listed_price(facts)
        if price is not None and (known is None or known.price is None):
            row = {"id": name, "match": ["equals", name.lower()], "price": price}
            window = facts.get("max_input_tokens")
            rows.setdefault(provider, []).append(row | ({"window": window} if window else {}))
    return rows


def _listed_price(facts: Mapping[str, Any]) -> Price | None:
    rates = _listed_rates(facts, "")
    if rates is None or not rates.output:
        return None
    marks = {
        int(match[1]): match[0]
        for name in facts
        if (match := re.search(r"_above_(\d+)k_tokens$", name))
    }
    above = [(start * 1000, _listed_rates(facts, mark)) for start, mark in sorted(marks.items())]
    return Price(rates, tuple([(start, held) for start, held in above if held is not None]))


def _listed_rates(facts: Mapping[str, Any], mark: str) -> TokenRates | None:
    numbers = [facts.get(name + mark, facts.get(name)) for name in _COSTS]
    fresh, cached, output, written, long = [
        round(number * 1e6, 6) if isinstance(number, int | float) else None for number in numbers
    ]
    if fresh is None or output is None:
        return None
    return _whole(fresh, cached, output, written, long)


def main() -> None:
    """Writes the snapshot from the installed libraries."""
    day = datetime.now(UTC).date()
    snapshot = make_snapshot(day)
    # Read as a data file, because importing the package loads many modules.
    place = Path(str(metadata.distribution("litellm").locate_file(f"litellm/{_LITELLM}")))
    others = make_others(json.loads(json.dumps(snapshot)), json.loads(place.read_bytes()))
    source = f"litellm {metadata.version('litellm')}"
    parts = [_written(snapshot["providers"]), _written(others)]
    text = (
        f'{{"as_of": "{day}", "source": "{snapshot["source"]}", "providers": {{\n{parts[0]}\n}},\n'
        f'"others": {{"as_of": "{day}", "source": "{source}", "providers": {{\n{parts[1]}\n}}}}}}\n'
    )
    SNAPSHOT.write_text(text, encoding="utf-8")
    count = sum(map(len, (*snapshot["providers"].values(), *others.values())))
    sys.stdout.write(f"{SNAPSHOT}: {count} models\n")


def _written(providers: Mapping[str, list[Any]]) -> str:
    return ",\n".join([f'"{name}": [\n{_lines(rows)}\n]' for name, rows in providers.items()])


def _lines(rows: list[dict[str, Any]]) -> str:
    return ",\n".join([json.dumps(row) for row in rows])


if __name__ == "__main__":
    main()

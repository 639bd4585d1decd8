"""What a person may set when connecting to a model, checked; and what follows from it."""

import os
from collections.abc import Mapping
from typing import TypedDict

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.core.values import Profile
from taofold.models.endpoint import Endpoint
from taofold.models.limiter import Limiter
from taofold.models.prices import Price, Prices, price_of
from taofold.models.retry import Retry
from taofold.models.transport import Bounds, Transport


class Options(TypedDict, total=False):
    """Keyword options of every adapter. Seconds, tokens, dollars per million tokens."""

    base_url: str | None
    api_key: str | None
    profile: Profile | None
    prices: Prices | None
    timeout: float
    max_bytes: int
    requests_per_minute: float | None
    tokens_per_minute: float | None
    retry: Retry
    transport: Transport | None
    limiter: Limiter | None
    headers: Mapping[str, str]


def key_for(provider: str, variable: str, given: str | None) -> str:
    """The key given, else the environment's; `ConfigError` that names `variable` if none."""
    key = (given if given is not None else os.environ.get(variable, "")).strip()
    if not key:
        raise ConfigError(
            f"provider {provider!r} needs a key: set the environment variable {variable}, "
            "or pass api_key="
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"the key for provider {provider!r} holds characters that no key has: copy it again"
        )
    return key


def endpoint(url: str, headers: Mapping[str, str], secret: str, options: Options) -> Endpoint:
    """The endpoint at `url` with the bounds, rates and retries of `options`."""
    timeout = options.get("timeout", 120.0)
    if timeout <= 0:
        raise ConfigError(f"timeout must be positive seconds, not {timeout!r}")
    made = Endpoint(
        url,
        {**headers, **options.get("headers", {})},
        secret=secret,
        transport=options.get("transport"),
        bounds=Bounds(min(10.0, timeout), timeout, options.get("max_bytes", 16 << 20)),
        retry=options.get("retry", Retry()),
        limiter=options.get("limiter"),
    )
    made.limiter.configure(options.get("requests_per_minute"), options.get("tokens_per_minute"))
    return made


def known_price(model: str, options: Options, default: Price | None = None) -> Price | None:
    """The model's price: the user's, else the table's, else `default`."""
    if default is not None and not options.get("prices"):
        return default
    return price_of(model, options.get("prices")) or default


def refuse_unknown(**options: Unpack[Options]) -> None:
    """Raise `ConfigError` for options that no adapter has."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise ConfigError(
            f"unknown model options {unknown!r}; known are {sorted(Options.__annotations__)!r}"
        )

"""What a person may set when connecting to a model, checked; and what follows from it."""

import os
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.core.values import EFFORTS, Effort, ModelSettings, Profile, PromptCache
from taofold.models.catalogue import Entry, find
from taofold.models.endpoint import Endpoint, Sign
from taofold.models.limiter import Limiter
from taofold.models.prices import Price, Prices, own_price
from taofold.models.remote import Connection, Sources
from taofold.models.retry import Retry
from taofold.models.rules import Rules, rules_for
from taofold.models.transport import Bounds, Transport

_YOURS: Final = "profile=, or kept by `taofold doctor`"


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
    effort: Effort | None
    temperature: float | None
    top_p: float | None
    max_tokens: int
    prompt_cache: PromptCache
    service_tier: str
    extra: Mapping[str, Any]


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


def endpoint(
    url: str,
    headers: Mapping[str, str],
    secret: str,
    options: Options,
    sign: Sign | None = None,
) -> Endpoint:
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
        sign=sign,
    )
    made.limiter.configure(options.get("requests_per_minute"), options.get("tokens_per_minute"))
    return made


def settings_of(options: Options) -> ModelSettings:
    """The model's own settings. Raises `ConfigError` for an effort that nobody has."""
    effort = options.get("effort")
    if effort is not None and effort not in EFFORTS:
        raise ConfigError(f"effort is one of {', '.join(EFFORTS)}, not {effort!r}")
    return ModelSettings(
        effort=effort,
        temperature=options.get("temperature"),
        top_p=options.get("top_p"),
        max_tokens=options.get("max_tokens", 0),
        prompt_cache=options.get("prompt_cache", ""),
        service_tier=options.get("service_tier", ""),
        extra=dict(options.get("extra", {})),
    )


def connection(
    provider: str,
    model: str,
    at: Endpoint,
    options: Options,
    *,
    price: Price | None = None,
    rules: Rules | None = None,
    host: str = "",
) -> Connection:
    """The model at its endpoint, with what is known of it.

    Facts come from the user, then from the price list, then from the rules; `price` is for
    models that are in no list.
    """
    known = rules or rules_for(provider, model)
    entry = find(provider, model)
    profile = options.get("profile") or known.profile(entry.window if entry else 0)
    listed = entry.price if entry else None
    own = own_price(model, options.get("prices"))
    return Connection(
        f"{provider}:{model}",
        model,
        at,
        profile,
        own or listed or price,
        settings_of(options),
        host,
        Sources(
            window=_YOURS if options.get("profile") else _window(entry, known),
            price=_price(own, entry, price),
            abilities=_YOURS if options.get("profile") else known.source,
        ),
    )


def _window(entry: Entry | None, rules: Rules) -> str:
    return entry.source if entry is not None and entry.window else rules.source


def _price(own: Price | None, entry: Entry | None, given: Price | None) -> str:
    if own is not None:
        return "prices="
    if entry is not None and entry.price is not None:
        return entry.source
    return "it is the provider's" if given is not None else ""


def refuse_unknown(**options: Unpack[Options]) -> None:
    """Raise `ConfigError` for options that no adapter has."""
    unknown = sorted(set(options) - set(Options.__annotations__))
    if unknown:
        raise ConfigError(
            f"unknown model options {unknown!r}; known are {sorted(Options.__annotations__)!r}"
        )

"""`Model`, the interface of models: requests, replies and prices.

A `Model` is any object that turns a `Request`, with its conversation, into a reply. This module
also computes the maximum cost of a call, and streams the text of a reply across repeated attempts
(`Speaker`). `FallbackModel` moves on to the next model only after failures that another provider
may not share (a bad key, a rate limit, an outage, no network, a timeout). `ReplayModel` replaces
the model while a log is replayed, `SilentModel` where none is needed. `providers` maps names to
models.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Final, NoReturn, Protocol, TypeAlias, get_args

import msgspec

from taofold.core.content import Conversation, Issuer
from taofold.core.errors import ConfigError, ModelError, RunError, TaofoldError
from taofold.core.text import times
from taofold.core.values import (
    JSON,
    ModelSettings,
    Profile,
    Reply,
    Searcher,
    Thinking,
    Usage,
    Value,
)
from taofold.foreign_code import contained, original, place_of
from taofold.runtime.metering import current_meter, report_consumption, tokens_in

OnText: TypeAlias = Callable[[str], None]
"""Receives the text of a reply as it arrives. Deltas are never logged."""


class ToolSpec(Value, frozen=True):
    """A tool as it is offered to a model: `parameters` is a JSON Schema.

    `group` is the toolset of a deferred tool.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    group: str = ""


class Request(Value, frozen=True):
    """One model call. `tools` only for models whose profile has `native_tools`.

    `allowed` are the names of tools that may be called now (None: all of them). The tools
    themselves stay the same for a whole run, because cached and signed data of a provider are bound
    to them. `overrides` win over the model's own settings, these over `settings`. `blobs` has the
    bytes of the conversation's media, base64, by digest. `run` is the same for every call of a run.
    `deferred` are the tools that a search finds: a model whose profile has `tool_search` may load
    them into its context. `tools` has the found ones too, for every other model. `search` is the
    side that searches.
    """

    conversation: Conversation
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, JSON] | None = None
    stop: tuple[str, ...] = ()
    role: str = "executor"
    allowed: tuple[str, ...] | None = None
    settings: ModelSettings = ModelSettings()
    overrides: ModelSettings = ModelSettings()
    blobs: Mapping[str, bytes] = {}
    run: str = ""
    deferred: tuple[ToolSpec, ...] = ()
    search: Searcher = ""

    @property
    def text(self) -> str:
        """The text of every message, joined, for `in` in tests."""
        return "\n".join(message.text for message in self.conversation)

    @property
    def last(self) -> str:
        """The text of the newest message, "" if there is none."""
        return self.conversation[-1].text if len(self.conversation) else ""

    @property
    def size(self) -> int:
        """The size of the request in bytes, without the provider's own framing."""
        size = self.conversation.size
        if self.tools or self.schema is not None:
            size += len(msgspec.json.encode((self.tools, self.schema)))
        return size

    def asked(self, own: ModelSettings = ModelSettings()) -> ModelSettings:
        """Returns the effective settings for a model with settings of its `own`."""
        return self.overrides.over(own.over(self.settings))


class Model(Protocol):
    """A language model, or a stand-in for one.

    `complete` raises `ModelError` after its own retries; `on_text` is called with deltas if the
    provider streams and the caller passes it.

        class Echo:
            name, profile = "local:echo", Profile()

            async def complete(self, request, on_text=None):
                return Reply(request.conversation[-1].text, model=self.name)

            def price(self, input_tokens, output_tokens):
                return 0.0
    """

    @property
    def name(self) -> str:
        """`provider:model`."""
        ...

    @property
    def profile(self) -> Profile:
        """The capabilities of the model."""
        ...

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Asks the model once."""
        ...

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns US dollars for a call of this size, or None if the price is unknown."""
        ...


ModelUse: TypeAlias = str | Model | Mapping[str, Any]
"""`provider:model`, a model, or `{"model": "provider:model", "effort": "high", …}`."""
ModelSpec: TypeAlias = ModelUse | Sequence[ModelUse]
"""A model, or a list of which the first that works is used."""


NEXT: Final = frozenset({"auth", "server", "network", "rate", "timeout"})
"""The kinds of `ModelError` after which the next model is asked."""
_REFUSALS: Final = frozenset({"auth", "rate", "overflow", "request", "binding"})
"""The kinds of `ModelError` of requests that the provider refused, and bills nothing for."""
_REST: Final = 60.0
_UNKNOWN: Final = Profile()


class Speaker:
    """A relay of the deltas of a reply whose attempt may fail and be repeated.

    Text already passed on is not repeated. If a new attempt differs from it, no more deltas follow:
    the reply, not its deltas, is authoritative.
    """

    __slots__ = ("_at", "_on_text", "_pieces", "_said", "_silent")

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []
        self._said = ""
        self._at = 0
        self._silent = False

    def rewind(self) -> None:
        """Starts a new attempt."""
        self._said = "".join(self._pieces)
        self._at = 0

    def __call__(self, delta: str) -> None:
        """Takes the next piece of this attempt's text."""
        if self._silent or not delta:
            return
        repeated = self._said[self._at : self._at + len(delta)]
        if not delta.startswith(repeated):
            self._silent = True
            return
        self._at += len(repeated)
        # Only text beyond that of the previous attempt is new.
        if fresh := delta[len(repeated) :]:
            self._pieces.append(fresh)
            self._on_text(fresh)


def quote(model: Model, input_tokens: int, output_tokens: int, tier: str = "") -> float | None:
    """Returns US dollars for a call of this size in a service tier ("" = the usual one)."""
    priced = getattr(model, "price_at", None) if tier else None
    if priced is None:
        return model.price(input_tokens, output_tokens)
    price: float | None = priced(input_tokens, output_tokens, tier)
    return price


def dearest(model: Model, request: Request, input_tokens: int) -> float | None:
    """Returns the maximum cost of the call in US dollars, or None if a price is unknown.

    A model's own settings win over the request's, as in the call itself: they may allow a longer or
    more expensive reply.
    """
    if isinstance(model, FallbackModel):
        # Any of them may answer, so a budget must hold for each.
        bounds = [dearest(other, request, input_tokens) for other in model.models]
        known_bounds = [bound for bound in bounds if bound is not None]
        return max(known_bounds) if len(known_bounds) == len(bounds) else None
    own: Any = getattr(model, "settings", None)
    settings = request.asked(own if isinstance(own, ModelSettings) else ModelSettings())
    priced = getattr(model, "price_of_call", None)
    if priced is not None:
        bound: float | None = priced(input_tokens, settings.max_tokens, settings)
        return bound
    return quote(model, input_tokens, settings.max_tokens, settings.service_tier)


def _common(inputs: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Returns the kinds that all of them accept; None if nothing is known of any."""
    if not inputs:
        return None
    return tuple([kind for kind in inputs[0] if all(kind in others for others in inputs)])


async def ask(model: Model, request: Request, on_text: OnText | None = None) -> Reply:
    """Returns the reply of `model`. Every exception of its code is a failure of this call.

    An attempt without a reply is reported to the meter of the call, unless the model did so itself.

    Raises:
        ModelError: The model gave no reply. For an exception of its own code, the message has
            class, text and place, and the exception is its cause.
        ConfigError: `complete` is a plain function.
        AssertionError: A test's own assertion within a model failed.
    """
    attempt = _Attempt(model, request, on_text)
    try:
        with contained():
            reply: Any = model.complete(request, attempt.on_text)
            if not isawaitable(reply):
                name = f"{type(model).__name__}.complete"
                raise ConfigError(f"{name} is not an async function: write `async def complete(…)`")
            answer: Reply = await reply
            return answer
    except ModelError as error:
        attempt.report(error)
        raise
    except (TaofoldError, AssertionError):
        raise
    except Exception as error:  # noqa: BLE001 - foreign code
        attempt.report(None)
        cause = original(error)
        raise ModelError(
            f"the code of {model.name} raised {type(cause).__name__}: {cause}{place_of(cause)}"
        ) from cause
    except BaseException:  # the call was cut off
        attempt.report(None)
        raise


class _Attempt:
    """One call of a model, which counts the text that arrives until it is cut off."""

    def __init__(self, model: Model, request: Request, on_text: OnText | None) -> None:
        self._model, self._request = model, request
        self._on_text, self._received = on_text, 0
        self._meter = current_meter()
        self._reports = len(self._meter.attempts) if self._meter else 0
        self.on_text = on_text if on_text is None or self._meter is None else self._hear
        """The listener to pass to the model."""

    def _hear(self, text: str) -> None:
        self._received += len(text.encode(errors="replace"))
        if self._on_text is not None:
            self._on_text(text)

    def report(self, error: ModelError | None) -> None:
        """Reports the consumption of the failed attempt. None: its code failed or was cut off."""
        meter = self._meter
        # The model's own report knows more than an estimate.
        if meter is None or len(meter.attempts) > self._reports:
            return
        if error is not None and (error.usage is not None or is_refusal(error)):
            report_consumption(self._model.name, error.usage or Usage())
        elif meter.estimates:
            usage = estimated_usage(self._model, self._request.size, self._received)
            report_consumption(self._model.name, usage, estimated=True)


def is_refusal(error: ModelError) -> bool:
    """Returns whether the provider refused the request, so that it bills nothing."""
    return error.status >= 400 or error.kind in _REFUSALS


def estimated_usage(model: Model, sent: int, received: int) -> Usage:
    """Returns the least usage of a call with these bytes of prompt and of reply, with its price."""
    taken, written = tokens_in(sent), tokens_in(received)
    try:
        with contained():
            usd = model.price(taken, written)
    except Exception:  # noqa: BLE001 - foreign code; an unknown price is counted as unpriced
        usd = None
    return Usage(taken, written, usd=usd)


class FallbackModel:
    """A model that asks `models` in order, and moves on after a failure.

    A failed model rests for `rest` seconds, so that an unavailable one does not delay every call.
    `Reply.model` names the one that answered. The model that answered last in a conversation is
    asked first: its reasoning and its cache are there.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        rest: float = _REST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ConfigError("a fallback list needs at least one model")
        self._models = tuple(models)
        self._rest, self._clock = rest, clock
        self._until = [0.0] * len(self._models)
        self.name = " | ".join(model.name for model in self._models)
        profiles = [model.profile for model in self._models]
        self.profile = Profile(
            # The weakest of all: any of them must be able to take a request built for the list.
            window=min(profile.window for profile in profiles),
            window_known=all(profile.window_known for profile in profiles),
            native_tools=all(profile.native_tools for profile in profiles),
            json_schema=all(profile.json_schema for profile in profiles),
            streaming=all(profile.streaming for profile in profiles),
            inputs=_common([profile.inputs for profile in profiles if profile.inputs is not None]),
            # The literals are ordered by the amount of thinking: the maximum is assumed.
            thinking=max([profile.thinking for profile in profiles], key=get_args(Thinking).index),
            prefix_bound=any(profile.prefix_bound for profile in profiles),
            # A request has what both kinds need: the others are offered the found tools.
            tool_search=any(profile.tool_search for profile in profiles),
        )

    @property
    def models(self) -> tuple[Model, ...]:
        """The models in the order in which they are asked."""
        return self._models

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Returns the reply of the first model that works.

        Raises:
            ModelError: All failed. It has the kind of the last error and the reasons of all.
        """
        speaker = Speaker(on_text) if on_text else None
        reasons: list[str] = []
        last = ModelError("nothing was asked")
        for index in self._order(request.conversation.issuer):
            model = self._models[index]
            if speaker:
                speaker.rewind()
            try:
                reply = await ask(model, request, speaker)
            except ModelError as error:
                # A malformed request or an overflow would fail the same way at the next model.
                if error.kind not in NEXT:
                    raise
                last = error
                reasons.append(f"{model.name}: {error}")
                self._until[index] = self._clock() + max(self._rest, error.retry_after or 0.0)
            else:
                self._until[index] = 0.0
                return reply

        raise ModelError(
            "no model of the fallback list works: " + "; ".join(reasons),
            kind=last.kind,
            status=last.status,
            retry_after=last.retry_after,
        ) from last

    def _order(self, last: Issuer | None) -> list[int]:
        now = self._clock()
        # A stable sort; False sorts before True, so the maker of the newest reply comes first.
        every = sorted(
            range(len(self._models)),
            key=lambda i: last is None or getattr(self._models[i], "issuer", None) != last,
        )
        # Resting models are still better than none.
        return [i for i in every if self._until[i] <= now] + [
            i for i in every if self._until[i] > now
        ]

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns the highest price of the models, or None if one is unknown."""
        # Any of them may answer, and a budget must hold for each.
        prices = [model.price(input_tokens, output_tokens) for model in self._models]
        known_prices = [price for price in prices if price is not None]
        return max(known_prices) if len(known_prices) == len(prices) else None


class ReplayModel:
    """The stand-in for a model while a log is replayed. Every call raises."""

    def __init__(self, name: str = "replay:model", profile: Profile = _UNKNOWN) -> None:
        self.name, self.profile = name, profile

    async def complete(self, request: Request, on_text: OnText | None = None) -> NoReturn:
        """Raises `RunError`."""
        raise RunError(
            f"{self.name!r} was asked for a reply while a log is replayed: the log holds none for "
            f"this call (the conversation has {times(len(request.conversation), 'message')})"
        )

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Returns 0.0."""
        return 0.0


class SilentModel:
    """The model of a run that needs none."""

    name: str = "none"
    profile: Profile = Profile()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Raises `ModelError`: no model may be asked."""
        raise ModelError("a direct call of a tool asks no model")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns 0.0."""
        return 0.0

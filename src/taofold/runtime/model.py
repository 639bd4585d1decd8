"""`Model`, the interface of models: what one is asked, what it answers and costs.

A `Model` is anything that turns a `Request`, with its conversation, into a reply. What a call may
cost at most, and how the text of a reply streams whose attempt may be repeated (`Speaker`), is
settled here for all of them. Three of our own ask nobody, or others: `FallbackModel` moves on to
the next model only after failures that another provider may not share (a bad key, a rate limit, an
outage, no network, a timeout), `ReplayModel` stands where a model was while a log is replayed,
`SilentModel` where none is needed. How a name becomes a model is in `providers`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Final, NoReturn, Protocol, TypeAlias, get_args

import msgspec

from taofold.core.content import Conversation, Issuer
from taofold.core.errors import ConfigError, ModelError, RunError, TaofoldError
from taofold.core.text import times
from taofold.core.values import JSON, ModelSettings, Profile, Reply, Thinking, Value
from taofold.foreign_code import contained, original, place_of

OnText: TypeAlias = Callable[[str], None]
"""Hears the text of a reply as it arrives. Deltas are never logged."""


class ToolSpec(Value, frozen=True):
    """A tool as it is offered to a model: `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Value, frozen=True):
    """One model call. `tools` only for models whose profile has `native_tools`.

    `allowed` are the names of tools that may be called now (None: all of them); the tools
    themselves stay the same for a whole run, because what a provider cached or signed is bound to
    them. `overrides` win over the model's own settings, these over `settings`. `blobs` has the
    bytes of the conversation's media, base64, by digest. `run` is the same for every call of a run.
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

    @property
    def text(self) -> str:
        """Every message's text, joined: handy for `in` in a test."""
        return "\n".join(message.text for message in self.conversation)

    @property
    def last(self) -> str:
        """The text of the newest message, "" if there is none."""
        return self.conversation[-1].text if len(self.conversation) else ""

    @property
    def size(self) -> int:
        """Bytes of all that is sent, without the provider's own framing."""
        size = self.conversation.size
        if self.tools or self.schema is not None:
            size += len(msgspec.json.encode((self.tools, self.schema)))
        return size

    def asked(self, own: ModelSettings = ModelSettings()) -> ModelSettings:
        """What holds for this call of a model that has settings of its `own`."""
        return self.overrides.over(own.over(self.settings))


class Model(Protocol):
    """A language model, or what stands in for one.

    `complete` raises `ModelError` after its own retries; `on_text` is called with
    deltas where the provider streams and the caller listens.

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
        """What the model can do."""
        ...

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask the model once."""
        ...

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size, None if the price is unknown."""
        ...


ModelUse: TypeAlias = str | Model | Mapping[str, Any]
"""`provider:model`, a model, or `{"model": "provider:model", "effort": "high", …}`."""
ModelSpec: TypeAlias = ModelUse | Sequence[ModelUse]
"""A model, or a list of which the first that works is used."""


NEXT: Final = frozenset({"auth", "server", "network", "rate", "timeout"})
"""The kinds of `ModelError` after which the next model is asked."""
_REST: Final = 60.0
_UNKNOWN: Final = Profile()


class Speaker:
    """Passes on the deltas of a reply whose attempt may fail and be repeated.

    What it has said is not said twice; once a new attempt says something else it falls
    silent: the reply, not its deltas, is the fact.
    """

    __slots__ = ("_at", "_on_text", "_pieces", "_said", "_silent")

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []
        self._said = ""
        self._at = 0
        self._silent = False

    def rewind(self) -> None:
        """A new attempt begins."""
        self._said = "".join(self._pieces)
        self._at = 0

    def __call__(self, delta: str) -> None:
        """The next piece of this attempt's text."""
        if self._silent or not delta:
            return
        repeated = self._said[self._at : self._at + len(delta)]
        if not delta.startswith(repeated):
            self._silent = True
            return
        self._at += len(repeated)
        # Only what goes beyond the text of the attempt before has not been heard yet.
        if fresh := delta[len(repeated) :]:
            self._pieces.append(fresh)
            self._on_text(fresh)


def quote(model: Model, input_tokens: int, output_tokens: int, tier: str = "") -> float | None:
    """US dollars for a call of this size in a service tier ("" = the usual one)."""
    priced = getattr(model, "price_at", None) if tier else None
    if priced is None:
        return model.price(input_tokens, output_tokens)
    price: float | None = priced(input_tokens, output_tokens, tier)
    return price


def dearest(model: Model, request: Request, input_tokens: int) -> float | None:
    """What the call may cost at most, in US dollars; None if a price is unknown.

    A model's own settings win over the request's, here as where it is asked: they may allow a
    longer or a dearer reply.
    """
    if isinstance(model, FallbackModel):
        # Nobody knows who will answer: a budget must hold for each of them.
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
    """What all of them take; None if nothing is known of any."""
    if not inputs:
        return None
    return tuple([kind for kind in inputs[0] if all(kind in others for others in inputs)])


async def ask(model: Model, request: Request, on_text: OnText | None = None) -> Reply:
    """What `model` replies. Whatever its code raises is a failure of this call.

    Raises:
        ModelError: the model gave no reply. Of an exception of its own code it names the class, the
            text and the place; the exception itself is its cause.
        ConfigError: `complete` is a plain function.
        AssertionError: a test's own statement within a model failed.
    """
    try:
        with contained():
            reply: Any = model.complete(request, on_text)
            if not isawaitable(reply):
                name = f"{type(model).__name__}.complete"
                raise ConfigError(f"{name} is no async function: write `async def complete(…)`")
            answer: Reply = await reply
            return answer
    except (TaofoldError, AssertionError):
        raise
    except Exception as error:  # noqa: BLE001 - foreign code
        cause = original(error)
        raise ModelError(
            f"the code of {model.name} raised {type(cause).__name__}: {cause}{place_of(cause)}"
        ) from cause


class FallbackModel:
    """Asks `models` in order. A model that failed rests for `rest` seconds, so that a dead
    one does not delay every call; `Reply.model` says which one answered.

    Whoever answered last in a conversation is asked first: its reasoning and its cache are there.
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
            # The weakest of all: whoever answers must be able to take what was built for the list.
            window=min(profile.window for profile in profiles),
            window_known=all(profile.window_known for profile in profiles),
            native_tools=all(profile.native_tools for profile in profiles),
            json_schema=all(profile.json_schema for profile in profiles),
            streaming=all(profile.streaming for profile in profiles),
            inputs=_common([profile.inputs for profile in profiles if profile.inputs is not None]),
            # The literals stand in order of how much a model thinks: the most is assumed.
            thinking=max([profile.thinking for profile in profiles], key=get_args(Thinking).index),
            prefix_bound=any(profile.prefix_bound for profile in profiles),
        )

    @property
    def models(self) -> tuple[Model, ...]:
        """In the order in which they are asked."""
        return self._models

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The reply of the first model that works.

        Raises `ModelError`: the last one's kind, everyone's reason.
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
        # A sort keeps the order of equals.
        # False sorts before True: whoever made the newest reply comes first.
        every = sorted(
            range(len(self._models)),
            key=lambda i: last is None or getattr(self._models[i], "issuer", None) != last,
        )
        # Those that rest are still better than none.
        return [i for i in every if self._until[i] <= now] + [
            i for i in every if self._until[i] > now
        ]

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """The dearest model's price; None if one of them is unknown."""
        # Nobody knows who will answer, and a budget must hold for each of them.
        prices = [model.price(input_tokens, output_tokens) for model in self._models]
        known_prices = [price for price in prices if price is not None]
        return max(known_prices) if len(known_prices) == len(prices) else None


class ReplayModel:
    """Stands where a model was while a log is replayed. It refuses to be called."""

    def __init__(self, name: str = "replay:model", profile: Profile = _UNKNOWN) -> None:
        self.name, self.profile = name, profile

    async def complete(self, request: Request, on_text: OnText | None = None) -> NoReturn:
        """Raise `RunError`."""
        raise RunError(
            f"{self.name!r} was asked for a reply while a log is replayed: the log holds none for "
            f"this call (the conversation has {times(len(request.conversation), 'message')})"
        )

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Nothing is bought."""
        return 0.0


class SilentModel:
    """The model of a run that needs none."""

    name: str = "none"
    profile: Profile = Profile()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Raises: nobody may ask it."""
        raise ModelError("a direct call of a tool asks no model")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Nothing."""
        return 0.0

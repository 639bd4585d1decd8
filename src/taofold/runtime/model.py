"""The seam of models: request, reply and price; finding one by name, fallbacks, replayed models.

A `Model` is anything that turns a conversation into a reply. `resolve` is a look-up: a provider's
module is imported when it is asked for, by its dotted path or through the entry points of group
`taofold.models`. `FallbackModel` moves on to the next model only after failures that another
provider may not share: a bad key, a rate limit, an outage, no network, a timeout. What `taofold
doctor MODEL` measured is kept in the operator's folder and is the profile of every later
`provider:model` that is given none. No vendor is named here.
"""

import importlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from inspect import isawaitable
from typing import Any, Final, NoReturn, Protocol, TypeAlias, cast, get_args

import msgspec

from taofold.core.content import Conversation, Issuer
from taofold.core.errors import ConfigError, ModelError, RunError
from taofold.core.json_values import is_object
from taofold.core.values import JSON, ModelSettings, Profile, Reply, Thinking, Value
from taofold.plugins import installed
from taofold.reserved import operator_folder

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
    return quote(model, input_tokens, settings.max_tokens, settings.service_tier)


def _common(inputs: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """What all of them take; None if nothing is known of any."""
    if not inputs:
        return None
    return tuple([kind for kind in inputs[0] if all(kind in others for others in inputs)])


def awaitable(model: Model, reply: Any) -> Awaitable[Reply]:
    """What `model.complete` returned, to be awaited.

    Raises:
        ConfigError: it cannot be: `complete` is a plain function.
    """
    if not isawaitable(reply):
        name = f"{type(model).__name__}.complete"
        raise ConfigError(f"{name} is no async function: write `async def complete(…)`")
    return reply


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
                reply = await awaitable(model, model.complete(request, speaker))
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


NAME: Final = "profiles.json"


def probed_profile(model: str) -> Profile | None:
    """The profile of `provider:model`, None if it was never probed."""
    measured = _read().get(model)
    if measured is None:
        return None
    try:
        return msgspec.convert(measured.get("profile"), Profile)
    except (msgspec.ValidationError, AttributeError) as error:
        path = str(operator_folder() / NAME)
        raise ConfigError(f"the profile of {model!r} is damaged: {error}", path=path) from error


def keep_profile(model: str, profile: Profile, at: str) -> str:
    """Write the profile; the file's path is returned."""
    folder = operator_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / NAME
    content = {**_read(), model: {"probed_at": at, "profile": msgspec.structs.asdict(profile)}}
    # A file of its own, then renamed: a reader never sees half a file, nor a crash leave one.
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    fresh.replace(path)
    return str(path)


def _read() -> dict[str, Any]:
    path = operator_folder() / NAME
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot be read: {error}; delete it or mend it", path=str(path)
        ) from error
    return content if is_object(content) else {}


Factory: TypeAlias = Callable[..., Model]
"""`(model, **options) -> Model`. Raises `ConfigError`."""

GROUP: Final = "taofold.models"

BUILT_IN: Final[dict[str, str]] = {
    "openai": "taofold.models.presets:openai",
    "openai-chat": "taofold.models.presets:openai_chat",
    "openai-compatible": "taofold.models.presets:compatible",
    "openrouter": "taofold.models.presets:openrouter",
    "groq": "taofold.models.presets:groq",
    "deepseek": "taofold.models.presets:deepseek",
    "together": "taofold.models.presets:together",
    "fireworks": "taofold.models.presets:fireworks",
    "mistral": "taofold.models.presets:mistral",
    "xai": "taofold.models.presets:xai",
    "moonshot": "taofold.models.presets:moonshot",
    "zai": "taofold.models.presets:zai",
    "cerebras": "taofold.models.presets:cerebras",
    "gemini": "taofold.models.gemini:connect",
    "gemini-compatible": "taofold.models.presets:gemini_compatible",
    "azure": "taofold.models.clouds:azure",
    "bedrock": "taofold.models.clouds:bedrock",
    "vertex": "taofold.models.clouds:vertex",
    "llamacpp": "taofold.models.presets:llamacpp",
    "lmstudio": "taofold.models.presets:lmstudio",
    "vllm": "taofold.models.presets:vllm",
    "anthropic": "taofold.models.anthropic:connect",
    "ollama": "taofold.models.ollama:connect",
    "test": "taofold.testing.models:connect",
}
"""Ours, so that finding one does not cost a scan of all installed packages (20 ms)."""

_FAMILIES: Final = (
    ("claude", "anthropic"),
    ("gemini", "gemini"),
    ("grok", "xai"),
    ("mistral", "mistral"),
    ("deepseek", "deepseek"),
    ("kimi", "moonshot"),
    ("glm", "zai"),
)
"""Whose models have names that begin so: for a hint, never for a choice."""
_UNKNOWN: Final = Profile()
_registered: Final[dict[str, Factory]] = {}


def register_provider(name: str, factory: Factory) -> None:
    """Let `name:model` mean `factory(model, **options)`, before any other meaning of `name`.

    Raises `ConfigError` if the name cannot stand before a colon or the factory is not callable.
    """
    if not name or ":" in name or name != name.strip():
        raise ConfigError(f"a provider's name must be non-empty, without colon or spaces: {name!r}")
    if not callable(factory):
        raise ConfigError(f"the factory of provider {name!r} must be callable, not {factory!r}")
    _registered[name] = factory


def forget_provider(name: str) -> None:
    """Undo `register_provider`; an unknown name is no error."""
    _registered.pop(name, None)


def resolve(spec: ModelSpec, *, provider: str = "openai", **options: Any) -> Model:
    """The model that `spec` names.

    Args:
        spec: `provider:model`, a bare model name, a model, a mapping with `model` and options
            of its own, or a sequence of these of which the first that works answers.
        provider: completes a bare model name.
        options: for the factory: base_url, api_key, profile, timeout, prices, ...

    Raises:
        ConfigError: unknown provider, missing key, or an option the provider does not have.
    """
    if isinstance(spec, str):
        return _model_by_name(spec, provider, options)
    if callable(getattr(spec, "complete", None)):
        lacking = [name for name in ("name", "profile") if not hasattr(spec, name)]
        if lacking:
            raise ConfigError(
                f"{type(spec).__name__} is no whole model: it lacks {' and '.join(lacking)} "
                "(a model has `name`, `profile`, `complete` and `price`)"
            )
        return cast("Model", spec)
    if isinstance(spec, Mapping):
        own = dict(spec)
        if not own.get("model"):
            raise ConfigError(f"a model with settings names it: {{'model': …}}, not {own!r}")
        return resolve(own.pop("model"), provider=provider, **{**options, **own})
    if isinstance(spec, Sequence):
        # All of a list are found before the first is asked: a mistyped fallback
        # is no surprise at night.
        models = [resolve(name, provider=provider, **options) for name in spec]
        return models[0] if len(models) == 1 else FallbackModel(models)
    raise ConfigError(
        f"{spec!r} is not a model: give 'provider:model', an object with `complete`, or a list"
        + ("; of a function, taofold.testing.FunctionModel makes one" if callable(spec) else "")
    )


def providers() -> list[str]:
    """The names of all providers that can be used."""
    return sorted({*BUILT_IN, *_registered, *(entry.name for entry in installed(GROUP))})


def _model_by_name(spec: str, provider: str, options: dict[str, Any]) -> Model:
    # Split at the first colon only: names of Ollama's models hold one themselves (`llama3:8b`).
    name, colon, model = spec.partition(":")
    if not colon:
        name, model = provider, spec
    if not model.strip():
        raise ConfigError(f"no model is named in {spec!r}: write 'provider:model'")
    name, model = name.strip(), model.strip()
    # Only for our own factories: they all take `profile`; a registered one might not.
    if "profile" not in options and name in BUILT_IN and name not in _registered:
        probed = probed_profile(f"{name}:{model}")
        if probed is not None:
            options = {**options, "profile": probed}
    try:
        return _factory(name, spec)(model, **options)
    except ConfigError as error:
        if colon:
            raise
        family = next(
            (name for start, name in _FAMILIES if model.startswith(start)),
            provider,
        )
        raise ConfigError(
            f"{error}; {spec!r} names no provider: did you mean '{family}:{model}'?"
        ) from error


def _factory(name: str, spec: str) -> Factory:
    # Registered before built in, so that a test or an application can stand in for a provider.
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return _load(BUILT_IN[name], name)
    for entry in installed(GROUP):
        if entry.name == name:
            return _load(entry.value, name)
    available = providers()
    near = get_close_matches(name, available, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ConfigError(
        f"unknown provider {name!r} in {spec!r}: {hint}known are {', '.join(available)}; "
        f"other packages bring more by entry points of group {GROUP!r}"
    )


def _load(path: str, name: str) -> Factory:
    module, _, attribute = path.partition(":")
    try:
        factory: Factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"provider {name!r} cannot be loaded from {path!r}: {error}; is its extra installed?"
        ) from error
    return factory


class ReplayModel:
    """Stands where a model was while a log is replayed. It refuses to be called."""

    def __init__(self, name: str = "replay:model", profile: Profile = _UNKNOWN) -> None:
        self.name, self.profile = name, profile

    async def complete(self, request: Request, on_text: OnText | None = None) -> NoReturn:
        """Raise `RunError`."""
        raise RunError(
            f"{self.name!r} was asked for a reply while a log is replayed: the log holds none for "
            f"this call (the conversation has {len(request.conversation)} messages)"
        )

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Nothing is bought."""
        return 0.0

"""Finds the model for a name: `provider:model`, a model, or a list to fall back on.

Pure look-up: a provider's module is imported when it is asked for, by its dotted path
or through the entry points of group `taofold.models`. It knows no vendor.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn, TypeAlias, cast

from taofold.core.errors import ConfigError, RunError
from taofold.core.values import Profile
from taofold.runtime.fallback import FallbackModel
from taofold.runtime.model import Model, ModelSpec, OnText, Request
from taofold.runtime.probed import known

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
    "offline": "taofold.models.repair:connect",
}
"""Ours, so that finding one does not cost a scan of all installed packages (20 ms)."""

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
        return _named(spec, provider, options)
    if callable(getattr(spec, "complete", None)):
        return cast("Model", spec)
    if isinstance(spec, Mapping):
        own = dict(spec)
        if not own.get("model"):
            raise ConfigError(f"a model with settings names it: {{'model': …}}, not {own!r}")
        return resolve(own.pop("model"), provider=provider, **{**options, **own})
    if isinstance(spec, Sequence):
        models = [resolve(one, provider=provider, **options) for one in spec]
        return models[0] if len(models) == 1 else FallbackModel(models)
    raise ConfigError(
        f"{spec!r} is not a model: give 'provider:model', an object with `complete`, or a list"
    )


def providers() -> list[str]:
    """The names of all providers that can be used."""
    return sorted({*BUILT_IN, *_registered, *(entry.name for entry in _entries())})


def _named(spec: str, provider: str, options: dict[str, Any]) -> Model:
    name, colon, model = spec.partition(":")
    if not colon:
        name, model = provider, spec
    if not model.strip():
        raise ConfigError(f"no model is named in {spec!r}: write 'provider:model'")
    name, model = name.strip(), model.strip()
    if "profile" not in options and name in BUILT_IN and name not in _registered:
        probed = known(f"{name}:{model}")
        if probed is not None:
            options = {**options, "profile": probed}
    return _factory(name, spec)(model, **options)


def _factory(name: str, spec: str) -> Factory:
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return _load(BUILT_IN[name], name)
    for entry in _entries():
        if entry.name == name:
            return _load(entry.value, name)
    known = providers()
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ConfigError(f"unknown provider {name!r} in {spec!r}: {hint}known are {', '.join(known)}")


def _load(path: str, name: str) -> Factory:
    module, _, attribute = path.partition(":")
    try:
        factory: Factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"provider {name!r} cannot be loaded from {path!r}: {error}; is its extra installed?"
        ) from error
    return factory


def _entries() -> Iterable[Any]:
    # Imported here because it costs more than half of what `import taofold` may.
    metadata = importlib.import_module("importlib.metadata")
    entries: Iterable[Any] = metadata.entry_points(group=GROUP)
    return entries


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

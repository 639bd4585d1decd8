"""Models by name: `provider:model` becomes a `Model`, and a list of names a `FallbackModel`.

`resolve` looks up the providers that a program registered itself (`register_provider`), then a
provider's module. The module is imported on first use, by its dotted path or through the entry
points of group `taofold.models`.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias, cast

from taofold.core.errors import ConfigError
from taofold.plugins import installed
from taofold.runtime.model import FallbackModel, Model, ModelSpec

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
"""The built-in providers, listed to avoid a scan of all installed packages (20 ms)."""

_FAMILIES: Final = (
    ("claude", "anthropic"),
    ("gemini", "gemini"),
    ("grok", "xai"),
    ("mistral", "mistral"),
    ("deepseek", "deepseek"),
    ("kimi", "moonshot"),
    ("glm", "zai"),
)
"""Providers by the beginning of their models' names: for a hint, never for a choice."""
_registered: Final[dict[str, Factory]] = {}


def register_provider(name: str, factory: Factory) -> None:
    """Makes `name:model` mean `factory(model, **options)`, before any other meaning of `name`.

    Raises:
        ConfigError: The name is empty or has a colon or spaces, or the factory is not callable.
    """
    if not name or ":" in name or name != name.strip():
        raise ConfigError(f"a provider's name must be non-empty, without colon or spaces: {name!r}")
    if not callable(factory):
        raise ConfigError(f"the factory of provider {name!r} must be callable, not {factory!r}")
    _registered[name] = factory


def forget_provider(name: str) -> None:
    """Undoes `register_provider`; an unknown name is no error."""
    _registered.pop(name, None)


def resolve(spec: ModelSpec, *, provider: str = "openai", **options: Any) -> Model:
    """Returns the model that `spec` names.

    Args:
        spec: `provider:model`, a bare model name, a model, a mapping with `model` and options of
            its own, or a sequence of these of which the first that works answers.
        provider: Completes a bare model name.
        options: For the factory: base_url, api_key, profile, timeout, prices, ...

    Raises:
        ConfigError: Unknown provider, missing key, or an option that the provider lacks.
    """
    if isinstance(spec, str):
        return _model_by_name(spec, provider, options)
    if callable(getattr(spec, "complete", None)):
        lacking = [name for name in ("name", "profile") if not hasattr(spec, name)]
        if lacking:
            raise ConfigError(
                f"{type(spec).__name__} is not a complete model: it lacks {' and '.join(lacking)} "
                "(a model has `name`, `profile`, `complete` and `price`)"
            )
        return cast("Model", spec)

    if isinstance(spec, Mapping):
        own = dict(spec)
        if not own.get("model"):
            raise ConfigError(f"a model with settings names it: {{'model': …}}, not {own!r}")
        return resolve(own.pop("model"), provider=provider, **{**options, **own})

    if isinstance(spec, Sequence):
        # All models of a list are resolved before the first is asked, so a mistyped fallback fails
        # at once.
        models = [resolve(name, provider=provider, **options) for name in spec]
        return models[0] if len(models) == 1 else FallbackModel(models)

    raise ConfigError(
        f"{spec!r} is not a model: give 'provider:model', an object with `complete`, or a list"
        + ("; of a function, taofold.testing.FunctionModel makes one" if callable(spec) else "")
    )


def providers() -> list[str]:
    """Returns the names of all usable providers."""
    return sorted({*BUILT_IN, *_registered, *(entry.name for entry in installed(GROUP))})


def is_provider(name: str) -> bool:
    """Returns whether a model `name:…` can be used; scans packages for unknown names only."""
    return name in _registered or name in BUILT_IN or name in providers()


def _model_by_name(spec: str, provider: str, options: dict[str, Any]) -> Model:
    # Split at the first colon only: Ollama's model names hold one themselves (`llama3:8b`).
    name, colon, model = spec.partition(":")
    if not spec.strip():
        raise ConfigError(
            "no model is named: pass model='provider:model'; an agent file takes it from `model:` "
            "or from TAOFOLD_MODEL"
        )
    if not colon:
        name, model = provider, spec
    if not model.strip():
        raise ConfigError(f"no model is named in {spec!r}: write 'provider:model'")
    name, model = name.strip(), model.strip()

    try:
        return _factory(name, spec)(model, **options)
    except ConfigError as error:
        if colon:
            raise
        vendor, slash, rest = model.partition("/")  # LiteLLM's form
        if slash and vendor in BUILT_IN:
            meant = f"{vendor}:{rest}"
        else:
            starts = (name for start, name in _FAMILIES if model.startswith(start))
            meant = f"{next(starts, provider)}:{model}"
        raise ConfigError(
            f"{error}; {spec!r} names no provider: did you mean {meant!r}?"
        ) from error


def _factory(name: str, spec: str) -> Factory:
    # Registered before built-in, so that a test or an application can replace a provider.
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

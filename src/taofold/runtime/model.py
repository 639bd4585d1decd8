"""The seam of models: anything that turns a conversation into a reply."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from taofold.core.conversation import Conversation
from taofold.core.values import JSON, ModelSettings, Profile, Reply, Value

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

    def asked(self, own: ModelSettings = ModelSettings()) -> ModelSettings:
        """What holds for this call of a model that has settings of its `own`."""
        return self.overrides.over(own.over(self.settings))


class Model(Protocol):
    """A language model, or what stands in for one.

    `complete` raises `ModelError` after its own retries; `on_text` is called with
    deltas where the provider streams and the caller listens.
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

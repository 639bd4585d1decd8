"""The seam of models: anything that turns a conversation into a reply."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from taofold.core.conversation import Conversation
from taofold.core.values import JSON, Profile, Reply, Value

OnText: TypeAlias = Callable[[str], None]
"""Hears the text of a reply as it arrives. Deltas are never logged."""


class ToolSpec(Value, frozen=True):
    """A tool as it is offered to a model: `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Value, frozen=True):
    """One model call. `tools` only for models whose profile has `native_tools`."""

    conversation: Conversation
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, JSON] | None = None
    max_tokens: int = 0
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    role: str = "executor"


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


ModelSpec: TypeAlias = str | Model | Sequence[str | Model]
"""`provider:model`, a model, or a list of which the first that works is used."""

"""What an action is: a name, the schema of its keys, and a generator of effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from taofold.core.effects import Strategy
from taofold.core.values import Effort, ModelSettings
from taofold.reasoning import Task

K = TypeVar("K", bound="Keys")

Render: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""Renders a deferred key with the variables that only the action has."""


class Keys(BaseModel):
    """The keys under `with`: unknown ones are errors, and text is never taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Asking(Keys):
    """The keys of whatever asks a model."""

    model: str = ""
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    effort: Effort | None = None
    """How hard the model shall think: none, minimal, low, medium, high, xhigh, max."""
    max_tokens: Annotated[int, Field(ge=0)] = 0
    extra: dict[str, Any] = {}
    """Further fields of the request, as the provider documents them."""

    @property
    def settings(self) -> ModelSettings:
        """How the model is asked here; what is not set is the run's."""
        return ModelSettings(
            effort=self.effort,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            extra=self.extra,
        )


class Open(BaseModel):
    """Keys that somebody else checks: the parameters of a tool, the state of a flow."""

    model_config = ConfigDict(extra="allow", frozen=True)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else msgspec.json.encode(value).decode()


Text = Annotated[str, BeforeValidator(_text)]
"""Text; any other JSON value stands there as JSON."""


@dataclass(frozen=True, slots=True)
class ActionCall(Generic[K]):
    """One use of an action, its keys rendered and checked."""

    node: str
    keys: K
    task: Task
    """The run's: its goal is the run's, its offers are all the run's tools."""
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """From the keys that name a model to its name among the run's models."""
    deferred: frozenset[str] = frozenset()
    """The deferred keys that were given."""
    render: Render = lambda key, variables: None
    seconds: float | None = None
    """How long one call of a model or a tool may take."""
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """How it ended: a value, or an error, or the limit of the run that stopped it.

    `state` holds the variables that the action sets besides its output.
    """

    value: Any = None
    error: str = ""
    stop: str = ""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def good(self) -> bool:
        """Did it do what it should?"""
        return not self.error and not self.stop


@dataclass(frozen=True, slots=True)
class Kind:
    """An action as a file may use it."""

    name: str
    description: str
    keys: type[BaseModel]
    run: Callable[[ActionCall[Any]], Strategy[Done]]
    deferred: frozenset[str] = frozenset()
    """Keys that are templates of the action's own, rendered inside it."""
    models: tuple[str, ...] = ()
    """Keys that name a model."""
    tools: tuple[str, ...] = ()
    """Tools that it calls."""
    literal: tuple[str, ...] = ()
    """Keys that name code, so they stand in the file as they are and are never templates."""
    settings: str = ""
    """The part of a file's `settings` whose values stand in for keys that are not given."""

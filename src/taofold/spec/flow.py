"""A flow, checked and compiled: what its interpreter runs. Plain values; nothing here acts."""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from taofold.actions import Kind
from taofold.spec.condition import Condition
from taofold.spec.flow_keys import FlowKeys, OnError
from taofold.spec.template import Template

Place = tuple[str | int, ...]


class Given:
    """A value of a file whose texts may be templates; values that it reads are never templates."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def render(self, variables: Mapping[str, Any]) -> Any:
        """The value. Raises `Unrenderable`."""
        return _rendered(self._value, variables)

    @property
    def literal(self) -> bool:
        """Is there nothing to render?"""
        return not any(True for _ in templates(self._value))

    @property
    def raw(self) -> Any:
        """As it stands in the file, with templates compiled."""
        return self._value


def templates(value: Any) -> "list[Template]":
    """Every template in `value`."""
    if isinstance(value, Template):
        return [value]
    if isinstance(value, dict):
        return [one for inner in value.values() for one in templates(inner)]
    if isinstance(value, list):
        return [one for inner in value for one in templates(inner)]
    return []


def _rendered(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, Template):
        return value.render(variables)
    if isinstance(value, dict):
        return {key: _rendered(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rendered(inner, variables) for inner in value]
    return value


@dataclass(frozen=True, slots=True)
class Edge:
    """A way on from a node; `condition` None = always."""

    to: str
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeat while `condition` holds, at most `most` times."""

    condition: Condition
    most: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A fan-out: over `items`, each called `name`, or over named lists of nodes."""

    items: Given | None
    name: str
    branches: Mapping[str, "tuple[Node, ...]"]
    lanes: int
    fail_fast: bool
    result: Given | None


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Exactly one of `kind`, `sets`, `loop` and `spread` says what it does."""

    name: str
    place: Place
    description: str = ""
    kind: Kind | None = None
    given: Given = field(default_factory=lambda: Given({}))
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """From keys that name a model to the name among the run's models."""
    deferred: Mapping[str, Template] = field(default_factory=dict[str, Template])
    sets: Given | None = None
    loop: Loop | None = None
    spread: Spread | None = None
    steps: "tuple[Node, ...]" = ()
    output: str | Mapping[str, str] = ""
    goto: tuple[Edge, ...] = ()
    on_error: OnError = OnError()
    timeout: float | None = None
    approve: Given | None = None

    @property
    def inner(self) -> "list[tuple[str, tuple[Node, ...]]]":
        """The lists of nodes inside, by name."""
        found = [("", self.steps)] if self.steps else []
        if self.spread is not None:
            found += list(self.spread.branches.items())
        return found


@dataclass(frozen=True, slots=True)
class Flow:
    """A whole flow."""

    name: str
    keys: FlowKeys
    nodes: tuple[Node, ...]
    variables: Mapping[str, Any]
    state: TypeAdapter[Any] | None = None
    """Of the whole state, as it is when a run starts."""
    types: Mapping[str, TypeAdapter[Any]] = field(default_factory=dict[str, TypeAdapter[Any]])
    """Of single variables, for when a node sets one."""
    result: Given | None = None
    typed: bool = False
    """Does the file say what type the answer has?"""

    @property
    def every(self) -> "list[Node]":
        """All nodes, those inside others too."""
        found: list[Node] = []
        todo = list(self.nodes)
        while todo:
            node = todo.pop(0)
            found.append(node)
            for _, nodes in node.inner:
                todo += nodes
        return found

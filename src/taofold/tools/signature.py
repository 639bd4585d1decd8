"""How the parameters that a model wrote become the arguments of a function.

Knows nothing about tiers, runs or prompts. `declare` reads a function once, when the tool
is made; `Signature.arguments` is the part that runs per call.
"""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from pydantic import BaseModel, ValidationError

from taofold.tools.arguments import BadArguments, explain, unknown
from taofold.tools.schema import Checker

Style: TypeAlias = Literal["typed", "stateful", "mapping"]
"""`typed`: parameters by name; `stateful`: TAgent's `(state, args)`; `mapping`: one dict."""
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

RESERVED_PARAMETER: Final = "timeout_s"
"""Bounds any call, in seconds; no tool may have a parameter of this name (D3)."""
OPEN: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The schema of a tool that takes any mapping."""
_CONTAINERS: Final = frozenset({dict, list})


@dataclass(frozen=True, slots=True)
class Signature:
    """What a tool takes, and the compiled check of it."""

    schema: dict[str, Any]
    validate: Callable[[Any], dict[str, Any]] | None = None
    """Checks the parameters other than the model's fields; None = there are none."""
    style: Style = "typed"
    context: bool = False
    """The function takes a `RunContext` first."""
    positional: tuple[inspect.Parameter, ...] = ()
    """Parameters that cannot be passed by name."""
    blocking: bool = False
    """The function is synchronous."""
    model: type[BaseModel] | None = None
    model_name: str = ""
    """The parameter that takes `model`, whose fields are parameters of the tool."""
    model_fields: frozenset[str] = field(default_factory=frozenset[str])

    def arguments(self, parameters: Mapping[str, Any]) -> Arguments:
        """Positional and keyword arguments.

        Raises:
            BadArguments: naming every parameter that is missing, unknown or wrong.
        """
        given = dict(parameters)
        for value in given.values():
            if type(value) in _CONTAINERS:
                # The action on record must stay as proposed, whatever the tool does to it.
                given = deepcopy(given)
                break
        if self.model is not None:
            return self._modelled(self.model, given)
        named = given
        if self.validate is not None:
            try:
                named = self.validate(given)
            except ValidationError as error:
                raise BadArguments(explain(error, self.schema)) from None
        if self.style != "typed":
            return (named,), {}
        return self._placed(named) if self.positional else ((), named)

    def _placed(self, named: dict[str, Any]) -> Arguments:
        first = tuple(named.pop(p.name, p.default) for p in self.positional)
        return first, named

    def _modelled(self, model: type[BaseModel], given: dict[str, Any]) -> Arguments:
        mine = {name: given.pop(name) for name in list(given) if name in self.model_fields}
        if self.validate is None and model.model_config.get("extra") == "allow":
            mine, given = mine | given, {}
        faults: list[str] = []
        named: dict[str, Any] = {}
        try:
            if self.validate is not None:
                named = self.validate(given)
            else:
                faults += unknown(given, self.schema)
        except ValidationError as error:
            faults += explain(error, self.schema)
        try:
            built = model.model_validate(mine)
        except ValidationError as error:
            raise BadArguments(faults + explain(error, self.schema)) from None
        if faults:
            raise BadArguments(faults)
        if self.style == "stateful":
            return (built,), {}
        return self._placed(named | {self.model_name: built})


def described(
    schema: Mapping[str, Any], function: Callable[..., Any] | None, *, context: bool = False
) -> Signature:
    """The signature of a function that takes one mapping described by a JSON Schema."""
    blocking = function is not None and is_blocking(function)
    return Signature(dict(schema), Checker(schema), "mapping", context, blocking=blocking)


def is_blocking(function: Callable[..., Any]) -> bool:
    """Is calling `function` synchronous work?"""
    inner = bare(function)
    if not inspect.isroutine(inner):
        inner = getattr(inner, "__call__", inner)  # noqa: B004 - we want the method itself
    return not inspect.iscoroutinefunction(inner)


def bare(function: Callable[..., Any]) -> Any:
    """The function below any `functools.partial`."""
    return bare(function.func) if _is_partial(function) else function


def _is_partial(function: Any) -> TypeGuard["partial[Any]"]:
    return isinstance(function, partial)

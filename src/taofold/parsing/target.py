"""A type made ready to parse: its validator, its shape, and the calls that it can hold.

Knows nothing about text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from taofold.parsing.keys import PARAMETER_KEYS, THOUGHT_KEYS, TOOL_KEYS
from taofold.parsing.kinds import is_list, is_object
from taofold.parsing.shape import Plan, Shape, fold, plan_of_type

_CACHE = 512
_NESTING = frozenset({"object", "array", "union"})


@dataclass(frozen=True, slots=True)
class Slot:
    """An object shape that describes a call: where its name, arguments and thought go."""

    shape: Shape
    tool: str
    parameters: str
    thought: str


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A compiled type; `slots` is empty for one that describes no call."""

    adapter: TypeAdapter[Any]
    plan: Plan
    slots: tuple[Slot, ...]

    def titles(self) -> list[str]:
        """The names of the type and of its alternatives."""
        shape = self.plan.shape
        return [each.title for each in (shape, *shape.options) if each.title]

    def names(self) -> list[str]:
        """The names that a call in a text may have: the type's tools, or its own titles."""
        if not self.slots:
            return self.titles()
        values = [slot.shape.fields[slot.tool].values for slot in self.slots]
        return [each for group in values for each in group if isinstance(each, str)]


_TARGETS: dict[Any, Target] = {}


def target_of(type_: Any) -> Target:
    """Compiles a type, once for each hashable one (the oldest of 512 is dropped)."""
    try:
        return _TARGETS[type_]
    except KeyError:
        target = _compiled(type_)
        if len(_TARGETS) >= _CACHE:
            _TARGETS.pop(next(iter(_TARGETS)), None)
        _TARGETS[type_] = target
        return target
    except TypeError:
        return _compiled(type_)


def _compiled(type_: Any) -> Target:
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    plan = plan_of_type(adapter)
    slots: list[Slot] = []
    for option in plan.shape.options or (plan.shape,):
        tool = next((key for key in TOOL_KEYS if key in option.fields), "")
        parameters = next((key for key in PARAMETER_KEYS if key in option.fields), "")
        thought = next((key for key in THOUGHT_KEYS if key in option.fields), "")
        if tool and parameters:
            slots.append(Slot(option, tool, parameters, thought))
    return Target(adapter, plan, tuple(slots))


def is_overlooked(text: str, plan: Plan) -> bool:
    """Whether a validator ignored a key of a JSON text that is a declared one in another case.

    Validators drop keys that they do not know; a declared one that is optional then silently
    keeps its default.
    """
    pending: list[tuple[Any, Shape]] = [(json.loads(text), plan.shape)]
    while pending:
        value, shape = pending.pop()
        if shape.kind == "union":
            pending.extend((value, each) for each in shape.options if each.kind in _NESTING)
        elif shape.fields and is_object(value):
            if not value.keys() <= shape.fields.keys() and _misspelt(value, shape):
                return True
            for name, each in shape.fields.items():
                if each.kind in _NESTING and name in value:
                    pending.append((value[name], each))
        elif shape.item is not None and shape.item.kind in _NESTING and is_list(value):
            pending.extend((each, shape.item) for each in value)
    return False


def _misspelt(value: dict[str, Any], shape: Shape) -> bool:
    names = [shape.folded.get(fold(key), "") for key in value if key not in shape.fields]
    if any(name and name not in value for name in names):
        return True
    return shape.extra is None and value.keys().isdisjoint(shape.fields)

"""Fits candidate values and calls to one target type: directly, as a call, or out of a wrapper.

Knows nothing about where in a text a candidate stood.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from taofold.parsing.coercion import Coercion, Fault, Misfit
from taofold.parsing.decision import (
    ANSWER_KEYS,
    BATCH_KEYS,
    CALL_KEYS,
    PARAMETER_KEYS,
    THOUGHT_KEYS,
    TOOL_KEYS,
)
from taofold.parsing.outcome import Repair
from taofold.parsing.shape import ANYTHING, Plan, Shape, fold, plan_of_type
from taofold.parsing.spans import scan

Object = dict[str, Any]
_BENIGN = frozenset(
    ("status", "ok", "success", "tokens", "usage", "id", "type", "model", "role", "content", "index")
    + ("name", "version", "timestamp", "created", "object", "meta", "metadata", "code", "message")
    + ("required", "title", "description", "defs", "schema", "finishreason", "toolcallid", "refusal")
)
_ANSWERS = frozenset({"json", "jsontoolcall", "respond", "answer", "output", "finalanswer", "finish"})
_TYPES = frozenset({"string", "str", "integer", "int", "number", "float", "boolean", "bool"})


@dataclass(frozen=True, slots=True)
class Slot:
    """An object shape that describes a call: where its name, arguments and thought go."""

    shape: Shape
    tool: str
    parameters: str
    thought: str


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A type, ready to parse: validator, shape, and the calls that it can hold."""

    adapter: TypeAdapter[Any]
    plan: Plan
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """A candidate that satisfies the type."""

    value: Any
    plain: Any
    repairs: tuple[Repair, ...]
    at: int = -1

    @property
    def cost(self) -> int:
        """The sum of the repairs' prices."""
        return sum(repair.cost for repair in self.repairs)


@dataclass(frozen=True, slots=True)
class Request:
    """A call found in a text, not yet fitted to anything."""

    tool: str
    parameters: Any
    thought: str | None = None
    at: int = -1
    repairs: tuple[Repair, ...] = ()
    closed: bool = True


_TARGETS: dict[Any, Target] = {}
_CACHE = 512


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
    shape = plan.shape
    slots: list[Slot] = []
    for option in shape.options or (shape,):
        tool = next((key for key in TOOL_KEYS if key in option.fields), "")
        parameters = next((key for key in PARAMETER_KEYS if key in option.fields), "")
        thought = next((key for key in THOUGHT_KEYS if key in option.fields), "")
        if tool and parameters:
            slots.append(Slot(option, tool, parameters, thought))
    return Target(adapter, plan, tuple(slots))


def fit(target: Target, value: Any, opened: Set[int] = frozenset(), depth: int = 0) -> Fit:
    """Fits a value.

    Raises:
        Misfit: No reading of the value satisfies the type, or two different ones do.
    """
    try:
        return _direct(target, value, opened)
    except Misfit as misfit:
        first = misfit
    if depth >= 3 or opened:  # what the end of the text closed is not unwrapped
        raise first
    request = request_of(value)
    if request is not None:
        try:
            return fit_request(target, request)
        except Misfit:
            pass
    fits: list[Fit] = []
    for inner, kind in _wrapped(value, target):
        try:
            found = fit(target, inner, frozenset(), depth + 1)
        except Misfit:
            continue
        note = Repair(kind, "schema", content=False, cost=4)
        if not any(same(found.plain, each.plain) for each in fits):
            fits.append(replace(found, repairs=(note, *found.repairs)))
    if len(fits) == 1:
        return fits[0]
    raise first


def fit_request(target: Target, request: Request) -> Fit:
    """Fits a call: into the type's own fields for calls, or its arguments into the type.

    Raises:
        Misfit: It names another tool, or its arguments do not fit.
    """
    note = (*request.repairs, Repair("call_form", "none", at=request.at))
    misfit = Misfit([Fault((), "an offered tool", request.tool)])
    for slot in target.slots:
        call: Object = {slot.tool: request.tool, slot.parameters: request.parameters}
        if slot.thought and request.thought is not None:
            call[slot.thought] = request.thought
        elif slot.thought in slot.shape.required:
            continue
        try:
            found = _direct(target, call, frozenset())
        except Misfit as error:
            misfit = error
            continue
        return replace(found, repairs=note + found.repairs, at=request.at)
    if not target.slots or fold(request.tool) in _ANSWERS:
        name = fold(request.tool)
        if name in _ANSWERS or name in {fold(each) for each in _titles(target.plan.shape)}:
            found = _direct(target, request.parameters, frozenset())
            return replace(found, repairs=note + found.repairs, at=request.at)
    raise misfit


def request_of(value: Any) -> Request | None:
    """The call that an object describes, in any of the spellings of `decision`."""
    for _ in range(4):
        if not isinstance(value, dict):
            return None
        call = cast("Object", value)
        for key in (*BATCH_KEYS, *CALL_KEYS):
            inner = call.get(key)
            if isinstance(inner, list) and len(cast("list[Any]", inner)) == 1:
                inner = cast("list[Any]", inner)[0]
            if isinstance(inner, dict):
                value = cast("Any", inner)
                break
        else:
            break
    call = cast("Object", value)
    tool = next((k for k in TOOL_KEYS if isinstance(call.get(k), str)), "")
    given = next((k for k in PARAMETER_KEYS if isinstance(call.get(k), dict | str)), "")
    if not tool or not given:
        return None
    others = (fold(k) for k in call if k not in (tool, given, *THOUGHT_KEYS))
    if not all(each in _BENIGN for each in others):
        return None
    thought = next((call[k] for k in THOUGHT_KEYS if isinstance(call.get(k), str)), None)
    return Request(call[tool], call[given], thought)


def same(left: Any, right: Any) -> bool:
    """Equality that keeps `True` and `1` apart."""
    try:
        return bool(left == right) and to_json(left) == to_json(right)
    except PydanticSerializationError:
        return False


def _direct(target: Target, value: Any, opened: Set[int]) -> Fit:
    coercion = Coercion(opened)
    fitted = coercion.fit(value, target.plan.shape)
    if _is_echo(fitted):
        raise Misfit([Fault((), "values, not the schema", value)])
    try:
        typed = target.adapter.validate_json(to_json(fitted))
    except ValidationError as error:
        faults = [
            Fault(tuple(each["loc"]), each["msg"], each.get("input"))
            for each in error.errors(include_url=False, include_context=False)
        ]
        raise Misfit(faults) from None
    except (PydanticSerializationError, ValueError, RecursionError):
        raise Misfit([Fault((), "a value of Unicode text", "…")]) from None
    return Fit(typed, fitted, tuple(coercion.repairs))


def _wrapped(value: Any, target: Target) -> Iterator[tuple[Any, str]]:
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        if len(entries) == 1 and isinstance(entries[0], dict):
            yield entries[0], "list_of_one"
        return
    if not isinstance(value, dict):
        return
    given = cast("Object", value)
    wants_list = target.plan.shape.kind == "array"
    for key, entry in given.items():
        if not all(_is_benign(k, v) for k, v in given.items() if k != key):
            continue
        if isinstance(entry, dict) or (isinstance(entry, list) and wants_list):
            yield entry, "wrapper"
        elif isinstance(entry, list) and len(cast("list[Any]", entry)) == 1:
            yield entry[0], "wrapper"
        elif isinstance(entry, str) and entry.lstrip()[:1] in ("{", "["):
            decoded = _decoded(entry)
            if decoded is not None and (len(given) == 1 or key in (*PARAMETER_KEYS, *ANSWER_KEYS)):
                yield decoded, "string_encoded"


def _decoded(text: str) -> Any:
    found = scan(text, ANYTHING)
    if len(found.spans) == 1 and found.cut is None and not found.exhausted:
        return found.spans[0].reading.value
    return None


def _is_benign(key: str, value: Any) -> bool:
    return fold(key) in _BENIGN and (not isinstance(value, dict) or not value or key == "usage")


def _is_echo(value: Any) -> bool:
    """Whether an object repeats type names where its values should be."""
    if not isinstance(value, dict) or not value:
        return False
    words = [v for v in cast("Object", value).values() if isinstance(v, str)]
    if len(words) < 2 or len(words) < len(cast("Object", value)):
        return False
    return all(w in _TYPES or (w[:1] == "<" and w[-1:] == ">") for w in words)


def _titles(shape: Shape) -> list[str]:
    return [each.title for each in (shape, *shape.options) if each.title]

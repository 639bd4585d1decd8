"""A type compiled for parsing: its validator, its shape, and the values and calls that fit it.

A value fits directly, as a call, or inside a wrapper. `is_overlooked` finds a declared key that a
validator ignored because of its case. Knows nothing about a candidate's place in the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from taofold.core.json_values import is_array, is_object
from taofold.parsing.markup.calls import RawCall
from taofold.parsing.outcome import Repair
from taofold.parsing.protocol_keys import (
    ANSWER_KEYS,
    BATCH_KEYS,
    CALL_KEYS,
    PARAMETER_KEYS,
    THOUGHT_KEYS,
    TOOL_KEYS,
)
from taofold.parsing.schema.coercion import Coercion, Misfit, Mismatch, echo
from taofold.parsing.schema.reading_plan import (
    ANYTHING,
    ReadingPlan,
    TypeShape,
    fold,
    plan_of_type,
)
from taofold.parsing.schema.scalars import same
from taofold.parsing.spans import scan

_CACHE = 512
_NESTING = frozenset({"object", "array", "union"})


@dataclass(frozen=True, slots=True)
class CallSlot:
    """An object shape that describes a call: the fields for its name, arguments and thought."""

    shape: TypeShape
    tool: str
    parameters: str
    thought: str


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A compiled type; `slots` is empty if it does not describe a call."""

    adapter: TypeAdapter[Any]
    plan: ReadingPlan
    slots: tuple[CallSlot, ...]

    def titles(self) -> list[str]:
        """Returns the names of the type and of its alternatives."""
        shape = self.plan.shape
        return [each.title for each in (shape, *shape.options) if each.title]

    def names(self) -> list[str]:
        """Returns the names that a call in a text may have: the type's tools, or its own titles."""
        if not self.slots:
            return self.titles()
        values = [slot.shape.fields[slot.tool].values for slot in self.slots]
        return [each for group in values for each in group if isinstance(each, str)]


_TARGETS: dict[Any, Target] = {}


def target_of(type_: Any) -> Target:
    """Compiles a type and caches it if it is hashable (the oldest of 512 is dropped)."""
    try:
        return _TARGETS[type_]
    except KeyError:
        target = _compiled(type_)
        if len(_TARGETS) >= _CACHE:
            # With a default: another thread may have dropped it.
            _TARGETS.pop(next(iter(_TARGETS)), None)
        _TARGETS[type_] = target
        return target
    except TypeError:
        return _compiled(type_)


def _compiled(type_: Any) -> Target:
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    plan = plan_of_type(adapter)
    slots: list[CallSlot] = []
    for option in plan.shape.options or (plan.shape,):
        tool = next((key for key in TOOL_KEYS if key in option.fields), "")
        parameters = next((key for key in PARAMETER_KEYS if key in option.fields), "")
        thought = next((key for key in THOUGHT_KEYS if key in option.fields), "")
        if tool and parameters:
            slots.append(CallSlot(option, tool, parameters, thought))
    return Target(adapter, plan, tuple(slots))


def is_overlooked(text: str, plan: ReadingPlan) -> bool:
    """Returns whether a validator ignored a declared key that is written in another case.

    Validators drop unknown keys; the declared key, if optional, then silently keeps its default.
    """
    pending: list[tuple[Any, TypeShape]] = [(json.loads(text), plan.shape)]
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
        elif shape.item is not None and shape.item.kind in _NESTING and is_array(value):
            pending.extend((each, shape.item) for each in value)
    return False


def _misspelt(value: dict[str, Any], shape: TypeShape) -> bool:
    names = [shape.folded.get(fold(key), "") for key in value if key not in shape.fields]
    if any(name and name not in value for name in names):
        return True
    return shape.extra is None and value.keys().isdisjoint(shape.fields)


WRAPPINGS = 3
"""The most wrappers that are removed."""
_BENIGN = frozenset(
    {
        *("status", "ok", "success", "tokens", "usage", "id", "type", "model", "role", "content"),
        *("index", "name", "version", "timestamp", "created", "object", "meta", "metadata"),
        *("code", "message", "required", "title", "description", "defs", "schema"),
        *("finishreason", "toolcallid", "refusal"),
    }
)
"""Folded keys that have no meaning for the value beside them."""
_ANSWERS = frozenset(
    {"json", "jsontoolcall", "respond", "answer", "output", "finalanswer", "finish"}
)
_TYPES = frozenset({"string", "str", "integer", "int", "number", "float", "boolean", "bool"})


@dataclass(frozen=True, slots=True)
class Fit:
    """A candidate that satisfies the type: its value, the same as plain data, and the repairs."""

    value: Any
    plain: Any
    repairs: tuple[Repair, ...]
    at: int = -1

    @property
    def cost(self) -> int:
        """The sum of the repairs' prices."""
        return sum(repair.cost for repair in self.repairs)


def fit(target: Target, value: Any, opened: Set[int] = frozenset(), depth: int = 0) -> Fit:
    """Fits a value.

    Raises:
        Misfit: No reading of the value satisfies the type, or two different ones do.
    """
    try:
        return _direct(target, value, opened)
    except Misfit as misfit:
        first = misfit
    if depth >= WRAPPINGS or opened:  # values closed by the end of the text are not unwrapped
        raise first
    request = request_of(value)
    if request is not None:
        try:
            return fit_request(target, request)
        except Misfit:
            pass
    fits: list[Fit] = []
    for inner, kind in _wrapped(value, wants_list=target.plan.shape.kind == "array"):
        try:
            candidate = fit(target, inner, depth=depth + 1)
        except Misfit:
            continue
        if not any(same(candidate.plain, each.plain) for each in fits):
            note = Repair(kind, "none", cost=4)
            fits.append(replace(candidate, repairs=(note, *candidate.repairs)))
    # Several different values inside: the answer is ambiguous.
    if len(fits) == 1:
        return fits[0]
    raise first


def fit_request(target: Target, request: RawCall) -> Fit:
    """Fits a call: into the type's own fields for calls, or its arguments into the type.

    Raises:
        Misfit: It names another tool, or its arguments do not fit.
    """
    notes = (*request.repairs, Repair("call_form", "none", at=request.at))
    misfit = Misfit([Mismatch((), "an offered tool", request.tool)])
    for slot in target.slots:
        call: dict[str, Any] = {slot.tool: request.tool, slot.parameters: request.parameters}
        if slot.thought and request.thought is not None:
            call[slot.thought] = request.thought
        try:
            candidate = _direct(target, call)
        except Misfit as error:
            misfit = error
            continue
        return replace(candidate, repairs=notes + candidate.repairs, at=request.at)
    name = fold(request.tool)
    if name in _ANSWERS or (not target.slots and name in map(fold, target.titles())):
        candidate = _direct(target, request.parameters)
        return replace(candidate, repairs=notes + candidate.repairs, at=request.at)
    raise misfit


def request_of(value: Any) -> RawCall | None:
    """Returns the call that an object describes, in any of the spellings of `decision`."""
    call = value
    for _ in range(WRAPPINGS + 1):
        if not is_object(call):
            return None
        inner = next((call[key] for key in (*BATCH_KEYS, *CALL_KEYS) if key in call), None)
        if is_array(inner) and len(inner) == 1:
            inner = inner[0]
        if not is_object(inner):
            break
        call = inner
    if not is_object(call):
        return None
    tool = next((key for key in TOOL_KEYS if isinstance(call.get(key), str)), "")
    arguments = next((key for key in PARAMETER_KEYS if isinstance(call.get(key), dict | str)), "")
    if not tool or not arguments:
        return None
    if any(fold(k) not in _BENIGN for k in call if k not in (tool, arguments, *THOUGHT_KEYS)):
        return None
    thought = next((call[key] for key in THOUGHT_KEYS if isinstance(call.get(key), str)), None)
    return RawCall(call[tool], call[arguments], thought)


def typed_value(adapter: TypeAdapter[Any], plain: Any) -> Any:
    """Validates plain JSON data, strictly if possible, so that `"7"` of `int | str` stays text.

    Both reading and reloading a value use this function, so that they give the same result.

    Raises:
        ValidationError: The data does not satisfy the type.
        ValueError: It holds values that JSON does not have.
        RecursionError: It is nested too deep.
    """
    document = to_json(plain)
    try:
        return adapter.validate_json(document, strict=True)
    except ValidationError:
        return adapter.validate_json(document)


def _direct(target: Target, value: Any, opened: Set[int] = frozenset()) -> Fit:
    coercion = Coercion(opened)
    fitted = coercion.fit(value, target.plan.shape)
    if _is_echo(fitted):
        raise Misfit([Mismatch((), "values instead of the schema", value)])
    try:
        # Through JSON: the validator's JSON rules accept a list for a tuple, and text for a date.
        typed = typed_value(target.adapter, fitted)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        raise Misfit([_mismatch(each) for each in errors]) from None
    except (PydanticSerializationError, ValueError, RecursionError):
        raise Misfit([Mismatch((), "Unicode text of bounded depth", "…")]) from None
    return Fit(typed, fitted, tuple(coercion.repairs))


def _mismatch(error: Mapping[str, Any]) -> Mismatch:
    """Returns an error of Pydantic as a mismatch.

    The message of a validator of the user's is complete without the value, which may be large.
    """
    path, text, got = tuple(error["loc"]), error["msg"], error.get("input")
    expected = text.removeprefix("Input should be ")
    if expected != text:
        return Mismatch(path, expected, got)
    if error["type"] in ("value_error", "assertion_error"):
        message = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return Mismatch(path, "a valid value", got, message)
    return Mismatch(path, "a valid value", got, f"{text}, got {echo(got)}")


def _wrapped(value: Any, *, wants_list: bool) -> Iterator[tuple[Any, str]]:
    """Yields the contents of a value that is only a wrapper, with the name of the repair."""
    if is_array(value):
        if len(value) == 1 and isinstance(value[0], dict):
            yield value[0], "wrapper"
        return
    if not is_object(value):
        return
    for key, entry in value.items():
        if all(_is_benign(k, v) for k, v in value.items() if k != key):
            named = key in PARAMETER_KEYS or key in ANSWER_KEYS or len(value) == 1
            yield from _content(entry, named, wants_list)


def _content(entry: Any, named: bool, wants_list: bool) -> Iterator[tuple[Any, str]]:
    if isinstance(entry, str):
        decoded = _decoded(entry) if named and entry.lstrip()[:1] in ("{", "[") else None
        if decoded is not None:
            yield decoded, "string_encoded"
    elif is_array(entry) and not wants_list:
        if len(entry) == 1:
            yield entry[0], "wrapper"
    elif isinstance(entry, dict | list):
        yield entry, "wrapper"


def _decoded(text: str) -> Any:
    scanned = scan(text, ANYTHING)
    if len(scanned.spans) == 1 and scanned.cut is None and not scanned.exhausted:
        return scanned.spans[0].reading.value
    return None


def _is_benign(key: str, value: Any) -> bool:
    return fold(key) in _BENIGN and (not isinstance(value, dict) or not value or key == "usage")


def _is_echo(value: Any) -> bool:
    """Returns whether an object has type names in the place of its values."""
    if not is_object(value) or len(value) < 2 or not isinstance(next(iter(value.values())), str):
        return False
    words = [str(each) for each in value.values()]
    if words[0] not in _TYPES and words[0][:1] != "<":
        return False
    return all(word in _TYPES or (word[:1] == "<" and word[-1:] == ">") for word in words)

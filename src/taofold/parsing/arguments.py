"""Reads the arguments of a call and types them by the tool's schema.

`arguments_of` reads an object, a string that encodes one, or the bare value of the only parameter.
`as_declared` renames keys to the names in the schema. `typed_arguments` types the text of tags and
labels. `offered_name` strips a namespace from a tool's name.

Changes that keep the content are applied and recorded as repairs. Values that would need a guess
are marked, or left as written for the tool's validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from taofold.core.json_values import DECODER, decoded, is_object
from taofold.core.reply import bare_tool_name
from taofold.parsing.markup.tags import elements_in
from taofold.parsing.outcome import Repair
from taofold.parsing.protocol_keys import FINISH, FINISH_KEYS, PARAMETER_KEYS, Object, Tools
from taofold.parsing.schema.coercion import Coercion, Misfit
from taofold.parsing.schema.reading_plan import ANY, TypeShape, fold, plan_of_schema
from taofold.parsing.schema.scalars import LooseText, TaggedText, same
from taofold.parsing.spans import object_in

EXCERPT = 160
_BEGUN_FINISH: Final = re.compile(r"""\s*\{\s*["'“]?(?:answer|success)\b""")
"""Matches text that begins like the arguments of `finish`."""


_ENCODINGS: Final = 4
"""The most layers of encoding that are removed around an object."""
_ROW: Final = 8
_FENCE: Final = re.compile(r"```[\w-]*[ \t]*\r?\n(?P<inner>.*?)\s*```", re.DOTALL)
_CLOSER: Final = re.compile(r"(?<=\})(?:\s*(?:</[\w:.-]{1,40}>|<\|[\w:.-]{1,40}\|>)){1,4}\Z")
_LOCATED: Final = Repair("located", "none")
_ENCODED: Final = Repair("string_encoded", "none")


def typed_arguments(
    arguments: Object, schema: Mapping[str, Any] | None, repeated: Collection[str]
) -> tuple[Object, list[Repair], str]:
    """Types arguments that were written as tags or lines by the tool's schema.

    Returns:
        The arguments, the repairs, and the first repeated name whose parameter takes no list, else
        "".
    """
    shape = plan_of_schema(schema or {}).shape
    arguments, unwrapped = _unwrapped(arguments, shape)
    arguments, fitted = _fitted(arguments, shape)
    for key in arguments:
        if key in repeated and not _takes_list(shape.fields.get(key)):
            return {}, [], key
    arguments = {key: _as_text(value, shape.fields.get(key)) for key, value in arguments.items()}
    values, typing = _typed(arguments, shape, is_known=schema is not None)
    return values, [*unwrapped, *fitted, *typing], ""


def _typed(arguments: Object, shape: TypeShape, *, is_known: bool) -> tuple[Object, list[Repair]]:
    """Types arguments by a schema and returns the repairs.

    A value without a declared type is marked if it is read as more than text, or could be. Without
    any schema (not `is_known`) the caller judges the types.
    """
    values: Object = {}
    notes: list[Repair] = []
    for key, value in arguments.items():
        # A number is not turned into text: `02134` was read as 2134. The validator judges both.
        if type(value) in (str, int):
            values[key] = value
            continue
        # A new instance for each parameter: the repairs of a failed attempt must not be kept.
        coercion = Coercion(keeps=True)
        declared = shape.fields.get(key) or (shape.extra if shape.extra is not ANY else None)
        try:
            values[key] = coercion.fit(value, declared or ANY, ("parameters", key))
            notes += coercion.repairs
        except Misfit:  # the runtime's validator reports the error
            values[key] = _as_written(value)
        if not isinstance(value, LooseText):
            continue
        is_more = not isinstance(values[key], str)
        if declared is None:
            is_guessed = is_known and (is_more or elements_in(value) is not None)
        else:  # the schema allows text as well
            is_guessed = is_more and any(map(_takes_text, declared.options))
        if is_guessed:
            path = f"parameters.{key}"
            notes.append(Repair("guessed_type", "schema", content=True, path=path))
    return values, notes


def _as_written(value: Any) -> Any:
    """Returns a value that does not fit: decoded if its text is JSON, else the text."""
    if not isinstance(value, LooseText):
        return value
    try:
        return decoded(value.strip())
    except (ValueError, RecursionError):
        return str(value)


def offered_name(name: str, tools: Tools) -> str:
    """Returns a tool's name without a namespace: `echo.echo`, `functions.echo`.

    The ReAct prompts of other libraries use `Final Answer` as the name of the final action.
    """
    if name in tools:
        return name
    if fold(name) == "finalanswer":
        return FINISH
    space, _, last = name.rpartition(".")
    bare = last if space == last else bare_tool_name(name)
    return bare if bare in tools else name


def _unwrapped(given: Object, shape: TypeShape) -> tuple[Object, tuple[Repair, ...]]:
    """Removes a single wrapping parameter that the tool does not declare."""
    key, value = next(iter(given.items())) if len(given) == 1 else ("", None)
    # Some models repeat the schema's own key, `{"properties": {…}}`, around the values.
    if key not in (*PARAMETER_KEYS, "properties") or not shape.fields or key in shape.fields:
        return given, ()
    encoded = object_in(value) if isinstance(value, str) else None
    inner, notes = encoded or (value, ())
    if is_object(inner) and inner.keys() <= shape.fields.keys():
        return inner, notes
    return given, ()


def _as_text(value: Any, shape: TypeShape | None) -> Any:
    """Returns tagged text as `str` if the schema takes text, else as `LooseText`.

    Quoted text is returned unchanged: the model wrote it as text, and the tool's validator judges
    it.
    """
    if not isinstance(value, TaggedText):
        return value
    is_text = shape is None or _takes_text(shape)
    return str(value) if is_text else LooseText(value)


def _takes_text(shape: TypeShape) -> bool:
    return shape.kind in ("string", "any", "enum") or any(map(_takes_text, shape.options))


def _takes_list(shape: TypeShape | None) -> bool:
    return shape is not None and (shape.kind == "array" or any(map(_takes_list, shape.options)))


def parameter_names(tool: str, tools: Tools) -> Collection[str]:
    """Returns the names of a tool's parameters; empty if its schema is not known."""
    schema = schema_of(tool, tools)
    return tuple(schema.get("properties") or ()) if schema else ()


def as_declared(
    arguments: Object, schema: Mapping[str, Any] | None
) -> tuple[Object, tuple[Repair, ...]]:
    """Fits JSON arguments to the names and forms of a tool's schema.

    Applies only changes that keep the content: the case of a key, a list or an object encoded as
    text, a wrapping object (`{"arguments": {…}}`). Anything that needs a guess stays as written,
    for the tool's validator to judge.
    """
    properties: Mapping[str, Any] = (schema or {}).get("properties") or {}
    # Fast path for arguments that already match: compiling the schema would take longer than
    # reading the whole reply.
    if not properties or all(k in properties and not _is_encoded(v) for k, v in arguments.items()):
        return arguments, ()
    shape = plan_of_schema(schema or {}).shape
    inner, notes = _unwrapped(arguments, shape)
    if inner is not arguments:
        notes = (Repair("wrapper", "none"), *notes)
    inner, fitted = _fitted(inner, shape)
    return inner, (*notes, *fitted)


def _fitted(arguments: Object, shape: TypeShape) -> tuple[Object, list[Repair]]:
    """Implements `as_declared`. Text that is not JSON is typed later."""
    out: Object = {}
    notes: list[Repair] = []
    for key, value in arguments.items():
        name = key if key in shape.fields else shape.folded.get(fold(key), key)
        # The key may be meant literally if the tool accepts any key. If two spellings are present,
        # neither is overwritten.
        if name != key and (shape.extra is not None or name in arguments or name in out):
            name = key
        if name != key:
            notes.append(Repair("key_case", "schema", path=f"parameters.{name}"))
        out[name] = value
        if name not in shape.fields or not _is_encoded(value):
            continue
        coercion = Coercion(keeps=True)
        with suppress(Misfit):
            fitted = coercion.fit(value, shape.fields[name], ("parameters", name))
            if not any(each.content for each in coercion.repairs):
                out[name] = fitted
                notes += coercion.repairs
    return out, notes


def _is_encoded(value: Any) -> bool:
    return type(value) is str and value.lstrip()[:1] in ("{", "[")


def arguments_of(tool: str, given: Any, tools: Tools) -> tuple[Object, tuple[Repair, ...], str]:
    """Reads arguments: an object, a string that encodes one, or the only parameter's bare value.

    Returns:
        The arguments, the repairs and an error. The arguments are valid only if the error is empty.
    """
    if is_object(given):
        return given, (), ""
    if given is None:
        return {}, (), ""
    if tool == FINISH:
        return _finish_arguments(given)
    if isinstance(given, str):
        if not given.strip():
            return {}, (), ""
        encoded = _object_around(given)
        if encoded is not None:
            return encoded[0], encoded[1], ""
    # A bare value is accepted only if exactly one parameter is required.
    only = _only_parameter(tool, tools)
    if only and not isinstance(given, list):
        repair = Repair("bare_parameter", "schema", content=True, path=f"parameters.{only}")
        return {only: given}, (repair,), ""
    excerpt = given if isinstance(given, str) else json.dumps(given, default=str)
    return {}, (), f"the arguments of {tool!r} must be an object, got: {excerpt[:EXCERPT]}"


def _object_around(text: str) -> tuple[Object, tuple[Repair, ...]] | None:
    """Decodes the object that a text encodes, including the wrappers that servers add.

    Removes a fence, a closing mark after the object and further encodings. In a row of objects one
    is accepted if all others are empty or equal to it; this is marked as a guess. Returns None if
    the text is anything but one object.
    """
    notes: tuple[Repair, ...] = ()
    for _ in range(_ENCODINGS):
        encoded = object_in(text)
        if encoded is not None:
            return encoded[0], (*notes, *encoded[1])
        text = text.strip()
        if fence := _FENCE.fullmatch(text):
            text, notes = fence["inner"], (*notes, _LOCATED)
        elif text.startswith('"'):
            try:
                inner = decoded(text)
            except (ValueError, RecursionError):
                return None
            text, notes = str(inner), (*notes, _ENCODED)
        elif closer := _CLOSER.search(text):
            text, notes = text[: closer.start()], (*notes, _LOCATED)
        else:
            return _one_of_row(text, notes)
    return None


def _one_of_row(text: str, notes: tuple[Repair, ...]) -> tuple[Object, tuple[Repair, ...]] | None:
    """Returns the one non-empty object of a row such as `{}{"a": 1}`."""
    objects: list[Object] = []
    position = 0
    while position < len(text):
        try:
            value, position = DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return None
        if not is_object(value) or len(objects) > _ROW:
            return None
        objects.append(value)
        position += len(text[position:]) - len(text[position:].lstrip())
    full = [each for each in objects if each]
    if len(objects) < 2 or not full or any(not same(each, full[0]) for each in full):
        return None
    return full[0], (*notes, Repair("joined_objects", "none", content=True))


def _finish_arguments(given: Any) -> tuple[Object, tuple[Repair, ...], str]:
    """Reads the arguments of `finish`: the object of its schema, or a bare answer.

    An object with none of the parameters of `finish` is the answer itself. It stays text, because
    the type of the answer decides how the text is read.
    """
    if isinstance(given, str):
        if not given.strip():
            return {}, (), ""
        encoded = object_in(given)
        if encoded is not None and (not encoded[0] or not FINISH_KEYS.isdisjoint(encoded[0])):
            return encoded[0], encoded[1], ""
        if encoded is None and _BEGUN_FINISH.match(given):
            error = f"the arguments of {FINISH!r} are not valid JSON, got: {given[:EXCERPT]}"
            return {}, (), error
    return {"answer": given}, (Repair("bare_answer", "none"),), ""


def schema_of(tool: str, tools: Tools) -> Mapping[str, Any] | None:
    """Returns the JSON schema of a tool's parameters, or None if the caller passed none."""
    return cast("Mapping[str, Any]", tools).get(tool) if isinstance(tools, Mapping) else None


def _only_parameter(tool: str, tools: Tools) -> str:
    schema = schema_of(tool, tools)
    if schema is None:
        return "question" if tool == "ask_user" else ""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required: list[str] = list(schema.get("required") or properties)
    return required[0] if len(required) == 1 else ""

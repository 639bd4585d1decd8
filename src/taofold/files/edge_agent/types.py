"""Translates `state_schema` of The Edge Agent, which declares variables and checks none of them.

A variable that no node sets keeps its type, and may be absent. Others become `any`, because nodes
of such files set values of other types than the declared ones.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.files.checked_yaml import KeyPath
from taofold.files.code_names import written_names
from taofold.files.edge_agent.made import Made
from taofold.files.types import LONGEST, NoType, OversizedType, type_of

_TYPING: Final = {
    "Any": "any",
    "Dict": "dict",
    "List": "list",
    "boolean": "bool",
    "text": "str",
    "map": "dict",
    "tuple": "list",
    "set": "list",
}
_OPTIONAL: Final = re.compile(r"Optional\[(.+)\]")
_WORD: Final = re.compile(r"[A-Za-z]+")


def types(made: Made, schema: Any, nodes: Iterable[Any]) -> None:
    """Puts the types, and the defaults that a schema has, into the translated file."""
    if not is_object(schema):
        return
    properties = schema.get("properties")
    if schema.get("type") == "object" and is_object(properties):
        place: KeyPath = ("state_schema", "properties")
        fields: Mapping[str, Any] = properties
    else:
        place, fields = ("state_schema",), schema
    changed = set(_set(nodes))
    ours, defaults = Made(place), dict[str, Any]()
    for name, written in fields.items():
        key = str(name).removesuffix("?")
        if is_object(written) and "default" in written:
            defaults[key] = written["default"]
        # Our schema has no fields that begin with _. Undeclared variables need none.
        if not key.isidentifier() or key.startswith(("_", "model_")):
            continue
        ours.put(f"{key}?", "any" if key in changed else _type(written), (*place, str(name)))
    if ours:
        made.put("state_schema", ours, place)
    if defaults:
        given = made.get("initial_state")
        made["initial_state"] = {**defaults, **(given if is_object(given) else {})}


def _type(written: Any) -> Any:
    """Returns the type as our form writes it, `any` if it names none."""
    if isinstance(written, str):
        text = written.strip()
        if len(text) > LONGEST:
            return text  # the compiler reports it
        while match := _OPTIONAL.fullmatch(text):
            text = match[1].strip()
        text = _WORD.sub(lambda word: _TYPING.get(word[0], word[0]), text)
        return text if _is_type(text) else "any"
    if is_object(written) and isinstance(written.get("type"), str):
        return _type(written["type"])
    return "any"


def _is_type(written: Any) -> bool:
    try:
        type_of(written)
    except OversizedType:
        return True  # the compiler reports it
    except NoType:
        return False
    return True


def _set(nodes: Iterable[Any]) -> Iterable[str]:
    """Yields the variables that the translated nodes set."""
    for node in nodes:
        if not is_object(node):
            continue
        for key in ("set", "output"):
            part = node.get(key)
            if is_object(part):
                yield from map(str, part)
            elif isinstance(part, str):
                yield part
        keys = node.get("with")
        code = keys.get("code") if is_object(keys) else None
        if isinstance(code, str):
            yield from written_names(code)
        elif node.get("merge"):
            yield from _MERGED
        steps = node.get("steps")
        yield from _set(steps if is_array(steps) else ())
        spread = node.get("parallel")
        branches: Mapping[str, Any] = spread.get("branches", {}) if is_object(spread) else {}
        for branch in branches.values():
            yield from _set(branch)


_MERGED: Final = (
    *("answer", "thinking", "content", "model", "usage", "result", "output", "steps"),
    *("final_answer", "reasoning_trace", "sub_problems", "sub_answers", "improvement_history"),
    *("compiled", "module_key", "train_score", "val_score", "dspy_module", "error", "success"),
)
"""Keys that values of actions have, which a merging node sets."""

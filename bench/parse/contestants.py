"""The parsers, each as `parse(text, type, schema id) -> value`; a raise is a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cases import adapter_of

Parser = Callable[[str, Any, str], Any]


def taofold() -> Parser:
    from taofold.parsing import Parsed, parse

    def run(text: str, type_: Any, name: str) -> Any:
        result = parse(text, type_)
        if isinstance(result, Parsed):
            return result.value
        raise ValueError(result.reason)

    return run


def pydantic() -> Parser:
    """The bare compiled validator: the floor of time."""
    return lambda text, type_, name: adapter_of(name).validate_json(text)


def json_repair() -> Parser:
    import json_repair

    return lambda text, type_, name: adapter_of(name).validate_python(json_repair.loads(text))


def json_repair_schema() -> Parser:
    import json_repair

    schemas: dict[str, Any] = {}

    def run(text: str, type_: Any, name: str) -> Any:
        if name not in schemas:
            schemas[name] = adapter_of(name).json_schema()
        value = json_repair.loads(text, schema=schemas[name], schema_repair_mode="salvage")
        return adapter_of(name).validate_python(value)

    return run


def fast_json_repair() -> Parser:
    import fast_json_repair

    return lambda text, type_, name: adapter_of(name).validate_python(fast_json_repair.loads(text))


def baml() -> Parser:
    from baml_project import client

    functions = client()

    def run(text: str, type_: Any, name: str) -> Any:
        value = getattr(functions, "F_" + re.sub(r"\W", "_", name))(text)
        return adapter_of(name).validate_python(_plain(value))

    return run


def dspy() -> Parser:
    from dspy.adapters.utils import parse_value

    return lambda text, type_, name: parse_value(text, type_)


def instructor() -> Parser:
    from instructor.utils.core import extract_json_from_codeblock

    return lambda text, type_, name: adapter_of(name).validate_json(
        extract_json_from_codeblock(text)
    )


def pydantic_ai() -> Parser:
    from pydantic_ai._utils import strip_markdown_fences

    return lambda text, type_, name: adapter_of(name).validate_json(strip_markdown_fences(text))


def _plain(value: Any) -> Any:
    """Converts BAML's models to data. Absent optional fields are `None` and omitted."""
    if hasattr(value, "model_fields_set"):
        return {k: _plain(v) for k, v in value if v is not None}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.value if hasattr(value, "value") else value


CONTESTANTS: dict[str, Callable[[], Parser]] = {
    "taofold": taofold,
    "json_repair": json_repair,
    "json_repair schema=": json_repair_schema,
    "BAML": baml,
    "dspy": dspy,
    "instructor": instructor,
    "pydantic-ai": pydantic_ai,
    "fast_json_repair": fast_json_repair,
    "bare validator": pydantic,
}

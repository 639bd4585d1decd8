"""The simplest value that a JSON Schema allows: what a `TestModel` calls tools and answers with."""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, Final

from taofold.core.errors import ConfigError
from taofold.core.json_values import at_pointer, is_object

_DEPTH: Final = 32
"""Schemas nest no deeper; a schema whose required parts contain itself would never end."""

_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "a@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
    "binary": "",
}


class SchemaExample:
    """Makes values for one schema, which is also where its `$ref`s lead.

    SchemaExample("parameters of 'price'", {"type": "integer", "minimum": 3}).value() == 3
    """

    def __init__(self, subject: str, schema: Mapping[str, Any]) -> None:
        self.subject = subject
        self.schema = schema

    def value(self) -> Any:
        """The same value every time: required properties only, as short and small as may be.

        Raises:
            ConfigError: the schema has a `pattern`, or requires itself: say the value instead.
        """
        return self._of(self.schema, _DEPTH)

    def _of(self, schema: Mapping[str, Any] | bool, depth: int) -> Any:
        if isinstance(schema, bool):
            return None
        if not depth:
            raise ConfigError(f"{self.subject}: the schema requires itself")
        # What the schema names itself comes first: it is valid whatever its other keywords say.
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if schema.get(key):
                return schema[key][0]
        if "$ref" in schema:
            # Keywords beside `$ref` count since draft 2019-09; Pydantic puts `default` there.
            return self._of({**self._target(schema["$ref"]), **_without(schema, "$ref")}, depth - 1)
        if schema.get("allOf"):
            return self._of(_joined(_without(schema, "allOf"), schema["allOf"]), depth - 1)
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self._first(schema, key, depth)
        return self._typed(schema, depth)

    def _first(self, schema: Mapping[str, Any], key: str, depth: int) -> Any:
        """The first alternative that a value can be made for: null is the shortest of all."""
        fault: ConfigError | None = None
        for option in schema[key]:
            try:
                return self._of(_joined(_without(schema, key), [option]), depth - 1)
            except ConfigError as error:
                fault = fault or error
        raise fault or ConfigError(f"{self.subject}: {key} is empty")

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        kinds = schema.get("type", "")
        kind: str = kinds if isinstance(kinds, str) else kinds[0]
        match kind:
            case "object":
                properties = schema.get("properties", {})
                required = schema.get("required", ())
                return {name: self._of(properties.get(name, {}), depth - 1) for name in required}
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return _number(self.subject, schema, whole=kind == "integer")
            case "boolean":
                return True  # yes, it is achieved: a critic that never agrees would go on for ever
            case "null":
                return None
            case _:  # anything will do, unless its keywords say which kind is meant
                kind = "object" if "properties" in schema else "string"
                return self._typed({**schema, "type": kind}, depth)

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        fixed = schema.get("prefixItems", [])
        values = [self._of(item, depth - 1) for item in fixed]
        while len(values) < schema.get("minItems", 0):
            values.append(self._of(schema.get("items", {}), depth - 1))
        if schema.get("uniqueItems") and len(values) > 1:
            # The same value twice would not be valid, and
            # different ones cannot be made for any schema.
            raise ConfigError(f"{self.subject}: several different items are wanted")
        return values

    def _string(self, schema: Mapping[str, Any]) -> str:
        if "pattern" in schema:
            raise ConfigError(f"{self.subject}: {schema['pattern']!r} must be matched")
        text = _FORMATS.get(schema.get("format", ""), "a")
        text = text.ljust(schema.get("minLength", 0), "a")
        return text[: schema.get("maxLength", len(text))]

    def _target(self, pointer: str) -> Mapping[str, Any]:
        target = at_pointer(self.schema, pointer)
        if not is_object(target):
            raise ConfigError(f"{self.subject}: {pointer!r} leads nowhere")
        return target


def _without(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}


def _joined(schema: dict[str, Any], options: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One schema that asks for what all of them do, as far as properties go."""
    joined = dict(schema)
    for option in options:
        properties = {**joined.get("properties", {}), **option.get("properties", {})}
        required = [*joined.get("required", ()), *option.get("required", ())]
        joined.update(option)
        if properties:
            joined["properties"] = properties
        if required:
            joined["required"] = list(dict.fromkeys(required))
    return joined


def _number(subject: str, schema: Mapping[str, Any], *, whole: bool) -> int | float:
    """0 if it is allowed, else a number at one of the bounds, or between them."""
    step = schema.get("multipleOf") or (1 if whole else None)
    lows = [schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema]
    highs = [schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema]
    # Tried in order: 0, the bounds rounded to a multiple, then one step (or the middle) inside.
    candidates: list[float] = [0]
    if step is not None:
        candidates += [ceil(low / step) * step + more for low in lows for more in (0, step)]
        candidates += [floor(high / step) * step - less for high in highs for less in (0, step)]
    else:
        candidates += [low + more for low in lows for more in (0, 1)]
        candidates += [high - less for high in highs for less in (0, 1)]
        candidates += [(low + high) / 2 for low in lows for high in highs]
    for value in candidates:
        if _allows(schema, value) and (not whole or value == int(value)):
            return int(value) if whole else value
    raise ConfigError(f"{subject}: no number was found that lies within {dict(schema)!r}")


def _allows(schema: Mapping[str, Any], value: float) -> bool:
    return not (
        value < schema.get("minimum", value)
        or value > schema.get("maximum", value)
        or value <= schema.get("exclusiveMinimum", value - 1)
        or value >= schema.get("exclusiveMaximum", value + 1)
    )

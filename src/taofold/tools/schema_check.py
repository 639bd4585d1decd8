"""Checks values against a JSON Schema, with error messages that a model can act on.

`SchemaCheck` serves tools with a schema instead of a function's signature (MCP, LangChain,
`external`), and forms for users. The rules are those of the package `jsonschema`, the messages are
ours. `format`, `patternProperties` and references to other documents are not checked.

A schema may be hostile: nested rules can double the work with every line, so each check has a
maximum number of steps. Patterns run in a linear-time engine (Rust's, through Pydantic). Patterns
that it does not support are not checked.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from importlib import import_module
from types import NoneType
from typing import Any, Final, NamedTuple, cast

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip
from taofold.tools.arguments import BadArguments, quote, unknown

SERVER_STEPS: Final = 30_000
"""Maximum rule checks per value if a server checks it again. About 0.2 s."""
STEPS: Final = 300_000
"""Maximum rule checks per value if it is checked only here. About 2 s."""
_LONGEST: Final = 300
"""Maximum characters of one message."""
_EXACT: Final = 2.0**53
"""From here on a float represents several integers."""
_SAYS_NOTHING: Final = frozenset({"title", "description", "default", "examples", "$schema"})
"""Keywords that restrict nothing."""
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (NoneType,),
    "array": (list,),
    "object": (dict,),
}


class SchemaFault(NamedTuple):
    """A broken rule: the path of the value and a message that names it."""

    path: tuple[str | int, ...]
    sentence: str


class _Unusable(Exception):
    """The schema is invalid, or needs more steps than allowed."""


class SchemaCheck:
    """One JSON Schema, ready to check values.

    Args:
        schema: A JSON Schema of any draft. Without `$schema` the newest.
        checked_again: True if the tool's server checks the value again. A value that cannot be
            checked here (invalid schema, too many steps) then passes, otherwise it is refused.

    Example:
        >>> SchemaCheck({"properties": {"n": {"type": "integer", "minimum": 1}}}).faults({"n": 0})
        ["parameter 'n': 0 is less than the minimum of 1"]
    """

    def __init__(self, schema: Mapping[str, Any], *, checked_again: bool = False) -> None:
        self._schema = dict(schema)
        self._checked_again = checked_again
        self._fits = _flat(self._schema)

    def __call__(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Returns the parameters unchanged.

        Raises:
            BadArguments: The parameters do not fit.
        """
        faults = self.faults(parameters)
        if faults:
            raise BadArguments(faults)
        return parameters

    def faults(self, value: Any) -> list[str]:
        """Returns one message for each rule that the value breaks."""
        return [fault.sentence for fault in self.faults_with_paths(value)]

    def faults_with_paths(self, value: Any) -> list[SchemaFault]:
        """Returns each rule that the value breaks."""
        if self._fits is not None and self._fits(value):
            return []
        try:
            if self.flaw:
                raise _Unusable(f"the schema of this tool cannot be used: {self.flaw}")
            _BUDGET.left = SERVER_STEPS if self._checked_again else STEPS
            errors = self._validator.iter_errors(value)
            # One rule can produce several errors with the same message.
            return [*dict.fromkeys([each for error in errors for each in _faults(error)])]
        except _Unusable as error:
            reason = str(error)
        except RecursionError:
            reason = "this is nested too deeply to be checked"
        except Exception as error:  # noqa: BLE001 - an external reference, or an invalid rule
            reason = f"the schema of this tool cannot be applied: {clip(str(error), _LONGEST)}"
        return [] if self._checked_again else [SchemaFault((), reason)]

    @cached_property
    def flaw(self) -> str:
        """The reason why the schema is invalid, or ""."""
        if not is_object(self._schema.get("properties", {})):
            return "its properties are no object"
        try:
            _kind_for(self._schema).check_schema(self._schema)
        except Exception as error:  # noqa: BLE001 - a schema may be wrong in any way
            return clip(str(getattr(error, "message", error)), _LONGEST)
        return ""

    @cached_property
    def _validator(self) -> Any:
        lean = _without_named_patterns(self._schema)
        # An empty registry, so that nothing is fetched.
        nothing = _load("referencing").Registry()
        return _bounded(_kind_for(lean))(lean, registry=nothing)


def _kind_for(schema: Mapping[str, Any]) -> Any:
    return _load("jsonschema").validators.validator_for(schema)


def _load(package: str) -> Any:
    # Most values never need the packages, whose import takes 50 ms.
    return import_module(package)


class _Budget(threading.local):
    """The remaining steps of the check in this thread."""

    left = 0


_BUDGET: Final = _Budget()


@cache
def _bounded(kind: Any) -> Any:
    """Returns a draft's validator with a maximum of steps, safe patterns and exact integers."""

    def counted(check: Callable[..., Any], word: str) -> Callable[..., Any]:
        def rule(validator: Any, said: Any, value: Any, whole: Any) -> Any:
            # `uniqueItems` compares all pairs of items.
            many = len(value) if is_array(value) else 0
            _BUDGET.left -= 1 + (many**2 // 2 if word == "uniqueItems" else 0)
            if _BUDGET.left < 0:
                raise _Unusable("this takes too long to check: send less")
            return check(validator, said, value, whole)

        return rule

    rules = {word: counted(check, word) for word, check in kind.VALIDATORS.items()}
    types = kind.TYPE_CHECKER.redefine("integer", _is_integer)
    make = _load("jsonschema").validators.extend
    return make(kind, rules | {"pattern": counted(_pattern, "pattern")}, type_checker=types)


def _is_integer(_: Any, value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer() and abs(value) < _EXACT
    return isinstance(value, int) and not isinstance(value, bool)


def _pattern(_: Any, pattern: Any, value: Any, __: Any) -> Iterator[Any]:
    if not isinstance(value, str) or (matcher := _matcher(str(pattern))) is None:
        return
    try:
        matcher.validate_python(value)
    except ValidationError:
        yield _load("jsonschema").ValidationError(f"{quote(value)} does not match {quote(pattern)}")


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


def _faults(error: Any) -> list[SchemaFault]:
    """Returns the faults for one error of `jsonschema`."""
    path: tuple[str | int, ...] = tuple(error.absolute_path)
    where = ".".join(map(str, path))
    subject = f"parameter {where!r}: " if where else ""
    word, said, value = error.validator, error.validator_value, error.instance
    if word == "required" and is_object(value):
        missing = [name for name in said if name not in value]
        return [
            SchemaFault((*path, name), f"missing parameter {_inside(where, name)!r}")
            for name in missing
        ]
    if word == "additionalProperties" and said is False and is_object(value):
        declared = error.schema.get("properties", {})
        odd = [name for name in value if name not in declared]
        sentences = unknown([_inside(where, name) for name in odd], error.schema)
        return [
            SchemaFault((*path, name), sentence)
            for name, sentence in zip(odd, sentences, strict=True)
        ]
    choices = _constants(said) if word in ("anyOf", "oneOf") else []
    if choices:
        word, said = "enum", choices
    elif word in ("anyOf", "oneOf") and error.context:
        branches: dict[Any, list[SchemaFault]] = {}
        for each in error.context:
            branches.setdefault(each.schema_path[0], []).extend(_faults(each))
        # The branch with the fewest faults is the most likely intent.
        return min(branches.values(), key=len)
    match word:
        case "enum":
            text = f"must be one of {quote(said)}, got {quote(value)}"
        case "const":
            text = f"must be {quote(said)}, got {quote(value)}"
        case "type":
            kinds = " or ".join(map(str, said)) if is_array(said) else said
            text = f"must be {kinds}, got {quote(value)}"
        case _:
            text = clip(error.message, _LONGEST)
    return [SchemaFault(path, subject + text)]


def _constants(alternatives: Any) -> list[Any]:
    """Returns the values of alternatives that each allow one value, else an empty list."""
    if not all([is_object(each) and "const" in each for each in alternatives]):
        return []
    return [each["const"] for each in alternatives]


def _inside(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


def _flat(schema: Mapping[str, Any]) -> Callable[[Any], bool] | None:
    """Returns a fast check for an object of plain fields. It accepts only values that surely fit.

    It is a hundred times as fast as the validator, which checks the remaining values. None if the
    schema has other rules.
    """
    keywords = {"type", "properties", "required", "additionalProperties"} | _SAYS_NOTHING
    if schema.keys() - keywords or schema.get("type") != "object":
        return None
    properties: Any = schema.get("properties", {})
    required: Any = schema.get("required", [])
    others: Any = schema.get("additionalProperties", True)
    if not is_object(properties) or not isinstance(others, bool) or not is_array(required):
        return None
    kinds: dict[str, tuple[type, ...]] = {}
    for name, rules in properties.items():
        if not is_object(rules) or rules.keys() - {"type"} - _SAYS_NOTHING:
            return None
        # Without a type any value fits. The exact types below are all that JSON has.
        kind: Any = rules.get("type")
        if kind is not None and (not isinstance(kind, str) or kind not in _KINDS):
            return None
        kinds[name] = () if kind is None else _KINDS[kind]

    def fits(value: Any) -> bool:
        # Exactly a dict, as decoded JSON has.
        if type(value) is not dict:
            return False
        fields = cast("dict[Any, Any]", value)
        for name, field_value in fields.items():
            types = kinds.get(name)
            if (types is None and not others) or (types and type(field_value) not in types):
                return False
        return all(name in fields for name in required)

    return fits


def _without_named_patterns(schema: Any) -> Any:
    """Returns the schema without `patternProperties`, whose expressions could run forever.

    Properties that they would allow count as additional, so those are allowed too.
    """
    if is_object(schema):
        dropped = (
            {"patternProperties"} if is_object(schema.get("patternProperties")) else set[str]()
        )
        if dropped:
            dropped |= {"additionalProperties", "unevaluatedProperties"}
        kept = {name: rules for name, rules in schema.items() if name not in dropped}
        return {name: _without_named_patterns(rules) for name, rules in kept.items()}
    if is_array(schema):
        return [_without_named_patterns(each) for each in schema]
    return schema

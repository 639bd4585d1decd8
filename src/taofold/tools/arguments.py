"""What a model wrote for a tool, checked against a schema, with faults it can act on
(`BadArguments`); pydantic's faults are put into the same sentences (`explain`).

`Checker` knows the part of JSON Schema that tools use, for tools that come with a schema instead of
a function signature (MCP, LangChain, agents). What it does not know (`$ref` to elsewhere, `if`,
formats) it lets pass: the tool's own server checks again. Knows nothing about functions, or about
validators other than the form of their complaints.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

from pydantic import ValidationError

from taofold.core.json_values import at_pointer, is_array, is_object

SHOWN: Final = 80
"""Characters of a wrong value that are quoted back."""
MOST: Final = 8
"""Faults that are spelled out."""


class BadArguments(ValueError):
    """The parameters do not fit the tool; it was not run. The message is for the model."""

    def __init__(self, faults: Sequence[str]) -> None:
        listed = "; ".join(faults[:MOST])
        more = len(faults) - MOST
        super().__init__(f"{listed}; and {more} more faults" if more > 0 else listed)
        self.faults = tuple(faults)


def explain(error: ValidationError, schema: Mapping[str, Any]) -> list[str]:
    """One sentence for each fault that pydantic found."""
    faults: list[str] = []
    for fault in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "missing":
            faults.append(f"missing parameter {where!r}")
        elif fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
            faults += unknown([where], schema)
        else:
            got = quote(fault["input"])
            subject = f"parameter {where!r}: " if where else ""
            faults.append(f"{subject}{fault['msg']}, got {got}")
    return faults


def unknown(names: Iterable[str], schema: Mapping[str, Any]) -> list[str]:
    """One sentence for each parameter that the tool does not have."""
    declared: list[str] = list(schema.get("properties", ()))
    faults: list[str] = []
    for name in names:
        near = get_close_matches(str(name), declared, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(declared) or 'none'}"
        faults.append(f"unknown parameter {quote(name)} ({hint})")
    return faults


def quote(value: object) -> str:
    """A short, safe `repr`."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a validator may complain about a foreign object
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_EXACT: Final = 2.0**53
_DEPTH: Final = 32
_BRANCH: Final = 4
"""What a choice costs of the depth: choices within choices are exponential."""
_STEPS: Final = 50_000
"""Values held against a rule in one check. What a schema demands beyond them goes unchecked: a
hostile one demands more than anybody has time for."""


class Checker:
    """Callable that returns the parameters unchanged, or raises `BadArguments`."""

    __slots__ = ("_schema",)

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = dict(schema)

    def __call__(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Check `parameters`."""
        try:
            faults = _Check(self._schema).of(parameters)
        except (TypeError, AttributeError, RecursionError) as error:
            # A server's schema may be anything; a broken one refuses the call
            # instead of crashing the run.
            faults = [f"the schema of this tool cannot be applied ({error})"]
        if faults:
            raise BadArguments(faults)
        return parameters


class _Check:
    """One check, of which the steps are counted."""

    __slots__ = ("_left", "_schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema, self._left = schema, _STEPS

    def of(self, parameters: dict[str, Any]) -> list[str]:
        return list(self._object(parameters, self._schema, "", _DEPTH))

    def _faults(self, value: Any, schema: Any, where: str, depth: int) -> Iterator[str]:
        self._left -= 1
        # Counted before it is resolved: a chain of references costs steps like a value does.
        rules = self._resolve(schema)
        if depth <= 0 or self._left < 0:
            return
        if "enum" in rules and not any(_is_equal(value, each) for each in rules["enum"]):
            yield f"parameter {where!r}: must be one of {quote(rules['enum'])}, got {quote(value)}"
            return
        if "const" in rules and not _is_equal(value, rules["const"]):
            yield f"parameter {where!r}: must be {quote(rules['const'])}, got {quote(value)}"
            return
        if not _is_of_type(value, rules.get("type")):
            yield f"parameter {where!r}: must be {_names(rules['type'])}, got {quote(value)}"
            return
        yield from self._choices(value, rules, where, depth)
        if is_object(value):
            yield from self._object(value, rules, where, depth)
        elif is_array(value) and "items" in rules:
            for index, item in enumerate(value):
                if self._left < 0:
                    return
                yield from self._faults(item, rules["items"], f"{where}.{index}", depth - 1)

    def _choices(
        self, value: Any, rules: Mapping[str, Any], where: str, depth: int
    ) -> Iterator[str]:
        for word in ("anyOf", "oneOf"):
            options: list[Any] = rules.get(word, [])
            faults_by_branch: list[list[str]] = []
            for option in options if self._left >= 0 else ():
                faults_by_branch.append(list(self._faults(value, option, where, depth - _BRANCH)))
                if not faults_by_branch[-1]:
                    break
            if faults_by_branch and all(faults_by_branch):
                # The branch that is nearest to the value says most about what was meant.
                yield from min(faults_by_branch, key=len)

    def _object(
        self, value: dict[str, Any], rules: Mapping[str, Any], where: str, depth: int
    ) -> Iterator[str]:
        properties: Mapping[str, Any] = rules.get("properties", {})
        for name in rules.get("required", ()):
            if name not in value:
                yield f"missing parameter {_join(where, name)!r}"
        for name, item in value.items():
            if name in properties:
                yield from self._faults(item, properties[name], _join(where, name), depth - 1)
            elif rules.get("additionalProperties") is False:
                yield from unknown([_join(where, name)], rules)

    def _resolve(self, schema: Any) -> Mapping[str, Any]:
        for _ in range(_DEPTH):
            if not is_object(schema):
                break
            if not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._find(schema["$ref"])
        return {}

    def _find(self, reference: str) -> Any:
        return at_pointer(self._schema, reference) if reference.startswith("#/") else {}


def _is_equal(value: Any, member: Any) -> bool:
    # To Python `true` equals 1.
    return value == member and isinstance(value, bool) is isinstance(member, bool)


def misread(given: Any, taken: Any, where: str = "") -> Iterator[str]:
    """One sentence wherever a validator took `true` for a number, or a number for it."""
    if isinstance(given, int | float) and isinstance(taken, int | float):
        if isinstance(given, bool) is not isinstance(taken, bool):
            yield f"parameter {where!r}: must be {quote(taken)}, got {quote(given)}"
    elif is_object(given):
        members: Any = taken if is_object(taken) else getattr(taken, "__dict__", {})
        for name in given.keys() & members.keys():
            yield from misread(given[name], members[name], _join(where, name))
    elif is_array(given) and isinstance(taken, list | tuple):
        pairs = zip(given, cast("Sequence[Any]", taken), strict=False)
        for index, (item, its) in enumerate(pairs):
            yield from misread(item, its, f"{where}.{index}")


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _names(kind: Any) -> str:
    return " or ".join(kind) if is_array(kind) else str(kind)


def _is_of_type(value: Any, kind: Any) -> bool:
    if kind is None:
        return True
    for name in kind if is_array(kind) else [kind]:
        if name not in _TYPES:
            return True
        # bool is an int in Python, and true is no number in JSON Schema.
        if isinstance(value, bool) and name != "boolean":
            continue
        if isinstance(value, _TYPES[name]) or (name == "integer" and _is_whole(value)):
            return True
    return False


def _is_whole(value: Any) -> bool:
    # JSON Schema counts 2.0 as an integer; from 2**53 on a float stands for several.
    return isinstance(value, float) and value.is_integer() and abs(value) < _EXACT

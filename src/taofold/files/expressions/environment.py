"""The environment of templates, built up from nothing: filters, tests, what can be reached.

Values are JSON, a key wins over a method, a few methods of texts and mappings exist, and no other
attribute does. Every loop, operator, call and filter is charged for what it reads, so that no loop
over large values runs for ever; filters that can grow a text say how large the result gets before
they make it. Knows nothing about Jinja's own filters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Final

import msgspec
from jinja2 import StrictUndefined, Undefined, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taofold.core.text import near
from taofold.files.expressions.bounds import (
    binary,
    charge,
    check_size,
    digits,
    skim,
    spend,
    within_bounds,
)

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


_NOTHING: Final = object()
_WIDE: Final = 100


def tojson(value: Any, indent: int = 0) -> str:
    """`value` as JSON text; text of any script stays readable."""
    body = msgspec.json.encode(value)
    if indent:
        body = msgspec.json.format(body, indent=min(int(indent), 8))
    return body.decode()


def as_text(value: Any) -> str:
    """A value inside text: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else tojson(value)


def _replace(text: str, old: str, new: str) -> str:
    text, old, new = str(text), str(old), str(new)
    # Counted before it is made: `replace` can turn a text into a very long one.
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _join(values: Iterable[Any], separator: str = "") -> str:
    texts = [as_text(value) for value in values]
    check_size(sum(map(len, texts)) + len(str(separator)) * len(texts))
    return str(separator).join(texts)


def _indent(text: str, width: int = 4, first: bool = False) -> str:
    if not 0 <= width <= _WIDE:
        raise ValueError(f"a width is 0 to {_WIDE}, not {width!r}")
    lines = str(text).split("\n")
    check_size(len(text) + width * len(lines))
    pad = " " * width
    indented = lines if first else lines[1:]
    padded = [pad + line if line else line for line in indented]
    return "\n".join(padded if first else [lines[0], *padded])


def _truncate(text: str, length: int = 255, end: str = "…") -> str:
    text = str(text)
    return text if len(text) <= length else text[: max(0, length - len(end))] + end


def _default(value: Any, other: Any = "", falsy: bool = False) -> Any:
    missing = isinstance(value, Undefined) or (falsy and not value)
    return other if missing else value


def _field(entry: Any, path: str) -> Any:
    for part in str(path).split("."):
        if not isinstance(entry, dict) or part not in entry:
            return None
        entry = entry[part]
    return entry


def _map(values: Iterable[Any], attribute: str) -> list[Any]:
    return [_field(value, attribute) for value in values]


def _selectattr(values: Iterable[Any], attribute: str, equal: Any = _NOTHING) -> list[Any]:
    return [v for v in values if _matches(_field(v, attribute), equal)]


def _rejectattr(values: Iterable[Any], attribute: str, equal: Any = _NOTHING) -> list[Any]:
    return [v for v in values if not _matches(_field(v, attribute), equal)]


def _matches(value: Any, equal: Any) -> bool:
    return bool(value) if equal is _NOTHING else value == equal


def _unique(values: Iterable[Any]) -> list[Any]:
    distinct: dict[str, Any] = {}
    for value in values:
        spend()
        # Lists and mappings have no hash; their JSON stands for them.
        distinct.setdefault(tojson(value), value)
    return list(distinct.values())


def _sort(values: Iterable[Any], reverse: bool = False, attribute: str = "") -> list[Any]:
    key: Callable[[Any], Any] | None = (lambda v: _field(v, attribute)) if attribute else None
    return sorted(values, key=key, reverse=bool(reverse))


def _int(value: Any, default: int = 0) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return default


def _float(value: Any, default: float = 0.0) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default


def _split(text: str, separator: str | None = None) -> list[str]:
    return str(text).split(separator)


def _sum(values: Iterable[Any], start: float = 0) -> Any:
    numbers = [*values, start]
    if not all([isinstance(number, int | float) for number in numbers]):
        raise TypeError("sum is of numbers; put lists together with +")
    return sum(numbers)


def _round(number: Any, places: int = 0) -> Any:
    return round(number, digits(places)) if places else round(number)


def _charged(function: Callable[..., Any], *, shallow: bool) -> Callable[..., Any]:
    @wraps(function)
    def charged(value: Any, *args: Any, **kwargs: Any) -> Any:
        for each in (value, *args, *kwargs.values()):
            (skim if shallow else charge)(each)
        return function(value, *args, **kwargs)

    return charged


_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "capitalize": lambda text: str(text).capitalize(),
    "count": len,
    "d": _default,
    "default": _default,
    "first": lambda values: next(iter(values), None),
    "float": _float,
    "indent": _indent,
    "int": _int,
    "items": lambda mapping: [list(pair) for pair in mapping.items()],
    "join": _join,
    "keys": lambda mapping: list(mapping.keys()),
    "last": lambda values: values[-1] if values else None,
    "length": len,
    "lines": lambda text: str(text).splitlines(),
    "list": list,
    "lower": lambda text: str(text).lower(),
    "map": _map,
    "max": max,
    "min": min,
    "rejectattr": _rejectattr,
    "replace": _replace,
    "reverse": lambda values: values[::-1],
    "round": _round,
    "selectattr": _selectattr,
    "sort": _sort,
    "split": _split,
    "string": as_text,
    "sum": _sum,
    "title": lambda text: str(text).title(),
    "tojson": tojson,
    "trim": lambda text: str(text).strip(),
    "truncate": _truncate,
    "unique": _unique,
    "upper": lambda text: str(text).upper(),
    "values": lambda mapping: list(mapping.values()),
}

_SHALLOW: Final = frozenset(
    {
        "count",
        "d",
        "default",
        "first",
        "items",
        "keys",
        "last",
        "length",
        "list",
        "reverse",
        "values",
    }
)
"""These look at no more of a list or mapping than its own entries."""
FILTERS: Final[dict[str, Callable[..., Any]]] = {
    name: _charged(function, shallow=name in _SHALLOW) for name, function in _PLAIN.items()
}


_METHODS: Final[dict[type, frozenset[str]]] = {
    dict: frozenset({"get", "items", "keys", "values"}),
    str: frozenset({"endswith", "lower", "split", "startswith", "strip", "title", "upper"}),
}
_LOOP: Final = frozenset(
    {"first", "index", "index0", "last", "length", "revindex", "revindex0"},
)
TESTS: Final = [
    "boolean",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "le",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "string",
    "true",
    "undefined",
]


class Environment(ImmutableSandboxedEnvironment):
    # Jinja computes these itself unless they are listed: all would be unbounded.
    intercepted_binops = frozenset({"*", "**", "%", "+", "-", "/", "//"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, StrictUndefined):
                # Turning a StrictUndefined into text raises, with the name that is missing.
                str(side)  # says what is missing
        return binary(operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, StrictUndefined):
            str(obj)
        # The key first: data may have a key `items`, which must not be shadowed by a method.
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        allowed = _LOOP if isinstance(obj, LoopContext) else _METHODS.get(type(obj), frozenset())
        if attribute in allowed:
            return getattr(obj, attribute)
        return self._nothing(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, StrictUndefined):
            str(obj)
        try:
            return obj[argument]
        except (TypeError, LookupError, AttributeError):
            return self._nothing(obj, argument)

    def _nothing(self, obj: Any, name: Any) -> StrictUndefined:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"{name!r} cannot be reached from a template")
        if isinstance(obj, Mapping):
            skim(obj)
            hint = near(str(name), (str(key) for key in obj))
            return StrictUndefined(f"there is no {name!r}{f'; {hint}' if hint else ''}")
        return StrictUndefined(f"{type(obj).__name__} values have no {name!r}")

    def is_safe_callable(self, obj: Any) -> bool:
        if obj is _range:
            return True
        # A bound method: of what type its object is decides.
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            charge(owner)
        else:
            spend()
        names = _METHODS.get(type(owner), frozenset())
        return getattr(obj, "__name__", "") in names


def _range(*bounds: int) -> Iterator[int]:
    for number in range(*bounds):
        spend()
        yield number


def _each(values: Any) -> Iterator[Any]:
    """Every loop goes through this, so that it can be stopped."""
    for value in values:
        spend()
        yield value


def _read(value: Any) -> Any:
    """What is compared or sliced goes through this, and every list and mapping through `made`."""
    charge(value)
    return value


def _concat(first: Any, *rest: Any) -> str:
    for value in (first, *rest):
        charge(value)
    texts = [as_text(value) for value in (first, *rest)]
    check_size(sum(map(len, texts)))
    return "".join(texts)


@pass_context  # a finalizer that needs the context keeps Jinja from computing ahead of time
def _finalize(context: Context, value: Any) -> str:
    if isinstance(value, StrictUndefined):
        return str(value)
    charge(value)
    return as_text(value)


def _environment() -> Environment:
    environment = Environment(
        undefined=StrictUndefined,
        # Jinja would compute constant expressions while compiling, before any budget holds.
        optimized=False,
        # The text is for models and tools, not for a browser.
        autoescape=False,
        finalize=_finalize,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=0,
    )
    names: dict[str, Any] = environment.globals
    # Emptied: what Jinja has by default is not bounded, and some of it reaches objects.
    for namespace in (names, environment.filters):
        namespace.clear()
    names["range"] = _range
    environment.filters.update(
        {**FILTERS, "_each": _each, "_concat": _concat, "_made": within_bounds, "_read": _read}
    )
    for name in set(environment.tests) - set(TESTS):
        del environment.tests[name]
    return environment


ENVIRONMENT: Final = _environment()

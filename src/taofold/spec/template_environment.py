"""The environment of templates, built up from nothing: what a value lets be reached, and how far.

Values are JSON, a key wins over a method, a few methods of texts and mappings exist, and no
other attribute does. Every loop, operator and call is counted.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taofold.core.text import near
from taofold.spec.template_bounds import binary, charge, made, sized, skim, spend
from taofold.spec.template_filters import FILTERS, shown

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
    intercepted_binops = frozenset({"*", "**", "%", "+", "-", "/", "//"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, StrictUndefined):
                str(side)  # says what is missing
        return binary(operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, StrictUndefined):
            str(obj)
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
    said = [shown(one) for one in (first, *rest)]
    sized(sum(map(len, said)))
    return "".join(said)


@pass_context  # a finalizer that needs the context keeps Jinja from computing ahead of time
def _finalize(context: Context, value: Any) -> str:
    if isinstance(value, StrictUndefined):
        return str(value)
    charge(value)
    return shown(value)


def _environment() -> Environment:
    environment = Environment(
        undefined=StrictUndefined,
        optimized=False,
        autoescape=False,
        finalize=_finalize,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=0,
    )
    names: dict[str, Any] = environment.globals
    for given in (names, environment.filters):
        given.clear()
    names["range"] = _range
    environment.filters.update(
        {**FILTERS, "_each": _each, "_concat": _concat, "_made": made, "_read": _read}
    )
    for name in set(environment.tests) - set(TESTS):
        del environment.tests[name]
    return environment


ENVIRONMENT: Final = _environment()

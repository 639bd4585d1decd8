"""Conditions in files: `state.score >= 0.8 and "ok" in state.text`. Evaluated by simpleeval (D21).

Only text that stands in a file is parsed. There are no methods and no attributes but the
keys of mappings; the functions are in `FUNCTIONS`, and `* ** %` are bounded.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from taofold.core.text import near
from taofold.files.expressions.bounds import (
    TooMuch,
    binary,
    budget,
    charge,
    digits,
    skim,
    within_bounds,
)

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


_LONGEST: Final = 2_000
# As in YAML and JSON; Python's own spellings are constants of the parser.
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


def _get(mapping: Any, key: Any, default: Any = None) -> Any:
    return mapping.get(key, default) if isinstance(mapping, dict) else default


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "endswith": lambda text, end: str(text).endswith(str(end)),
    "float": float,
    "get": _get,
    "int": int,
    "len": len,
    "lower": lambda text: str(text).lower(),
    "max": max,
    "min": min,
    "round": lambda number, places=0: round(number, digits(places)) if places else round(number),
    "startswith": lambda text, start: str(text).startswith(str(start)),
    "str": str,
    "upper": lambda text: str(text).upper(),
}

_SHALLOW: Final = frozenset({"all", "any", "get", "len"})
"""These look at no more of a list or mapping than its own entries."""


def _reading(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compared(left: Any, right: Any) -> Any:
        charge(left)
        charge(right)
        return compare(left, right)

    return compared


_OPERATORS: Final[dict[type[ast.AST], Callable[..., Any]]] = {
    ast.Add: lambda a, b: binary("+", a, b),
    ast.Sub: lambda a, b: binary("-", a, b),
    ast.Mult: lambda a, b: binary("*", a, b),
    ast.Div: lambda a, b: binary("/", a, b),
    ast.FloorDiv: lambda a, b: binary("//", a, b),
    ast.Mod: lambda a, b: binary("%", a, b),
    ast.Pow: lambda a, b: binary("**", a, b),
    ast.Eq: _reading(operator.eq),
    ast.NotEq: _reading(operator.ne),
    ast.Lt: _reading(operator.lt),
    ast.LtE: _reading(operator.le),
    ast.Gt: _reading(operator.gt),
    ast.GtE: _reading(operator.ge),
    ast.In: _reading(lambda a, b: a in b),
    ast.NotIn: _reading(lambda a, b: a not in b),
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.Not: lambda a: not a,
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: +a,
}
_NODES: Final = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.BinOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Tuple,
    *_OPERATORS,
)


class Unclear(ValueError):
    """The condition cannot be read or evaluated; the message says why."""


class _Evaluator(SimpleEval):  # type: ignore[misc]
    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(operators=_OPERATORS, functions=FUNCTIONS, names={**_CONSTANTS, **names})
        # simpleeval has lists and tuples only in a class that also allows comprehensions.
        nodes: Any = self.nodes
        nodes.update({ast.List: self._several, ast.Tuple: self._several})

    def _several(self, node: Any) -> Any:
        return within_bounds([self._eval(item) for item in node.elts])

    def _eval_attribute(self, node: Any) -> Any:
        return self._key(self._eval(node.value), node.attr)

    def _eval_subscript(self, node: Any) -> Any:
        container = self._eval(node.value)
        key = self._eval(node.slice)
        if isinstance(container, list | str) and isinstance(key, int):
            return container[key]
        return self._key(container, key)

    def _eval_call(self, node: Any) -> Any:
        # Charged before the function runs: what it reads is what costs.
        arguments = [self._eval(argument) for argument in node.args]
        count = skim if node.func.id in _SHALLOW else charge
        for argument in arguments:
            count(argument)
        return FUNCTIONS[node.func.id](*arguments)

    def _key(self, container: Any, key: Any) -> Any:
        # Keys only, never attributes: a key named `keys` is reached, a method is not.
        if isinstance(container, dict) and key in container:
            return container[key]
        keys: list[str] = [str(k) for k in container] if isinstance(container, dict) else []
        hint = near(str(key), keys)
        raise Unclear(f"there is no {key!r}{f'; {hint}' if hint else ''} (or use get(…, {key!r}))")


class Condition:
    """A condition of a file, parsed.

    Raises:
        Unclear: it is none, or uses what conditions may not.
    """

    def __init__(self, source: str) -> None:
        text = source.strip()
        # People write conditions like templates; a lone pair of braces says nothing else.
        if text.startswith("{{") and text.endswith("}}") and "{{" not in text[2:]:
            text = text[2:-2].strip()
        if len(text) > _LONGEST:
            raise Unclear(f"the condition is too long: {len(text)} characters")
        self.source = text
        try:
            self._tree = ast.parse(text, mode="eval")
            # When the file is read, not when the condition is reached, perhaps after hours.
            _check(self._tree)
        except (SyntaxError, ValueError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise Unclear(f"the condition {text!r} cannot be read: {reason}") from None
        except RecursionError:
            raise Unclear("the condition is nested too deep") from None
        self.names = frozenset(
            node.id
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id not in FUNCTIONS | _CONSTANTS
        )
        self.reads = frozenset(_reads(self._tree, "state"))
        """Variables of the state that must be there."""
        self.constants = frozenset(_reads(self._tree, "variables"))
        """Of the file's `variables`, those that must be there."""

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Is it true?

        Raises:
            Unclear: a name is unknown, or the types do not fit.
        """
        try:
            with budget():
                value = _Evaluator(variables).eval(self.source, self._tree.body)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType]
        except Unclear as error:
            raise Unclear(f"{self.source}: {error}") from None
        except (InvalidExpression, TooMuch, ArithmeticError, RecursionError) as error:
            raise Unclear(f"{self.source}: {error}") from None
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise Unclear(f"{self.source}: {type(error).__name__}: {error}") from None
        return bool(value)


def _reads(tree: ast.Expression, of: str) -> Iterator[str]:
    """The names that are read as `OF.NAME` or `OF["NAME"]`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == of:
                yield name
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))) if (
                owner == of
            ):
                yield name
            case _:
                pass


def _check(tree: ast.Expression) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ValueError(f"conditions have no {type(node).__name__}")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise ValueError(f"{node.attr!r} cannot be reached from a condition")
        if isinstance(node, ast.Constant) and not isinstance(
            node.value, str | int | float | bool | None
        ):
            raise ValueError(f"{node.value!r} is no JSON value")
        if isinstance(node, ast.Call):
            _check_call(node)


def _check_call(node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise ValueError("values have no methods here; functions are " + ", ".join(FUNCTIONS))
    if node.func.id not in FUNCTIONS:
        raise ValueError(f"there is no function {node.func.id!r}; {near(node.func.id, FUNCTIONS)}")

"""Templates in files: `{{ expression }}` in prompts and values. Sandboxed and bounded (D21).

A `Template` is compiled from a text of a file and rendered with values. A single `{{ expression }}`
renders to the value itself, mixed text to text. Texts of models, tools and users are data that
expressions read, and are never compiled.

The environment is Jinja's, reduced to an allowlist: values are JSON, keys take precedence over
methods, only a few methods of texts and mappings exist, and no other attributes. Loops, operators,
calls and filters are charged for the data they read, so that loops over large values end. Filters
that can enlarge a text check the size of the result first.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

import html
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from math import inf
from typing import Any, Final, cast

import msgspec
from jinja2 import (
    StrictUndefined,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
    pass_context,
)
from jinja2 import Template as Compiled
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taofold.core.text import clip, near
from taofold.files.expressions.bounds import (
    LARGEST,
    PASSED,
    TooMuch,
    binary,
    budget,
    charge,
    check_size,
    digits,
    skim,
    spend,
    weigh,
    within_bounds,
)

# Values here are any JSON, or come from an untyped library.


_LONGEST: Final = 200_000
"""Maximum characters of a template's source."""
_TOKENS: Final = 10_000
"""Maximum tokens of a template. Text between expressions counts once."""
_ENDLESS: Final = (inf, -inf)
_DEFAULTS: Final = ("default", "d")
_EXISTENCE: Final = ("defined", "undefined")
"""Tests that may ask about a missing name."""
_COMPARING: Final = frozenset({"eq", "equalto", "ge", "gt", "in", "le", "lt", "ne"})
"""Tests that compare."""
_CONSTANT_TESTS: Final = {"None": "none", "True": "true", "False": "false", "null": "none"}
"""`x is None`, with the constants of Python and JSON."""
_NODES: Final = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Assign,
    nodes.If,
    nodes.For,
    nodes.Name,
    nodes.Const,
    nodes.List,
    nodes.Tuple,
    nodes.Dict,
    nodes.Pair,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.Filter,
    nodes.Test,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.CondExpr,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    nodes.Pow,
    nodes.Neg,
    nodes.Pos,
    nodes.Concat,
    nodes.Call,
    nodes.Keyword,
)


class Unrenderable(ValueError):
    """The template cannot be compiled or rendered. The message has the reason."""


def is_template(text: str) -> bool:
    """Returns True if `text` contains something to render."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


class Template:
    """A compiled text of a file. Rendering never compiles anything else.

    Raises:
        Unrenderable: The source is not a template, or uses forbidden features.
    """

    def __init__(self, source: str) -> None:
        if len(source) > _LONGEST:
            raise Unrenderable(f"the template is too long: {len(source):,} characters")
        self.source = source
        try:
            # Counted by the lexer, so that long sources never reach the parser.
            if sum(1 for _ in islice(ENVIRONMENT.lex(source), _TOKENS + 1)) > _TOKENS:
                raise Unrenderable(
                    f"the template is too long: more than {_TOKENS:,} words and signs"
                )
            tree = ENVIRONMENT.parse(source)
            _check(tree)
            self.names = frozenset(_free(tree))
            self.reads = frozenset(_reads(tree, "state"))
            """Variables of the state that must exist."""
            self.needs = self.reads & _always_read(tree, "state")
            """The variables of `reads` that every rendering reads."""
            self.constants = frozenset(_reads(tree, "variables"))
            """The file's `variables` that must exist."""
            # After the checks, because guards are inserted here.
            _guarded(tree)
            lone = _lone(tree)
            if lone is not None:
                # As in Jinja's compile_expression: the value is kept, not converted to text.
                target = nodes.Assign(nodes.Name("result", "store"), lone, lineno=1)
                tree.body = [target]
            code = ENVIRONMENT.compile(tree)
        except TemplateSyntaxError as error:
            raise Unrenderable(f"the template cannot be read: {error.message}") from None
        except (RecursionError, MemoryError, SyntaxError):  # Python's own compiler gives up
            raise Unrenderable("the template is nested too deep") from None
        self._compiled = Compiled.from_code(ENVIRONMENT, code, ENVIRONMENT.globals)
        self._lone = TemplateExpression(self._compiled, False) if lone is not None else None

    def render(self, variables: Mapping[str, Any]) -> Any:
        """Returns the text, or the value of a single expression.

        Raises:
            Unrenderable: A name is undefined, or a limit is exceeded.
        """
        try:
            with budget():
                if self._lone is not None:
                    return _native(self._lone(variables))
                return self._text(variables)
        except (TemplateError, TooMuch, ArithmeticError) as error:
            raise Unrenderable(f"{self._short}: {error}") from None
        except (TypeError, ValueError, LookupError, RecursionError, AttributeError) as error:
            raise Unrenderable(f"{self._short}: {type(error).__name__}: {error}") from None

    def _text(self, variables: Mapping[str, Any]) -> str:
        parts: list[str] = []
        length = 0
        # In pieces, so that it stops as soon as it is too long.
        for part in self._compiled.generate(variables):
            length += len(part)
            check_size(length)
            parts.append(part)
        return "".join(parts)

    @property
    def is_expression(self) -> bool:
        """True if the source is one `{{ expression }}` with optional blanks around it."""
        return self._lone is not None

    @property
    def _short(self) -> str:
        return clip(" ".join(self.source.split()), 60)


def _check(tree: nodes.Template) -> None:
    called = {id(node.node) for node in tree.find_all(nodes.Call)}
    for node in tree.find_all(nodes.Node):
        flaw = _flaw(node)
        if isinstance(node, nodes.Name) and node.name in FUNCTIONS and id(node) not in called:
            flaw = f"{node.name!r} is a function: write {node.name}(…)"
        if flaw:
            raise Unrenderable(flaw)


def _flaw(node: nodes.Node) -> str:
    """Returns the reason why a template may not contain this node itself, or ""."""
    match node:
        case nodes.For() if node.recursive:
            return "a loop cannot be recursive"
        case nodes.Assign() if not isinstance(node.target, nodes.Name):
            return "set gives a value to one name"
        case nodes.Getattr() if node.attr.startswith("_"):
            return f"{node.attr!r} cannot be reached from a template"
        case nodes.Const() if node.value in _ENDLESS:  # 1e999 in a source is infinite
            return "a number is not finite: JSON has none"
        case nodes.Call(node=nodes.Name(name=str(name))) if name not in (*FUNCTIONS, "range"):
            return f"there is no function {name!r}; {near(name, FUNCTIONS) or _known(FUNCTIONS)}"
        case nodes.Filter() if node.name not in FILTERS:
            hint = near(node.name, FILTERS)
            return f"there is no filter {node.name!r}{f'; {hint}' if hint else ''}"
        case nodes.Test() if node.name not in (*TESTS, *_CONSTANT_TESTS):
            return f"there is no test {node.name!r}; {near(node.name, TESTS)}"
        case _ if not isinstance(node, _NODES):
            what = type(node).__name__.lower()
            return f"templates here have no {what!r}: only expressions, if, for and set"
        case _:
            return ""


def _known(names: Iterable[str]) -> str:
    return f"known are {', '.join(sorted(names))}"


def _free(tree: nodes.Template) -> Iterator[str]:
    """Yields the names that must be passed."""
    own = {"loop", *(n.name for n in tree.find_all(nodes.Name) if n.ctx == "store")}
    own.update(ENVIRONMENT.globals)
    for node in tree.find_all(nodes.Name):
        if node.ctx == "load" and node.name not in own:
            yield node.name


def _reads(tree: nodes.Template, of: str) -> set[str]:
    """Returns the members of `of` that are read, without those tested for existence."""
    lenient: list[nodes.Node] = [
        *[test.node for test in tree.find_all(nodes.Test) if test.name in _EXISTENCE],
        *[
            part.node
            for part in tree.find_all(nodes.Filter)
            if part.node and part.name in _DEFAULTS
        ],
    ]
    methods = _methods(tree)
    reads = {
        _member(node, of)
        for node in tree.find_all((nodes.Getattr, nodes.Getitem))
        if id(node) not in methods
    }
    return reads - {_member(node, of) for node in lenient} - {""}


def _methods(tree: nodes.Node) -> set[int]:
    """Returns the nodes of called methods: `state.get("x")` reads no variable `get`."""
    called = [call.node for call in tree.find_all(nodes.Call)]
    names = _METHODS[dict]
    return {id(n) for n in called if isinstance(n, nodes.Getattr) and n.attr in names}


def _always_read(node: nodes.Node, of: str) -> set[str]:
    """Returns the members of `of` that are read for all values."""
    match node:
        case nodes.CondExpr() | nodes.If():
            parts: list[nodes.Node] = [node.test]
        case nodes.And() | nodes.Or():
            parts = [node.left]
        case nodes.For():
            parts = [node.iter]
        case _:
            parts = list(node.iter_child_nodes())
    return {_member(node, of)}.union(*[_always_read(part, of) for part in parts])


def _member(node: nodes.Node, of: str) -> str:
    """Returns the name of an `OF.NAME` or `OF["NAME"]` node, else ""."""
    match node:
        case nodes.Getattr(node=nodes.Name(name=owner), attr=str(name)) if owner == of:
            return name
        case nodes.Getitem(node=nodes.Name(name=owner), arg=nodes.Const(value=str(name))) if (
            owner == of
        ):
            return name
        case _:
            return ""


def _lone(tree: nodes.Template) -> nodes.Expr | None:
    """Returns the expression if there is nothing else but blanks."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    parts = [
        part
        for part in tree.body[0].nodes
        if not (isinstance(part, nodes.TemplateData) and not part.data.strip())
    ]
    lone = parts[0] if len(parts) == 1 else None
    return None if isinstance(lone, nodes.TemplateData) else lone


def _guarded(node: Any) -> Any:
    """Inserts guards in `node` and below, which count what it makes, reads and repeats."""
    if isinstance(node, nodes.Compare | nodes.Operand) and isinstance(node.expr, nodes.Tuple):
        # JSON has no tuples, and a tuple would equal no list.
        node.expr = nodes.List(node.expr.items, lineno=node.expr.lineno)
    for name, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, name, _guarded(value))
        elif isinstance(value, list):
            items: list[Any] = value
            setattr(node, name, [_guarded(i) if isinstance(i, nodes.Node) else i for i in items])
    match node:
        case nodes.For():
            node.iter = _filtered(node.iter, "_each")
        case nodes.Concat():
            return _filtered(node.nodes[0], "_concat", *node.nodes[1:])
        case nodes.List() | nodes.Dict():
            return _filtered(node, "_made")
        case nodes.Tuple() if node.ctx == "load":
            return _filtered(node, "_made")
        case nodes.Compare() | nodes.Operand():
            node.expr = _filtered(node.expr, "_read")
        case nodes.Getitem() if isinstance(node.arg, nodes.Slice):
            node.node = _filtered(node.node, "_read")
        case nodes.Test() if node.name not in _EXISTENCE:
            # Jinja evaluates `missing is none` to false, and `missing is not none` to true.
            comparing = node.name in _COMPARING
            node.node = _filtered(node.node, "_read" if comparing else "_defined")
            node.args = [_filtered(argument, "_read") for argument in node.args]
        case _:
            pass
    return node


def _filtered(node: Any, name: str, *more: Any) -> nodes.Filter:
    return nodes.Filter(node, name, list(more), [], None, None, lineno=node.lineno)


def _native(value: Any) -> Any:
    """Returns `value` as JSON."""
    if isinstance(value, StrictUndefined):
        # Raises for undefined values.
        str(value)
    if isinstance(value, str):
        check_size(len(value), PASSED)
        return value
    if isinstance(value, Iterator):
        value = list(value)
    if isinstance(value, list | dict | tuple):
        weigh(value, PASSED)
        # A copy as plain JSON, because the state must not share the template's lists.
        return msgspec.json.decode(msgspec.json.encode(value))
    charge(value)
    return msgspec.to_builtins(value)


__all__ = ["Template", "UndefinedError", "Unrenderable", "is_template"]


# Values here are any JSON, or come from an untyped library.


_NOTHING: Final = object()
_WIDE: Final = 100


def tojson(value: Any, indent: int = 0) -> str:
    """Returns `value` as JSON text. Text of any script stays readable."""
    if isinstance(value, StrictUndefined):
        str(value)  # raises with the missing name
    body = msgspec.json.encode(value)
    if indent:
        body = msgspec.json.format(body, indent=min(int(indent), 8))
    return body.decode()


def as_text(value: Any) -> str:
    """Returns a value for use inside text: text unchanged, others as JSON."""
    return value if isinstance(value, str) else tojson(value)


def _replace(text: str, old: str, new: str, count: int | None = None) -> str:
    text, old, new = str(text), str(old), str(new)
    # Checked first, because `replace` can enlarge a text.
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else int(count))


def _join(values: Iterable[Any], separator: str = "", attribute: str = "") -> str:
    fields = [_field(value, attribute) for value in values] if attribute else values
    texts = [as_text(value) for value in fields]
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


def _truncate(
    text: str, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    text = str(text)
    if len(text) <= length + leeway:
        return text
    cut = text[: max(0, length - len(end))]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    missing = isinstance(value, Undefined) or (boolean and not value)
    return default_value if missing else value


def _reached(entry: Any, path: str) -> Any:
    """Returns the value at `path` in `entry`, `_NOTHING` if there is none."""
    for part in str(path).split("."):
        if isinstance(entry, list) and part.isdigit() and int(part) < len(entry):
            entry = entry[int(part)]
        elif isinstance(entry, dict) and part in entry:
            entry = entry[part]
        else:
            return _NOTHING
    return entry


def _field(entry: Any, path: str) -> Any:
    value = _reached(entry, path)
    return None if value is _NOTHING else value


def _map(
    values: Iterable[Any], name: str = "", *args: Any, attribute: str = "", default: Any = None
) -> list[Any]:
    """Returns a field of each value, or what the filter `name` makes of it, as Jinja."""
    mapped: list[Any] = []
    weight = 0
    for value in values:
        found = _reached(value, attribute or name)
        if attribute or found is not _NOTHING or name not in FILTERS:
            mapped.append(default if found is _NOTHING else found)
        else:
            mapped.append(FILTERS[name](value, *args))
        weight += weigh(mapped[-1])
        check_size(weight)
    return mapped


def _chosen(chosen: bool) -> Callable[..., list[Any]]:
    def choose(values: Iterable[Any], *test: Any) -> list[Any]:
        return [value for value in values if _passes(value, test) == chosen]

    return choose


def _chosen_by_field(chosen: bool) -> Callable[..., list[Any]]:
    def choose(values: Iterable[Any], attribute: str, *test: Any) -> list[Any]:
        return [v for v in values if _passes(_reached(v, attribute), test) == chosen]

    return choose


def _passes(value: Any, test: tuple[Any, ...]) -> bool:
    """Returns whether a value passes a test of Jinja, equals the one that is named, or is true."""
    name, *args = test or ("",)
    known = isinstance(name, str) and name in ENVIRONMENT.tests
    missing = value is _NOTHING
    if not test:
        return bool(value) and not missing
    if known and missing:
        # No other test holds for a missing value.
        return bool(name == "undefined")
    value = None if missing else value
    for each in (value, *args):
        # Each value is compared with them.
        charge(each)
    if not known:
        return bool(value == name)
    holds = cast("Callable[..., Any]", ENVIRONMENT.tests[name])
    return bool(holds(value, *args))


def _folded(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _unique(values: Iterable[Any], case_sensitive: bool = False, attribute: str = "") -> list[Any]:
    distinct: dict[str, Any] = {}
    for value in values:
        spend()
        key = _field(value, attribute) if attribute else value
        # Lists and mappings have no hash, so their JSON is used.
        distinct.setdefault(tojson(key if case_sensitive else _folded(key)), value)
    return list(distinct.values())


def _sort(
    values: Iterable[Any],
    reverse: bool = False,
    case_sensitive: bool = False,
    attribute: str = "",
) -> list[Any]:
    paths = [path.strip() for path in str(attribute).split(",")] if attribute else []

    def key(value: Any) -> Any:
        parts = [_field(value, path) for path in paths] if paths else [value]
        return parts if case_sensitive else [_folded(part) for part in parts]

    return sorted(values, key=key, reverse=bool(reverse))


def _dictsort(
    mapping: Mapping[str, Any],
    case_sensitive: bool = False,
    by: str = "key",
    reverse: bool = False,
) -> list[Any]:
    position = 1 if by == "value" else 0
    return _sort([list(pair) for pair in mapping.items()], reverse, case_sensitive, str(position))


def _groupby(values: Iterable[Any], attribute: str, default: Any = None) -> list[Any]:
    """Returns pairs of a value of the field and the list of entries that have it."""
    groups: dict[str, list[Any]] = {}
    for value in _sort(values, attribute=attribute):
        found = _field(value, attribute)
        key = default if found is None else found
        group = groups.setdefault(tojson(_folded(key)), [key, []])
        group[1].append(value)
    return list(groups.values())


def _batch(values: Iterable[Any], size: int, fill_with: Any = None) -> list[list[Any]]:
    if not 0 < int(size) <= LARGEST:
        raise ValueError(f"a batch has at least one value, not {size!r}")
    rest = list(values)
    batches = [rest[start : start + int(size)] for start in range(0, len(rest), int(size))]
    if batches and fill_with is not None:
        missing = int(size) - len(batches[-1])
        check_size(missing)
        batches[-1] += [fill_with] * missing
    return batches


_DIRECTIVE: Final = re.compile(r"%(?:\((\w+)\))?[-+ #0]*(\d*)(?:\.(\d*))?([a-zA-Z%])")


def _format(text: str, *args: Any, **named: Any) -> str:
    """Returns a text with `%` directives filled in, as Python's `text % args`."""
    text = str(text)
    for _, width, places, kind in _DIRECTIVE.findall(text):
        if kind not in "sdifFeEgGxXo%" or max(int(width or 0), int(places or 0)) > _WIDE:
            raise ValueError(f"a directive of {clip(text, 40)!r} is not supported")
    if "%" in _DIRECTIVE.sub("", text):
        raise ValueError(f"a directive of {clip(text, 40)!r} is not supported")
    values = [value if isinstance(value, int | float) else as_text(value) for value in args]
    check_size(len(text) * (_WIDE + 1) // 2 + sum(len(str(value)) for value in values))
    return text % (named or tuple(values))


def _fromjson(text: Any) -> Any:
    """Returns the value of a JSON text, and any other text as it is."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else text
    except (msgspec.DecodeError, RecursionError):
        return text


def _escape(text: Any) -> str:
    text = as_text(text)
    check_size(len(text) + 5 * sum(text.count(sign) for sign in "&<>'\""))
    return html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


def _int(value: Any, default: int = 0, base: int = 10) -> int:
    try:
        if isinstance(value, str) and base != 10:
            return int(value, base)
        return int(value)
    except (TypeError, ValueError):
        pass
    try:
        return int(float(value))  # "3.7" is 3
    except (TypeError, ValueError, OverflowError):
        return default


def _float(value: Any, default: float = 0.0) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return default


def _split(text: str, separator: str | None = None) -> list[str]:
    return str(text).split(separator)


def _sum(values: Iterable[Any], attribute: Any = "", start: float = 0) -> Any:
    if isinstance(attribute, int | float):
        raise TypeError("write sum(start=NUMBER): the first argument is an attribute")
    numbers = [*([_field(v, attribute) for v in values] if attribute else values), start]
    if not all([isinstance(number, int | float) for number in numbers]):
        raise TypeError("sum is of numbers; put lists together with +")
    return sum(numbers)


_ROUNDED: Final[dict[str, Callable[[float], int]]] = {"ceil": math.ceil, "floor": math.floor}


def _round(number: Any, precision: int = 0, method: str = "common") -> Any:
    places = digits(precision)
    if method in _ROUNDED:
        scaled = _ROUNDED[method](number * 10**places)
        return scaled / 10**places if places else scaled
    if method != "common":
        raise ValueError(f"round is 'common', 'ceil' or 'floor', not {method!r}")
    return round(number, places) if places else round(number)


def _charged(function: Callable[..., Any], *, shallow: bool) -> Callable[..., Any]:
    @wraps(function)
    def charged(value: Any, *args: Any, **kwargs: Any) -> Any:
        for each in (value, *args, *kwargs.values()):
            (skim if shallow else charge)(each)
        return function(value, *args, **kwargs)

    return charged


_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "batch": _batch,
    "capitalize": lambda text: str(text).capitalize(),
    "count": len,
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "e": _escape,
    "escape": _escape,
    "first": lambda values: next(iter(values), None),
    "float": _float,
    "format": _format,
    "fromjson": _fromjson,
    "groupby": _groupby,
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
    "reject": _chosen(False),
    "rejectattr": _chosen_by_field(False),
    "replace": _replace,
    "reverse": lambda values: values[::-1],
    "round": _round,
    "safe": as_text,
    "select": _chosen(True),
    "selectattr": _chosen_by_field(True),
    "sort": _sort,
    "split": _split,
    "string": as_text,
    "sum": _sum,
    "title": lambda text: str(text).title(),
    "tojson": tojson,
    "trim": lambda text, chars=None: str(text).strip(chars),
    "truncate": _truncate,
    "unique": _unique,
    "upper": lambda text: str(text).upper(),
    "values": lambda mapping: list(mapping.values()),
    "wordcount": lambda text: len(str(text).split()),
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
"""Filters that look only at the direct entries of a list or mapping."""
FILTERS: Final[dict[str, Callable[..., Any]]] = {
    name: _charged(function, shallow=name in _SHALLOW) for name, function in _PLAIN.items()
}


def _get(mapping: Any, key: Any, default: Any = None) -> Any:
    return mapping.get(key, default) if isinstance(mapping, Mapping) else default


_CALLED: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "endswith": lambda text, end: str(text).endswith(str(end)),
    "float": float,
    "get": _get,
    "int": int,
    "len": len,
    "lower": _PLAIN["lower"],
    "max": max,
    "min": min,
    "round": _round,
    "startswith": lambda text, start: str(text).startswith(str(start)),
    "str": as_text,
    "upper": _PLAIN["upper"],
}
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    name: _charged(function, shallow=name in ("all", "any", "get", "len"))
    for name, function in _CALLED.items()
}
"""Functions for expressions. `get(state, "x", 0)` reads a key that may be missing."""


_METHODS: Final[dict[type, frozenset[str]]] = {
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"count", "index"}),
    str: frozenset(
        {"capitalize", "count", "endswith", "find", "isalpha", "isdigit", "islower", "isnumeric"}
        | {"isupper", "lower", "lstrip", "removeprefix", "removesuffix", "rsplit", "rstrip"}
        | {"split", "splitlines", "startswith", "strip", "title", "upper"}
    ),
}


@dataclass(frozen=True, slots=True)
class TextMethod:
    """A method of a text whose result may be larger than the text, so that its size is checked."""

    function: Callable[..., str]
    text: str

    def __call__(self, *args: Any) -> str:
        return self.function(self.text, *args)


_GROWING: Final[dict[str, Callable[..., str]]] = {
    "join": lambda separator, values: FILTERS["join"](values, separator),
    "replace": FILTERS["replace"],
}
_LOOP: Final = frozenset(
    {"first", "index", "index0", "last", "length", "revindex", "revindex0"},
)
TESTS: Final = [
    *("==", "!=", ">", ">=", "<", "<=", "greaterthan", "lessthan"),
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
    "iterable",
    "integer",
    "le",
    "lower",
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
    "upper",
]


class Environment(ImmutableSandboxedEnvironment):
    # Jinja computes operators that are not listed here itself, unbounded.
    intercepted_binops = frozenset({"*", "**", "%", "+", "-", "/", "//"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for side in (left, right):
            if isinstance(side, StrictUndefined):
                # Converting a StrictUndefined to text raises, with the missing name.
                str(side)  # raises with the missing name
        return binary(operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, StrictUndefined):
            str(obj)
        # Keys first: a key `items` in data must not be shadowed by a method.
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        allowed = _LOOP if isinstance(obj, LoopContext) else _METHODS.get(type(obj), frozenset())
        if isinstance(obj, str) and attribute in _GROWING:
            return TextMethod(_GROWING[attribute], obj)
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
        if obj is _range or isinstance(obj, TextMethod) or obj in FUNCTIONS.values():
            return True
        # The type of a bound method's object decides.
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str | list):
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
    """Yields the values of a loop, with charges, so that it can be stopped."""
    for value in values:
        spend()
        yield value


def _defined(value: Any) -> Any:
    """Returns the operand of a test. Raises UndefinedError if it is missing."""
    if isinstance(value, StrictUndefined):
        str(value)
    return value


def _read(value: Any) -> Any:
    """Charges for operands of comparisons and slices. Lists and mappings go through `made`."""
    charge(_defined(value))
    return value


def _concat(first: Any, *rest: Any) -> str:
    for value in (first, *rest):
        charge(value)
    texts = [as_text(value) for value in (first, *rest)]
    check_size(sum(map(len, texts)))
    return "".join(texts)


@pass_context  # a finalizer with context keeps Jinja from computing ahead of time
def _finalize(context: Context, value: Any) -> str:
    if isinstance(value, StrictUndefined):
        return str(value)
    charge(value)
    return as_text(value)


def _environment() -> Environment:
    environment = Environment(
        undefined=StrictUndefined,
        # Jinja would compute constant expressions while compiling, before any budget applies.
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
    # Emptied, because Jinja's defaults are not bounded, and some reach objects.
    for namespace in (names, environment.filters):
        namespace.clear()
    names.update(FUNCTIONS, range=_range, null=None)
    environment.filters.update(
        {
            **FILTERS,
            "_each": _each,
            "_concat": _concat,
            "_made": within_bounds,
            "_read": _read,
            "_defined": _defined,
        }
    )
    for name in set(environment.tests) - set(TESTS):
        del environment.tests[name]
    for alias, name in _CONSTANT_TESTS.items():
        environment.tests[alias] = environment.tests[name]
    return environment


ENVIRONMENT: Final = _environment()

"""Templates in files: `{{ expression }}` in prompts and values. Sandboxed and bounded (D21).

Only text that stands in a file is compiled; what models, tools and people say is data that
expressions read, never a template. A lone `{{ expression }}` gives the value itself, a
mixture gives text. The environment is built up from nothing: values are JSON, a key wins
over a method, a few methods of texts and mappings exist, and no other attribute does.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from math import inf
from typing import Any, Final

import msgspec
from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError, nodes
from jinja2 import Template as Compiled
from jinja2.environment import TemplateExpression
from jinja2.exceptions import TemplateError

from taofold.core.text import clip, near
from taofold.files.expressions.bounds import PASSED, TooMuch, budget, charge, check_size, weigh
from taofold.files.expressions.environment import ENVIRONMENT, FILTERS, TESTS

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


_LONGEST: Final = 200_000
"""Characters of a template's source."""
_TOKENS: Final = 10_000
"""Words and signs of it; text between expressions counts once."""
_ENDLESS: Final = (inf, -inf)
_DEFAULTS: Final = ("default", "d")
_COMPARING: Final = frozenset({"eq", "equalto", "ge", "gt", "in", "le", "lt", "ne"})
"""Tests that compare."""
_NODES: Final = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
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
    """The template cannot be compiled or rendered; the message says why."""


def is_template(text: str) -> bool:
    """Does `text` hold something to render?"""
    return any(mark in text for mark in ("{{", "{%", "{#"))


class Template:
    """A text of a file, compiled. Rendering never compiles anything else.

    Raises:
        Unrenderable: it is no template, or uses what templates may not.
    """

    def __init__(self, source: str) -> None:
        if len(source) > _LONGEST:
            raise Unrenderable(f"the template is too long: {len(source):,} characters")
        self.source = source
        try:
            # Counted while it is read: the parser is not given what is too long.
            if sum(1 for _ in islice(ENVIRONMENT.lex(source), _TOKENS + 1)) > _TOKENS:
                raise Unrenderable(
                    f"the template is too long: more than {_TOKENS:,} words and signs"
                )
            tree = ENVIRONMENT.parse(source)
            _check(tree)
            self.names = frozenset(_free(tree))
            self.reads = frozenset(_reads(tree, "state"))
            """Variables of the state that must be there."""
            self.constants = frozenset(_reads(tree, "variables"))
            """Of the file's `variables`, those that must be there."""
            # After the check and the names: what is put in here is ours.
            _guarded(tree)
            lone = _lone(tree)
            if lone is not None:
                # As Jinja's own compile_expression does: the value is kept, not turned into text.
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
        """The text, or the value itself of a lone expression.

        Raises:
            Unrenderable: a name is undefined, or it would cost too much.
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
        # Piece by piece, so that it stops when it is too long, not when it is whole.
        for part in self._compiled.generate(variables):
            length += len(part)
            check_size(length)
            parts.append(part)
        return "".join(parts)

    @property
    def _short(self) -> str:
        return clip(" ".join(self.source.split()), 60)


def _check(tree: nodes.Template) -> None:
    for node in tree.find_all(nodes.Node):
        if not isinstance(node, _NODES):
            what = type(node).__name__.lower()
            raise Unrenderable(f"templates here have no {what!r}: only expressions, if and for")
        if isinstance(node, nodes.For) and node.recursive:
            raise Unrenderable("a loop cannot be recursive")
        if isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            raise Unrenderable(f"{node.attr!r} cannot be reached from a template")
        # 1e999 in a source is infinite.
        if isinstance(node, nodes.Const) and node.value in _ENDLESS:
            raise Unrenderable("a number is not finite: JSON has none")
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            hint = near(node.name, FILTERS)
            raise Unrenderable(f"there is no filter {node.name!r}{f'; {hint}' if hint else ''}")
        if isinstance(node, nodes.Test) and node.name not in TESTS:
            raise Unrenderable(f"there is no test {node.name!r}; {near(node.name, TESTS)}")


def _free(tree: nodes.Template) -> Iterator[str]:
    """The names that must be given."""
    own = {"loop", "range", *(n.name for n in tree.find_all(nodes.Name) if n.ctx == "store")}
    for node in tree.find_all(nodes.Name):
        if node.ctx == "load" and node.name not in own:
            yield node.name


def _reads(tree: nodes.Template, of: str) -> set[str]:
    """What is read `of` a mapping, but for what the template itself asks whether it exists."""
    lenient: list[nodes.Node] = [
        *[test.node for test in tree.find_all(nodes.Test) if test.name in ("defined", "undefined")],
        *[one.node for one in tree.find_all(nodes.Filter) if one.node and one.name in _DEFAULTS],
    ]
    reads = {_member(node, of) for node in tree.find_all((nodes.Getattr, nodes.Getitem))}
    return reads - {_member(node, of) for node in lenient} - {""}


def _member(node: nodes.Node, of: str) -> str:
    """The name, if the node is `OF.NAME` or `OF["NAME"]`; else ""."""
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
    """The expression, if there is nothing else but blanks."""
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
    """The `node`, with all below it, such that what it makes, reads and repeats is counted."""
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
        case nodes.Test() if node.name in _COMPARING:
            node.node = _filtered(node.node, "_read")
            node.args = [_filtered(argument, "_read") for argument in node.args]
        case _:
            pass
    return node


def _filtered(node: Any, name: str, *more: Any) -> nodes.Filter:
    return nodes.Filter(node, name, list(more), [], None, None, lineno=node.lineno)


def _native(value: Any) -> Any:
    """`value` as JSON."""
    if isinstance(value, StrictUndefined):
        # Raises for what is undefined.
        str(value)
    if isinstance(value, str):
        check_size(len(value), PASSED)
        return value
    if isinstance(value, Iterator):
        value = list(value)
    if isinstance(value, list | dict | tuple):
        weigh(value, PASSED)
        # A copy as plain JSON: the template's own lists must not be shared with the state.
        return msgspec.json.decode(msgspec.json.encode(value))
    charge(value)
    return msgspec.to_builtins(value)


__all__ = ["Template", "UndefinedError", "Unrenderable", "is_template"]

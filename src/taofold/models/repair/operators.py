"""Templates for operators: comparisons, arithmetic, boolean logic."""

import ast
from collections.abc import Iterator
from typing import Final

from taofold.models.repair.site import Site
from taofold.models.repair.source import Change, operator_span

_SIGN: Final[dict[type[ast.AST], str]] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip
COMPARISONS: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "<": (("<=", 3), (">", 1.2), (">=", 0.5)),
    "<=": (("<", 3), (">=", 1.2), (">", 0.5)),
    ">": ((">=", 3), ("<", 1.2), ("<=", 0.5)),
    ">=": ((">", 3), ("<=", 1.2), ("<", 0.5)),
    "==": (("!=", 2), ("<=", 0.5), (">=", 0.5), ("<", 0.3), (">", 0.3)),
    "!=": (("==", 2), ("<", 0.3), (">", 0.3)),
    "in": (("not in", 1.5),),
    "not in": (("in", 1.5),),
    "is": (("is not", 1.5), ("==", 1)),
    "is not": (("is", 1.5), ("!=", 1)),
}
ARITHMETIC: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "+": (("-", 2), ("*", 0.8)),
    "-": (("+", 2), ("/", 0.3)),
    "*": (("+", 1), ("/", 1), ("**", 0.5)),
    "/": (("//", 1.5), ("*", 1.5), ("%", 0.3)),
    "//": (("/", 1.5), ("%", 1), ("*", 0.4)),
    "%": (("//", 1), ("/", 0.6)),
    "**": (("*", 1.5),),
    "&": (("|", 1.5), ("^", 1)),
    "|": (("&", 1.5), ("^", 1)),
    "^": (("&", 1.5), ("|", 1)),
    "<<": ((">>", 1.5),),
    ">>": (("<<", 1.5),),
}
_WORDS: Final = (
    ("at least", ">="), ("or more", ">="), ("no less", ">="), ("minimum", ">="), ("from", ">="),
    ("more than", ">"), ("over ", ">"), ("above", ">"), ("exceed", ">"), ("after", ">"),
    ("at most", "<="), ("up to", "<="), ("no more than", "<="), ("maximum", "<="),
    ("less than", "<"), ("below", "<"), ("under ", "<"), ("before", "<"), ("inclusive", "="),
)  # fmt: skip


def comparisons(site: Site) -> Iterator[Change]:
    """`<` for `<=`, `==` for `!=`, `in` for `not in`, and so on."""
    said = (ast.get_docstring(site.function) or "").lower() if site.function else ""
    wanted = {sign for word, sign in _WORDS if word in said}
    for node in site.nodes:
        if not isinstance(node, ast.Compare):
            continue
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            sign = _SIGN[type(operation)]
            place = operator_span(site.source, left, right, sign)
            boundary = _boundary(site, left, right)
            for other, weight in COMPARISONS[sign] if place[0] < place[1] else ():
                factor = boundary if other.rstrip("=") == sign.rstrip("=") else 1.0
                if other in wanted or ("=" in wanted and other == sign + "="):
                    factor *= 2
                yield Change("swap_comparison", *place, other, weight * factor)
            left = right


def _boundary(site: Site, left: ast.expr, right: ast.expr) -> float:
    """Above 1 if the test uses the very value that is compared with."""
    for side in (left, right):
        value = side
        if isinstance(side, ast.Name):
            value = _bound(site.source.tree, side.id) or side
        if isinstance(value, ast.Constant) and repr(value.value) in site.clue.literals:
            return 2.0 if value.value not in (0, 1) else 1.3
    return 1.0


def _bound(tree: ast.Module, name: str) -> ast.expr | None:
    """The value that a module assigns to `name`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            return node.value
    return None


def arithmetic(site: Site) -> Iterator[Change]:
    """`+` for `-`, `/` for `//`, `+=` for `=`, operands the wrong way round, missing brackets."""
    for node in site.nodes:
        if isinstance(node, ast.BinOp):
            yield from _binary(site, node)
        elif isinstance(node, ast.AugAssign):
            sign = _SIGN.get(type(node.op), "")
            place = operator_span(site.source, node.target, node.value, f"{sign}=")
            for other, weight in ARITHMETIC.get(sign, ()) if place[0] < place[1] else ():
                yield Change("swap_arithmetic", *place, f"{other}=", weight)
            if place[0] < place[1]:
                yield Change("swap_arithmetic", *place, "=", 0.5)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield site.swap("swap_arithmetic", node, site.text(node.operand), 0.6)
        elif isinstance(node, ast.Assign) and _accumulates(site, node):
            place = operator_span(site.source, node.targets[0], node.value, "=")
            yield Change("swap_arithmetic", *place, "+=", 2.0)


def _binary(site: Site, node: ast.BinOp) -> Iterator[Change]:
    sign = _SIGN.get(type(node.op), "")
    if _text_like(node.left) or (sign in "+%" and _text_like(node.right)):
        return
    place = operator_span(site.source, node.left, node.right, sign)
    for other, weight in ARITHMETIC.get(sign, ()) if place[0] < place[1] else ():
        yield Change("swap_arithmetic", *place, other, weight)
    left, right = site.text(node.left), site.text(node.right)
    if sign in ("-", "/", "//", "%", "**") and left != right:
        between = site.text(node)
        if between.startswith(left) and between.endswith(right):
            weight = 0.2 if isinstance(node.right, ast.Constant) else 1.0
            middle = between[len(left) : len(between) - len(right)]
            yield site.swap("swap_arguments", node, f"{right}{middle}{left}", weight)
    yield from _brackets(site, node, sign)


def _brackets(site: Site, node: ast.BinOp, sign: str) -> Iterator[Change]:
    """`a + b / c` for `(a + b) / c`, and the other way round."""
    inner, product = node.right, isinstance(node.op, ast.Add | ast.Sub)
    if (
        product
        and isinstance(inner, ast.BinOp)
        and isinstance(inner.op, ast.Mult | ast.Div | ast.FloorDiv)
    ):
        text = site.text(node)
        if "(" not in text:
            low, high = _SIGN[type(inner.op)], sign
            yield site.swap(
                "swap_arithmetic",
                node,
                f"({site.text(node.left)} {high} {site.text(inner.left)}) {low} "
                f"{site.text(inner.right)}",
                0.8,
            )


def _accumulates(site: Site, node: ast.Assign) -> bool:
    """Is a number, set before the loop, assigned inside the loop?"""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name):
        return False
    loops = [n for n in site.statements if isinstance(n, ast.For | ast.While)]
    inside = any(n.lineno < node.lineno <= (n.end_lineno or 0) for n in loops)
    before = any(
        isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Name)
        and n.targets[0].id == target.id
        and n.lineno < node.lineno
        for n in site.statements
    )
    return inside and before


def _text_like(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def booleans(site: Site) -> Iterator[Change]:
    """`and` for `or`, a missing or superfluous `not`, one condition too many."""
    for node in site.nodes:
        if isinstance(node, ast.BoolOp):
            sign = "and" if isinstance(node.op, ast.And) else "or"
            for left, right in zip(node.values, node.values[1:], strict=False):
                place = operator_span(site.source, left, right, sign)
                yield Change("fix_boolean", *place, "or" if sign == "and" else "and", 2.0)
            if len(node.values) == 2:
                for kept in node.values:
                    yield site.swap("fix_boolean", node, site.text(kept), 0.5)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield site.swap("fix_boolean", node, site.text(node.operand), 2.0)
        yield from _negated(site, node)


def _negated(site: Site, node: ast.AST) -> Iterator[Change]:
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
        name = ast.unparse(node.value.func)
        tests = [node.value] if name in ("any", "all", "isinstance", "bool") else []
    for test in tests:
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            yield site.swap("fix_boolean", test, f"not {site.text(test)}", 1.2)
        elif isinstance(test, ast.Compare | ast.BoolOp):
            yield site.swap("fix_boolean", test, f"not ({site.text(test)})", 0.2)

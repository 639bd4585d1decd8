"""Templates for operators and off-by-one errors: comparisons, arithmetic, logic, ranges."""

import ast
from collections.abc import Iterator
from typing import Final

from taofold_repair.site import Site
from taofold_repair.source import Change, operator_span

_SIGN: Final[dict[type[ast.AST], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
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
    ("at least", ">="),
    ("or more", ">="),
    ("no less", ">="),
    ("minimum", ">="),
    ("from", ">="),
    ("more than", ">"),
    ("over ", ">"),
    ("above", ">"),
    ("exceed", ">"),
    ("after", ">"),
    ("at most", "<="),
    ("up to", "<="),
    ("no more than", "<="),
    ("maximum", "<="),
    ("less than", "<"),
    ("below", "<"),
    ("under ", "<"),
    ("before", "<"),
    ("inclusive", "="),
)


def comparisons(site: Site) -> Iterator[Change]:
    """Proposes `<` for `<=`, `==` for `!=`, `in` for `not in`, and so on."""
    docstring = (ast.get_docstring(site.function) or "").lower() if site.function else ""
    described = {sign for word, sign in _WORDS if word in docstring}
    for node in site.each(ast.Compare):
        left = node.left
        for operation, right in zip(node.ops, node.comparators, strict=True):
            sign = _SIGN[type(operation)]
            span = operator_span(site.source, left, right, sign)
            boundary = _boundary(site, left, right)
            # An empty span: the sign was not found between the operands.
            for other, weight in COMPARISONS[sign] if span[0] < span[1] else ():
                # Only `<` against `<=` (or `>`, `>=`) differ at the boundary itself.
                factor = boundary if other.rstrip("=") == sign.rstrip("=") else 1.0
                if other in described or ("=" in described and other == sign + "="):
                    factor *= 2
                yield Change("swap_comparison", *span, other, weight * factor)
            left = right


def _boundary(site: Site, left: ast.expr, right: ast.expr) -> float:
    """Returns a factor above 1 if the test uses exactly the compared value."""
    for side in (left, right):
        value = side
        if isinstance(side, ast.Name):
            value = _bound(site.source.tree, side.id) or side
        if isinstance(value, ast.Constant) and repr(value.value) in site.clue.literals:
            # 0 and 1 occur in most tests, so they are weaker evidence.
            return 2.0 if value.value not in (0, 1) else 1.3
    return 1.0


def _bound(tree: ast.Module, name: str) -> ast.expr | None:
    """Returns the value that a module assigns to `name`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            return node.value
    return None


def arithmetic(site: Site) -> Iterator[Change]:
    """Proposes `+` for `-`, `/` for `//`, `+=` for `=`, swapped operands, missing brackets."""
    for node in site.nodes:
        if isinstance(node, ast.BinOp):
            yield from _binary(site, node)
        elif isinstance(node, ast.AugAssign):
            sign = _SIGN.get(type(node.op), "")
            span = operator_span(site.source, node.target, node.value, f"{sign}=")
            for other, weight in ARITHMETIC.get(sign, ()) if span[0] < span[1] else ():
                yield Change("swap_arithmetic", *span, f"{other}=", weight)
            if span[0] < span[1]:
                yield Change("swap_arithmetic", *span, "=", 0.5)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield site.swap("swap_arithmetic", node, site.text(node.operand), 0.6)
        elif isinstance(node, ast.Assign) and _accumulates(site, node):
            span = operator_span(site.source, node.targets[0], node.value, "=")
            yield Change("swap_arithmetic", *span, "+=", 2.0)


def _binary(site: Site, node: ast.BinOp) -> Iterator[Change]:
    sign = _SIGN.get(type(node.op), "")
    # `+` and `%` on text join and format; no other operator would work.
    if _text_like(node.left) or (sign in "+%" and _text_like(node.right)):
        return
    span = operator_span(site.source, node.left, node.right, sign)
    for other, weight in ARITHMETIC.get(sign, ()) if span[0] < span[1] else ():
        yield Change("swap_arithmetic", *span, other, weight)
    left, right = site.text(node.left), site.text(node.right)
    if sign in ("-", "/", "//", "%", "**") and left != right:
        between = site.text(node)
        # Without brackets around an operand, which its span does not include.
        if between.startswith(left) and between.endswith(right):
            weight = 0.2 if isinstance(node.right, ast.Constant) else 1.0
            middle = between[len(left) : len(between) - len(right)]
            yield site.swap("swap_arguments", node, f"{right}{middle}{left}", weight)
    yield from _brackets(site, node, sign)


def _brackets(site: Site, node: ast.BinOp, sign: str) -> Iterator[Change]:
    """Proposes `a + b / c` for `(a + b) / c`, and the reverse."""
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
    """Returns whether a number, set before the loop, is assigned inside the loop."""
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
    """Proposes `and` for `or`, a missing or extra `not`, one condition less."""
    for node in site.nodes:
        if isinstance(node, ast.BoolOp):
            sign = "and" if isinstance(node.op, ast.And) else "or"
            for left, right in zip(node.values, node.values[1:], strict=False):
                span = operator_span(site.source, left, right, sign)
                yield Change("fix_boolean", *span, "or" if sign == "and" else "and", 2.0)
            if len(node.values) == 2:
                for operand in node.values:
                    yield site.swap("fix_boolean", node, site.text(operand), 0.5)
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


_OFF_BY_ONE = "off_by_one"


def off_by_one(site: Site) -> Iterator[Change]:
    """Proposes `range(n)` for `range(n + 1)`, `[i]` for `[i - 1]`, `page` for `page - 1`."""
    # Nodes by identity: two equal numbers at two places are two candidates.
    done: set[int] = set()
    for node in site.nodes:
        if isinstance(node, ast.Call):
            yield from _range(site, node, done)
        elif isinstance(node, ast.Subscript):
            yield from _subscript(site, node, done)
    for node in site.nodes:
        if id(node) not in done:
            yield from _elsewhere(site, node)


def _elsewhere(site: Site, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp):
        yield from _one_off_binary(site, node)
    elif isinstance(node, ast.Constant):
        yield from _constant(site, node)
    elif isinstance(node, ast.Call):
        yield from _length(site, node)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp | ast.Name):
        for text, weight in _near(site, node.value):
            yield site.swap(_OFF_BY_ONE, node.value, text, weight * 0.3)
    elif isinstance(node, ast.Compare):
        for side in [s for s in (node.left, *node.comparators) if isinstance(s, ast.Name)]:
            for text, weight in _near(site, side):
                yield site.swap(_OFF_BY_ONE, side, text, weight * 0.25)


def _near(
    site: Site, node: ast.expr, plus: float = 1.0, minus: float = 1.0
) -> list[tuple[str, float]]:
    """Returns `node` plus one and minus one, as text with weights."""
    text = site.text(node)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [(str(node.value + 1), plus), (str(node.value - 1), minus)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        if isinstance(inner, ast.Constant) and type(inner.value) is int:
            return [(str(1 - inner.value), plus), (str(-inner.value - 1), minus)]
    if isinstance(node, ast.BinOp) and _one(node.right):
        bare = site.text(node.left)
        if isinstance(node.op, ast.Sub):
            return [(bare, 2 * plus), (f"{bare} + 1", 0.5 * plus)]
        if isinstance(node.op, ast.Add):
            return [(bare, 2 * minus), (f"{bare} - 1", 0.5 * minus)]
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    held = text if simple or isinstance(node, ast.BinOp) else f"({text})"
    return [(f"{held} + 1", plus), (f"{held} - 1", minus)]


def _one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1 and type(node.value) is int


def _range(site: Site, node: ast.Call, done: set[int]) -> Iterator[Change]:
    if not (isinstance(node.func, ast.Name) and node.func.id in ("range", "islice", "randint")):
        return
    for argument in node.args:
        # Handled with the weights of a range; `_elsewhere` skips them.
        done.update(id(inner) for inner in ast.walk(argument))
    arguments = node.args
    # An index past the end comes from a loop that runs too far.
    up, down = (1.5, 8.0) if site.clue.kind == "index" else (2.5, 1.5)
    if len(arguments) == 1:
        for text, weight in _near(site, arguments[0], up, down):
            yield site.swap(_OFF_BY_ONE, arguments[0], text, weight)
        yield site.swap(_OFF_BY_ONE, arguments[0], f"1, {site.text(arguments[0])}", 1.2)
        yield site.swap(_OFF_BY_ONE, arguments[0], f"1, {site.text(arguments[0])} + 1", 0.8)
    elif len(arguments) >= 2:
        for text, weight in _near(site, arguments[1], up, down):
            yield site.swap(_OFF_BY_ONE, arguments[1], text, weight)
        for text, weight in _near(site, arguments[0], 1.2, 1.2):
            yield site.swap(_OFF_BY_ONE, arguments[0], text, weight)


def _subscript(site: Site, node: ast.Subscript, done: set[int]) -> Iterator[Change]:
    index = node.slice
    if isinstance(index, ast.Slice):
        yield from _slice(site, node, index)
    elif isinstance(index, ast.Constant) and isinstance(index.value, str):
        return
    elif isinstance(index, ast.Constant | ast.UnaryOp | ast.BinOp | ast.Name):
        # `[0]` is usually correct.
        low = isinstance(index, ast.Constant) and index.value == 0
        for text, weight in _near(site, index, 1.0 if low else 1.5, 1.5):
            yield site.swap(
                _OFF_BY_ONE, index, text, weight * (0.5 if isinstance(index, ast.Name) else 1)
            )
        if isinstance(index, ast.UnaryOp):
            yield site.swap(_OFF_BY_ONE, index, "0", 1.2)
    else:
        return
    done.update(id(inner) for inner in ast.walk(index))


def _slice(site: Site, node: ast.Subscript, index: ast.Slice) -> Iterator[Change]:
    source = site.source
    end = source.span(node)[1] - 1
    for bound, first in ((index.lower, True), (index.upper, False)):
        if bound is None:
            continue
        for text, weight in _near(site, bound, 2.0, 1.5):
            # `[:3]`, not `[0:3]`: the common style.
            constant = "" if text == "0" else text
            yield site.swap(_OFF_BY_ONE, bound, constant, weight)
        yield site.swap(_OFF_BY_ONE, bound, "", 0.6)
        if first and isinstance(bound, ast.Constant) and index.upper is None:
            yield Change(_OFF_BY_ONE, *source.span(index), f":{bound.value!r}", 0.4)
    if index.lower is None and index.step is None:
        start = source.span(index)[0]
        yield Change(_OFF_BY_ONE, start, start, "1", 0.7)
    if index.upper is None and index.step is None and source.text[end] == "]":
        yield Change(_OFF_BY_ONE, end, end, "-1", 0.7)
    if index.step is not None:
        for text, weight in _near(site, index.step):
            yield site.swap(_OFF_BY_ONE, index.step, text, weight * 0.6)


def _one_off_binary(site: Site, node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Add | ast.Sub) and _one(node.right):
        for text, weight in _near(site, node):
            yield site.swap(_OFF_BY_ONE, node, text, weight * 1.2)
    elif isinstance(node.op, ast.Mult):
        for side in (node.left, node.right):
            if isinstance(side, ast.Name):
                paged = "page" in side.id or side.id in ("n", "i", "index", "number")
                weight = 3.0 if paged else 0.3
                yield site.swap(_OFF_BY_ONE, side, f"({side.id} - 1)", weight)
                yield site.swap(_OFF_BY_ONE, side, f"({side.id} + 1)", weight * 0.4)
    elif isinstance(node.op, ast.FloorDiv):
        left, right = site.text(node.left), site.text(node.right)
        counted = 2.0 if site.function and "page" in site.function.name else 0.8
        yield site.swap(_OFF_BY_ONE, node, f"({left} + {right} - 1) // {right}", counted)
        yield site.swap(_OFF_BY_ONE, node, f"{site.text(node)} + 1", 0.5)


def _constant(site: Site, node: ast.Constant) -> Iterator[Change]:
    if type(node.value) is not int:
        return
    small = 0.8 if node.value in (0, 1) else 0.4
    yield site.swap(_OFF_BY_ONE, node, str(node.value + 1), small)
    if node.value > 0:
        yield site.swap(_OFF_BY_ONE, node, str(node.value - 1), small)


def _length(site: Site, node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id == "len":
        parent = site.parents.get(node)
        if not (isinstance(parent, ast.BinOp) and _one(parent.right)):
            yield site.swap(_OFF_BY_ONE, node, f"{site.text(node)} - 1", 0.8)
            yield site.swap(_OFF_BY_ONE, node, f"{site.text(node)} + 1", 0.8)

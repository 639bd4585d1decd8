"""Templates for off-by-one slips: ranges, indices, slices, counts, page arithmetic."""

import ast
from collections.abc import Iterator

from taofold.models.repair.site import Site
from taofold.models.repair.source import Change

NAME = "off_by_one"


def off_by_one(site: Site) -> Iterator[Change]:
    """`range(n)` for `range(n + 1)`, `[i]` for `[i - 1]`, `page` for `page - 1`."""
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
        yield from _binary(site, node)
    elif isinstance(node, ast.Constant):
        yield from _constant(site, node)
    elif isinstance(node, ast.Call):
        yield from _length(site, node)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp | ast.Name):
        for text, weight in _near(site, node.value):
            yield site.swap(NAME, node.value, text, weight * 0.3)
    elif isinstance(node, ast.Compare):
        for side in [s for s in (node.left, *node.comparators) if isinstance(s, ast.Name)]:
            for text, weight in _near(site, side):
                yield site.swap(NAME, side, text, weight * 0.25)


def _near(
    site: Site, node: ast.expr, plus: float = 1.0, minus: float = 1.0
) -> list[tuple[str, float]]:
    """`node` one more and one less, as text with weights."""
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
        done.update(id(inner) for inner in ast.walk(argument))
    arguments = node.args
    # An index behind the end comes from a loop that runs too far.
    up, down = (1.5, 8.0) if site.clue.kind == "index" else (2.5, 1.5)
    if len(arguments) == 1:
        for text, weight in _near(site, arguments[0], up, down):
            yield site.swap(NAME, arguments[0], text, weight)
        yield site.swap(NAME, arguments[0], f"1, {site.text(arguments[0])}", 1.2)
        yield site.swap(NAME, arguments[0], f"1, {site.text(arguments[0])} + 1", 0.8)
    elif len(arguments) >= 2:
        for text, weight in _near(site, arguments[1], up, down):
            yield site.swap(NAME, arguments[1], text, weight)
        for text, weight in _near(site, arguments[0], 1.2, 1.2):
            yield site.swap(NAME, arguments[0], text, weight)


def _subscript(site: Site, node: ast.Subscript, done: set[int]) -> Iterator[Change]:
    index = node.slice
    if isinstance(index, ast.Slice):
        yield from _slice(site, node, index)
    elif isinstance(index, ast.Constant) and isinstance(index.value, str):
        return
    elif isinstance(index, ast.Constant | ast.UnaryOp | ast.BinOp | ast.Name):
        low = isinstance(index, ast.Constant) and index.value == 0
        for text, weight in _near(site, index, 1.0 if low else 1.5, 1.5):
            yield site.swap(NAME, index, text, weight * (0.5 if isinstance(index, ast.Name) else 1))
        if isinstance(index, ast.UnaryOp):
            yield site.swap(NAME, index, "0", 1.2)
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
            shown = "" if text == "0" else text
            yield site.swap(NAME, bound, shown, weight)
        yield site.swap(NAME, bound, "", 0.6)
        if first and isinstance(bound, ast.Constant) and index.upper is None:
            yield Change(NAME, *source.span(index), f":{bound.value!r}", 0.4)
    if index.lower is None and index.step is None:
        start = source.span(index)[0]
        yield Change(NAME, start, start, "1", 0.7)
    if index.upper is None and index.step is None and source.text[end] == "]":
        yield Change(NAME, end, end, "-1", 0.7)
    if index.step is not None:
        for text, weight in _near(site, index.step):
            yield site.swap(NAME, index.step, text, weight * 0.6)


def _binary(site: Site, node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Add | ast.Sub) and _one(node.right):
        for text, weight in _near(site, node):
            yield site.swap(NAME, node, text, weight * 1.2)
    elif isinstance(node.op, ast.Mult):
        for side in (node.left, node.right):
            if isinstance(side, ast.Name):
                paged = "page" in side.id or side.id in ("n", "i", "index", "number")
                weight = 3.0 if paged else 0.3
                yield site.swap(NAME, side, f"({side.id} - 1)", weight)
                yield site.swap(NAME, side, f"({side.id} + 1)", weight * 0.4)
    elif isinstance(node.op, ast.FloorDiv):
        left, right = site.text(node.left), site.text(node.right)
        counted = 2.0 if site.function and "page" in site.function.name else 0.8
        yield site.swap(NAME, node, f"({left} + {right} - 1) // {right}", counted)
        yield site.swap(NAME, node, f"{site.text(node)} + 1", 0.5)


def _constant(site: Site, node: ast.Constant) -> Iterator[Change]:
    if type(node.value) is not int:
        return
    small = 0.8 if node.value in (0, 1) else 0.4
    yield site.swap(NAME, node, str(node.value + 1), small)
    if node.value > 0:
        yield site.swap(NAME, node, str(node.value - 1), small)


def _length(site: Site, node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name) and node.func.id == "len":
        parent = site.parents.get(node)
        if not (isinstance(parent, ast.BinOp) and _one(parent.right)):
            yield site.swap(NAME, node, f"{site.text(node)} - 1", 0.8)
            yield site.swap(NAME, node, f"{site.text(node)} + 1", 0.8)

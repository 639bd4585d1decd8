"""Templates for the flow of a function: a missing return, a statement too deep or too shallow."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import cast

from taofold.models.repair.site import Site
from taofold.models.repair.source import Change


def missing_return(site: Site) -> Iterator[Change]:
    """Return the last value, the name that was built up, or what a branch forgot."""
    function = site.function
    if function is None or function.name == "__init__":
        return
    generator = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in site.nodes)
    if generator:
        return
    for body in _bodies(function.body):
        last = body[-1]
        if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):
            start = site.source.span(last)[0]
            yield Change("missing_return", start, start, "return ", 3.0)
        elif isinstance(last, ast.Return) and _nothing(last.value):
            for name, weight in _built(site):
                yield site.swap("missing_return", last, f"return {name}", weight)
    last = function.body[-1]
    if not isinstance(last, ast.Return | ast.Raise):
        yield from _append(site, last)


def _nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _append(site: Site, last: ast.stmt) -> Iterator[Change]:
    """A return at the very end."""
    function = site.function
    assert function is not None
    any_return = any(isinstance(n, ast.Return) and n.value for n in site.nodes)
    place = site.source.line_start((last.end_lineno or last.lineno) + 1)
    lead = "" if site.source.text[:place].endswith("\n") else "\n"
    pad = site.source.indent(last.lineno)
    options = _built(site)
    if any_return:
        options += [(text, 0.8) for text in site.defaults() if text != "None"]
    if site.parameters == [] and site.unit.owner:
        options.append(("self", 0.8))
    for text, weight in options:
        yield Change("missing_return", place, place, f"{lead}{pad}return {text}\n", weight)


def _built(site: Site) -> list[tuple[str, float]]:
    """Names a function may have meant to return, the last assigned first."""
    stored: list[str] = []
    loops: set[str] = set()
    for node in site.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored += [t.id for t in targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.For):
            loops.update(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
    names = [n for n in dict.fromkeys([*stored, *reversed(stored)]) if n not in loops]
    common = {"result", "results", "total", "out", "output", "found", "answer", "res", "acc"}
    scored = [(n, 3.5 if n in common else 2.5 - 0.2 * i) for i, n in enumerate(names)]
    scored += [(n, 0.5) for n in site.parameters if n not in names]
    return sorted(scored, key=lambda pair: -pair[1])[:6]


def _bodies(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """The lists of statements a function may end in."""
    if not body:
        return
    yield body
    last = body[-1]
    inner: list[ast.stmt] = [last]
    if len(body) > 1 and isinstance(body[-2], ast.If):
        inner.append(body[-2])
    for node in inner:
        if isinstance(node, ast.If):
            yield from _bodies(node.body)
            yield from _bodies(node.orelse)
        elif isinstance(node, ast.With | ast.Try):
            yield from _bodies(node.body)


def move_statement(site: Site) -> Iterator[Change]:
    """A return that leaves its loop too early, a line too deep, a line that belongs inside."""
    for node in site.statements:
        if isinstance(node, ast.For | ast.While | ast.If):
            yield from _outwards(site, node)
    for body in _lists(site):
        for before, after in pairwise(body):
            if isinstance(before, ast.For | ast.While | ast.If) and not isinstance(
                after, ast.For | ast.While | ast.FunctionDef
            ):
                yield from _inwards(site, before, after)


def _outwards(site: Site, node: ast.For | ast.While | ast.If) -> Iterator[Change]:
    last = node.body[-1]
    if len(node.body) < 2 and not isinstance(last, ast.Return | ast.If):
        return
    loop = not isinstance(node, ast.If)
    if (
        loop
        and isinstance(last, ast.If)
        and last.orelse
        and isinstance(last.orelse[-1], ast.Return)
    ):
        yield from _else_out(site, last)
    if len(node.body) < 2 or node.orelse:
        return
    early = loop and isinstance(last, ast.Return)
    yield _shifted(site, last, site.source.indent(node.lineno), 4.0 if early else 0.6)


def _else_out(site: Site, node: ast.If) -> Iterator[Change]:
    """`if …: return a` / `else: return b` inside a loop: the second one belongs behind it."""
    parent = site.parents.get(node)
    if not isinstance(parent, ast.For | ast.While) or len(node.orelse) != 1:
        return
    answer = node.orelse[0]
    start = site.source.line_start((node.body[-1].end_lineno or 0) + 1)
    end = site.source.line_start((answer.end_lineno or 0) + 1)
    pad = site.source.indent(parent.lineno)
    yield Change("move_statement", start, end, f"{pad}{site.text(answer)}\n", 4.0)


def _inwards(site: Site, before: ast.stmt, after: ast.stmt) -> Iterator[Change]:
    inner = before.body if isinstance(before, ast.For | ast.While | ast.If) else []
    if inner and not isinstance(inner[-1], ast.Return | ast.Raise | ast.Break | ast.Continue):
        loop = not isinstance(before, ast.If)
        weight = 0.8 if loop and isinstance(after, ast.Assign | ast.AugAssign | ast.Expr) else 0.2
        yield _shifted(site, after, site.source.indent(inner[0].lineno), weight)


def _shifted(site: Site, node: ast.stmt, pad: str, weight: float) -> Change:
    """The lines of `node` with another indentation."""
    source = site.source
    start = source.line_start(node.lineno)
    end = source.line_start((node.end_lineno or node.lineno) + 1)
    old = len(source.indent(node.lineno))
    lines = source.text[start:end].splitlines(keepends=True)
    text = "".join([pad + line[old:] if line.strip() else line for line in lines])
    return Change("move_statement", start, end, text, weight)


def _lists(site: Site) -> Iterator[list[ast.stmt]]:
    for node in [site.function, *site.statements] if site.function else []:
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                yield cast("list[ast.stmt]", body)

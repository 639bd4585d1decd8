"""Templates for missing and misplaced statements, and for defaults shared between calls.

Missing statements are returns, None checks, guards, initial values, and the end of a recursion.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, cast

from taofold_repair.site import Site
from taofold_repair.source import Change


def missing_return(site: Site) -> Iterator[Change]:
    """Adds a return of the last value, of the name built up, or in a branch without one."""
    function = site.function
    if function is None or function.name == "__init__":
        return
    # A generator's values are the yielded ones.
    generator = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in site.nodes)
    if generator:
        return
    for body in _bodies(function.body):
        last = body[-1]
        # A value that is computed and dropped at the end was probably to be returned.
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
    """Adds a return at the end."""
    function = site.function
    assert function is not None
    any_return = any(isinstance(n, ast.Return) and n.value for n in site.nodes)
    offset = site.source.line_start((last.end_lineno or last.lineno) + 1)
    lead = "" if site.source.text[:offset].endswith("\n") else "\n"
    pad = site.source.indent(last.lineno)
    options = _built(site)
    if any_return:
        options += [(text, 0.8) for text in site.defaults() if text != "None"]
    if site.parameters == [] and site.unit.owner:
        options.append(("self", 0.8))
    for text, weight in options:
        yield Change("missing_return", offset, offset, f"{lead}{pad}return {text}\n", weight)


def _built(site: Site) -> list[tuple[str, float]]:
    """Returns names that a function may be meant to return, in order of assignment."""
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
    """Yields the lists of statements in which a function may end."""
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
    """Moves a return out of its loop, dedents a line, or indents it into a block."""
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
    # A body must keep a statement; after an `else` the moved line would change its meaning.
    if len(node.body) < 2 or node.orelse:
        return
    # A return at the end of a loop's body ends it in the first round.
    early = loop and isinstance(last, ast.Return)
    yield _shifted(site, last, site.source.indent(node.lineno), 4.0 if early else 0.6)


def _else_out(site: Site, node: ast.If) -> Iterator[Change]:
    """Moves the `else` of `if …: return a` / `else: return b` in a loop after the loop."""
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
    # After one of these a statement would never run.
    if inner and not isinstance(inner[-1], ast.Return | ast.Raise | ast.Break | ast.Continue):
        loop = not isinstance(before, ast.If)
        weight = 0.8 if loop and isinstance(after, ast.Assign | ast.AugAssign | ast.Expr) else 0.2
        yield _shifted(site, after, site.source.indent(inner[0].lineno), weight)


def _shifted(site: Site, node: ast.stmt, pad: str, weight: float) -> Change:
    """Returns the lines of `node` with another indentation."""
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


_LOOKUPS: Final = ("get", "find", "lookup", "search", "match", "first", "pop", "next", "fetch")


def add_null_check(site: Site) -> Iterator[Change]:
    """Adds `if x is None: return …` before the line that needs a value, or a default value."""
    if site.function is None:
        return
    covered: set[tuple[int, str]] = set()
    for node in site.nodes:
        value = _needs(site, node)
        if value is None:
            continue
        statement = site.statement_of(value)
        text = site.text(value)
        if statement is None or "\n" in text or (statement.lineno, text) in covered:
            continue
        # `a.b + a.c` needs `a` twice on one line: one check is enough.
        covered.add((statement.lineno, text))
        factor = 1.0 if statement.lineno in site.broken_lines else 0.4
        factor *= 1.5 if _may_be_none(site, value) else 1.0
        yield from _checks(site, statement, text, factor)


def _needs(site: Site, node: ast.AST) -> ast.expr | None:
    """Returns the expression that must not be None in `node`, if the message fits."""
    expression = _operand(site, node)
    if isinstance(expression, ast.Name):
        is_local = expression.id != "self" and expression.id in site.locals
        return expression if is_local else None
    return expression if isinstance(expression, ast.Attribute | ast.Call | ast.Subscript) else None


def _operand(site: Site, node: ast.AST) -> ast.expr | None:
    message = site.clue.failure.message
    on_attribute = "attribute" in message
    match node:
        case ast.Attribute() if not on_attribute or repr(node.attr) in message:
            return node.value
        case ast.Attribute() if site.clue.kind != "none":
            return node.value
        case ast.Subscript() if not on_attribute:
            return node.value
        case ast.For() if "iterable" in message:
            return node.iter
        case ast.BinOp() if "NoneType" in message:
            return node.right if _solid(node.left) else node.left
        case ast.Compare() if "NoneType" in message:
            return node.comparators[0] if _solid(node.left) else node.left
        case _:
            return None


def _solid(node: ast.expr) -> bool:
    """Returns whether the expression is certainly not None."""
    if isinstance(node, ast.Constant):
        return True
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("len", "sum", "int", "round")


def _may_be_none(site: Site, value: ast.expr) -> bool:
    """Returns whether the value comes from a lookup, or from a default of None."""
    text = site.text(value)
    origin = text
    for node in site.statements:
        if isinstance(node, ast.Assign) and site.text(node.targets[0]) == text:
            origin = site.text(node.value)
    if site.function is not None:
        defaults = [d for d in site.function.args.defaults if isinstance(d, ast.Constant)]
        if text in site.parameters and any(d.value is None for d in defaults):
            return True
    return any(f"{word}(" in origin or f"{word}_" in origin for word in _LOOKUPS)


def _checks(site: Site, statement: ast.stmt, text: str, factor: float) -> Iterator[Change]:
    loops = [n for n in site.statements if isinstance(n, ast.For | ast.While)]
    looped = any(n.lineno < statement.lineno <= (n.end_lineno or 0) for n in loops)
    # `continue` before a block would skip more than the line that needs the value.
    if isinstance(statement, ast.For | ast.While | ast.If) and looped:
        looped = False
    check = f"if {text} is None:"
    if site.clue.raises:
        line = f"    raise {site.clue.raises}({text!r})"
        yield site.before("add_null_check", statement, [check, line], 3 * factor)
    if looped:
        yield site.before("add_null_check", statement, [check, "    continue"], 3 * factor)
    for rank, default in enumerate(site.defaults()):
        lines = [check, f"    return {default}"]
        yield site.before("add_null_check", statement, lines, (2.2 - 0.3 * rank) * factor)
    if text in site.parameters:
        for rank, empty in enumerate(("[]", "{}", "0", '""')):
            lines = [check, f"    {text} = {empty}"]
            yield site.before("add_null_check", statement, lines, (1.8 - 0.3 * rank) * factor)


def add_guard(site: Site) -> Iterator[Change]:
    """Adds `if not x: return …` before a division, a `max` or an index that needs a value."""
    if site.function is None:
        return
    for node in site.nodes:
        value = _needed(node)
        statement = site.statement_of(node)
        if value is None or statement is None or isinstance(value, ast.Constant):
            continue
        text = site.text(value)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args:
            if value.func.id in ("len", "sum"):
                text = site.text(value.args[0])
        elif not isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
            text = f"({text})"
        if "\n" in text or text == "self":
            continue
        factor = 1.0 if statement.lineno in site.broken_lines else 0.4
        if site.clue.raises:
            lines = [f"if not {text}:", f"    raise {site.clue.raises}({text!r})"]
            yield site.before("add_guard", statement, lines, 3 * factor)
        for rank, default in enumerate(site.defaults()):
            lines = [f"if not {text}:", f"    return {default}"]
            yield site.before("add_guard", statement, lines, (2.2 - 0.3 * rank) * factor)


def _needed(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        return node.right
    if isinstance(node, ast.Call) and len(node.args) == 1:
        taking = ast.unparse(node.func) in ("max", "min", "mean", "median", "next")
        return node.args[0] if taking else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.UnaryOp):
        return None if isinstance(node.value, ast.Call) else node.value
    return None


def add_base_case(site: Site) -> Iterator[Change]:
    """Adds a first line that ends a recursion."""
    function = site.function
    if function is None or site.clue.kind != "recursion" or not site.parameters:
        return
    called = {ast.unparse(n.func).split(".")[-1] for n in site.nodes if isinstance(n, ast.Call)}
    if function.name not in called:
        return
    first = function.body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    # After the docstring, which would otherwise not be one.
    at = function.body[1] if docstring and len(function.body) > 1 else first
    name = site.parameters[0]
    for rank, value in enumerate(_first_results(site, name)):
        for test, weight in ((f"not {name}", 1.5), (f"{name} <= 1", 1.4), (f"{name} <= 0", 1.2)):
            lines = [f"if {test}:", f"    return {value}"]
            yield site.before("add_base_case", at, lines, weight - 0.15 * rank)


def _first_results(site: Site, name: str) -> list[str]:
    """Returns values with which the recursion on `name` may end, the likeliest first."""
    results = ["1", "0", name, "[]", '""', "None", "True", "False"]
    returned = [site.text(node.value) for node in site.each(ast.Return) if node.value]
    # A sum begins with 0.
    adds_up = any(sign in text for text in returned for sign in ("+ 1", "1 +", "sum"))
    return list(dict.fromkeys(["0", *results] if adds_up else results))


def mutable_default(site: Site) -> Iterator[Change]:
    """Replaces a default shared between calls by None and a new value inside."""
    function = site.function
    if function is None:
        return
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = list(
        zip(
            positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True
        )
    )
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    for argument, default in pairs:
        empty = isinstance(default, ast.List | ast.Dict | ast.Set) or (
            isinstance(default, ast.Call) and ast.unparse(default) in ("set()", "list()", "dict()")
        )
        if not empty:
            continue
        first = function.body[0]
        docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        line = (first.end_lineno or first.lineno) + 1 if docstring else first.lineno
        pad = site.source.indent(first.lineno)
        # One change from the default to after the docstring: both must be made together.
        start, end = site.source.span(default)[0], site.source.line_start(line)
        rest = site.source.text[start + len(site.text(default)) : end]
        check = f"{pad}if {argument.arg} is None:\n{pad}    {argument.arg} = {site.text(default)}\n"
        yield Change("mutable_default", start, end, f"None{rest}{check}", 5.0)


def initialise(site: Site) -> Iterator[Change]:
    """Adds an initial value for a name that some path does not assign, or `global` for a module's
    name.
    """
    if site.clue.kind != "unbound" or not site.clue.names or site.function is None:
        return
    name = site.clue.names[0]
    if name not in site.locals:
        return
    first = site.function.body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    at = site.function.body[1] if docstring and len(site.function.body) > 1 else first
    bound = any(
        isinstance(n, ast.Assign) and any(site.text(t) == name for t in n.targets)
        for n in site.source.tree.body
    )
    if bound:
        yield site.before("initialise", at, [f"global {name}"], 4.0)
    for rank, value in enumerate(site.defaults()):
        yield site.before("initialise", at, [f"{name} = {value}"], 2 - 0.2 * rank)

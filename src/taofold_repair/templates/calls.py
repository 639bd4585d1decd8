"""Templates for calls and syntax errors.

They cover the order of arguments, wrong keywords, missing type conversions, and missing or extra
calls; and, in a file that does not parse, slips of syntax.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from taofold_repair.site import Site, parameters
from taofold_repair.source import Change
from taofold_repair.templates.names import close


def swap_arguments(site: Site) -> Iterator[Change]:
    """Swaps two neighbouring arguments, or two parts of a tuple."""
    for node in site.nodes:
        if isinstance(node, ast.Call) and len(node.args) >= 2:
            # Their order does not matter.
            if isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "print"):
                continue
            names = _expected_names(site, node)
            for index in range(len(node.args) - 1):
                weight = _crossed(site, node, names, index)
                yield _swapped(site, node.args[index], node.args[index + 1], weight)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            parts = node.value.elts
            for left, right in pairwise(parts):
                yield _swapped(site, left, right, 1.0)


def _expected_names(site: Site, node: ast.Call) -> list[str]:
    name = ast.unparse(node.func).split(".")[-1]
    for unit in site.project.units:
        if unit.node is not None and (
            unit.name == name or (unit.owner == name and unit.name == "__init__")
        ):
            # The first function of that name: without types, several cannot be distinguished.
            return parameters(unit.node)
    return []


def _crossed(site: Site, node: ast.Call, names: list[str], index: int) -> float:
    """Returns a high weight if the arguments have each other's parameter names."""
    left, right = site.text(node.args[index]), site.text(node.args[index + 1])
    if index + 1 >= len(names):
        return 0.7
    here, there = names[index], names[index + 1]
    if here == there:
        return 0.7
    crossed = (there in left or left in there) + (here in right or right in here)
    straight = (here in left) + (there in right)
    return 6.0 if crossed == 2 and not straight else 2.0 if crossed and not straight else 0.7


def _swapped(site: Site, left: ast.expr, right: ast.expr, weight: float) -> Change:
    start, end = site.source.span(left)[0], site.source.span(right)[1]
    between = site.source.text[site.source.span(left)[1] : site.source.span(right)[0]]
    text = f"{site.text(right)}{between}{site.text(left)}"
    return Change("swap_arguments", start, end, text, weight)


def fix_call(site: Site) -> Iterator[Change]:
    """Corrects a keyword, adds or removes a call, or adds `self`."""
    message = site.clue.failure.message
    if site.clue.kind == "call":
        yield from _keywords(site, message)
        yield from _missing_self(site, message)
        yield from _missing_argument(site, message)
    if site.clue.kind in ("callable", "concat"):
        for node in site.nodes:
            if isinstance(node, ast.Call) and not node.args and not node.keywords:
                yield site.swap("fix_call", node, site.text(node.func), 2.0)
            elif isinstance(node, ast.Attribute) and _is_method(site, node):
                end = site.source.span(node)[1]
                yield Change("fix_call", end, end, "()", 2.0)


def _is_method(site: Site, node: ast.Attribute) -> bool:
    parent = site.parents.get(node)
    called = isinstance(parent, ast.Call) and parent.func is node
    defined = any(unit.name == node.attr for unit in site.project.units)
    return not called and (
        defined or node.attr in ("items", "keys", "values", "strip", "lower", "upper")
    )


def _keywords(site: Site, message: str) -> Iterator[Change]:
    wrong = re.search(r"unexpected keyword argument '(\w+)'", message)
    if wrong is None:
        return
    for node in site.each(ast.Call):
        accepted = _expected_names(site, node)
        for keyword in [keyword for keyword in node.keywords if keyword.arg == wrong[1]]:
            value = site.text(keyword.value)
            for other, ratio in close(wrong[1], accepted) or [(name, 0.3) for name in accepted]:
                yield site.swap("fix_call", keyword, f"{other}={value}", 2 * ratio)


def _missing_self(site: Site, message: str) -> Iterator[Change]:
    function = site.function
    if function is None or not site.unit.owner or function.name not in message:
        return
    names = [argument.arg for argument in function.args.args]
    has_self = bool(names) and names[0] in ("self", "cls")
    if re.search(r"takes \d+ positional arguments? but", message) and not has_self:
        start = site.source.text.index("(", site.source.span(function)[0]) + 1
        yield Change("fix_call", start, start, "self, " if names else "self", 3.0)


def _missing_argument(site: Site, message: str) -> Iterator[Change]:
    missing = re.search(r"missing \d+ required positional arguments?: '(\w+)'", message)
    if missing is None:
        return
    # `sorted` keeps the order of equals: the missing name comes first.
    names = sorted(site.locals, key=lambda name: name != missing[1])
    for node in site.each(ast.Call):
        if ast.unparse(node.func).split(".")[-1] not in message:
            continue
        # Before the closing bracket.
        end = site.source.span(node)[1] - 1
        lead = ", " if node.args or node.keywords else ""
        for name in names:
            weight = 3.0 if name == missing[1] else 0.8
            yield Change("fix_call", end, end, f"{lead}{name}", weight)


def convert_type(site: Site) -> Iterator[Change]:
    """Adds `str(x)`, `int(x)` or `float(x)` to an operand of the wrong type."""
    if site.clue.kind not in ("concat", "assert"):
        return
    for node in site.nodes:
        if isinstance(node, ast.BinOp):
            sides, factor = [node.left, node.right], 1.5
        elif isinstance(node, ast.Compare):
            sides, factor = [node.left, *node.comparators], 1.0
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".join") and node.args:
            text = site.text(node.args[0])
            yield site.swap("convert_type", node.args[0], f"map(str, {text})", 2.0)
            continue
        else:
            continue
        for side in sides:
            if isinstance(side, ast.Constant):
                continue
            text = site.text(side)
            for kind, weight in (("str", 1.2), ("int", 1.1), ("float", 0.7)):
                if not text.startswith(f"{kind}("):
                    yield site.swap("convert_type", side, f"{kind}({text})", weight * factor)


def fix_syntax(site: Site) -> Iterator[Change]:
    """Adds a colon, a bracket or a second `=` at the place of a syntax error."""
    fault = site.source.fault
    if fault is None or fault.lineno is None:
        return
    source = site.source
    # The reported line is often the one after the error.
    for line in range(max(1, fault.lineno - 1), min(len(source.lines), fault.lineno) + 1):
        start = source.line_start(line)
        line_text = source.lines[line - 1].rstrip("\n")
        code = line_text.split("  #")[0].rstrip()
        end = start + len(code)
        if re.match(r"\s*(?:def|class|if|elif|else|for|while|try|except|finally|with)\b", code):
            if not code.endswith(":"):
                yield Change("fix_syntax", end, end, ":", 3.0)
            single = re.search(r"(?<![=!<>])=(?!=)", code)
            if single:
                yield Change("fix_syntax", start + single.start(), start + single.end(), "==", 1.5)
        for bracket in ")]}":
            yield Change("fix_syntax", end, end, bracket, 1.0)
            if code.endswith(":"):
                yield Change("fix_syntax", end - 1, end - 1, bracket, 1.2)
        if code.endswith((")", "]", "}")):
            yield Change("fix_syntax", end - 1, end, "", 0.8)
        indent = source.indent(line)
        if indent:
            yield Change("fix_syntax", start, start + len(indent), indent[:-1], 0.5)
        yield Change("fix_syntax", start, start, " ", 0.4)

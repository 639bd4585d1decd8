"""Templates for constants, strings, rounding, confused standard functions and missing copies.

A copy is missing if two names refer to one object that is changed.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from taofold_repair.clue import UNKNOWN, literal
from taofold_repair.site import Site, plain
from taofold_repair.source import Change

# The likeliest first: each place further back lowers the weight (`_calls`).
_MIXED: Final = {
    "min": ("max",),
    "max": ("min",),
    "any": ("all",),
    "all": ("any",),
    "floor": ("ceil",),
    "ceil": ("floor",),
    "lower": ("upper",),
    "upper": ("lower", "title", "capitalize"),
    "title": ("capitalize", "upper"),
    "capitalize": ("title", "upper"),
    "strip": ("lstrip", "rstrip"),
    "lstrip": ("strip", "rstrip"),
    "rstrip": ("strip", "lstrip"),
    "startswith": ("endswith",),
    "endswith": ("startswith",),
    "append": ("extend", "add"),
    "extend": ("append",),
    "keys": ("values", "items"),
    "values": ("keys", "items"),
    "items": ("values",),
    "union": ("intersection", "difference"),
    "intersection": ("union",),
    "difference": ("symmetric_difference", "union"),
    "find": ("rfind",),
    "rfind": ("find",),
    "index": ("rindex",),
    "split": ("rsplit", "splitlines"),
    "ljust": ("rjust",),
    "rjust": ("ljust",),
    "popleft": ("pop",),
    "appendleft": ("append",),
    "isdigit": ("isalpha", "isalnum"),
    "isalpha": ("isalnum", "isdigit"),
    "isalnum": ("isalpha", "isdigit"),
    "len": ("sum",),
    "sum": ("len", "max"),
    "int": ("round", "float"),
    "islower": ("isupper",),
    "isupper": ("islower",),
    "heappop": ("heappush",),
    "bisect_left": ("bisect_right",),
    "bisect_right": ("bisect_left",),
    "round": ("int",),
    "list": ("set", "sorted"),
    "set": ("list",),
    "days": ("seconds",),
    "insert": ("append",),
    "combinations": ("permutations",),
    "permutations": ("combinations",),
}
# Units of time and size, shares and powers of ten that are often confused.
_NUMBERS: Final = {
    "0.1": ("0.01",),
    "0.01": ("0.1", "0.001"),
    "10": ("100",),
    "100": ("10", "1000", "100.0"),
    "1000": ("100", "1024"),
    "1024": ("1000",),
    "60": ("24", "3600"),
    "24": ("60", "12"),
    "3600": ("60", "86400"),
    "12": ("24",),
    "365": ("366",),
    "7": ("30",),
    "30": ("31", "7"),
    "0.5": ("1",),
    "1.0": ("0.0",),
    "0.0": ("1.0",),
    "90": ("365",),
    "2": ("3",),
    "3": ("2",),
}
_NOTHING: Final = {"[]": list, '""': str, "{}": dict, "0": int, "set()": set}
_MUTATORS: Final = frozenset(
    {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    }
)
_CHANGED: Final = 3.0
"""The weight of a copy if the object with a second name is changed, as by `append`."""
_KEPT: Final = 0.3
"""The weight if nothing changes it: two names for one object are then harmless."""
_GLUE: Final = ("", " ", ", ", ",", "\n", "-", "_", ".", "/", ": ")


def wrong_constant(site: Site) -> Iterator[Change]:
    """Proposes another truth value, number, separator or initial value."""
    test_values = [literal(text) for text in sorted(site.clue.literals)]
    for node in site.nodes:
        if isinstance(node, ast.List | ast.Dict | ast.Tuple):
            yield from _first_value(site, node)
        if not isinstance(node, ast.Constant):
            continue
        value, text = node.value, site.text(node)
        if isinstance(value, bool):
            yield site.swap("wrong_constant", node, str(not value), 1.8)
        elif value is None:
            yield from _for_none(site, node)
        elif isinstance(value, int | float):
            for other in _NUMBERS.get(text, ()):
                yield site.swap("wrong_constant", node, other, 1.0)
            for other in _like(value, test_values):
                yield site.swap("wrong_constant", node, other, 0.7)
        # Parts of an f-string have no offsets of their own before Python 3.12.
        elif isinstance(value, str) and not isinstance(site.parents.get(node), ast.JoinedStr):
            yield from _text(site, node, value, [w for w in test_values if isinstance(w, str)])


def _first_value(site: Site, node: ast.List | ast.Dict | ast.Tuple) -> Iterator[Change]:
    """Proposes another empty initial value."""
    if site.text(node) in ("[]", "{}", "()"):
        for text in _NOTHING:
            if text != site.text(node):
                expected_kind = _NOTHING[text] is type(site.clue.expected)
                weight = 3.0 if expected_kind else 0.4
                yield site.swap("wrong_constant", node, text, weight)


def _like(value: float, wanted: list[object]) -> list[str]:
    """Returns numbers of the test that could replace `value`; ±1 belongs to another template."""
    numbers = [
        w
        for w in wanted
        if isinstance(w, int | float)
        and not isinstance(w, bool)
        and w != value
        and (isinstance(value, float) or (isinstance(w, int) and abs(w - value) > 1))
    ]
    return [repr(w) for w in numbers[:4]]


def _for_none(site: Site, node: ast.Constant) -> Iterator[Change]:
    parent = site.parents.get(node)
    if isinstance(parent, ast.Return | ast.arguments | ast.Assign):
        expected = site.clue.expected
        options = [repr(expected)] if expected is not UNKNOWN and plain(expected) else []
        for text in dict.fromkeys([*options, "0", "[]", '""', "False"]):
            if text != "None":
                yield site.swap("wrong_constant", node, text, 0.8)


def _text(site: Site, node: ast.Constant, value: str, texts: list[str]) -> Iterator[Change]:
    # `",".join(…)`: a sign before a dot is a separator.
    joins = isinstance(site.parents.get(node), ast.Attribute)
    if value in _GLUE or (len(value) == 1 and joins):
        yield from _separators(site, node, value)
        return
    for other in texts:
        if other != value and len(other) <= 40 and _similar(value, other):
            yield site.swap("wrong_constant", node, repr(other), 2.0)


def _separators(site: Site, node: ast.Constant, value: str) -> Iterator[Change]:
    quote = site.text(node)[-1:]
    expected = site.clue.expected if isinstance(site.clue.expected, str) else ""
    signs = [sign for sign in dict.fromkeys(expected) if not sign.isalnum()]
    for other in dict.fromkeys([*signs, *_GLUE]):
        escaped = repr(other)[1:-1]
        # Written with the quotes of the literal, so it must not contain one.
        if other == value or quote in escaped:
            continue
        as_long = abs(len(other) - len(value)) <= 1
        weight = 3.0 if other in signs else 1.0 if as_long else 0.6
        yield site.swap("wrong_constant", node, f"{quote}{escaped}{quote}", weight)


def _similar(left: str, right: str) -> bool:
    return bool(left and right) and (
        left.lower() == right.lower() or left in right or right in left or left[:3] == right[:3]
    )


def fix_string(site: Site) -> Iterator[Change]:
    """Proposes a missing `f`, a format's precision, a missing `strip`, another case."""
    for node in site.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parent = site.parents.get(node)
            # Only names in scope: a template that is filled later must not change.
            fields = re.findall(r"\{([A-Za-z_]\w*)[^{}]*\}", node.value)
            inside = isinstance(parent, ast.JoinedStr | ast.FormattedValue)
            if fields and not inside and all(f in (*site.locals, "self") for f in fields):
                start = site.source.span(node)[0]
                yield Change("fix_string", start, start, "f", 5.0)
        elif isinstance(node, ast.FormattedValue):
            yield from _precision(site, node)
        elif isinstance(node, ast.Return | ast.Assign) and node.value is not None:
            yield from _polished(site, node.value)


def _precision(site: Site, node: ast.FormattedValue) -> Iterator[Change]:
    joined = site.parents.get(node)
    if not isinstance(joined, ast.JoinedStr):
        return
    start, end = site.source.span(joined)
    # Searched in the text: before Python 3.12 the parts of an f-string have no offsets.
    name = re.escape(ast.unparse(node.value))
    for match in re.finditer(rf"\{{\s*{name}\s*(:[^{{}}]*)?\}}", site.source.text[start:end]):
        precision = match[1] or ""
        at = start + match.end() - 1
        for other in (":.2f", ":.1f", ":.0f", ":,.2f", ":02d", ":03d", ":,", ":>5", ":.1%", ""):
            if other != precision:
                near = 1.5 if precision and other[:2] == precision[:2] else 0.7
                yield Change("fix_string", at - len(precision), at, other, near)


def _polished(site: Site, value: ast.expr) -> Iterator[Change]:
    actual, expected = site.clue.actual, site.clue.expected
    if not (isinstance(actual, str) and isinstance(expected, str)):
        return
    text = site.text(value)
    held = (
        text
        if isinstance(value, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
        else f"({text})"
    )
    for call in ("strip()", "lower()", "upper()", "title()", "capitalize()", "rstrip()"):
        # Only if the call converts the one value to the other.
        if getattr(actual, call[:-2])() == expected:
            yield site.swap("fix_string", value, f"{held}.{call}", 3.0)
    if actual[::-1] == expected:
        yield site.swap("fix_string", value, f"{held}[::-1]", 2.0)


def swap_function(site: Site) -> Iterator[Change]:
    """Proposes `min` for `max`, `any` for `all`, `append` for `extend`, another order, a copy."""
    yield from _calls(site)
    for node in site.nodes:
        if isinstance(node, ast.Return):
            yield from _returned(site, node.value)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Name)
            and node.value.id in site.locals
        ):  # A second name for a foreign object: an error only if the object is changed.
            weight = _CHANGED if _is_changed(site, node) else _KEPT
            yield site.swap("swap_function", node.value, f"list({node.value.id})", weight)
            yield site.swap("swap_function", node.value, f"dict({node.value.id})", 0.6 * weight)


def _is_changed(site: Site, alias: ast.Assign) -> bool:
    """Returns whether the site changes an object that `alias` names a second time."""
    names = {node.id for node in [*alias.targets, alias.value] if isinstance(node, ast.Name)}

    def named(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in names

    for node in site.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=method, value=owner)):
                changed = method in _MUTATORS and named(owner)
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=owner):
                changed = named(owner)
            case ast.AugAssign(target=target):
                changed = named(target)
            case _:
                changed = False
        if changed:
            return True
    return False


def _returned(site: Site, value: ast.expr | None) -> Iterator[Change]:
    if isinstance(value, ast.Name | ast.ListComp | ast.List):
        text = site.text(value)
        yield site.swap("swap_function", value, f"sorted({text})", 0.7)
        yield site.swap("swap_function", value, f"{text}[::-1]", 0.4)
        if isinstance(value, ast.Name):
            yield site.swap("swap_function", value, f"list({text})", 0.4)


def _calls(site: Site) -> Iterator[Change]:
    for node in site.each(ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        end = site.source.span(function)[1]
        factor = 3.0 if name in ("min", "max") and _passed_through(site, node) else 1.0
        for rank, other in enumerate(_MIXED.get(name, ())):
            weight = (2.0 - 0.5 * rank) * factor
            yield Change("swap_function", end - len(name), end, other, weight)
        if name in ("sorted", "sort"):
            yield from _order(site, node)
        elif name == "len" and len(node.args) == 1:
            yield site.swap("swap_function", node.args[0], f"set({site.text(node.args[0])})", 0.6)


def _passed_through(site: Site, node: ast.Call) -> bool:
    """Returns whether the test expects one of its own inputs, or gets one of the constants here."""
    constants = [
        literal(site.text(inner.value))
        for inner in site.source.tree.body
        if isinstance(inner, ast.Assign)
        and ast.unparse(inner.targets[0]) in [site.text(argument) for argument in node.args]
    ]
    return site.clue.actual in constants or site.clue.echoes


def _order(site: Site, node: ast.Call) -> Iterator[Change]:
    reverse = next((k for k in node.keywords if k.arg == "reverse"), None)
    end = site.source.span(node)[1] - 1
    if reverse is None:
        lead = ", " if node.args or node.keywords else ""
        yield Change("swap_function", end, end, f"{lead}reverse=True", 2.5)
    elif isinstance(reverse.value, ast.Constant):
        yield site.swap("swap_function", reverse.value, str(not reverse.value.value), 3.0)


def fix_rounding(site: Site) -> Iterator[Change]:
    """Proposes more, fewer or no digits in `round`, or adds a missing `round`."""
    for node in site.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "round"
        ):
            if len(node.args) == 2:
                for digits in ("2", "1", "0", "3", "4"):
                    if site.text(node.args[1]) != digits:
                        yield site.swap("fix_rounding", node.args[1], digits, 1.0)
            elif node.args:
                yield site.swap("fix_rounding", node.args[0], f"{site.text(node.args[0])}, 2", 2.0)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp | ast.Call):
            text = site.text(node.value)
            if not text.startswith("round("):
                for digits in (", 2", "", ", 1"):
                    yield site.swap("fix_rounding", node.value, f"round({text}{digits})", 0.8)

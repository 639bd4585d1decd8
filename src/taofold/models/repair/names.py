"""The template for wrong names in scope, and what makes two names alike."""

import ast
import builtins
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Final

from taofold.models.repair.site import Site
from taofold.models.repair.source import Change

_OTHER_WORDS: Final = {
    "push": "append", "add": "append", "append": "add", "length": "count", "size": "count",
    "contains": "count", "upcase": "upper", "downcase": "lower", "trim": "strip",
    "has_key": "get", "iteritems": "items", "toLowerCase": "lower", "toUpperCase": "upper",
    "indexOf": "index", "substring": "replace", "remove_all": "clear", "delete": "remove",
}  # fmt: skip


def close(name: str, among: Iterable[str]) -> list[tuple[str, float]]:
    """Names that look like `name`, with a likeness from 0.5 to 1, best first."""
    scored = [
        (other, SequenceMatcher(None, name.lower(), other.lower()).ratio())
        for other in dict.fromkeys(among)
        if other != name
    ]
    scored = [(o, max(r, 0.75 if _OTHER_WORDS.get(name) == o else 0)) for o, r in scored]
    near = [(other, ratio + 0.1 * (name in other or other in name)) for other, ratio in scored]
    return sorted([pair for pair in near if pair[1] >= 0.55], key=lambda p: (-p[1], p[0]))[:5]


def wrong_variable(site: Site) -> Iterator[Change]:
    """Another name of the same function, attribute of the same object, or spelling."""
    unknown = (
        site.clue.names[0] if site.clue.kind in ("name", "unbound") and site.clue.names else ""
    )
    visible = list(dict.fromkeys([*site.locals, *_module_names(site)]))
    for node in site.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if unknown and node.id == unknown:
                for other, ratio in close(unknown, [*visible, *dir(builtins)]):
                    yield site.swap("wrong_variable", node, other, 3 * ratio)
            elif node.id in site.locals:
                yield from _others(site, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _fields(site, node)


def _others(site: Site, node: ast.Name) -> Iterator[Change]:
    parent = site.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    holders = {
        n.value.id
        for n in ast.walk(site.source.tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    }
    used = {n.id for n in site.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for other in site.locals:
        if other == node.id or not _assigned(site, other, node.lineno):
            continue
        weight = 1.0 if other in site.parameters else 0.7
        if isinstance(parent, ast.Attribute) and other not in holders:
            weight *= 0.2  # Nothing says that it has attributes.
        weight *= 3.0 if other not in used else 1.0  # A name that nothing reads asks for its use.
        yield site.swap("wrong_variable", node, other, weight)


def _assigned(site: Site, name: str, line: int) -> bool:
    if name in site.parameters:
        return True
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        and n.lineno <= line
        for n in site.nodes
    )  # fmt: skip


def _fields(site: Site, node: ast.Attribute) -> Iterator[Change]:
    """Other plain attributes that the same object is asked for, or declares."""
    parent = site.parents.get(node)
    called = isinstance(parent, ast.Call) and parent.func is node
    if called or not isinstance(node.value, ast.Name):
        return
    holder = node.value.id
    asked = [
        n.attr
        for n in ast.walk(site.source.tree)
        if isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == holder
        and isinstance(n.ctx, ast.Load)
    ]
    declared = _declared(site)
    own = declared.get(node.attr, "")
    names = [*declared, *asked] if node.attr in declared else asked
    for other in dict.fromkeys(names):
        if other != node.attr:
            kind = declared.get(other, "")
            weight = 1.0 if kind == own or not kind else 0.3
            weight *= 1.5 if other not in asked else 1.0
            yield site.swap("wrong_variable", node, f"{holder}.{other}", weight)


def _declared(site: Site) -> dict[str, str]:
    """Fields and properties of the project's classes, with their annotation ("" if unknown)."""
    found: dict[str, str] = {}
    for source in site.project.sources.values():
        for holder in ast.walk(source.tree):
            for n in holder.body if isinstance(holder, ast.ClassDef) else ():
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name):
                    found[n.target.id] = ast.unparse(n.annotation)
                elif isinstance(n, ast.FunctionDef) and any(
                    ast.unparse(d).endswith("property") for d in n.decorator_list
                ):
                    found[n.name] = ast.unparse(n.returns) if n.returns else ""
    return found


def _module_names(site: Site) -> list[str]:
    found: list[str] = []
    for node in site.source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [t.id for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found += [(a.asname or a.name).split(".")[0] for a in node.names]
    return found

"""Templates for wrong names: variables, imports, attributes, keys."""

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Final

from taofold_repair.clue import UNKNOWN
from taofold_repair.site import Site, plain
from taofold_repair.source import Change, Unit, is_test

_OTHER_WORDS: Final = {
    "push": "append",
    "add": "append",
    "append": "add",
    "length": "count",
    "size": "count",
    "contains": "count",
    "upcase": "upper",
    "downcase": "lower",
    "trim": "strip",
    "has_key": "get",
    "iteritems": "items",
    "toLowerCase": "lower",
    "toUpperCase": "upper",
    "indexOf": "index",
    "substring": "replace",
    "remove_all": "clear",
    "delete": "remove",
}


def close(name: str, among: Iterable[str]) -> list[tuple[str, float]]:
    """Returns names similar to `name`, with a similarity from 0.5 to 1, best first."""
    scored = [
        (other, SequenceMatcher(None, name.lower(), other.lower()).ratio())
        for other in dict.fromkeys(among)
        if other != name
    ]
    # Names from the libraries of other languages differ in spelling, but mean the same.
    scored = [(o, max(r, 0.75 if _OTHER_WORDS.get(name) == o else 0)) for o, r in scored]
    near = [(other, ratio + 0.1 * (name in other or other in name)) for other, ratio in scored]
    return sorted([pair for pair in near if pair[1] >= 0.55], key=lambda p: (-p[1], p[0]))[:5]


def wrong_variable(site: Site) -> Iterator[Change]:
    """Proposes another name of the same function, attribute of the same object, or spelling."""
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
    # A called name is not a variable.
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    holders = {
        n.value.id
        for n in ast.walk(site.source.tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    }
    used = {n.id for n in site.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for other in site.locals:
        # A name that is assigned further down would only raise UnboundLocalError.
        if other == node.id or not _assigned(site, other, node.lineno):
            continue
        weight = 1.0 if other in site.parameters else 0.7
        if isinstance(parent, ast.Attribute) and other not in holders:
            weight *= 0.2  # no evidence that it has attributes
        # a name that is never read is probably meant to be used
        weight *= 3.0 if other not in used else 1.0
        yield site.swap("wrong_variable", node, other, weight)


def _assigned(site: Site, name: str, line: int) -> bool:
    if name in site.parameters:
        return True
    return any(
        isinstance(n, ast.Name)
        and n.id == name
        and isinstance(n.ctx, ast.Store)
        and n.lineno <= line
        for n in site.nodes
    )


def _fields(site: Site, node: ast.Attribute) -> Iterator[Change]:
    """Proposes other plain attributes that the same object is used with, or declares."""
    parent = site.parents.get(node)
    called = isinstance(parent, ast.Call) and parent.func is node
    if called or not isinstance(node.value, ast.Name):
        return
    holder = node.value.id
    read_names = [
        n.attr
        for n in ast.walk(site.source.tree)
        if isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Name)
        and n.value.id == holder
        and isinstance(n.ctx, ast.Load)
    ]
    declared = _declared(site)
    own = declared.get(node.attr, "")
    names = [*declared, *read_names] if node.attr in declared else read_names
    for other in dict.fromkeys(names):
        if other != node.attr:
            kind = declared.get(other, "")
            weight = 1.0 if kind == own or not kind else 0.3
            weight *= 1.5 if other not in read_names else 1.0
            yield site.swap("wrong_variable", node, f"{holder}.{other}", weight)


def _declared(site: Site) -> dict[str, str]:
    """Returns the fields and properties of the project's classes with their annotations or ""."""
    annotations: dict[str, str] = {}
    for source in site.project.sources.values():
        for holder in ast.walk(source.tree):
            for n in holder.body if isinstance(holder, ast.ClassDef) else ():
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name):
                    annotations[n.target.id] = ast.unparse(n.annotation)
                elif isinstance(n, ast.FunctionDef) and any(
                    ast.unparse(d).endswith("property") for d in n.decorator_list
                ):
                    annotations[n.name] = ast.unparse(n.returns) if n.returns else ""
    return annotations


def _module_names(site: Site) -> list[str]:
    names: list[str] = []
    for node in site.source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [t.id for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [(a.asname or a.name).split(".")[0] for a in node.names]
    return names


_FROM: Final = {
    name: module
    for module, names in {
        "collections": "Counter defaultdict deque OrderedDict namedtuple ChainMap",
        "collections.abc": "Iterable Iterator Mapping Sequence Callable",
        "copy": "deepcopy",
        "dataclasses": "dataclass field replace asdict astuple",
        "datetime": "date timedelta timezone",
        "decimal": "Decimal ROUND_HALF_UP ROUND_DOWN ROUND_HALF_EVEN InvalidOperation",
        "enum": "Enum IntEnum auto StrEnum",
        "abc": "ABC abstractmethod",
        "fractions": "Fraction",
        "functools": "partial reduce lru_cache cache wraps cached_property total_ordering",
        "itertools": "chain product permutations combinations accumulate groupby islice count "
        "cycle repeat zip_longest takewhile dropwhile pairwise starmap",
        "math": "sqrt ceil floor pi gcd log prod isclose inf factorial hypot",
        "operator": "itemgetter attrgetter",
        "pathlib": "Path PurePath",
        "typing": "Any Optional Union NamedTuple Protocol TypeVar Generic Literal Final ClassVar",
        "contextlib": "contextmanager suppress closing",
        "statistics": "mean median stdev",
        "heapq": "heappush heappop heapify nlargest nsmallest",
        "bisect": "bisect_left bisect_right insort",
        "string": "ascii_lowercase ascii_uppercase digits punctuation ascii_letters",
        "textwrap": "dedent indent shorten",
        "uuid": "uuid4",
        "time": "sleep monotonic perf_counter",
        "types": "SimpleNamespace MappingProxyType",
    }.items()
    for name in names.split()
}
_BUILTIN: Final = {
    kind.__name__: kind for kind in (list, dict, str, set, tuple, int, float, bytes, frozenset)
}


def missing_import(site: Site) -> Iterator[Change]:
    """Imports the undefined name from the standard library or the project."""
    names = site.clue.names
    if site.clue.kind != "name" or not names:
        return
    used = any(isinstance(n, ast.Name) and n.id == names[0] for n in ast.walk(site.source.tree))
    if not used:
        return
    start = _import_place(site)
    for line, weight in _imports(site, names[0]):
        yield Change("missing_import", start, start, f"{line}\n", weight)


def _imports(site: Site, name: str) -> Iterator[tuple[str, float]]:
    for path, source in site.project.sources.items():
        if path == site.source.path or is_test(path):
            continue
        for node in source.tree.body:
            if name in _bound_names(node):
                yield f"from {_dotted(site, path)} import {name}", 4.0
    if name == "datetime":
        # `datetime.datetime` in the text means the module, `datetime.now` the class.
        attributed = f"{name}.{name}" in site.source.text or f"{name}.date" in site.source.text
        yield "from datetime import datetime", 1.0 if attributed else 3.0
    if name in sys.stdlib_module_names:
        yield f"import {name}", 2.0
    if name in _FROM:
        yield f"from {_FROM[name]} import {name}", 3.0


def _bound_names(statement: ast.stmt) -> list[str]:
    """Returns the names that a statement of a module defines and other modules may import."""
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return [statement.name]
        case ast.Assign():
            return [target.id for target in statement.targets if isinstance(target, ast.Name)]
        case _:
            return []


def _dotted(site: Site, path: str) -> str:
    """Returns the dotted name of the module at `path`, in the style of this file's imports."""
    relative = any(
        isinstance(node, ast.ImportFrom) and node.level == 1 for node in site.source.tree.body
    )
    target, here = PurePosixPath(path), PurePosixPath(site.source.path)
    if relative and target.parent == here.parent:
        return f".{target.stem}"
    parts = list(target.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    # Folders that hold packages are not packages themselves.
    return ".".join(parts[1:] if parts and parts[0] in ("src", "lib") else parts)


def _import_place(site: Site) -> int:
    """Returns the offset after the last import, or after the module's docstring."""
    body = site.source.tree.body
    last = 0
    for number, node in enumerate(body):
        docstring = (
            number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        if isinstance(node, ast.Import | ast.ImportFrom) or docstring:
            last = node.end_lineno or last
    return site.source.line_start(last + 1)


def rename_attribute(site: Site) -> Iterator[Change]:
    """Proposes an existing attribute, method or imported name similar to the missing one."""
    kind, names = site.clue.kind, site.clue.names
    if kind not in ("attribute", "import") or len(names) < 1:
        return
    owner, wrong = (names[0], names[-1]) if kind == "attribute" else ("", names[0])
    attributes = _attributes(site, owner)
    for node in site.nodes if kind == "attribute" else ast.walk(site.source.tree):
        if isinstance(node, ast.Attribute) and node.attr == wrong:
            held = site.text(node.value)
            for other, ratio in close(wrong, attributes):
                yield site.swap("rename_attribute", node, f"{held}.{other}", 3 * ratio)
            # `datetime.now` after `import datetime` is `datetime.datetime.now`.
            yield site.swap("rename_attribute", node, f"{held}.{held}.{wrong}", 0.8)
        elif isinstance(node, ast.ImportFrom):
            for alias in [alias for alias in node.names if alias.name == wrong]:
                yield from _other_imports(site, alias, attributes)


def _other_imports(site: Site, alias: ast.alias, attributes: list[str]) -> Iterator[Change]:
    names = [unit.name for unit in site.project.units] + attributes
    for other, ratio in close(alias.name, names):
        import_text = f"{other} as {alias.asname or alias.name}"
        yield site.swap("rename_attribute", alias, import_text, 2 * ratio)
        yield site.swap("rename_attribute", alias, other, ratio)


def _attributes(site: Site, owner: str) -> list[str]:
    if owner in _BUILTIN:
        return [name for name in dir(_BUILTIN[owner]) if not name.startswith("_")]
    attributes: list[str] = [u.name for u in site.project.units if u.owner and _of(u, owner)]
    for source in site.project.sources.values():
        for node in ast.walk(source.tree):
            match node:
                case ast.Attribute(value=ast.Name(id="self")):
                    attributes.append(node.attr)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    attributes.append(name)
                case ast.ClassDef():
                    attributes.append(node.name)
                case _:
                    pass
    return attributes


def _of(unit: Unit, owner: str) -> bool:
    return not owner or unit.owner == owner or owner not in unit.source.text


def rename_key(site: Site) -> Iterator[Change]:
    """Proposes an existing key similar to the missing one, or code that works without it."""
    if site.clue.kind != "key":
        return
    wrong = site.clue.names[0] if site.clue.names else ""
    keys = _keys(site)
    near = dict(close(wrong, keys))
    for node in site.nodes:
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice):
            continue
        index = node.slice
        constant = isinstance(index, ast.Constant)
        if isinstance(index, ast.Constant) and index.value == wrong:
            quote = site.text(index)[:1]
            for other in (*near, *[key for key in keys if key not in near and key != wrong]):
                text = f"{quote}{other}{quote}"
                yield site.swap("rename_key", index, text, 2 * near.get(other, 0.35))
            constant = False
        if not constant:
            yield from _without(site, node)


def _keys(site: Site) -> list[str]:
    """Returns the text keys of the project's dictionaries in order of appearance."""
    texts: list[str] = []
    for source in site.project.sources.values():
        for node in ast.walk(source.tree):
            keys: list[ast.expr | None] = []
            if isinstance(node, ast.Dict):
                keys = list(node.keys)
            elif isinstance(node, ast.Subscript):
                keys = [node.slice]
            texts += [
                key.value
                for key in keys
                if isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and key.value.isprintable()
                and "'" not in key.value
                and '"' not in key.value
            ]
    return list(dict.fromkeys(texts))


def _without(site: Site, node: ast.Subscript) -> Iterator[Change]:
    held, key = site.text(node.value), site.text(node.slice)
    parent = site.parents.get(node)
    if isinstance(node.ctx, ast.Load):
        # A collection that is filled in place has to be put into the dictionary, too.
        if isinstance(parent, ast.Attribute) and parent.attr in (
            "append",
            "extend",
            "add",
            "update",
        ):
            empty = {"append": "[]", "extend": "[]", "add": "set()", "update": "{}"}[parent.attr]
            yield site.swap("rename_key", node, f"{held}.setdefault({key}, {empty})", 2.5)
            return
        expected = site.clue.expected
        defaults = [repr(expected)] if expected is not UNKNOWN and plain(expected) else []
        for text in dict.fromkeys([*defaults, "0", "None", "[]", '""']):
            argument = "" if text == "None" else f", {text}"
            yield site.swap("rename_key", node, f"{held}.get({key}{argument})", 1.0)
    elif isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Add | ast.Sub):
        sign = "+" if isinstance(parent.op, ast.Add) else "-"
        text = f"{held}[{key}] = {held}.get({key}, 0) {sign} {site.text(parent.value)}"
        yield site.swap("rename_key", parent, text, 2.5)

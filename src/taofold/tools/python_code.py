"""Reads the Python code of a flow without running it.

`read_python` parses a code, or raises the faults of its syntax. `PythonCode` has the constructs
that the sandboxed interpreter lacks (`MissingConstruct`), the values of the state that it reads,
and the program that an interpreter runs. This module does not depend on an interpreter.
`ended` and `failed` give the outcomes of the tools that run a program.

The tables describe pydantic-monty 1.4. `tests/bridges/test_python_run.py` compares them with it.
"""

import ast
import builtins
import json
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import Final, TypeGuard

from taofold.tools.context import Outcome

MOST_CHARS: Final = 64_000
"""Maximum characters of a code."""
MOST_RESULT: Final = 1_000_000
"""Maximum characters of a result as JSON."""
RUN: Final = "python.run"
"""The tool that runs a code in the sandboxed interpreter."""
PROCESS: Final = "python.process"
"""The tool that runs a code in a contained process."""
IMPORTED: Final = ("json", "datetime", "requests")
"""Modules that a code may use without an import."""
MODULES: Final = frozenset(
    {"asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses"}
    | {"datetime", "decimal", "functools", "hashlib", "itertools", "json", "math", "os"}
    | {"pathlib", "random", "re", "sys", "time", "tomllib", "typing", "unicodedata"}
)
"""Modules of the sandboxed interpreter. `os` and `pathlib` compute with paths only."""
ABSENT: Final = frozenset(
    {"BaseExceptionGroup", "BufferError", "EOFError", "EnvironmentError", "ExceptionGroup"}
    | {"ConnectionError", "IOError", "Warning", "UserWarning", "DeprecationWarning"}
    | {"__build_class__", "__import__", "__loader__", "aiter", "anext", "ascii", "breakpoint"}
    | {"bytearray", "callable", "classmethod", "compile", "delattr", "dir", "exit", "globals"}
    | {"help", "input", "issubclass", "memoryview", "object", "quit", "staticmethod", "super"}
    | {"vars"}
)
"""Built-in names that the sandboxed interpreter does not have."""
_METHODS: Final = frozenset({"classmethod", "staticmethod", "property"})
_PATHS: Final = frozenset(
    {"basename", "commonpath", "commonprefix", "dirname", "isabs", "join", "normpath", "split"}
    | {"splitext", "sep"}
)
_DISK: Final = frozenset(
    {"exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes", "read_text"}
    | {"rename", "rglob", "rmdir", "stat", "touch", "unlink", "write_bytes", "write_text"}
)
_SYNTAX: Final[dict[str, str]] = {
    "Yield": "yield",
    "YieldFrom": "yield from",
    "Delete": "del",
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "TryStar": "except*",
    "TypeAlias": "type",
    "TemplateStr": "template strings",
}
_FUNCTION: Final = "taofold_code"
_VALUES: Final = "taofold_values"
_JSON: Final = "taofold_json"
_BEFORE: Final = "taofold_before"
STATE: Final = "state"
"""The name under which a code reads the variables of a flow."""
_CHANGING: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
    | {"reverse", "setdefault", "sort", "update"}
)
"""Methods that change lists, sets and mappings."""


class NotPython(ValueError):
    """The code has a fault. `line` counts from 1 in the code."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class MissingConstruct:
    """A construct that the sandboxed interpreter lacks, at a line of the code."""

    construct: str
    line: int


@dataclass(frozen=True, slots=True)
class PythonCode:
    """A code without faults of its syntax."""

    source: str
    returns: bool
    """It returns its result. Otherwise the result is the names that it assigns."""
    assigned: tuple[str, ...]
    """The names that it assigns at its top level."""
    free: frozenset[str]
    """The names that it reads and does not bind, besides built-in ones."""
    reads: frozenset[str] | None
    """The values of the state that it reads. None = all."""
    lacks: tuple[MissingConstruct, ...]
    changes: bool
    """It may change values of `state` in place."""

    @property
    def program(self) -> str:
        """The program whose last expression is the result as JSON text.

        The code is the body of a function, so that `return` ends it. Its first line is line
        `FIRST_LINE` of the program.
        """
        return self._program("", f"{_FUNCTION}()")

    @property
    def changing_program(self) -> str:
        """As `program`, with the result `{value, changes}`: the code may change `state` in place.

        A variable that the code removes from `state` is null among the changes.
        """
        if STATE not in self.free:
            return self._program("", f'{{"value": {_FUNCTION}(), "changes": {{}}}}')
        texts = f"{_BEFORE} = {{k: {_JSON}.dumps(v) for k, v in {STATE}.items()}}"
        changed = f"k not in {_BEFORE} or {_JSON}.dumps(v) != {_BEFORE}[k]"
        new = f"**{{k: v for k, v in {STATE}.items() if {changed}}}"
        gone = f"**{{k: None for k in {_BEFORE} if k not in {STATE}}}"
        result = f'{{"value": {_FUNCTION}(), "changes": {{{new}, {gone}}}}}'
        return self._program(f"; {texts}", result)

    def _program(self, before: str, result: str) -> str:
        modules = [name for name in IMPORTED if name in self.free]
        imports = f"import {', '.join([*modules, f'json as {_JSON}'])}"
        lines = [f"{imports}{before}", f"def {_FUNCTION}():"]
        inner = _inside_strings(self.source)
        for number, line in enumerate(self.source.split("\n"), 1):
            # A line inside a string of several lines is part of the text.
            lines.append(line if number in inner or not line.strip() else f"    {line}")
        lines.append("    pass")
        if not self.returns:
            lines.append(f"    {_VALUES} = {{}}")
            for name in self.assigned:
                # A name of a branch that was not taken does not exist.
                lines += ["    try:", f"        {_VALUES}[{name!r}] = {name}"]
                lines += ["    except NameError:", "        pass"]
            lines.append(f"    return {_VALUES}")
        lines.append(f"{_JSON}.dumps({result}, allow_nan=False)")
        return "\n".join([*lines, ""])


FIRST_LINE: Final = 3
"""The line of a program that holds the first line of its code."""


@lru_cache(maxsize=256)
def read_python(source: str) -> PythonCode:
    """Returns the code in `source`.

    Raises:
        NotPython: It is no Python, or has more than `MOST_CHARS` characters.
    """
    if len(source) > MOST_CHARS:
        raise NotPython(f"has {len(source):,} characters; at most {MOST_CHARS:,} are read")
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    tree = _parsed(source, source)
    returns = any(isinstance(node, ast.Return) for node in _own(tree))
    assigned = tuple(dict.fromkeys(_assigned(tree)))
    code = PythonCode(
        source,
        returns,
        assigned,
        _free(tree),
        _reads(tree),
        tuple(sorted(_lacks(tree), key=lambda lack: (lack.line, lack.construct))),
        _changes(tree),
    )
    # Faults that only the compiler finds, such as a `break` outside of a loop.
    _compiled(code.program)
    return code


def _parsed(source: str, shown: str) -> ast.Module:
    with warnings.catch_warnings():
        # An invalid escape in a text is no fault of the file.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except SyntaxError as error:
            raise NotPython(f"is no Python: {error.msg}", error.lineno or 1) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise NotPython(f"cannot be parsed: {error or 'it is nested too deep'}") from None


def _compiled(program: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Compiled for its faults only. The result is dropped.
            compile(program, "code", "exec", dont_inherit=True)
        except SyntaxError as error:
            line = max(1, (error.lineno or FIRST_LINE) - FIRST_LINE + 1)
            raise NotPython(f"is no Python: {error.msg}", line) from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise NotPython(f"cannot be compiled: {error or 'it is nested too deep'}") from None


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes outside of inner functions and classes."""
    todo: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while todo:
        node = todo.pop(0)
        yield node
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)


_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Yields the names assigned at the top level, except private ones."""
    local = {
        name.id
        for node in _own(tree)
        if isinstance(node, _COMPREHENSIONS)
        for generator in node.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }
    plain: set[str] = set()
    for node in _own(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                plain |= {n.id for n in ast.walk(target) if _stores(n)}
    for node in _own(tree):
        if _stores(node) and not node.id.startswith("_"):
            # The variables of comprehensions are local to them.
            known = node.id in plain or node.id not in local
            yield from [node.id] if known else []


def _stores(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _free(tree: ast.Module) -> frozenset[str]:
    bound: set[str] = set()
    loaded: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.ClassDef(name=name):
                bound.add(name)
            case ast.arg(arg=name):
                bound.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case _:
                pass
    return frozenset(loaded - bound - set(dir(builtins)))


def _changes(tree: ast.Module) -> bool:
    """Returns whether the code reads `state` and may change a list or a mapping in place."""
    reads = changes = False
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name == STATE:
                reads = True
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.AugAssign():
                changes = True
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in _CHANGING:
                changes = True
            case _:
                pass
    return reads and changes


def _reads(tree: ast.Module) -> frozenset[str] | None:
    """Returns the keys of `state` that the code reads; None if it uses `state` as a whole."""
    keys: set[str] = set()
    known: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AugAssign(
                target=ast.Subscript(value=ast.Name(id="state"), slice=ast.Constant(value=str(key)))
            ):
                keys.add(key)
            case ast.Delete(targets=targets) if any(_of_state(each) for each in targets):
                return None
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="state") as name, attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                keys.add(key)
                known.add(name)
            case ast.Subscript(
                value=ast.Name(id="state") as name, slice=ast.Constant(value=str(key)), ctx=ctx
            ):
                known.add(name)
                if isinstance(ctx, ast.Load):
                    keys.add(key)
            case ast.Compare(
                left=ast.Constant(value=str(key)),
                ops=[ast.In() | ast.NotIn()],
                comparators=[ast.Name(id="state") as name],
            ):
                keys.add(key)
                known.add(name)
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "state" and node not in known:
            return None
    return frozenset(keys)


def _of_state(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and (node.value.id == STATE)
    )


def _lacks(tree: ast.Module) -> Iterator[MissingConstruct]:
    modules = _modules(tree)
    free = _free_builtins(tree)
    for node in ast.walk(tree):
        yield from _syntax_lacks(node)
        yield from _import_lacks(node)
        yield from _disk_lacks(node, modules)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id == "open" and "open" in free:
                yield MissingConstruct("open()", node.lineno)
            elif node.id in free and node.id in ABSENT:
                yield MissingConstruct(node.id, node.lineno)
            elif node.id == "requests" and "requests" not in modules.bound:
                yield MissingConstruct("requests", node.lineno)


def _syntax_lacks(node: ast.AST) -> Iterator[MissingConstruct]:
    match node:
        case ast.ClassDef(bases=bases, keywords=keywords) if bases or keywords:
            yield MissingConstruct(f"class {node.name}(…)", node.lineno)
        case ast.FunctionDef(decorator_list=decorators):
            for decorator in decorators:
                if isinstance(decorator, ast.Name) and decorator.id in _METHODS:
                    yield MissingConstruct(f"@{decorator.id}", decorator.lineno)
        case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(), *_]):
            yield MissingConstruct("next(… for …)", node.lineno)
        case _:
            construct = _SYNTAX.get(type(node).__name__)
            if construct is not None:
                yield MissingConstruct(construct, getattr(node, "lineno", 1))


def _import_lacks(node: ast.AST) -> Iterator[MissingConstruct]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                if not _has_module(alias.name):
                    yield MissingConstruct(f"import {alias.name}", node.lineno)
        case ast.ImportFrom(module=module, names=names, level=level):
            named = [alias.name for alias in names]
            yield from _from_import(module or "", named, level, node.lineno)
        case _:
            return


def _disk_lacks(node: ast.AST, modules: "_Modules") -> Iterator[MissingConstruct]:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in modules.os:
            if attr not in ("path", "sep", "linesep"):
                yield MissingConstruct(f"os.{attr}", node.lineno)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id=name), attr="path"), attr=attr):
            if name in modules.os and attr not in _PATHS:
                yield MissingConstruct(f"os.path.{attr}", node.lineno)
        case ast.Call(func=ast.Attribute(attr=attr)) if modules.pathlib and attr in _DISK:
            yield MissingConstruct(f".{attr}()", node.lineno)
        case _:
            return


@dataclass(frozen=True, slots=True)
class _Modules:
    os: frozenset[str]
    pathlib: bool
    bound: frozenset[str]


def _modules(tree: ast.Module) -> _Modules:
    """Returns the names under which the code has `os`, and whether it has `pathlib`."""
    named_os: set[str] = set()
    bound: set[str] = set()
    pathlib = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                pathlib = pathlib or top == "pathlib"
                bound.add(alias.asname or top)
                if top == "os":
                    named_os.add(alias.asname or top)
        elif isinstance(node, ast.ImportFrom):
            pathlib = pathlib or node.module == "pathlib"
    return _Modules(frozenset(named_os), pathlib, frozenset(bound))


def _free_builtins(tree: ast.Module) -> set[str]:
    bound = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    bound |= {node.id for node in ast.walk(tree) if _stores(node)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return set(dir(builtins)) - bound


def _has_module(name: str) -> bool:
    return name in MODULES or name == "os.path"


def _from_import(
    module: str, names: list[str], level: int, line: int
) -> Iterator[MissingConstruct]:
    if level:
        yield MissingConstruct(f"from {'.' * level}{module} import {', '.join(names)}", line)
    elif not _has_module(module):
        yield MissingConstruct(f"from {module} import {', '.join(names)}", line)
    elif module == "os":
        for name in names:
            if name != "path":
                yield MissingConstruct(f"os.{name}", line)
    elif module == "os.path":
        for name in names:
            if name not in _PATHS:
                yield MissingConstruct(f"os.path.{name}", line)


def _inside_strings(source: str) -> set[int]:
    """Returns the lines that begin inside a string."""
    inner: set[int] = set()
    opened: list[int] = []
    try:
        for token in tokenize.generate_tokens(StringIO(source).readline):
            kind = tokenize.tok_name[token.type]
            if kind.endswith("STRING_START"):
                opened.append(token.start[0])
            elif kind.endswith("STRING_END"):
                inner |= set(range(opened.pop() + 1, token.end[0] + 1))
            elif token.type == tokenize.STRING:
                inner |= set(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        # The code was parsed before, so its strings are closed.
        return inner
    return inner


def ended(result: object, printed: str) -> Outcome:
    """Returns the outcome of a program that ended with `result`, the JSON text of its value."""
    if not isinstance(result, str):
        return failed("the code returned no result", 0, "", printed)
    if len(result) > MOST_RESULT:
        size = f"{len(result):,} characters of JSON"
        return failed(f"the result has {size}; at most {MOST_RESULT:,} are kept", 0, "", printed)
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return failed("the result is not JSON", 0, "", printed)
    lines = printed.strip().split("\n")
    return Outcome({"value": value, "printed": printed}, extraction=lines[-1] or "done")


def program_of(code: str, *, changes: bool) -> str | Outcome:
    """Returns the program that runs a code, or the outcome of a code that is not Python.

    Args:
        code: The code.
        changes: The program also returns what the code changes in `state`.
    """
    try:
        read = read_python(code)
    except NotPython as error:
        return failed(f"the code {error} (line {error.line})", 0, code, "")
    return read.changing_program if changes else read.program


def failed(error: str, line: int, code: str, printed: str, *, lacks: bool = False) -> Outcome:
    """Returns the outcome of a code that failed.

    Args:
        error: The message.
        line: The line of the program; 0 if there is none.
        code: The code.
        printed: Output of the code so far.
        lacks: The interpreter lacks a construct of the code.
    """
    own = line - FIRST_LINE + 1
    text = error
    if 0 < own <= code.count("\n") + 1:
        text = f"line {own} of the code: {error}"
    elif line:
        text = f"the result of the code: {error}"
    value = {"error": text, "printed": printed, "lacks": lacks}
    return Outcome(value, "failure", extraction=text)

"""Which of an agent's changes are part of the work: files by path, and what of a source file.

The rules are a list of what *joins* the proof: the source files that a task allows. Everything
else stays as it was before iteration 1, known or not: tests, configuration, build files, tools,
ignore files, environments, links. Paths are relative to the work root and use `/`.

Some tests stand inside source files: Rust has `#[cfg(test)]` modules and examples in doc
comments, Python has examples in docstrings and sometimes test functions beside the product.
`splice` gives the agent's source with the baseline's tests in the place of its own. Pure: text
in, text out.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from taofold.core.values import Value

Role = Literal["test", "runner", "build", "command", "source", "data", "other"]
"""`command` is a file that a gate runs or compares with; `other` is what nobody knows."""
DECIDES: Final[frozenset[Role]] = frozenset({"test", "runner", "build", "command"})
"""To change one of these is tampering, and the work root gets it back."""

TEST_FOLDERS: Final = frozenset(
    {"tests", "test", "__tests__", "e2e", "testdata", "__snapshots__", "__fixtures__"}
)
"""At any depth."""
TEST_ROOTS: Final = frozenset({"spec", "specs", "testing", "fixtures", "golden", "expected"})
"""At the root only: below it they are as often part of the product."""
TESTS: Final = (
    *("test_*.*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.rb", "*-test.*"),
    *("test.*", "tests.*", "*.snap", "*.golden", "*.approved.*"),
)
YARDSTICKS: Final = ("expected*", "*.expected", "*_expected.*", "*.expected.*", "golden*")
"""Names of what is compared with, unless it is code."""
RUNNER: Final = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
    *("pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", ".coveragerc", "setup.py"),
    *("ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", "pyrightconfig.json", ".flake8"),
    *("package.json", "tsconfig*.json", "jsconfig*.json", "karma.conf.*", "wdio.conf.*"),
    *[
        f"{tool}.config.*"
        for tool in (
            *("jest", "vitest", "vite", "playwright", "babel", "eslint", "webpack", "rollup"),
            *("ava", "metro", "cypress", "svelte", "astro", "tsup", "postcss", "prettier"),
            *("stylelint",),
        )
    ],
    *("vitest.workspace.*", "jest.setup.*", "vitest.setup.*"),
    *(".babelrc*", ".eslintrc*", ".mocharc*", ".npmrc", ".yarnrc*", ".nvmrc"),
    *("biome.json*", "deno.json*", "bunfig.toml", "nx.json", "turbo.json", "tslint.json"),
    *("Cargo.toml", "build.rs", "rust-toolchain", "rust-toolchain.toml", "go.mod", "go.work"),
    *("clippy.toml", ".clippy.toml", "rustfmt.toml", ".rustfmt.toml", ".env", ".envrc"),
    *("uv.toml", ".python-version", ".rspec", "phpunit.xml*", "*.pth", "pyvenv.cfg"),
)
BUILD: Final = (
    *("Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", ".justfile"),
    *("Taskfile.y*ml", "CMakeLists.txt", "*.cmake", "meson.build", "build.gradle*", "pom.xml"),
    *("WORKSPACE", "Dockerfile*", "docker-compose*", ".gitlab-ci.yml", ".pre-commit-config.yaml"),
    *("Jenkinsfile", "azure-pipelines.yml", ".travis.yml", "dodo.py", "codecov.yml", "Rakefile"),
)
BUILD_FOLDERS: Final = (
    *(".github/", ".circleci/", ".ci/", ".cargo/", ".config/nextest", ".buildkite/", ".husky/"),
)
STUBS: Final = (".pyi", ".d.ts", ".d.mts", ".d.cts")
"""They speak for other files: an old one may be mended, a new one would hide what it stands for."""
CODE: Final = frozenset(
    {
        *("py", "pyx", "pxd", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"),
        *("vue", "svelte", "astro", "rs", "go", "c", "h", "cc", "cpp", "cxx", "hpp"),
        *("hh", "hxx", "m", "mm", "java", "kt", "kts", "scala", "clj", "cljs", "cs"),
        *("fs", "vb", "rb", "php", "pl", "pm", "lua", "r", "jl", "ex", "exs", "erl"),
        *("hrl", "hs", "ml", "mli", "elm", "dart", "swift", "zig", "nim", "cr", "sh"),
        *("bash", "zsh", "ps1", "bat", "sql", "proto", "graphql", "css", "scss", "sass"),
        *("less", "html", "htm", "j2", "jinja", "jinja2", "tmpl", "tpl", "ejs", "hbs"),
        *("mustache", "ipynb", "f90", "f", "s", "asm", "sol", "tf", "pyi"),
    }
)
PROSE: Final = frozenset({"md", "rst", "adoc", "markdown"})
DATA: Final = frozenset(
    {
        *("json", "jsonl", "json5", "yaml", "yml", "toml", "ini", "cfg", "conf", "csv"),
        *("tsv", "txt", "xml", "svg", "po", "pot", "properties", "png", "jpg", "jpeg"),
        *("gif", "webp", "ico", "woff", "woff2", "pdf", "parquet", "dat"),
    }
)
_CONFIGURES: Final = frozenset(
    {"cfg", "conf", "ini", *("json", "json5", "toml", "xml", "yaml", "yml")}
)
"""A new file of such a kind at the root may configure a tool that nobody here has heard of."""
_MODULES: Final = frozenset({"py", "pyx"})

_ROLES: Final[Mapping[str, Role]] = {
    **dict.fromkeys(DATA, "data"),
    **dict.fromkeys(CODE | PROSE, "source"),
}
"""By suffix, where neither name nor place says more."""

_OLD: Final[dict[Role, str]] = {
    "test": "it is a test",
    "runner": "it configures the gate",
    "build": "it is what the gate runs",
    "command": "it is what the gate runs, or is compared with",
    "other": "it is no source file",
}
_NEW: Final[dict[Role, str]] = {
    **_OLD,
    "test": "new tests prove nothing",
    "runner": "it would configure the gate",
}


class ScopeRules(Value, frozen=True):
    """What must be known of a baseline to say whether a change joins the proof."""

    named: frozenset[str] = frozenset()
    """Files that a gate runs or compares with, and what links among them lead to."""
    wanted: frozenset[str] = frozenset()
    """Files that a gate's command names and only reads: they may be what is to be made."""
    allow_edit: tuple[str, ...] = ()
    code_folders: frozenset[str] = frozenset()
    """Folders below the root that held code."""
    packages: frozenset[str] = frozenset()
    """Folders with an `__init__.py`: what is in them is imported by their name only."""
    taken: frozenset[str] = frozenset()
    """Names of modules that come from elsewhere, or from what decides."""
    targets: frozenset[str] = frozenset()
    """Targets of `make`: it takes a file of that name for the work."""
    folders: frozenset[str] = frozenset()
    """Every folder of the baseline."""


def role(path: str, named: Collection[str] = ()) -> Role:
    """What the file at `path` is to a gate. `named` files, and all below them, are its own."""
    folded = path.casefold()
    *folders, name = folded.split("/")
    suffix = name.rpartition(".")[2] if "." in name else ""
    # The order decides: `tests/conftest.py` configures the gate before it is a test.
    if _fits(name, RUNNER) or (not folders and ".config." in name):
        return "runner"
    if _fits(name, BUILD) or folded.startswith(BUILD_FOLDERS):
        return "build"
    roots = TEST_ROOTS.intersection(folders[:1])
    if roots or not TEST_FOLDERS.isdisjoint(folders) or _fits(name, TESTS):
        return "test"
    # `expected_value.py` is code that only has the name.
    if suffix not in CODE and _fits(name, YARDSTICKS):
        return "test"
    # After the roles that names tell: what a gate runs is "command" only if nothing else is known.
    self_and_folders = accumulate(path.split("/"), "{}/{}".format)
    if not set(self_and_folders).isdisjoint(named):
        return "command"
    # Hidden files are settings of tools that nobody here may know: never part of the proof.
    if "/." in f"/{folded}":
        return "other"
    return _ROLES.get(suffix, "other")


def exclusion(path: str, *, new: bool, rules: ScopeRules) -> str:
    """Why a change at `path` is no part of the proof; "" if it is. `new`: it was not there."""
    # First, because not even a person's `--allow-edit` means to replace a module of the runner.
    taken = _taken(path, rules) if new else ""
    if taken:
        return taken
    if is_allowed(path, rules.allow_edit):
        return ""
    kind = role(path, rules.named)
    # A command such as `grep -q done NOTES` asks for the very file that is to be made.
    if path in rules.wanted and kind in ("data", "other"):
        return ""
    match kind:
        case "source":
            stub = new and path.endswith(STUBS)
            return "a new stub would hide what it stands for" if stub else ""
        case "data":
            return _data(path, new, rules)
        case _:
            return _NEW[kind] if new else _OLD[kind]


def _data(path: str, new: bool, rules: ScopeRules) -> str:
    """Data beside code is part of the product; elsewhere an old file may be a yardstick."""
    folder = path.rpartition("/")[0]
    if folder in rules.code_folders:
        return ""
    if not new:
        return "it is data that no code lies beside"
    # Only at the root: below it such files are as often data of the product.
    configures = not folder and path.rpartition(".")[2].casefold() in _CONFIGURES
    return "it could configure a tool" if configures else ""


def _taken(path: str, rules: ScopeRules) -> str:
    """Would a new file be found in place of something else?"""
    parts = path.split("/")
    # `make` does nothing for a target whose file is there and has no prerequisites.
    if parts[0] in rules.targets and parts[0] not in rules.folders:
        return f"make would take it for its target {parts[0]!r}"
    name, _, suffix = parts[-1].rpartition(".")
    for at, part in enumerate(parts):
        folder = "/".join(parts[:at])
        # Inside a package a module is imported by the package's name, so it can hide no other.
        if folder in rules.packages:
            return ""
        last = at == len(parts) - 1
        module = name if last else part
        if last and suffix not in _MODULES:
            return ""
        if module in rules.taken and (last or "/".join(parts[: at + 1]) not in rules.folders):
            return f"it would be imported in place of another module {module!r}"
    return ""


def is_allowed(path: str, globs: Sequence[str]) -> bool:
    """Did a person allow to edit `path`? `**` is any directories, `*` anything in a name too."""
    return any(
        [
            fnmatchcase(path, glob)
            or fnmatchcase(path, glob.replace("**/", ""))
            or path.startswith(glob.rstrip("/") + "/")
            for glob in globs
        ]
    )


def rules(
    paths: Iterable[str],
    *,
    named: Collection[str] = (),
    wanted: Collection[str] = (),
    allow_edit: Sequence[str] = (),
    outside: Collection[str] = (),
    targets: Collection[str] = (),
) -> ScopeRules:
    """The rules for a tree that held `paths` before iteration 1.

    Args:
        paths: Every file of the tree.
        named: Files that a gate runs or compares with.
        wanted: Files that a gate's command only reads.
        allow_edit: What a person allowed, as globs.
        outside: Names of modules that are installed, or come with the interpreter.
        targets: Targets of `make` that a gate asks for.
    """
    folders: set[str] = set()
    code: set[str] = set()
    packages: set[str] = set()
    taken = set(outside)
    for path in paths:
        above = [path[: at.start()] for at in re.finditer("/", path)]
        folders.update(above)
        kind = role(path, named)
        if path.endswith("/__init__.py"):
            packages.add(above[-1])
        if kind == "source" and path.rpartition(".")[2] not in PROSE:
            code.update(above)
        if kind in DECIDES and path.endswith(".py"):
            taken.update([part.removesuffix(".py") for part in path.split("/")])
    own = {path.partition("/")[0].removesuffix(".py") for path in paths}
    return ScopeRules(
        frozenset(named),
        frozenset(wanted),
        tuple(allow_edit),
        frozenset(code),
        frozenset(packages),
        frozenset(taken - own - {"__init__"}),
        frozenset(targets),
        frozenset(folders),
    )


def _fits(name: str, globs: Iterable[str]) -> bool:
    return any([fnmatchcase(name, glob.casefold()) for glob in globs])


Spans: TypeAlias = dict[str, tuple[int, int]]
"""Tests by name, with the characters where each stands."""

# As much of Rust's lexer as it takes to tell code from strings and comments. `'a'` is a
# character, `'a` a lifetime; a quote in a comment opens nothing.
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
    |(?P<text>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])')
    |'\w+|\w+|.""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_CFG_TEST: Final = re.compile(r"cfg\((?:test\)|all\([^)]*\btest\b)")
_TEST: Final = re.compile(r"(?:\w+::)*(?:\w*test|rstest|case)(?:\(|\Z)")
_FENCE: Final = re.compile(
    r"(?m)^[ \t]*//[/!][ \t]?```[^\n]*\n(?:[ \t]*//[/!][^\n]*\n)*?[ \t]*//[/!][ \t]?```"
)
_DOCUMENTED: Final = re.compile(r"\b(?:fn|struct|enum|trait|mod|const|type|macro_rules!)\s+(\w+)")
_OPEN: Final = {"{": "}", "[": "]", "(": ")"}
_MODULE: Final = re.compile(r"\bmod\s+(\w+)\s*;\Z")


def splice(path: str, old: str, new: str) -> str:
    """`new` with the tests of `old` in place of its own; test code that is new is taken out."""
    before, now = spans(path, old), spans(path, new)
    if not before and not now:
        return new
    edits: list[tuple[int, int, str]] = []
    for name, (start, end) in now.items():
        if name in before:
            edits.append((start, end, old[slice(*before[name])]))
        elif path.endswith(".rs") and not name.startswith("doc "):
            edits.append((start, end, ""))
    # From the end, so that the positions of earlier edits still hold.
    for start, end, text in sorted(edits, reverse=True):
        new = new[:start] + text + new[end:]
    # Deleted tests come back at the end of the file. Examples of doc comments do not: what they
    # documented may be gone.
    lost = [old[slice(*span)] for name, span in before.items() if name not in now]
    if path.endswith(".rs"):
        new += "".join([f"\n{text}\n" for text in lost if not text.lstrip().startswith("//")])
    return new


def spans(path: str, text: str) -> Spans:
    """The tests in a source file; none where its language is not known, or it cannot be read."""
    if path.endswith(".rs"):
        return dict(_rust(text))
    if path.endswith(".py"):
        return dict(_python(text))
    return {}


def modules(path: str, text: str) -> tuple[str, ...]:
    """Files that hold nothing but tests because a Rust file says `#[cfg(test)] mod name;`."""
    paths: list[str] = []
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".rs")
    # `mod x;` in `a.rs` is `a/x.rs`; in these three it lies beside them.
    base = folder if stem in ("lib", "main", "mod") else f"{folder}/{stem}".lstrip("/")
    for start, end in spans(path, text).values() if path.endswith(".rs") else ():
        named = _MODULE.search(text[start:end])
        if named:
            target = f"{base}/{named[1]}".lstrip("/")
            paths += [f"{target}.rs", f"{target}/mod.rs"]
    return tuple(paths)


def _rust(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    tokens = list(_tokens(text))
    at, counts = 0, dict[str, int]()
    while at < len(tokens):
        if tokens[at][0] != "#" or at + 1 == len(tokens) or tokens[at + 1][0] != "[":
            at += 1
            continue
        start, attributes = at, list[str]()
        while at + 1 < len(tokens) and tokens[at][0] == "#" and tokens[at + 1][0] == "[":
            end = _closing(tokens, at + 1)
            attributes.append("".join([token[0] for token in tokens[at + 2 : end]]))
            at = end + 1
        if not any(
            [_CFG_TEST.match(attribute) or _TEST.match(attribute) for attribute in attributes]
        ):
            continue
        end = _item_end(tokens, at)
        # The name alone may occur twice (`#[cfg]` variants), so occurrences are counted.
        head = " ".join([token[0] for token in tokens[at : min(end, at + 12)]]).partition(" {")[0]
        counts[head] = counts.get(head, 0) + 1
        yield f"{head} {counts[head]}", (tokens[start].start(), tokens[end].end())
        at = end + 1
    for match in _FENCE.finditer(text):
        after = _DOCUMENTED.search(text, match.end())
        name = f"doc {after[1] if after else ''}"
        counts[name] = counts.get(name, 0) + 1
        yield f"{name} {counts[name]}", match.span()


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """The tokens of Rust code, without blanks and comments."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _comment_end(text, at)
            continue
        token = _TOKEN.match(text, at)
        assert token is not None  # its last alternative is any character
        if token["skip"] is None:
            yield token
        at = token.end()


def _comment_end(text: str, at: int) -> int:
    """Where the comment that opens at `at` ends. In Rust comments nest, so no pattern says it."""
    depth = 0
    for sign in _COMMENT.finditer(text, at):
        depth += 1 if sign[0] == "/*" else -1
        if depth == 0:
            return sign.end()
    return len(text)


def _closing(tokens: list[re.Match[str]], at: int) -> int:
    """Where the bracket that opens at `at` is closed."""
    depth = 0
    for index in range(at, len(tokens)):
        sign = tokens[index][0]
        depth += (sign in _OPEN) - (sign in _OPEN.values())
        if depth == 0:
            return index
    return len(tokens) - 1


def _item_end(tokens: list[re.Match[str]], at: int) -> int:
    """Where the item that begins at `at` ends: at its `;`, or with its `{…}`."""
    index = at
    while index < len(tokens):
        sign = tokens[index][0]
        if sign == ";":
            return index
        if sign in _OPEN:
            index = _closing(tokens, index)
            if sign == "{":
                return index
        index += 1
    return len(tokens) - 1


def _python(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = [0, *accumulate([len(line) for line in text.splitlines(keepends=True)])]

    def place(line: int, column: int) -> int:
        # The parser counts columns in bytes of UTF-8, slices count characters.
        row = text[lines[line - 1] : lines[line]].encode()[:column].decode("utf-8", "ignore")
        return lines[line - 1] + len(row)

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, tuple[int, int]]]:
        first = next(iter(getattr(node, "body", [])), None)
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            docstring = first.value.value
            if isinstance(docstring, str) and ">>>" in docstring:
                end = place(first.end_lineno or 0, first.end_col_offset or 0)
                yield f"doc {name}", (place(first.lineno, first.col_offset), end)
        for inner in ast.iter_child_nodes(node):
            if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            full = f"{name}.{inner.name}"
            if inner.name.startswith(("test", "Test")):
                top = min([inner.lineno, *[decorator.lineno for decorator in inner.decorator_list]])
                end = place(inner.end_lineno or 0, inner.end_col_offset or 0)
                yield f"test {full}", (lines[top - 1] + inner.col_offset, end)
            else:
                yield from walk(inner, full)

    yield from walk(tree, "")


def replaces_assertions(texts: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Rust files that now define a macro by the name of one that tests assert with.

    `texts` are the old and the new text of each file.
    """
    return tuple([p for p, (old, new) in texts.items() if _macros(new) - _macros(old)])


def _macros(text: str) -> set[str]:
    return set(re.findall(r"macro_rules!\s*((?:debug_)?assert\w*|panic|unreachable)\b", text))

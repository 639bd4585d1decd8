"""Selects an agent's changes that are part of the work, by path. Pure.

It gives the `role` of a file (a test, a source, a build or runner file), the reason for excluding a
change (`exclusion`), and the user's permission to edit a file (`is_allowed`). The `rules` list what
*joins* the proof: the source files that a task allows. Everything else stays as it was before
iteration 1, known or not: tests, configuration, build files, tools, ignore files, environments,
links. Paths are relative to the work root and use `/`. `inline_tests` handles tests inside a source
file that joins.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import cache
from itertools import accumulate
from typing import Final, Literal

from msgspec.structs import replace

from taofold.core.values import Value

Role = Literal["test", "runner", "build", "command", "source", "data", "other"]
"""`command` is a file that a gate runs or compares with; `other` is an unknown file."""
DECIDES: Final[frozenset[Role]] = frozenset({"test", "runner", "build", "command"})
"""Changing one of these is tampering, and it is reverted in the work root."""

TEST_FOLDERS: Final = frozenset(
    {
        *("tests", "test", "__tests__", "e2e", "testdata", "__snapshots__", "__fixtures__"),
        *("__mocks__", "testutil", "testutils", "test_utils", "test-utils", "testhelpers"),
        *("testlib", "testkit", "vendor", "third_party"),
    }
)
"""At any depth. Vendored files count as installed: a test that compares with them trusts them."""
TEST_ROOTS: Final = frozenset(
    {
        *("spec", "specs", "testing", "fixtures", "golden", "expected", "checks", "qa"),
        *("mocks", "acceptance", "integration", "functional"),
    }
)
"""At the root only: below it they are often part of the product."""
TESTS: Final = (
    *("test_*.*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.rb", "*-test.*"),
    *("test.*", "tests.*", "*.snap", "*.golden", "*.approved.*"),
    # Headers of C and C++ in which a test framework lies beside the code.
    *[
        f"{name}.h*"
        for name in (
            *("test*", "gtest", "utest", "acutest", "doctest", "catch", "catch2", "catch_*"),
            *("minunit", "cunit", "cppunit", "unity", "unity_*", "munit", "cmocka", "greatest"),
        )
    ],
)
YARDSTICKS: Final = ("expected*", "*.expected", "*_expected.*", "*.expected.*", "golden*")
"""Names of reference data, unless the file is a program."""
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
"""They describe other files: an old one may be fixed, a new one would hide the described file."""
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
_TEXTS: Final = frozenset(
    {
        *("sql", "proto", "graphql", "css", "scss", "sass", "less", "html", "htm", "j2", "jinja"),
        *("jinja2", "tmpl", "tpl", "ejs", "hbs", "mustache", "ipynb"),
    }
)
"""Formats that are not programs; with the name of reference data, they are compared with."""
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
"""A new file of such a kind at the root may configure an unknown tool."""
_MODULES: Final = frozenset({"py", "pyx"})
_STARTING: Final = ("sitecustomize", "usercustomize")
"""Modules that an interpreter imports when it starts, if it finds them."""

_ROLES: Final[Mapping[str, Role]] = {
    **dict.fromkeys(DATA, "data"),
    **dict.fromkeys(CODE | PROSE, "source"),
}
"""By suffix, if neither name nor place decides."""

_OLD: Final[dict[Role, str]] = {
    "test": "it is a test",
    "runner": "it configures the gate",
    "build": "it is what the gate runs",
    "command": "it is what the gate runs, or is compared with",
    "other": "it is not a source file",
}
_NEW: Final[dict[Role, str]] = {
    **_OLD,
    "test": "new tests prove nothing",
    "runner": "it would configure the gate",
}


LINK: Final = "links are not followed"
IGNORED: Final = "the project ignores it; a gate that needs it must build it"
OUTSIDE: Final = "it is outside of the loop's scope"
_MAKE: Final = "make would take it for its target"
_MODULE: Final = "it would be imported in place of another module"
FINAL: Final = (IGNORED, _MAKE, _MODULE)
"""Prefixes of reasons that no option can override."""


class ScopeRules(Value, frozen=True):
    """The facts of a baseline that decide if a change joins the proof."""

    named: frozenset[str] = frozenset()
    """Files that a gate runs or compares with, and the targets of links among them."""
    wanted: frozenset[str] = frozenset()
    """Files that a gate's command names and only reads: they may be the product."""
    allow_edit: tuple[str, ...] = ()
    code_folders: frozenset[str] = frozenset()
    """Folders below the root that held code."""
    packages: frozenset[str] = frozenset()
    """Folders with an `__init__.py`: modules in them are imported only by their full name."""
    taken: frozenset[str] = frozenset()
    """Names of modules from elsewhere, or of deciding files."""
    targets: frozenset[str] = frozenset()
    """Targets of `make`, which treats a file of that name as up to date."""
    folders: frozenset[str] = frozenset()
    """Every folder of the baseline."""
    scope: tuple[str, ...] = ()
    """The product as the user defined it, as globs; () = all source files."""
    headers: frozenset[str] = frozenset()
    """Headers of the system that the project's code includes."""
    included: tuple[str, ...] = ()
    """The includes of Makefiles: `make` builds each from a file with its name and any suffix."""
    made: frozenset[str] = frozenset()
    """Files and folders that the gates themselves make."""


def role(path: str, named: Collection[str] = ()) -> Role:
    """Returns the role of the file at `path` for a gate.

    `named` files, and all below them, belong to the gate.
    """
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
    # `expected_value.py` is code with a similar name.
    if suffix not in CODE - _TEXTS and _fits(name, YARDSTICKS):
        return "test"
    # After the roles by name: a file that a gate runs is "command" only if nothing else is known.
    self_and_folders = accumulate(path.split("/"), "{}/{}".format)
    if not set(self_and_folders).isdisjoint(named):
        return "command"
    # Hidden files are settings of possibly unknown tools: never part of the proof.
    if "/." in f"/{folded}":
        return "other"
    return _ROLES.get(suffix, "other")


def exclusion(path: str, *, new: bool, rules: ScopeRules) -> str:
    """Returns why a change at `path` is not part of the proof; "" if it is.

    `new`: the file is not in the baseline.
    """
    # First, because not even `--allow-edit` is meant to replace a module of the runner.
    taken = _taken(path, rules) if new else ""
    if taken:
        return taken
    if is_allowed(path, rules.allow_edit):
        return ""
    if new and _builds(path, rules.included):
        return "make would build what it includes of it"
    parts = path.split("/")
    if new and any(["/".join(parts[at:]) in rules.headers for at in range(len(parts))]):
        return "it would be included in place of a header of the system"
    kind = role(path, rules.named)
    if rules.scope and kind not in DECIDES:
        if not is_allowed(path, rules.scope):
            return OUTSIDE
        if kind == "data":
            return ""
    # A command such as `grep -q done NOTES` asks for exactly the file that is to be made.
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
    """Handles data: beside code it is part of the product; elsewhere an old file may be a
    reference.
    """
    folder = path.rpartition("/")[0]
    if folder in rules.code_folders:
        return ""
    if not new:
        return "it is data that no code lies beside"
    if not rules.made.isdisjoint(accumulate(path.split("/"), "{}/{}".format)):
        return "the gate makes it itself"
    # Only at the root: below it such files are often data of the product.
    configures = not folder and path.rpartition(".")[2].casefold() in _CONFIGURES
    return "it could configure a tool" if configures else ""


def _taken(path: str, rules: ScopeRules) -> str:
    """Returns why a new file would be found in place of something else, or ""."""
    parts = path.split("/")
    # `make` does nothing for a target whose file exists and has no prerequisites.
    if parts[0] in rules.targets and parts[0] not in rules.folders:
        return f"{_MAKE} {parts[0]!r}"
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
            return f"{_MODULE} {module!r}"
    return ""


def _builds(path: str, included: Sequence[str]) -> bool:
    """Returns whether `make` would build an included file from a new file (`local.mk.sh`)."""
    folder, _, name = path.rpartition("/")
    stems = [name[: dot.start()] for dot in re.finditer(r"[.,]", name)]
    names = [f"{folder}/{stem}".lstrip("/") for stem in (*stems, name)]
    return any([fnmatchcase(stem, glob) for stem in names for glob in included])


def is_allowed(path: str, globs: Sequence[str]) -> bool:
    """Returns whether a user allowed edits of `path`.

    `**` matches any directories, `*` also `/`.
    """
    return any(
        [
            fnmatchcase(path, glob)
            or fnmatchcase(path, glob.replace("**/", ""))
            or path.startswith(glob.rstrip("/") + "/")
            for glob in globs
        ]
    )


def with_tree(given: ScopeRules, paths: Iterable[str], outside: Collection[str]) -> ScopeRules:
    """Returns the rules `given` with what follows from the tree before iteration 1.

    Args:
        given: The facts that no tree shows.
        paths: Every file of the tree.
        outside: Names of modules that are installed, or come with the interpreter.
    """
    folders: set[str] = set()
    code: set[str] = set()
    packages: set[str] = set()
    taken = {*outside, *_STARTING}
    for path in paths:
        above = [path[: at.start()] for at in re.finditer("/", path)]
        folders.update(above)
        kind = role(path, given.named)
        if path.endswith("/__init__.py"):
            packages.add(above[-1])
        if kind == "source" and path.rpartition(".")[2] not in PROSE:
            code.update(above)
        if kind in DECIDES and path.endswith(".py"):
            taken.update([part.removesuffix(".py") for part in path.split("/")])
    own = {path.partition("/")[0].removesuffix(".py") for path in paths}
    return replace(
        given,
        code_folders=frozenset(code),
        packages=frozenset(packages),
        taken=frozenset(taken - own - {"__init__"}),
        folders=frozenset(folders),
    )


def _fits(name: str, globs: Iterable[str]) -> bool:
    return _pattern(tuple(globs)).match(name) is not None


@cache
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Returns one pattern for all of them: every path of a tree is matched in every verdict."""
    return re.compile("|".join([translate(glob.casefold()) for glob in globs]) or r"(?!)")

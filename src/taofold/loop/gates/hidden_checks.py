"""Finds files that decide in gates although no command and no name shows it. Pure.

Reads the texts of the baseline. Certain cases belong to the check: helpers in a folder of tests
(`helpers`), files that the configuration of a JavaScript runner loads (`configured`), crates and
packages for development (`development`), includes of Makefiles (`included`). Files that may be the
product as well join the proof, and the verdict names them (`suspects`): files run by a recipe or a
script, and files named like a helper that only tests use. Knows nothing about verdicts.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from posixpath import dirname, normpath
from typing import Final

from taofold.loop.gates.scope import TEST_FOLDERS, TEST_ROOTS, role

Text = Callable[[str], str]
"""Returns the text of a file of the baseline; "" if it is not text."""

_IMPORTING: Final = (".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_IMPORT: Final = re.compile(
    r"(?m)^[ \t]*(?:(?:from|import|export)\b|\}[ \t]*from\b).*|\b(?:require|import)\(.*"
)
_NONE: Final = re.compile(r"(?!)")
_NAME: Final = re.compile(r"[\w-]+")
_MANIFESTS: Final = frozenset(
    {"package.json", "pyproject.toml", "setup.py", "setup.cfg", "Cargo.toml", "go.mod"}
)
"""Files that make a folder a separate project."""
_INCLUDE: Final = re.compile(r"(?m)^[ \t]*[-s]?include[ \t]+(.+)$")
_ABSENT: Final = re.compile(r"\$\((?:wildcard|shell test -\w)[ \t]+([^*?$()\s]+)\)")
_TOKEN: Final = re.compile(r"[\w./*@:<>$\{\}\\-]+")
_PARTS: Final = re.compile(r"[;|&\n()]+")
_PREFIX: Final = re.compile(r"\A(?:(?:<rootDir>|\$\{?\w+\}?)?/|\./)")
_SUFFIXES: Final = ("", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".go")
_ENTRIES: Final = (
    *("__main__.py", "__init__.py", "index.js", "index.mjs", "index.ts", "index.cjs", "main.go"),
)
_READING: Final = frozenset(
    {
        *("ruff", "mypy", "pyright", "black", "isort", "flake8", "pylint", "eslint", "prettier"),
        *("tsc", "biome", "shellcheck", "cc", "gcc", "g++", "c++", "clang", "clang++", "rustc"),
        *("javac", "gofmt", "clippy-driver", "echo", "rm", "mkdir", "cp"),
    }
)
"""Programs that read the given files and run none."""
_LAUNCHERS: Final = frozenset({"python", "python3", "-m", "npx", "uv", "run", "poetry", "@", "-"})
_CONFIG: Final = re.compile(
    r"(?:jest|vitest|ava|karma|wdio|playwright|cypress|babel|eslint)\.(?:config|conf|setup)\."
    r"|\.mocharc|\.eslintrc|\.babelrc|vitest\.workspace\."
)
_QUOTED: Final = re.compile(r"""(['"])((?:<rootDir>/|\./|\.\./|[\w@-]+/)[^'"\n]+)\1""")
_SETTINGS: Final = (".toml", ".ini", ".cfg", ".json")
_EXTENDING: Final = re.compile(
    r"""(?m)^[ \t{]*["']?(?:extends?|plugins|load-plugins)["']?\s*[:=]\s*"""
    r"""(\[[^\]]*\]|"[^"\n]*"|'[^'\n]*'|[^\s"'\[{][^\n]*(?:\n[ \t]+\S.*)*)"""
)
_ENTRY: Final = re.compile(r"""['"]?(?:files|ignores|include|exclude|testMatch|roots)['"]?\s*:""")
_DEVELOPMENT: Final = re.compile(
    r"(?m)^\[(?:[^\]\n]*\.)?dev-dependencies[^\]\n]*\]\n((?:[^\[\n].*\n?|\n)*)"
)
_PATH: Final = re.compile(r"\bpath\s*=\s*\"([^\"\n]+)\"")
_LOCAL: Final = re.compile(r"\"(?:file|link|portal):([^\"\n]+)\"")
_PACKAGE: Final = re.compile(r"\"(devDependencies|imports|jest|ava|mocha|c8|nyc)\"\s*:\s*(?=\{)")
_HELPER: Final = re.compile(
    r"(?:\A|[/._-])(?:check|assert|expect|verif|match|same|equal|compar|help|util|fixture|mock|stub"
    r"|fake|support|golden|setup)\w*",
    re.IGNORECASE,
)


def included(paths: Iterable[str], text: Text) -> tuple[str, ...]:
    """Returns the includes of Makefiles, and the files that they check for, as globs."""
    globs: set[str] = set()
    for path in paths:
        if role(path) == "build" and re.search(r"(?:\A|/)(?:GNU)?[mM]akefile\Z|\.mk\Z", path):
            for line in _INCLUDE.findall(text(path)):
                plain = line.partition("#")[0].replace("$(wildcard", " ").replace(")", " ")
                globs.update(normpath(word) for word in plain.split() if "$" not in word)
            globs.update(normpath(word) for word in _ABSENT.findall(text(path)))
    return tuple(sorted(globs))


def helpers(paths: Collection[str], tests: Collection[str], text: Text) -> set[str]:
    """Returns the code of top-level folders that hold tests and no part of the product.

    The tests there import code from elsewhere, and no other code imports from there.
    """
    code = {path for path in paths if path.endswith(_IMPORTING)} - {*tests}
    projects = {path.partition("/")[0] for path in paths if path.rpartition("/")[2] in _MANIFESTS}
    nested = [path for path in tests if "/" in path and path.endswith(_IMPORTING)]
    found: set[str] = set()
    for folder in (
        {path.partition("/")[0] for path in nested} - TEST_FOLDERS - TEST_ROOTS - projects
    ):
        # Configuration is not the product: its name (`jest.config.ts`) would look like a module's.
        elsewhere = [path for path in code if role(path) == "source"]
        rest = [path for path in elsewhere if not path.startswith(f"{folder}/")]
        tops = {path.partition("/")[0].partition(".")[0] for path in rest}
        inner = [path for path in tests if path.startswith(f"{folder}/")]
        out = any([_imported(text(path)) & tops for path in inner])
        if out and not any([folder in _imported(text(path)) for path in rest]):
            found |= {path for path in code if path.startswith(f"{folder}/")}
    return found


def _imported(text: str) -> set[str]:
    """Returns the words of the lines that import something in Python or JavaScript."""
    return {word for line in _IMPORT.findall(text) for word in _NAME.findall(line)}


def configured(paths: Collection[str], text: Text) -> set[str]:
    """Returns the files that the configuration of JavaScript tools loads."""
    found: set[str] = set()
    for path in paths:
        name = path.rpartition("/")[2]
        if name == "package.json":
            whole = text(path)
            blocks = "\n".join([_block(whole, key.end()) for key in _PACKAGE.finditer(whole)])
        elif _CONFIG.search(name):
            blocks = text(path)
        else:
            continue
        for line in blocks.splitlines():
            if not _ENTRY.search(line):
                for _, word in _QUOTED.findall(line):
                    found.update(resolved(word, dirname(path), paths))
    return found


def extended(paths: Collection[str], text: Text) -> set[str]:
    """Returns the files that other configuration extends, or loads as plugins."""
    return {
        found
        for path in paths
        if role(path) == "runner" and path.endswith(_SETTINGS)
        for value in _EXTENDING.findall(text(path))
        for word in _TOKEN.findall(value)
        for found in resolved(word, dirname(path), paths)
    }


def _block(text: str, at: int) -> str:
    """Returns the text between the braces that open at `at`."""
    depth = 0
    for sign in re.finditer(r"[{}]", text[at:]):
        depth += 1 if sign[0] == "{" else -1
        if depth == 0:
            return text[at : at + sign.end()]
    return text[at:]


def development(paths: Iterable[str], text: Text) -> set[str]:
    """Returns the folders of dependencies that only tests have."""
    found: set[str] = set()
    for path in paths:
        name = path.rpartition("/")[2]
        if name == "Cargo.toml":
            parts = "".join(_DEVELOPMENT.findall(text(path)))
            words: list[str] = _PATH.findall(parts)
        elif name == "package.json":
            key = re.search(r"\"devDependencies\"\s*:\s*(?=\{)", text(path))
            words = _LOCAL.findall(_block(text(path), key.end())) if key else []
        else:
            continue
        found.update(normpath(f"{dirname(path)}/{word}".lstrip("/")) for word in words)
    return {path for path in found if not path.startswith("..") and path != "."}


def resolved(word: str, folder: str, paths: Collection[str]) -> list[str]:
    """Returns the files that a token names: a path, a glob, a module, a folder with a program."""
    word = word.strip("'\"`,:;=@").rpartition("=")[2]
    plain = _PREFIX.sub("", word, count=1)
    if not plain or plain in (".", "..") or len(plain) > 300:
        return []
    if word.startswith("$"):  # the value of the variable is unknown
        return [path for path in paths if f"/{path}".endswith(f"/{plain}")]
    names = {plain, plain.replace(".", "/")} if "/" not in plain else {plain}
    found: list[str] = []
    for name in names:
        for base in dict.fromkeys(("", folder)):
            at = normpath(f"{base}/{name}".lstrip("/"))
            if "*" in at:
                alike = re.compile(re.escape(at).replace(r"\*", "[^/]*")) if "/" in at else _NONE
                found += [path for path in paths if alike.fullmatch(path)]
                continue
            found += [at + suffix for suffix in _SUFFIXES if at + suffix in paths]
            found += [f"{at}/{entry}" for entry in _ENTRIES if f"{at}/{entry}" in paths]
    return found


def suspects(
    commands: Mapping[str, str], paths: Collection[str], tests: Collection[str], text: Text
) -> dict[str, str]:
    """Returns files that may decide and may be the product, each with the reason.

    Args:
        commands: Texts with commands that gates run, by the file that holds them.
        paths: The files of the baseline.
        tests: Those of them that hold tests, or decide.
        text: Reads one.
    """
    found: dict[str, str] = {}
    for source, body in commands.items():
        for part in _PARTS.split(body):
            words = _TOKEN.findall(part)
            program = next((w for w in words if w.rpartition("/")[2] not in _LAUNCHERS), "")
            if program.rpartition("/")[2] in _READING:
                continue
            for path in chain.from_iterable(resolved(w, dirname(source), paths) for w in words):
                if path not in tests and role(path) in ("source", "data"):
                    found.setdefault(path, f"{source or 'the gate'} names it")
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(dirname(path), []).append(path)
    # A file that is run, or loaded by a configuration, also decides through its neighbouring
    # imports.
    loaded = {path: "it belongs to the check" for path in tests if role(path) == "source"}
    for path, why in ({**loaded, **found}).items():
        uses = _imported(text(path)) if "/" in path and path.endswith(_IMPORTING) else set[str]()
        for other in folders[dirname(path)] if uses else ():
            stem = other.rpartition("/")[2].partition(".")[0]
            if stem in uses and other not in tests and other.endswith(_IMPORTING):
                found.setdefault(other, f"{path} uses it, and {why}")
    return found


def used_by_tests(paths: Collection[str], tests: Collection[str], text: Text) -> dict[str, str]:
    """Returns the files with a helper's name that tests import and no other code does."""
    code = {path for path in paths if path.endswith(_IMPORTING)}
    own = code - {*tests}
    named = [path for path in own if _HELPER.search(path)]
    stems = {path: path.rpartition("/")[2].partition(".")[0] for path in named}
    if not stems:
        return {}
    by_tests = {word for path in code - own for word in _imported(text(path))}
    others = {word for path in own for word in _imported(text(path))}
    return {path: "only tests use it" for path, stem in stems.items() if stem in by_tests - others}

"""Which files decide whether work is done, so that an agent may not change them.

Pure: text in, text out. Paths are relative to the work root and use `/`.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

Kind = Literal["test", "runner", "build", "shadow", "environment", "command"]

TEST_FOLDERS: Final = frozenset({"tests", "test", "__tests__", "e2e"})
"""At any depth."""
TEST_ROOTS: Final = frozenset({"spec", "specs", "testing", *TEST_FOLDERS})
"""At the root only: below it they are as often part of the product."""
TESTS: Final = (
    *("test_*.py", "*_test.py", "*_test.go", "*.test.*", "*.spec.*", "*_spec.rb", "*-test.js"),
    *("*_test.rs", "test.js", "test.mjs", "test.ts", "tests.py", "*.snap"),
)
RUNNER: Final = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
    *("pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", ".coveragerc", "setup.py"),
    *("ruff.toml", ".ruff.toml", "mypy.ini", ".mypy.ini", "pyrightconfig.json", ".flake8"),
    *("package.json", "tsconfig*.json", "jsconfig.json", "jest.config.*", "vitest.config.*"),
    *("vite.config.*", "playwright.config.*", "karma.conf.*", ".mocharc*", "babel.config.*"),
    *(".babelrc*", "eslint.config.*", ".eslintrc*", ".npmrc", ".yarnrc*", ".nvmrc"),
    *("Cargo.toml", "build.rs", "rust-toolchain", "rust-toolchain.toml", "go.mod", "go.work"),
    *(
        "clippy.toml",
        ".clippy.toml",
        "rustfmt.toml",
        ".env",
        ".envrc",
        "uv.toml",
        ".python-version",
    ),
    *("bunfig.toml", "deno.json", "deno.jsonc", ".rspec", "phpunit.xml*"),
)
BUILD: Final = (
    *("Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "Justfile", ".justfile"),
    *("Taskfile.y*ml", "CMakeLists.txt", "meson.build", "build.gradle*", "pom.xml", "WORKSPACE"),
    *("Dockerfile*", "docker-compose*", ".gitlab-ci.yml", ".pre-commit-config.yaml"),
    *("Jenkinsfile", "azure-pipelines.yml", ".travis.yml", "dodo.py", "codecov.yml"),
)
FOLDERS: Final = (".github/", ".circleci/", ".ci/", ".cargo/", ".config/nextest", ".buildkite/")
SHADOWS: Final = frozenset(
    {"sitecustomize", "usercustomize", "pytest", "_pytest", "pluggy", "unittest"}
)
"""Modules that take a runner's place, or run before it, wherever they lie."""
SHADOW_ROOTS: Final = SHADOWS | {
    *("py", "iniconfig", "packaging", "coverage", "xdist", "pygments", "exceptiongroup", "tomli"),
    *("mypy", "ruff", "pip", "site"),
}
"""The same where imports begin: in the work root or its `src`."""
_MODULE: Final = (".py", ".pyc", ".so", ".pyd")
_CHOSEN: Final = ("gnumakefile", "makefile", "justfile", ".justfile", "taskfile.y*ml")
"""Build files of which a new one takes the place of an old one."""
_INNOCENT: Final = frozenset(
    {"conftest.py", "pyproject.toml", "setup.py", "setup.cfg", "package.json", "tsconfig.json",
     "cargo.toml", "go.mod", "build.rs", ".env", "makefile"}
)  # fmt: skip
UNWALKED: Final = frozenset(
    {".git", ".hg", ".svn", ".taofold", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox",
     ".pytest_cache", ".nox", "target", ".hypothesis", ".cache"}
)  # fmt: skip
"""Directories in which nothing that decides is kept; caches in them are not used either."""
PARENTS: Final = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
    *("pyproject.toml", "setup.cfg", "package.json", "ruff.toml", ".ruff.toml", "mypy.ini"),
    *("setup.py", "tsconfig.json", "go.work", "Cargo.toml", ".cargo/config.toml", "go.mod"),
)
"""Files that also count in the directories above the work root."""


def kind(path: str, named: Iterable[str] = ()) -> Kind | None:
    """Why `path` is protected; None if it is not. `named` are paths that a gate names."""
    folded = path.casefold()
    *folders, name = folded.split("/")
    if _shadow(folders, name):
        return "shadow"
    if name.endswith(".pth") or name == "pyvenv.cfg":
        return "environment"
    if _fits(name, RUNNER):
        return "runner"
    if _fits(name, BUILD) or folded.startswith(FOLDERS):
        return "build"
    if TEST_FOLDERS & set(folders) or {*folders[:1]} & TEST_ROOTS or _fits(name, TESTS):
        return "test"
    if path in named:
        return "command"
    return None


def planted(path: str, why: str) -> str:
    """Why a new file, protected as `why`, must not be there while a gate runs; "" = it may."""
    name = path.rpartition("/")[2].casefold()
    match why:
        case "shadow":
            return "it would take the place of a module of the test runner or of Python's start"
        case "environment":
            return "it would run before the gate does, or in place of its programs"
        case "runner":
            return "it would configure the gate"
        case "build" if _fits(name, _CHOSEN) or path.casefold().startswith(".cargo/"):
            return "it would configure the gate"
        case _:
            return ""


def innocent(path: str) -> bool:
    """Do people plant such a file in good faith? It is set aside, but is no tampering."""
    name = path.rpartition("/")[2]
    return name.casefold() in _INNOCENT


def allowed(path: str, globs: Sequence[str]) -> bool:
    """May the agent edit `path`? `**` is any directories, `*` anything within a name too."""
    return any(
        [
            fnmatchcase(path, glob)
            or fnmatchcase(path, glob.replace("**/", ""))
            or path.startswith(glob.rstrip("/") + "/")
            for glob in globs
        ]
    )


def environment(path: str) -> bool:
    """In a virtual environment: does this file decide what runs? Its other files do not."""
    parts = path.casefold().split("/")
    name = parts[-1]
    if "site-packages" not in parts:
        return "bin" in parts or "scripts" in parts or name == "pyvenv.cfg"
    top = parts[parts.index("site-packages") + 1].partition(".")[0]
    return (
        name.endswith((".pth", "entry_points.txt"))
        or top in SHADOW_ROOTS
        or top in ("mypyc", "ruff", "mypy")
        or "pytest" in top
    )


def _shadow(folders: Sequence[str], name: str) -> bool:
    names = SHADOW_ROOTS if folders in ([], ["src"]) else SHADOWS
    if name.partition(".")[0] in names and name.endswith(_MODULE):
        return True
    if not name.startswith("__init__."):
        return False
    names = SHADOW_ROOTS if folders[:-1] in ([], ["src"]) else SHADOWS
    return bool(folders) and folders[-1] in names


def _fits(name: str, globs: Iterable[str]) -> bool:
    return any([fnmatchcase(name, glob.casefold()) for glob in globs])

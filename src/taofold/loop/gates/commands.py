"""How the command of a gate is run: which tool it is, where its programs are, what environment it
gets, which folders a program needs in a container (`homes`). Runs nothing itself.

`plan` recognises the tool and asks it for a machine-readable report. The person's arguments stay
as they are; what is added asks for a report, or keeps caches out that the agent could have
written. Programs and environment come from before the agent worked: what it could have written to
is left out. Which files a command decides by is in `gate_files`, what it printed in `reports`.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from taofold.core.values import Value
from taofold.loop.verdict import Gate, Runner
from taofold.tools.command import ALLOWED

LAUNCHER: Final = "\0launch.py"
REPORTER: Final = "\0node_reporter.mjs"
GO_EXEC: Final = "\0go_exec.sh"
IN: Final = "\0in"
OUT: Final = "\0out"
DEVICE: Final = "\0/dev/fd/out"
CACHE: Final = "\0cache"
VARIABLE: Final = r"\$\{?([A-Za-z_]\w*)\}?"
"""A variable of the environment that a gate is passed on, as a command names it."""
_PYTHON: Final = re.compile(r"python(?:\d+(?:\.\d+)?)?\Z|pypy3?\Z")
_WRAPPERS: Final = {
    "uv": ("run",),
    "poetry": ("run",),
    "pdm": ("run",),
    "pipenv": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "npx": (),
    "pnpm": ("exec",),
    "yarn": ("exec",),
}
_TAKING: Final = frozenset(
    {
        *("-p", "--python", "--with", "--with-editable", "--with-requirements"),
        *("--extra", "--group", "--env-file", "--package", "--index", "--directory"),
        *("--project", "-c", "-w", "--call"),
    }
)
"""Options of wrappers that take the next argument."""
_KNOWN: Final = ("pytest", "py.test", "ruff", "mypy", "tsc", "eslint", "node", "go", "cargo")
_ISOLATED: Final = ("-I", "-B", "-X", f"pycache_prefix={CACHE}")
_VALUED: Final = ("-W", "-X", "-c", "-m")


class GatePlan(Value, frozen=True):
    """How a gate is run. Arguments that begin with NUL are filled in when it is."""

    runner: Runner
    argv: tuple[str, ...]
    program: int = 0
    """Which argument is the tool itself, behind a wrapper such as `uv run`."""
    wire: bool = False
    """Do results come through a pipe of their own?"""
    census: tuple[str, ...] = ()
    """A second command, which names the files that a linter looks at."""


def plan(argv: Sequence[str]) -> GatePlan:
    """How to run the command `argv`."""
    at = _behind_wrapper(argv)
    head, program, rest = list(argv[:at]), argv[at], list(argv[at + 1 :])
    name = PurePath(program).name
    recognised: tuple[Runner, list[str]] | None = None
    if _PYTHON.match(name):
        recognised = _python(program, rest)
    elif name in ("pytest", "py.test"):
        recognised = "pytest", [f"\0python:{program}", *_launched("pytest", rest)]
    elif name == "node" and "--test" in rest:
        # A reporter of our own replaces the default one; the person's output must not get lost.
        flags = [f"--test-reporter={REPORTER}", f"--test-reporter-destination={DEVICE}"]
        if not any([word.startswith("--test-reporter") for word in rest]):
            flags += ["--test-reporter=spec", "--test-reporter-destination=stdout"]
        recognised = "node", [program, *flags, *rest]
    else:
        recognised = _printing(name, program, rest)
    if recognised is None:
        return GatePlan("command", tuple(argv), at)
    runner, words = recognised
    wire = runner in ("pytest", "unittest", "node")
    census = (*head, *_census(words)) if runner == "ruff" else ()
    return GatePlan(runner, (*head, *words), at, wire, census)


def writing(words: Sequence[str]) -> list[str]:
    """The arguments of a plan, of an interpreter that keeps what it compiles."""
    isolated = list(_ISOLATED)
    at = next((i for i in range(len(words)) if list(words[i : i + 4]) == isolated), -1)
    options = [word for word in isolated if word != "-B"]
    return list(words) if at < 0 else [*words[:at], *options, *words[at + 4 :]]


def _python(program: str, rest: list[str]) -> tuple[Runner, list[str]] | None:
    """`python -m pytest …`: the interpreter's own options are kept."""
    index = 0
    # Options before `-m` are the interpreter's own, and some of them take a value.
    while index < len(rest) and rest[index].startswith("-") and rest[index] != "-m":
        index += 2 if rest[index] in _VALUED else 1
    if rest[index : index + 1] != ["-m"] or len(rest) < index + 2:
        return None
    options, module, more = rest[:index], rest[index + 1], rest[index + 2 :]
    if module in ("pytest", "unittest"):
        runner: Runner = "pytest" if module == "pytest" else "unittest"
        return runner, [program, *options, *_launched(module, more)]
    if module in ("mypy", "ruff"):
        printing = _printing(module, module, more)
        return printing and (printing[0], [program, *options, *_ISOLATED, "-m", *printing[1]])
    return None


def _launched(runner: str, rest: list[str]) -> list[str]:
    return [*_ISOLATED, LAUNCHER, runner, IN, OUT, *rest]


def _printing(name: str, program: str, rest: list[str]) -> tuple[Runner, list[str]] | None:
    """Tools that print their results on standard output."""
    first = rest[0] if rest else ""
    match name:
        case "go" if first == "test":
            # `-count=1` below: go would else answer from its cache without running anything.
            more = [] if "-json" in rest else ["-json"]
            if not any([word.lstrip("-").partition("=")[0] == "exec" for word in rest]):
                more.append(f"-exec=sh '{GO_EXEC}'")
            return "go", [program, "test", *more, "-count=1", *rest[1:]]
        case "cargo" if "test" in rest[:2]:  # cargo +nightly test
            # Quiet, it prints dots in place of the names of tests: behind `--` too.
            loud = [word for word in _without(rest, "--format") if word not in ("-q", "--quiet")]
            at = loud.index("test") + 1
            more = [] if "--no-fail-fast" in loud else ["--no-fail-fast"]
            return "cargo", [program, *loud[:at], *more, *loud[at:]]
        case "tsc":
            at = rest.index("--pretty") if "--pretty" in rest else len(rest)
            explicit = at + 1 < len(rest) and rest[at + 1] in ("true", "false")
            arguments = [*rest[:at], *rest[at + 1 + explicit :]]
            return "tsc", [program, *arguments, "--pretty", "false", "--listFiles"]
        case "eslint":
            arguments = _without(rest, "--format", "-f", "--output-file", "-o")
            return "eslint", [program, "--format=json", *arguments]
        case "ruff" if first == "check":
            arguments = _without(rest[1:], "--output-format")
            return "ruff", [
                program,
                "check",
                "--output-format=json-lines",
                "--no-cache",
                *arguments,
            ]
        case "mypy":
            # A cache in the work root is within reach of the agent: it could say that all is well.
            arguments = _without(_without(rest, "--output", "-O"), "--cache-dir")
            return "mypy", [program, "--output=json", "--cache-dir=/dev/null", "-v", *arguments]
        case _:
            return None


def _census(words: list[str]) -> list[str]:
    """`ruff check` that names its files and changes none."""
    return [*_without([word for word in words if not word.startswith("--fix")]), "--show-files"]


def _without(words: list[str], *names: str) -> list[str]:
    """The arguments without an option, its value included."""
    remaining: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in names:
            skip = True
        elif not word.startswith(tuple([f"{name}=" for name in names])):
            remaining.append(word)
    return remaining


def _behind_wrapper(argv: Sequence[str]) -> int:
    """Where the tool's name stands; 0 where nothing is known of it."""
    verbs = _WRAPPERS.get(PurePath(argv[0]).name)
    if verbs is None or tuple(argv[1 : 1 + len(verbs)]) != verbs:
        return 0
    for index in range(1 + len(verbs), len(argv)):
        name = PurePath(argv[index]).name
        # `uv run -p python3.12 …`, `npx -p pytest …`: an option's value is no program.
        if (name in _KNOWN or _PYTHON.match(name)) and argv[index - 1] not in _TAKING:
            return index
    return 0


_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?|'''exec' '?([^' ]+)")
_DEFAULT: Final = "/usr/local/bin:/usr/bin:/bin"


def interpreter(script: Path) -> str:
    """The Python that a script such as `bin/pytest` starts; "" if it does not say."""
    try:
        with script.open("rb") as file:
            first = file.read(500)
    except OSError:
        return ""
    for match in _SHEBANG.finditer(first):
        program = match[3] or (match[2] if match[1].endswith(b"/env") else match[1]) or b""
        if b"python" in program:
            return os.fsdecode(program)
    return ""


def search_path(root: Path) -> str:
    """`PATH` as it is now, without what an agent can write to.

    First the active environment, then this interpreter's, so that `python -m pytest` is the
    project's Python where one is active, and else the one that surely exists.
    """
    entries = [f"{Path(sys.prefix) / 'bin'}"]
    if os.environ.get("VIRTUAL_ENV"):
        entries.insert(0, f"{Path(os.environ['VIRTUAL_ENV']) / 'bin'}")
    entries += os.environ.get("PATH", _DEFAULT).split(os.pathsep)
    usable: list[str] = []
    for entry in entries:
        # A folder of the work root is taken only if it is the project's own environment, which the
        # judge keeps as it was at the start.
        inside = Path(entry).resolve().is_relative_to(root)
        own = (Path(entry).parent / "pyvenv.cfg").is_file()
        if entry.startswith("/") and entry not in usable and (not inside or own):
            usable.append(entry)
    return os.pathsep.join(usable)


def environment(path: str, gate: Gate) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    # No colours and no terminal: outputs are read by programs. No bytecode beside the sources.
    fixed = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    rustup = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
    # GOTOOLCHAIN=local: `go` must not download another toolchain because `go.mod` asks for it.
    fixed |= {"RUSTUP_HOME": rustup, "GOTOOLCHAIN": "local", "CARGO_TERM_COLOR": "never"}
    own = {name: _passed_on(value) for name, value in gate.env.items()}
    return {**fixed, **inherited, "PATH": path, **own}


def _passed_on(value: str) -> str:
    """What a variable of a gate holds: the value of another one, or what is written there."""
    named = re.fullmatch(VARIABLE, value)
    return os.environ.get(named[1], value) if named else value

"""Plans the execution of a gate's command: its tool, programs, environment and mounts. Runs
nothing.

`plan` recognises the tool and requests a machine-readable report from it. The user's arguments stay
unchanged; added ones request a report, or disable caches that the agent could have written.
Programs and environment are those from before the agent's work, without anything it could have
written to. `gate_files` finds the files by which a command decides, `reports` parses its output,
`homes` finds the folders that a program needs in a container.
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
"""A variable of the environment that is passed to a gate, as written in a command."""
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
    """The plan of a gate's execution. Arguments that begin with NUL are filled in at run time."""

    runner: Runner
    argv: tuple[str, ...]
    program: int = 0
    """The index of the tool itself, after a wrapper such as `uv run`."""
    wire: bool = False
    """True if results come through a separate pipe."""
    census: tuple[str, ...] = ()
    """A second command, which names the files that a linter checks."""


def plan(argv: Sequence[str]) -> GatePlan:
    """Returns the plan for the command `argv`."""
    at = _behind_wrapper(argv)
    head, program, rest = list(argv[:at]), argv[at], list(argv[at + 1 :])
    name = PurePath(program).name
    recognised: tuple[Runner, list[str]] | None = None
    if _PYTHON.match(name):
        recognised = _python(program, rest)
    elif name in ("pytest", "py.test"):
        recognised = "pytest", [f"\0python:{program}", *_launched("pytest", rest)]
    elif name == "node" and "--test" in rest:
        # Our own reporter replaces the default one; the user's output must not get lost.
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
    """Returns the arguments of a plan for an interpreter that stores its compiled code."""
    isolated = list(_ISOLATED)
    at = next((i for i in range(len(words)) if list(words[i : i + 4]) == isolated), -1)
    options = [word for word in isolated if word != "-B"]
    return list(words) if at < 0 else [*words[:at], *options, *words[at + 4 :]]


def _python(program: str, rest: list[str]) -> tuple[Runner, list[str]] | None:
    """Recognises `python -m pytest …`; the interpreter's own options are kept."""
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
    """Recognises tools that print their results on standard output."""
    first = rest[0] if rest else ""
    match name:
        case "go" if first == "test":
            # `-count=1` below: go would otherwise answer from its cache without running anything.
            more = [] if "-json" in rest else ["-json"]
            if not any([word.lstrip("-").partition("=")[0] == "exec" for word in rest]):
                more.append(f"-exec=sh '{GO_EXEC}'")
            return "go", [program, "test", *more, "-count=1", *rest[1:]]
        case "cargo" if "test" in rest[:2]:  # cargo +nightly test
            # In quiet mode it prints dots instead of the names of tests, also with `-q` after `--`.
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
            # The agent can write to a cache in the work root and forge a result.
            arguments = _without(_without(rest, "--output", "-O"), "--cache-dir")
            return "mypy", [program, "--output=json", "--cache-dir=/dev/null", "-v", *arguments]
        case _:
            return None


def _census(words: list[str]) -> list[str]:
    """Returns a `ruff check` that lists its files and changes none."""
    return [*_without([word for word in words if not word.startswith("--fix")]), "--show-files"]


def _without(words: list[str], *names: str) -> list[str]:
    """Returns the arguments without an option and its value."""
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
    """Returns the index of the tool's name; 0 if it is unknown."""
    verbs = _WRAPPERS.get(PurePath(argv[0]).name)
    if verbs is None or tuple(argv[1 : 1 + len(verbs)]) != verbs:
        return 0
    for index in range(1 + len(verbs), len(argv)):
        name = PurePath(argv[index]).name
        # `uv run -p python3.12 …`, `npx -p pytest …`: an option's value is not the program.
        if (name in _KNOWN or _PYTHON.match(name)) and argv[index - 1] not in _TAKING:
            return index
    return 0


_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?|'''exec' '?([^' ]+)")
_DEFAULT: Final = "/usr/local/bin:/usr/bin:/bin"


def interpreter(script: Path) -> str:
    """Returns the Python that a script such as `bin/pytest` starts; "" if it names none."""
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
    """Returns the current `PATH` without folders that an agent can write to.

    The active environment comes first, then this interpreter's, so that `python -m pytest` is the
    project's Python if one is active, and otherwise the one that certainly exists.
    """
    entries = [f"{Path(sys.prefix) / 'bin'}"]
    if os.environ.get("VIRTUAL_ENV"):
        entries.insert(0, f"{Path(os.environ['VIRTUAL_ENV']) / 'bin'}")
    entries += os.environ.get("PATH", _DEFAULT).split(os.pathsep)
    usable: list[str] = []
    for entry in entries:
        # A folder of the work root is used only if it is the project's own environment, which the
        # judge keeps in its initial state.
        inside = Path(entry).resolve().is_relative_to(root)
        own = (Path(entry).parent / "pyvenv.cfg").is_file()
        if entry.startswith("/") and entry not in usable and (not inside or own):
            usable.append(entry)
    return os.pathsep.join(usable)


def environment(path: str, gate: Gate) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    # No colours and no terminal: programs read the output. No bytecode beside the sources.
    fixed = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    rustup = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
    # GOTOOLCHAIN=local: `go` must not download another toolchain because of `go.mod`.
    fixed |= {"RUSTUP_HOME": rustup, "GOTOOLCHAIN": "local", "CARGO_TERM_COLOR": "never"}
    own = {name: _passed_on(value) for name, value in gate.env.items()}
    return {**fixed, **inherited, "PATH": path, **own}


def _passed_on(value: str) -> str:
    """Returns the value of a gate's variable: that of another variable, or the literal text."""
    named = re.fullmatch(VARIABLE, value)
    return os.environ.get(named[1], value) if named else value

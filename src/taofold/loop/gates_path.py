"""Where a gate's programs are found, and what they get of the environment.

What an agent could have written to is left out.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from taofold.loop.check import TESTS, Gate
from taofold.loop.checks.recognise import plan
from taofold.tools.command import ALLOWED

_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?|'''exec' '?([^' ]+)")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/opt")
_RUNNING: Final = frozenset(
    {"sh", "bash", "zsh", "dash", "python", "pypy", "node", "deno", "bun", "ruby", "perl", "php",
     "env", "time", "nice", "timeout", "source", "ts-node", "tsx", "nox", "rake", "Rscript"}
)  # fmt: skip
"""Programs whose first argument is a program too."""
_DEFAULT: Final = "/usr/local/bin:/usr/bin:/bin"


def interpreter(script: Path) -> str:
    """The Python that a script such as `bin/pytest` starts; "" if it does not say."""
    try:
        with script.open("rb") as file:
            first = file.read(500)
    except OSError:
        return ""
    for match in _SHEBANG.finditer(first):
        said = match[3] or (match[2] if match[1].endswith(b"/env") else match[1]) or b""
        if b"python" in said:
            return os.fsdecode(said)
    return ""


def scripts(gates: Sequence[Gate], root: Path) -> tuple[str, ...]:
    """Files of the work root that the gates run: scripts, and tests that are named.

    What a command only reads is not among them: it may be what is to be made.
    """
    found: set[str] = set()
    for gate in gates:
        words = list(gate.argv) or re.split(r"[\s;|&()]+", gate.command)
        tests = bool(gate.argv) and plan(gate.argv).runner in TESTS
        before = ""
        for word in words:
            text = word.rpartition("=")[2].partition("::")[0].strip("'\"")
            direct = word == words[0] or (gate.shell and word.startswith("./"))
            run = tests or direct or before in _RUNNING
            if run and text and "\0" not in text and len(text) < 1000:
                place = (root / gate.folder / text).resolve()
                if place.is_file() and place.is_relative_to(root):
                    found.add(place.relative_to(root).as_posix())
            if not word.startswith("-"):
                before = PurePath(word).name.rstrip("0123456789.")
    return tuple(sorted(found))


def search_path(root: Path) -> str:
    """`PATH` as it is now, without what an agent can write to; the active environment first."""
    entries = [f"{Path(sys.prefix) / 'bin'}"]
    if os.environ.get("VIRTUAL_ENV"):
        entries.insert(0, f"{Path(os.environ['VIRTUAL_ENV']) / 'bin'}")
    entries += os.environ.get("PATH", _DEFAULT).split(os.pathsep)
    kept: list[str] = []
    for entry in entries:
        inside = Path(entry).resolve().is_relative_to(root)
        own = (Path(entry).parent / "pyvenv.cfg").is_file()
        if entry.startswith("/") and entry not in kept and (not inside or own):
            kept.append(entry)
    return os.pathsep.join(kept)


def environment(path: str, gate: Gate) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    fixed = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    rustup = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
    fixed |= {"RUSTUP_HOME": rustup, "GOTOOLCHAIN": "local", "CARGO_TERM_COLOR": "never"}
    return {**fixed, **kept, "PATH": path, **gate.env}


def homes(program: Path) -> set[Path]:
    """The directories that a program outside the system needs: its own, and where links lead."""
    private = Path.home().resolve()
    found: set[Path] = set()
    for place in (program, program.resolve()):
        folder = place.parent
        home = folder.parent if folder.name in ("bin", "Scripts") else folder
        if home.name in (".cargo", ".local"):  # they hold secrets beside the programs
            home = folder
        if not str(home).startswith(_SYSTEM) and not private.is_relative_to(home):
            found.add(home)
    return found

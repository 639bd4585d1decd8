"""Finds the project's files by which a gate's commands decide. Reads files, runs nothing.

These are the files that they run (`named_files`), the files that they look at (`wanted_files`), and
the targets of make that they may request. Commands are followed into the Makefile, the scripts of
package.json and the shell scripts that they run. The guess is textual and includes too much rather
than too little. The agent may not change a file that is named here, so `named_files` excludes files
that a command only reads.
"""

import json
import re
import shlex
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from taofold.core.errors import ConfigError
from taofold.loop.gates.commands import plan
from taofold.loop.gates.scope import role
from taofold.loop.verdict import TESTS, Gate
from taofold.reserved_places import open_named, read_named

_RUNNING: Final = frozenset(
    {
        *("sh", "bash", "zsh", "dash", "python", "pypy", "node", "deno", "bun", "ruby"),
        *("perl", "php", "env", "time", "nice", "timeout", "source", ".", "ts-node"),
        *("tsx", "nox", "rake", "Rscript"),
    }
)
"""Programs whose first argument is a program too."""
_LOOKING: Final = frozenset({"grep", "egrep", "rg", "test", "[", "wc", "jq", "head", "tail", "ls"})
MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
_TOOLS: Final = frozenset({"scripts", "script", "tools", "ci", "hack", "dev", "etc", "support"})
_CHECKING: Final = re.compile(r"(?:\A|[_-])(?:check|verify|lint|validate|ci|tests?|run_?tests)")
_KEYWORDS: Final = frozenset(
    {"", "if", "then", "else", "elif", "fi", "do", "done", "while", "exec"}
)
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_PARTS: Final = re.compile(r"[;|&\n()]+|\s&&\s|\s<|>")
_WORDS: Final = re.compile(r"[\s;|&()]+")
_TARGETS: Final = re.compile(r"(?m)^([^\t#\n:=%$]+):(?!=)")


def named_files(gates: Sequence[Gate], root: Path) -> tuple[str, ...]:
    """Returns files of the work root that the gates run.

    These are scripts, tests named by a command, and the tools that a Makefile, a script of
    `package.json` or a shell script among them runs. Files that a command only reads are excluded:
    they may be the product.
    """
    paths: set[str] = set()
    # A text, its folder, and True for a gate's own text. Files run by the gate itself always belong
    # to the check; files run by a recipe or a script only if they look like a tool of the check.
    todo: deque[tuple[str, Path, bool]] = deque()
    for gate in gates:
        folder = root / gate.folder
        words = list(gate.argv) or _WORDS.split(gate.command)
        if gate.argv and plan(gate.argv).runner in TESTS:
            paths |= {path for word in words if (path := _file(word, folder, root))}
        todo.append((_text_of(gate), folder, True))
        todo += [(text, folder, False) for text in _recipes(words, folder)]
    visited: set[str] = set()
    while todo:
        text, folder, is_own = todo.popleft()
        for path in _run(text, folder, root):
            if path in visited or not (is_own or _tool(path, root)):
                continue
            visited.add(path)
            if _shell(root / path):
                todo.append((_text(root / path), root, False))
    return tuple(sorted(paths | visited))


def wanted_files(gates: Sequence[Gate]) -> tuple[str, ...]:
    """Returns files that the gates' own commands look at, such as `grep -q done notes.txt`."""
    paths: set[str] = set()
    for gate in gates:
        for part in _PARTS.split(_text_of(gate)):
            words = [word for word in _WORDS.split(part) if word]
            if words and PurePath(words[0]).name in _LOOKING:
                base = "" if gate.folder == "." else f"{gate.folder}/"
                paths |= {base + word.strip("'\"").removeprefix("./") for word in words[1:]}
    return tuple(sorted(paths))


def targets(gates: Sequence[Gate], root: Path) -> tuple[str, ...]:
    """Returns the targets of the Makefiles that gates use."""
    names: set[str] = set()
    for gate in gates:
        words = list(gate.argv) or _WORDS.split(gate.command)
        for text in _recipes(words, root / gate.folder):
            for line in _TARGETS.findall(text):
                names |= {name for name in line.split() if name[0] != "." and name.isprintable()}
    return tuple(sorted(names))


def recipes(gates: Sequence[Gate], root: Path) -> dict[str, str]:
    """Returns the commands of gates and of scripts of package.json, by the file that holds them."""
    texts: dict[str, str] = {}
    for gate in gates:
        base = "" if gate.folder == "." else f"{gate.folder}/"
        texts[base] = f"{texts.get(base, '')}\n{_text_of(gate)}"
        if scripts := npm_scripts(root / gate.folder):
            texts[f"{base}package.json"] = "\n".join([str(line) for line in scripts.values()])
    return texts


def is_recipe(path: str, named: Collection[str]) -> bool:
    """Returns whether a file holds commands that gates run."""
    name = path.rpartition("/")[2]
    if path in named:
        return "." not in name or name.endswith((".sh", ".bash", ".zsh", ".mk"))
    # Excludes files that a service runs which builds elsewhere: `.github/`, `.ci/`.
    return (role(path) == "build" and not path.startswith(".")) or name in ("noxfile.py", "tox.ini")


def _text_of(gate: Gate) -> str:
    return shlex.join(gate.argv) if gate.argv else gate.command


def _recipes(words: Sequence[str], folder: Path) -> list[str]:
    """Returns texts in which a gate's programs look up their commands."""
    names = {PurePath(word).name for word in words}
    texts = [_text(folder / name) for name in MAKEFILES if names & {"make", "gmake"}]
    if names & {"npm", "pnpm", "yarn", "bun"}:
        texts += [str(line) for line in npm_scripts(folder).values()]
    return [text for text in texts if text]


def npm_scripts(folder: Path) -> Mapping[str, object]:
    """Returns the scripts of package.json in `folder`, by name."""
    try:
        return dict(json.loads(read_named(folder / "package.json"))["scripts"])
    except (OSError, ConfigError, ValueError, LookupError, TypeError):
        return {}


def _run(text: str, folder: Path, root: Path) -> list[str]:
    """Returns files that shell text runs."""
    paths: list[str] = []
    for part in _PARTS.split(text):
        words = [word for word in _WORDS.split(part) if word.strip("@-+!{}") not in _KEYWORDS]
        before = ""
        for word in words:
            plain = word.strip("@'\"").rpartition("=")[2].partition("::")[0]
            path = _file(plain, folder, root)
            if path and (before in _RUNNING or (not before and "/" in plain)):
                paths.append(path)
            if not word.startswith("-") and not _ASSIGNED.match(word):
                before = PurePath(plain).name.rstrip("0123456789.") or word
    return paths


def _file(word: str, folder: Path, root: Path) -> str:
    """Returns the file of the work root that `word` names; "" if there is none."""
    word = word.partition("::")[0]
    if not word or "\0" in word or len(word) > 1000:
        return ""
    target = (folder / word).resolve()
    inside = target.is_relative_to(root) and target.is_file()
    return target.relative_to(root).as_posix() if inside else ""


def _tool(path: str, root: Path) -> bool:
    """Returns whether a file that a recipe runs belongs to the check, not to the product."""
    top, _, _ = path.partition("/")
    stem = PurePath(path).name.partition(".")[0]
    return top in _TOOLS or _shell(root / path) or _CHECKING.search(stem) is not None


def _shell(script: Path) -> bool:
    if script.suffix in (".sh", ".bash", ".zsh"):
        return True
    return not script.suffix and b"sh" in _text(script).partition("\n")[0].encode()[:40]


def _text(file: Path) -> str:
    try:
        with open_named(file) as opened:
            return opened.read(200_000).decode("utf-8", "replace")
    except (OSError, ConfigError):
        return ""

"""Converts a user's completion criteria to runnable `gates`, or refuses them with a `suggestion`.

`A AND B` are two gates, both of which must pass; so are `A && B` if both are simple commands. Looks
at the work root and at `PATH`, runs nothing. After the run before iteration 1, `absent` finds a
gate that can never run. It only trusts the program's own message about exactly the named program,
because a module that a test cannot import may be what the loop is to repair.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Final

from taofold.core.errors import ConfigError
from taofold.loop.gates.commands import VARIABLE, search_path
from taofold.loop.gates.gate_files import MAKEFILES, npm_scripts
from taofold.loop.verdict import Gate, GateResult

MOST_GATES: Final = 20
"""The most gates of one loop."""
_AND: Final = re.compile(r"\s+AND\s+")
_THEN: Final = re.compile("&&")
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_SHELL: Final = re.compile(r"[|;<>$`*?(){}&\n#~!]")
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_PASSED_ON: Final = re.compile(rf"(?:env\s+)?(?:[A-Za-z_]\w*={VARIABLE}\s+)+")
"""Variables that a gate gets from the environment (`TOKEN=$TOKEN pytest`); their values are never
stored.
"""
_BUILTINS: Final = frozenset({"test", "[", ":", "cd", "export", "source", ".", "if", "for", "set"})
_WORD: Final = re.compile(r"[A-Za-z][a-z']*[.!?]?")
_CD: Final = re.compile(r"\s*cd\s+([\w./-]+)\s*&&\s*(.+)", re.DOTALL)
_CLAIM: Final = re.compile(
    r"\s+(?:(?:all\s+)?pass(?:es)?|succeeds?|works?|(?:is|are|runs?)\s+(?:green|clean|ok)"
    r"|(?:exits?|returns?|ends?)(?:\s+with)?(?:\s+(?:exit\s+)?(?:code|status))?\s+(?:0|zero)"
    r"|(?:exits|completes|finishes|builds|runs)\s+(?:successfully|cleanly|without\s+errors?)"
    r"|(?:has|reports|shows|gives)\s+no\s+(?:errors|failures|warnings|issues|problems))\s*[.!]?$",
    re.IGNORECASE,
)
"""Phrases for a command that exits with 0."""
_TAKES_TARGET: Final = frozenset({"make", "run", "just", "task", "rake", "invoke", "-s", "-e"})
_TEXTUAL: Final = frozenset({"echo", "printf", "grep", "rg"})
"""Programs whose last argument may be any text."""
_COVERAGE: Final = re.compile(
    r"(?:test |code |the )?coverage\b[^0-9]*(\d{1,3})\s*%.*", re.IGNORECASE
)
_LOADERS: Final = re.compile(r"(?:LD_|DYLD_)\w+\Z")
_SPOKEN: Final = frozenset(
    {
        *("make", "test", "find", "time", "sort", "cut", "join", "split", "check"),
        *("look", "watch", "yes", "true", "false", "kill", "who", "last", "write"),
        *("file", "less", "more", "install", "run", "clean", "fix", "which", "at"),
        *("head", "tail", "type", "what", "all", "build", "apply", "code", "ensure"),
        *("verify", "no", "pr", "as", "dd", "man", "host", "link", "mount", "update"),
    }
)
"""Programs whose names are English words that a sentence may begin with."""
_SUGGESTED: Final = (
    (r"\b(?:lint|style|format)\w*", (("ruff check .", ("pyproject.toml", "ruff.toml", "*.py")),)),
    (
        r"\b(?:types?|typing|mypy|typecheck\w*)\b",
        (("npx tsc --noEmit", ("tsconfig.json",)), ("mypy .", ("pyproject.toml", "*.py"))),
    ),
    (
        r"\b(?:build|compil)\w*",
        (
            ("cargo build", ("Cargo.toml",)),
            ("go build ./...", ("go.mod",)),
            ("npm run build", ("package.json",)),
            ("make", ("Makefile",)),
        ),
    ),
    (
        r"",
        (
            ("cargo test", ("Cargo.toml",)),
            ("go test ./...", ("go.mod",)),
            ("npm test", ("package.json",)),
            ("python -m pytest -q", ("pyproject.toml", "tests", "test_*.py", "setup.py", "*.py")),
            ("make test", ("Makefile",)),
        ),
    ),
)


def gates(
    criteria: Sequence[str],
    root: Path | str,
    *,
    path: str | None = None,
    timeout: float = 600.0,
) -> tuple[Gate, ...]:
    """Returns the gates that `criteria` name; all of them must pass.

    Args:
        criteria: Commands. Each may join several with ` AND `, and may claim that it passes (`npm
            test passes`, `pytest exits with code 0`).
        root: The work root, in which commands and their arguments are resolved.
        path: The search path of programs; None = that of the gates.
        timeout: Seconds for each gate.

    Raises:
        ConfigError: There is none, or one is not a runnable command.
    """
    # Blanks around it, so that an AND at either end leaves an empty part, which is refused.
    parts = [part.strip() for text in criteria for part in _split(_AND, f" {text} ")]
    if not parts or not all(parts):
        raise ConfigError(
            "a loop needs a command that proves completion: --completion 'python -m pytest -q'"
        )
    if len(parts) > MOST_GATES:
        raise ConfigError(f"{len(parts)} completion commands; the limit is {MOST_GATES}")
    work_root = Path(root).resolve()
    path = search_path(work_root) if path is None else path
    parsed: list[Gate] = []
    for part in parts:
        parsed += _gates(_unclaimed(part, work_root), work_root, path, timeout)
    return tuple(parsed)


def suggestion(text: str, root: Path | str) -> str:
    """Returns the command that most likely proves what `text` describes; "" if nothing fits."""
    work_root = Path(root)
    for words, commands in _SUGGESTED:
        if re.search(words, text.lower()):
            for command, signs in commands:
                if any([next(work_root.glob(sign), None) for sign in signs]):
                    return command
    return ""


def _split(between: re.Pattern[str], text: str) -> list[str]:
    """Returns the parts of a text; separators in quotes or after a backslash are ignored."""
    unquoted = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    cuts = [match.span() for match in between.finditer(unquoted)]
    starts = [0, *[end for _, end in cuts]]
    ends = [*[start for start, _ in cuts], len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _unclaimed(text: str, root: Path) -> str:
    """Returns the command of a sentence that claims that it passes; else the text itself.

    Raises:
        ConfigError: The sentence is about coverage.
    """
    if about := _COVERAGE.fullmatch(text):
        raise ConfigError(
            f"{text!r} is not a command: write one that fails below {about[1]} %, such as "
            f"'python -m pytest --cov --cov-fail-under={about[1]}'"
        )
    claim = _CLAIM.search(text)
    if claim is None:
        return text
    command, said = text[: claim.start()].rstrip(), claim[0].split()
    words = command.split() or [""]
    # A target or a file may have such a name; a sentence such as "test everything works" does not.
    is_name = len(said) == 1 and (words[-1] in _TAKES_TARGET or (root / said[0]).exists())
    is_wish = words[0] in (_SPOKEN - {"make"}) | _TEXTUAL
    return text if is_name or is_wish else command


def _gates(text: str, root: Path, path: str | None, timeout: float) -> list[Gate]:
    folder = "."
    moved = _CD.fullmatch(text)
    if moved and (root / moved[1]).is_dir() and (root / moved[1]).resolve().is_relative_to(root):
        folder, rest = moved[1], moved[2]
    else:
        rest = text
    # Simple commands run without a shell and without expansion, each as a gate with its own report.
    simple = [part.strip() for part in _split(_THEN, rest)]
    if all([part and not _shell(_program(part)) and not part.startswith("cd ") for part in simple]):
        return [_gate(part, root, folder, path, timeout) for part in simple]
    first = _first_word(rest)
    # In shell text only the first program can be checked without running it.
    _checked(text, [first], root, folder, path)
    return [Gate(rest, timeout=timeout, folder=folder, shell=True)]  # noqa: S604 - no process here


def _program(text: str) -> str:
    """Returns the command without the variables that are passed from the environment.

    Raises:
        ConfigError: One of them is not set.
    """
    passed = _PASSED_ON.match(text)
    if passed is None:
        return text
    for name in re.findall(VARIABLE, passed[0]):
        if name not in os.environ:
            raise ConfigError(f"{text!r} passes on ${name}, which is not set here")
    return text[passed.end() :]


def _gate(text: str, root: Path, folder: str, path: str | None, timeout: float) -> Gate:
    words = _words(text)
    env: dict[str, str] = {}
    # `env A=1 program` needs no shell: the assignments below are the gate's environment.
    if words and words[0] == "env":
        words = words[1:]
    while words and _ASSIGNED.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        # LD_PRELOAD and similar variables load code into every program of the gate.
        if _LOADERS.match(name):
            raise ConfigError(f"{name} may not be set for a gate: {text!r}")
        env[name] = value
    _checked(text, words, root, folder, path)
    return Gate(text, timeout=timeout, folder=folder, env=env, argv=tuple(words))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the completion command {text!r} cannot be read: {error}") from error


def _shell(text: str) -> bool:
    """Returns whether it needs a shell. Text in single quotes is ignored."""
    return _SHELL.search(re.sub(r"'[^']*'", "", text)) is not None


def _first_word(text: str) -> str:
    for word in re.split(r"[\s;|&()]+", text.strip().lstrip("!({ ")):
        if word and not _ASSIGNED.match(word):
            return word
    return ""


def _checked(text: str, words: list[str], root: Path, folder: str, path: str | None) -> None:
    if not words or not words[0]:
        raise refusal(text, "it names no program", root)
    program = words[0]
    lack = _lack(program, root / folder, path)
    if lack:
        raise refusal(text, lack, root)
    if program == "make" and not _targets(words[1:], root / folder):
        has = any([(root / folder / name).is_file() for name in MAKEFILES])
        why = "the Makefile has no such target" if has else "there is no Makefile"
        raise refusal(text, why, root)
    script = _script(words) if program == "npm" else ""
    if script and script not in npm_scripts(root / folder):
        has = (root / folder / "package.json").is_file()
        why = f"package.json has no script {script!r}" if has else "there is no package.json"
        raise refusal(text, why, root)
    if len(words) >= 3 and _prose(words, root / folder):
        raise refusal(text, "it reads like a sentence, not like a command", root)


def _lack(program: str, folder: Path, path: str | None) -> str:
    """Returns why a program cannot be started; "" if it can."""
    # The gates' path begins with the folder of this interpreter, for any `path`.
    if program in _BUILTINS or program == "python":
        return ""
    if "/" not in program:
        lack = f"there is no program {program!r} on the gates' PATH ({path})"
        return "" if shutil.which(program, path=path) else lack
    if shutil.which(str(folder / program)):
        return ""
    if (folder / program).is_file():
        return f"{program} is not executable; make it so (chmod +x), or say: sh {program}"
    return f"there is no program {program!r}"


def _prose(words: list[str], folder: Path) -> bool:
    if words[0] not in _SPOKEN or words[0] in ("make", "[", "echo"):
        return False
    rest = words[1:]
    return all([_WORD.fullmatch(word) and not (folder / word).exists() for word in rest])


def _targets(words: list[str], folder: Path) -> bool:
    """Returns whether `make` may know the target. Only a plain Makefile can be searched."""
    if any([word.startswith(("-C", "-f", "--")) for word in words]):
        return True
    makefile = next(
        (folder / name for name in MAKEFILES if (folder / name).is_file()),
        None,
    )
    if makefile is None:
        return False
    text = makefile.read_text(encoding="utf-8", errors="replace")
    # Included files, pattern rules and `eval` may define any target: in doubt it exists.
    if re.search(r"(?m)^-?include\s|^[^\t#\n]*%[^\n]*:|\$\(eval", text):
        return True
    targets = [word for word in words if not word.startswith("-") and "=" not in word]
    named = set(" ".join(re.findall(r"(?m)^([^\t#\n:=]+):(?!=)", text)).split())
    # A target whose name is a variable may be any of them.
    return named >= set(targets) or "$" in "".join(named)


def _script(words: list[str]) -> str:
    """Returns the script of package.json that `npm` would run, "" if that is unknown."""
    match words[1:]:
        case [("test" | "t"), *_]:
            return "test"
        case ["run" | "run-script", name, *_] if not name.startswith("-"):
            return name
        case _:
            return ""


def refusal(text: str, why: str, root: Path) -> ConfigError:
    """Returns the error for a command that proves nothing, with a suggestion."""
    wish = suggestion(text, root) or "python -m pytest -q"
    such = f", such as {wish!r}" if wish != text else ""
    return ConfigError(
        f"{text!r} cannot be run to prove completion: {why}. "
        f"Write a command that exits with 0 when the work is done{such}"
    )


_PYTHON: Final = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?")
_SHELL_LACKS: Final = re.compile(
    r"^\S*sh: (?:line \d+: |\d+: )?(\S+): (?:command )?not found", re.MULTILINE
)
_NOT_FOUND: Final = 127
_PYTHON_TOOLS: Final = {"pytest": "pytest", "unittest": "unittest"}


_ASKS: Final = re.compile(
    r"\b(?:add|write|create|extend|improve|increase|raise|rename|rewrite|reformat|delete|remove)\b"
    r"[^.;\n]{0,60}?\b(?P<what>(?:unit |integration )?tests?|test cases?|coverage|specs?|fixtures?"
    r"|conftest|Makefile|Dockerfile|pyproject|package\.json|tsconfig|CMakeLists|noxfile|workflow|CI)\b"
    # "write the parser so that all tests pass" asks for a parser.
    r"(?!\W+(?:\w+\W+){0,2}?(?:pass|succeed|green|work)\w*)",
    re.IGNORECASE,
)


def asked_for(task: str) -> str:
    """Returns the part of a task that no proof can include: tests, configuration; "" if none."""
    asked = _ASKS.search(task)
    return asked["what"] if asked else ""


def absent(results: Iterable[GateResult]) -> tuple[Gate, str] | None:
    """Returns the first gate that can never run as written, and why; None if all could."""
    for result in results:
        why = "" if result.passed else _why(result)
        if why:
            return result.gate, why
    return None


def _why(result: GateResult) -> str:
    if not result.started:
        return result.lacking
    if result.code == _NOT_FOUND:
        words = set(re.split(r"[\s;|&()]+", result.gate.command))
        lacking = [name for name in _SHELL_LACKS.findall(result.output) if name in words]
        if not lacking:
            return ""
        return result.lacking or f"there is no program {lacking[0]!r}"
    name = _module(result)
    if name and not result.checks and _lacks(result.output, name):
        python = next((word for word in result.ran if _is_python(word)), "python")
        wrapped = shlex.join(["sh", "-c", result.gate.command])
        return (
            f"{python} has no module {name!r}. Install it there; or, if the work is to make it, "
            f"say {wrapped!r}"
        )
    return ""


def _module(result: GateResult) -> str:
    """Returns the module that the command starts with `python -m`, or that a test runner is."""
    words = result.gate.argv
    for at, word in enumerate(words[:-2]):
        if _is_python(word) and words[at + 1] == "-m":
            return words[at + 2]
    return _PYTHON_TOOLS.get(result.runner, "")


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(PurePath(word).name) is not None


def _lacks(output: str, name: str) -> bool:
    """Returns whether Python ends with the message that it has no such module."""
    last = output.strip().rpartition("\n")[2].strip()
    top = name.partition(".")[0]
    return (
        last.endswith((f": No module named {name}", f": No module named {name!r}"))
        or last == f"ModuleNotFoundError: No module named {name!r}"
        or (f"finding module specification for {name!r}" in last and f"named {top!r}" in last)
    )

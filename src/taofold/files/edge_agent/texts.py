"""Rewrites templates and conditions of The Edge Agent for our expressions.

Its names `settings`, `data` and `action_result` become `variables.settings`, `variables.data` and
`result`. A variable of the state that is missing is null there, so tests read it with `get`. The
texts are only split into tokens here. Our own compiler decides what an expression may do.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from taofold.files.checked_yaml import KeyPath
from taofold.files.edge_agent.made import Findings

_TOKEN: Final = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_]\w*|\s+|\d+|.", re.DOTALL
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_PLAIN: Final = re.compile(r"\s*state\.(\w+)\s*(\|\s*(?:tojson|json)\b)?\s*")
_FILTERS: Final = {"json": "tojson"}
"""Filters that have another name here."""
_CLOSING: Final = {"{{": "}}", "{%": "%}", "{#": "#}"}
_TESTING: Final = frozenset({"if", "elif", "and", "or", "not"})
_LONGEST: Final = 200_000
MOVED: Final = {"settings": "variables.settings", "data": "variables.data"}
_REFUSED: Final = {
    "secrets": "a file reads no secrets: credentials come from the environment of the models",
    "env": "only settings read the environment; pass the value with --set and read state.NAME",
    "checkpoint": "the log keeps every step; `taofold runs` reads and resumes runs",
}
LAMBDA: Final = re.compile(r"lambda\s+(\w+)\s*(?:,\s*\*\*\w+\s*)?:\s*(.*)", re.DOTALL)
_RETURN: Final = re.compile(r"return\b\s*(.*)", re.DOTALL)


class TemplateTexts:
    """The texts of one file."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.written: frozenset[str] = frozenset()
        """The variables that nodes set. On some path such a variable may be missing."""
        self.settings: set[str] = set()
        """Sections of the file that templates read: `settings`, `data`."""

    def template(
        self,
        text: str,
        path: KeyPath,
        names: Mapping[str, str] | None = None,
        *,
        setting: bool = False,
    ) -> str:
        """Returns the text of a template in our form.

        Args:
            text: The template.
            path: Its place in the file.
            names: Further names, with what they are called here.
            setting: True if it is resolved when the file is read.
        """
        if len(text) > _LONGEST or "{" not in text:
            return text
        parts = list(_blocks(text))
        local = {name for part in parts if part.startswith("{%") for name in _bound(part)}
        alone = sum(bool(part.strip()) for part in parts) == 1
        for index, part in enumerate(parts):
            if part.startswith(("{{", "{%")):
                inside = part[2:-2]
                plain = _PLAIN.fullmatch(inside)
                if plain and not alone and plain[1] in self.written:
                    absent = "default(none) | tojson" if plain[2] else 'default("")'
                    parts[index] = f"{{{{ state.{plain[1]} | {absent} }}}}"
                    continue
                testing = not _TESTING.isdisjoint(_NAME.findall(inside))
                new = self._expression(inside, path, local, names or {}, testing, setting)
                parts[index] = part[:2] + new + part[-2:]
        return "".join(parts)

    def condition(
        self, written: object, path: KeyPath, names: Mapping[str, str] | None = None
    ) -> str:
        """Returns a condition in our form."""
        if isinstance(written, bool):
            return "true" if written else "false"
        if not isinstance(written, str):
            self.findings.refuse(path, f"a condition is an expression, not {written!r}")
            return "false"
        text = bare(written)
        if text in ("True", "False"):
            return text.lower()
        negated = text.removeprefix("!").strip()
        if negated.isidentifier() and negated not in ("true", "false", "none", "None"):
            test = f'get(state, "{negated}", false)'
            return f"not {test}" if text.startswith("!") else test
        if text.startswith("!") and not text.startswith("!="):
            text = f"not ({negated})"
        return self._expression(text, path, set(), names or {}, True, False)

    def _expression(
        self,
        text: str,
        path: KeyPath,
        local: set[str],
        names: Mapping[str, str],
        testing: bool,
        setting: bool,
    ) -> str:
        tokens = _TOKEN.findall(text)
        parts: list[str] = []
        position = 0
        while position < len(tokens):
            part = tokens[position]
            member = _next(tokens, position) == "."
            if part in _FILTERS and _before(parts) == "|":
                parts.append(_FILTERS[part])
            elif _NAME.fullmatch(part) is None or _before(parts) == "." or part in local:
                parts.append(part)
            elif part in names:
                parts.append(names[part])
            elif part == "action_result":
                parts.append("result")
            elif part in MOVED and member:
                self.settings.add(part)
                parts.append(MOVED[part])
            elif part in _REFUSED and member and not (part == "env" and setting):
                self.findings.refuse(path, f"{part!r} cannot be read here", _REFUSED[part])
                # Without its members, about which no further fault is to be reported.
                parts.append("none")
                position = _after_members(tokens, position + 1)
                continue
            elif part == "state" and testing and (read := _member(tokens, position)):
                parts.append(f'get(state, "{read[0]}")')
                position = read[1]
                continue
            else:
                parts.append(part)
            position += 1
        return "".join(parts)


def _blocks(text: str) -> Iterator[str]:
    """Yields the expressions, statements and comments of a template, and the text between them."""
    position = 0
    while (start := text.find("{", position)) >= 0:
        closing = _CLOSING.get(text[start : start + 2])
        end = text.find(closing, start + 2) if closing else -1
        if closing and end < 0:
            break  # not closed: the compiler reports it
        if closing:
            yield text[position:start]
            yield text[start : end + 2]
            position = end + 2
        else:
            yield text[position : start + 1]
            position = start + 1
    yield text[position:]


def _bound(statement: str) -> Iterator[str]:
    """Yields the names that a `for` or `set` statement binds."""
    words = _NAME.findall(statement)
    if words[:1] == ["for"] and "in" in words:
        yield from words[1 : words.index("in")]
    elif words[:1] == ["set"]:
        yield from words[1:2]


def bare(text: str) -> str:
    """Returns an expression without braces, `return` and `lambda state:` around it."""
    text = text.strip()
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        text = text[2:-2].strip()
    if match := _RETURN.fullmatch(text):
        text = match[1].strip()
    if match := LAMBDA.fullmatch(text):
        text = re.sub(rf"\b{match[1]}\b", "state", match[2]).strip()
    return text


def _after_members(tokens: list[str], position: int) -> int:
    while tokens[position : position + 1] == ["."] and position + 1 < len(tokens):
        position += 2
    return position


def _next(tokens: list[str], position: int) -> str:
    for index in range(position + 1, len(tokens)):
        token = tokens[index]
        if not token.isspace():
            return token
    return ""


def _before(parts: list[str]) -> str:
    for part in reversed(parts):
        if not part.isspace():
            return part
    return ""


def _member(tokens: list[str], position: int) -> tuple[str, int] | None:
    """Returns the name in `state.NAME` that may be missing, and the position after it."""
    if tokens[position + 1 : position + 2] != ["."] or position + 2 >= len(tokens):
        return None
    name = tokens[position + 2]
    if _NAME.fullmatch(name) is None:
        return None
    rest = list(_words(tokens, position + 3, 3))
    # A method, a part of the value, or a text that handles a missing variable itself.
    if rest[:1] in (["("], ["."], ["["]) or rest[:2] in (["|", "default"], ["|", "d"]):
        return None
    if rest[:2] in (["is", "defined"], ["is", "undefined"]) or rest == ["is", "not", "defined"]:
        return None
    return name, position + 3


def _words(tokens: list[str], start: int, most: int) -> Iterator[str]:
    found = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        if found == most:
            return
        if not token.isspace():
            found += 1
            yield token

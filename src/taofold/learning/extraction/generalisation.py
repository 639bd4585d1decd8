"""From the case to the rule: messages to bounded patterns, lines to templates with placeholders.

A message becomes a pattern of fixed texts with few wildcards, `.*` at most three times, so that
whoever runs it as a regular expression is safe too (we never do: patterns are data). Also the place
and the line at which an error was raised, as they are compared between projects, and the schema's
names for classes of errors and for languages. Pure, and the same input gives the same output.
"""

import builtins
import re
import types
from collections.abc import Iterable
from itertools import islice
from posixpath import splitext
from typing import Final

from taofold.core.failing_checks import Check, is_foreign, is_test
from taofold.diagnostics import PrintedFrame, printed_frames
from taofold.learning.extraction.comments import without_comments
from taofold.learning.extraction.diffs import KNOWN, TOKEN
from taofold.learning.patterns.kinds import ErrorType

MOST_MESSAGE: Final = 160
"""Characters of a message that are generalised; the rest says too much about one case."""
MOST_WILDCARDS: Final = 6
MOST_OPEN: Final = 3
"""Wildcards that may stand for anything; more of them would match slowly."""
MOST_LINES: Final = 12
"""Changed lines that a template takes."""

_LITERAL: Final = re.compile(
    # The apostrophe of "can't" opens no text.
    r"(?P<string>(?<!\w)'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{1,200}`)"
    r"|(?P<object><[^<>\n]{1,200}>)"
    r"|(?P<list>\[[^\[\]\n]{0,200}\])|(?P<dict>\{[^{}\n]{0,200}\})"
    r"|(?P<path>(?:[\w.-]*/)+[\w.-]+)"
    r"|(?P<number>0x[0-9a-fA-F]+\b|(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w))"
    r"|(?P<call>(?<![\w.])(?!assert\b)[A-Za-z_][\w.]{0,80}\([^()\n]{0,200}\))"
)
_COMPARED: Final = re.compile(
    r"^(AssertionError: )?assert (?:[^=<>!]{1,150}?) (==|!=|<=|>=|<|>|is not|is|not in|in) .+$"
)
_WILD: Final = {
    "object": "<.*>",
    "list": r"\[.*\]",
    "dict": r"\{.*\}",
    "path": r"\S+",
    "call": r"\w+\(.*\)",
}
_TYPES_OF_PYTHON: Final = [*vars(builtins).values(), *vars(types).values()]
TYPES: Final = frozenset([kind.__name__ for kind in _TYPES_OF_PYTHON if isinstance(kind, type)])
"""Names of the language's types: in a message they are no names of the program's domain."""
_SIGNS: Final = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "&", "|", "**", "+=")
_KEPT: Final = TYPES.union(_SIGNS)
"""Names of types and signs: quoted in messages, and often the very cause (`'coroutine' object`)."""
_LANGUAGE: Final = KNOWN | {"self", "cls", "f"}
_TYPES: Final[dict[str, ErrorType]] = {
    "TypeError": "TypeError",
    "SyntaxError": "SyntaxError",
    "IndentationError": "SyntaxError",
    "NameError": "ReferenceError",
    "UnboundLocalError": "ReferenceError",
    "ReferenceError": "ReferenceError",
    "AttributeError": "ReferenceError",
    "AssertionError": "AssertionError",
    "Failed": "AssertionError",
    "AssertionFailedError": "AssertionError",
    "RuntimeError": "RuntimeError",
    "RecursionError": "RuntimeError",
    "RangeError": "RuntimeError",
    "panic": "RuntimeError",
    "TimeoutError": "TimeoutError",
    "Timeout": "TimeoutError",
    "ValidationError": "ValidationError",
    "ValueError": "ValidationError",
}
_LANGUAGES: Final = {
    ".py": "python",
    ".pyi": "python",
    ".ts": "typescript",
    ".tsx": "typescript",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascript",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
}


def language_of(path: str) -> str:
    """The schema's name of the language that a file is written in."""
    return _LANGUAGES.get(splitext(path)[1], "other")


def error_type_of(error: str) -> ErrorType:
    """The schema's name for an error's class, "Other" where it has none."""
    return _TYPES.get(error.rpartition(".")[2], "Other")


_QUOTED_SENTENCE: Final = re.compile(r"""(['"])((?:(?!\1)\S+\s+){3,}(?!\1)\S+)\1""")


def pattern_of(message: str) -> str:
    """A regular expression for messages like this one: literals are wildcards.

    Only the first line counts. It always matches the message that it was made of.
    """
    line = message.strip().split("\n", 1)[0][:MOST_MESSAGE]
    sentence = _QUOTED_SENTENCE.fullmatch(line)
    if sentence:  # A key that is a sentence: Python quotes what a KeyError holds.
        return f"{sentence[1]}{pattern_of(sentence[2])}{sentence[1]}"
    compared = _COMPARED.match(line)
    if compared:  # What was compared is the case; that it was compared is the rule.
        return f"{compared[1] or ''}assert .* {compared[2]} .*"
    parts: list[str] = []
    end, wild, free = 0, 0, 0
    for literal in _LITERAL.finditer(line):
        # `unsupported operand type(s)` looks like a call.
        if literal[0].strip("'") in _KEPT or literal[0] == "type(s)":
            continue
        parts.append(_escaped(line[end : literal.start()]))
        end, wildcard = literal.end(), _wildcard(str(literal.lastgroup), literal[0])
        wild, free = wild + 1, free + (".*" in wildcard)
        # Cut off here: a pattern of the beginning still matches, for nothing anchors its end.
        if wild > MOST_WILDCARDS or free > MOST_OPEN:
            return "".join(parts)
        parts.append(wildcard)
    parts.append(_escaped(line[end:]))
    return "".join(parts)


def _wildcard(kind: str, text: str) -> str:
    if kind == "string":
        return f"{text[0]}.*{text[0]}"
    if kind == "number":
        return r"\d+" if text.isdigit() else r"\S+"
    return _WILD[kind]


def _escaped(text: str) -> str:
    """`re.escape` without what needs no escape outside of classes: it is read by people."""
    return re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", text)


def hints_of(fault: Check) -> tuple[str, ...]:
    """Where such a failure is found: the kind of file, with the function's name."""
    suffix = splitext(fault.place.path)[1] if fault.place.path else ""
    if not suffix:
        return ()
    name = fault.place.function if re.fullmatch(r"[A-Za-z_]\w*", fault.place.function) else ""
    if name.startswith("test"):  # It says what was tested, not where such errors arise.
        name = ""
    return (f"*{suffix}:{name}",) if name else (f"*{suffix}",)


def seen_at(check: Check) -> str:
    """Where it failed in the project, as `path:function`; "" if that is not known."""
    # A library's frame lies below the one that called it.
    inside = [p for p in check.places if not is_foreign(p.path) and not is_test(p.path)]
    # A comprehension has no name to tell: the function around it has.
    named = [p for p in inside if not p.function.startswith("<")]
    place = (named or inside or [check.place])[-1]
    return ":".join([part for part in (place.path, place.function) if part])


def frames_of(check: Check) -> list[PrintedFrame]:
    """The frames in the project's own files whose code its runner printed, the innermost last."""
    own = [place for place in check.places if not is_foreign(place.path)]
    return [
        frame
        for frame in printed_frames(check.traceback)
        if any(frame.line == p.line and f"/{frame.path}".endswith(f"/{p.path}") for p in own)
    ]


def raised_at(check: Check) -> str:
    """The project's own line that raised it, as its runner printed it."""
    place = check.place
    lines = [frame.statement for frame in frames_of(check) if frame.line == place.line]
    return without_comments(lines[-1], place.path) if lines else ""


def template_code(added: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The new lines with placeholders for names and texts, and what each stood for.

    What follows a dot, and the language's own names, belong to what the template does.
    """
    holes: dict[str, str] = {}

    def hole(found: re.Match[str]) -> str:
        token, before = found[0], found.string[: found.start()][-1:]
        text = token[0] in "\"'"
        # The text of an f-string is code in part.
        own = before == "f" or not token[1:-1] if text else before == "."
        if own or not (text or re.match(r"[A-Za-z_]", token)) or token in _LANGUAGE:
            return token
        kind = "text" if text else "variable"
        number = sum(name.partition("_")[0] == kind for name in holes.values()) + 1
        name = holes.setdefault(token, kind if number == 1 else f"{kind}_{number}")
        quote = token[0] if text else ""
        return f"{quote}{{{{{name}}}}}{quote}"

    code = "\n".join([TOKEN.sub(hole, line) for line in islice(added, MOST_LINES)])
    # A text stands there without its quotes.
    meanings = {name: token[1:-1] if token[0] in "\"'" else token for token, name in holes.items()}
    return code, {
        name: f"a {name.partition('_')[0]}, here {text[:60]!r}" for name, text in meanings.items()
    }

"""Generalises a case to a rule: messages to bounded patterns, lines to templates with holes.

A message becomes a pattern of fixed texts with few wildcards, `.*` at most three times, so that
running it as a regular expression is safe too (this code never does: patterns are data). Also
returns the place and the line of an error in the form that is compared between projects, and the
schema's names for classes of errors and for languages. Pure and deterministic.
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
"""The most characters of a message that are generalised; the rest is specific to one case."""
MOST_WILDCARDS: Final = 6
MOST_OPEN: Final = 3
"""The most wildcards that match anything; more of them would match slowly."""
MOST_LINES: Final = 12
"""The most changed lines in a template."""

_LITERAL: Final = re.compile(
    # The apostrophe of "can't" opens no string.
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
"""Names of the language's types: in a message they are not names of the program's domain."""
_SIGNS: Final = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "&", "|", "**", "+=")
_KEPT: Final = TYPES.union(_SIGNS)
"""Names of types and signs: often quoted as the actual cause (`'coroutine' object`)."""
_LANGUAGE: Final = KNOWN | {"self", "cls", "f"}
_TYPES: Final[dict[str, ErrorType]] = {
    "TypeError": "TypeError",
    "SyntaxError": "SyntaxError",
    "IndentationError": "SyntaxError",
    "TabError": "SyntaxError",
    "ReferenceError": "ReferenceError",
    "AssertionError": "AssertionError",
    "Failed": "AssertionError",
    "AssertionFailedError": "AssertionError",
    "RuntimeError": "RuntimeError",
    "RecursionError": "RuntimeError",
    "NotImplementedError": "RuntimeError",
    "TimeoutError": "TimeoutError",
    "Timeout": "TimeoutError",
    "ValidationError": "ValidationError",
}
"""The schema's names, and the classes that are a kind of these in their own language.

An AttributeError of Python is no ReferenceError of JavaScript.
"""
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
    """Returns the schema's name of a file's language."""
    return _LANGUAGES.get(splitext(path)[1], "other")


def error_type_of(error: str) -> ErrorType:
    """Returns the schema's name for an error's class, "Other" if it has none."""
    return _TYPES.get(error.rpartition(".")[2], "Other")


_QUOTED_SENTENCE: Final = re.compile(r"""(['"])((?:(?!\1)\S+\s+){3,}(?!\1)\S+)\1""")


def pattern_of(message: str) -> str:
    """Returns a regular expression for messages like this one: literals are wildcards.

    Only the first line counts. It always matches the message that it was made from.
    """
    line = message.strip().split("\n", 1)[0][:MOST_MESSAGE]
    sentence = _QUOTED_SENTENCE.fullmatch(line)
    if sentence:  # A key that is a sentence: Python quotes the value of a KeyError.
        return f"{sentence[1]}{pattern_of(sentence[2])}{sentence[1]}"
    compared = _COMPARED.match(line)
    if compared:  # The compared values are the case; the comparison is the rule.
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
        # Cut off here: a pattern of the beginning still matches, because its end is not anchored.
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
    """Escapes like `re.escape`, but only where needed outside of classes, for readability."""
    return re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", text)


def hints_of(fault: Check) -> tuple[str, ...]:
    """Returns the typical place of such a failure: the kind of file, with the function's name."""
    suffix = splitext(fault.place.path)[1] if fault.place.path else ""
    if not suffix:
        return ()
    name = fault.place.function if re.fullmatch(r"[A-Za-z_]\w*", fault.place.function) else ""
    # The name of a test describes the tested behaviour, not a place of such errors.
    if name.startswith("test"):
        name = ""
    return (f"*{suffix}:{name}",) if name else (f"*{suffix}",)


def seen_at(check: Check) -> str:
    """Returns the place of the failure in the project as `path:function`; "" if unknown."""
    # A library's frame lies below the frame that called it.
    inside = [p for p in check.places if not is_foreign(p.path) and not is_test(p.path)]
    # A comprehension has no name of its own: the enclosing function does.
    named = [p for p in inside if not p.function.startswith("<")]
    place = (named or inside or [check.place])[-1]
    return ":".join([part for part in (place.path, place.function) if part])


def frames_of(check: Check) -> list[PrintedFrame]:
    """Returns printed frames in the project's own files, the innermost last."""
    own = [place for place in check.places if not is_foreign(place.path)]
    return [
        frame
        for frame in printed_frames(check.traceback)
        if any(frame.line == p.line and f"/{frame.path}".endswith(f"/{p.path}") for p in own)
    ]


def raised_at(check: Check) -> str:
    """Returns the project's own line that raised it, as its runner printed it."""
    place = check.place
    lines = [frame.statement for frame in frames_of(check) if frame.line == place.line]
    return without_comments(lines[-1], place.path) if lines else ""


def template_code(added: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Returns the new lines with placeholders for names and texts, and the meaning of each.

    Names after a dot, and the language's own names, belong to the template.
    """
    holes: dict[str, str] = {}

    def hole(found: re.Match[str]) -> str:
        token, before = found[0], found.string[: found.start()][-1:]
        text = token[0] in "\"'"
        # The text of an f-string is partly code.
        own = before == "f" or not token[1:-1] if text else before == "."
        if own or not (text or re.match(r"[A-Za-z_]", token)) or token in _LANGUAGE:
            return token
        kind = "text" if text else "variable"
        number = sum(name.partition("_")[0] == kind for name in holes.values()) + 1
        name = holes.setdefault(token, kind if number == 1 else f"{kind}_{number}")
        quote = token[0] if text else ""
        return f"{quote}{{{{{name}}}}}{quote}"

    code = "\n".join([TOKEN.sub(hole, line) for line in islice(added, MOST_LINES)])
    # Text is listed without its quotes.
    meanings = {name: token[1:-1] if token[0] in "\"'" else token for token, name in holes.items()}
    return code, {
        name: f"a {name.partition('_')[0]}, here {text[:60]!r}" for name, text in meanings.items()
    }

"""Finds comments and attributes that switch off a check (`silencers`).

Covers the linters, type checkers, compilers and coverage tools of all languages. `added` lists the
marks that a change adds. `unsilenced` removes them from a text, so that a tool reports the hidden
findings. `unannotated` lists functions that lost their annotations, which type checkers skip. Knows
nothing about processes, gates or lessons. Pure.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

_OPENS: Final = r"(?:\#|//|/\*|--|<!--|;|%)[^\S\n]*"
"""The characters that begin a comment."""
_COMMENTS: Final = (
    # Words that are a silencer only at the beginning of a comment.
    rf"{_OPENS}(?i:(?:(?:ruff|flake8|sqlfluff)\s*:\s*)?noqa\b|nopep8\b|nosec\b|\#nosec\b|nosemgrep\b"
    r"|NOSONAR\b|nocov\b|(?:ruff\s*:\s*)?isort\s*:\s*(?:skip_file|skip|off|split)\b"
    r"|ruff\s*:\s*(?:disable|ignore|file-ignore)\b|(?:fmt|autopep8|black)\s*:\s*(?:off|skip)\b"
    r"|yapf\s*:\s*disable\b|type\s*:\s*ignore\b|(?:mypy|pyright|basedpyright)\s*:"
    r"|pyre-(?:ignore|fixme|unsafe)\w*|(?:ty|pyrefly|zuban)\s*:\s*ignore\b"
    r"|pytype\s*:\s*(?:disable|skip-file)\b"
    r"|pragma[:\s]?\s*no[ -]?(?:cover|branch|mutate)\w*|shellcheck\s+(?:disable|source)\s*="
    r"|hadolint\s+(?:global\s+)?ignore\s*=|yamllint\s+disable\S*|checkov\s*:\s*skip|tfsec\s*:\s*ignore"
    r"|luacheck\s*:|nolint\w*|lint\s*:\s*(?:file-)?ignore\b|revive\s*:\s*disable\S*"
    r"|eslint\s+[\w@/-]+\s*:|[jt]s(?:hint|lint)(?:\s+ignore)?\b|standard\s*:\s*disable"
    r"|noinspection\b|ignore(?:_for_file)?\s*:|no\s+critic\b)"
    # Words that code does not contain, at any place in a comment.
    r"|(?:es|ts|style|ox|sass-|markdown|html|flow|erb|slim-|scss-)lint-disable(?:-next-line|-line)?\b"
    r"|\b(?:ts|style|js)lint:disable(?:-next-line|-line)?\b"
    r"|/\*+[^\S\n]*(?:globals?|exported)\b[^*\n]*"
    r"|@ts-(?:ignore|nocheck|expect-error)\b|@noflow\b|\$Flow(?:FixMe|Ignore|Issue)\b"
    r"|\b(?:biome|rome|deno-lint|deno-coverage|prettier|dprint)-ignore[\w-]*"
    r"|\b(?:istanbul|c8|v8)[ \t]+ignore\b|\bnode:coverage[ \t]+(?:ignore|disable)\b"
    r"|\bpylint\s*:\s*(?:disable|skip-file)[\w-]*|\bNOLINT(?:NEXTLINE|BEGIN)?\b"
    r"|\bcppcheck-suppress\w*|\bLCOV_EXCL_\w+|\bGCOVR?_EXCL_\w+|\bcoverity\["
    r"|\b(?:rubocop|swiftlint|scalastyle|standard|credo)\s*:\s*(?:disable|off)[\w:-]*"
    r"|\b(?:ktlint|detekt)[:-]disable\b|\bCHECKSTYLE\s*:\s*OFF\b|\bphpcs\s*:\s*(?:ignore\w*|disable)"
    r"|@(?:phpstan-ignore|psalm-suppress|codeCoverageIgnore)[\w-]*|:nocov:|\bhlint\s*:\s*ignore\b"
)
_ATTRIBUTES: Final = (
    r"\#!?\[\s*(?:cfg_attr\s*\([^\[\]]*?,\s*)?(?:allow|expect)\s*\([^\[\]]*\]"
    r"|\#!?\[\s*(?:rustfmt::skip|coverage\s*\(\s*off\s*\)|cfg\s*\(\s*not\s*\(\s*tarpaulin\w*\s*\)\s*\))\s*\]"
    r"|@(?:\w+\.)?no_type_check(?:_decorator)?\b|@(?:file:)?Suppress(?:Warnings|FBWarnings|Lint)?\s*\([^()\n]*\)"
    r"|\#[^\S\n]*pragma[^\S\n]+(?:(?:GCC|clang)[^\S\n]+(?:diagnostic[^\S\n]+ignored|system_header)|warning)"
    r"[^\n]*"
)
_HIDDEN: Final = r"\bnot\s+(?:\w+\.)?TYPE_CHECKING\b"
"""Conditions that type checkers treat as unreachable."""
PATTERN: Final = rf"(?P<attribute>{_ATTRIBUTES})|(?P<hidden>{_HIDDEN})|{_COMMENTS}"
_SILENCER: Final = re.compile(PATTERN)
_CODES: Final = re.compile(
    r"\[([^\]\n]*)\]|((?:[^\S\n,]*[:,]?[^\S\n]*\b[A-Z]{1,5}[0-9]{2,5}\b)+)"
    r"|[=: \t]+((?:(?!--)[\w@/-]+,?[ \t]*)+)"
)
_WORD: Final = re.compile(r"[\w@/-]+")


class Silencer(NamedTuple):
    """A mark that switches off a check, and the findings that it names; no codes = all."""

    kind: str
    codes: frozenset[str]

    def covers(self, other: "Silencer") -> bool:
        """Returns whether it hides all that `other` hides."""
        if self.kind != other.kind:
            return False
        return not self.codes or (bool(other.codes) and other.codes <= self.codes)


def silencers(text: str) -> list[Silencer]:
    """Returns the marks in `text`, in their order."""
    return [_read(text, match) for match in _SILENCER.finditer(text)]


def added(before: Iterable[str], after: Iterable[str]) -> list[Silencer]:
    """Returns the marks of the texts `after` that no mark of the texts `before` covers.

    A mark that moves, or hides less than before, is not new.
    """
    left = Counter([mark for text in before for mark in silencers(text)])
    now = Counter([mark for text in after for mark in silencers(text)])
    new: list[Silencer] = []
    left, rest = left - now, now - left
    # Narrow marks first: each old mark covers one new mark.
    for mark in sorted(rest.elements(), key=lambda mark: len(mark.codes)):
        old = next((old for old in left if left[old] > 0 and old.covers(mark)), None)
        if old is None:
            new.append(mark)
        else:
            left[old] -= 1
    return new


def unsilenced(text: str, marks: Collection[Silencer], kept: Callable[[str], bool]) -> str:
    """Returns `text` without `marks`, except on lines that `kept` accepts.

    Lines and columns do not change.
    """

    def replaced(match: re.Match[str]) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start:].partition("\n")[0]
        if _read(text, match) not in marks or kept(line):
            return match[0]
        if match["hidden"]:
            return "True".ljust(len(match[0]))
        if match["attribute"]:
            return re.sub(r"[^\n]", " ", match[0])
        return re.sub(r"[\w@]", "-", match[0])

    return _SILENCER.sub(replaced, text)


def unannotated(texts: Mapping[str, tuple[str, str]]) -> list[str]:
    """Returns the Python functions that lost all their annotations, as `path: name`.

    Args:
        texts: The old and the new text of each file.
    """
    was = {
        name for path, (old, _) in texts.items() for name, typed in _functions(path, old) if typed
    }
    now = [(path, *each) for path, (_, new) in texts.items() for each in _functions(path, new)]
    typed = {name for _, name, annotated in now if annotated}
    return [f"{path}: {name}" for path, name, _ in now if name in was - typed]


def _functions(path: str, text: str) -> list[tuple[str, bool]]:
    """Returns the functions of a Python file by name, and whether each has annotations."""
    try:
        tree = ast.parse(text if path.endswith(".py") else "")
    except (SyntaxError, ValueError):
        return []
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = node.args
            each = [*parts.posonlyargs, *parts.args, *parts.kwonlyargs, parts.vararg, parts.kwarg]
            typed = node.returns or any([part and part.annotation for part in each])
            found.append((node.name, bool(typed)))
    return found


def _read(text: str, match: re.Match[str]) -> Silencer:
    kind = "".join(match[0].casefold().split())
    if match["attribute"] or match["hidden"]:
        return Silencer(kind, frozenset())
    codes = _CODES.match(text, match.end())
    # Free words are names of rules only after `disable`; elsewhere they are a reason.
    if codes is None or (codes[3] and "disable" not in kind):
        return Silencer(kind, frozenset())
    return Silencer(kind, frozenset(_WORD.findall(codes[0])))

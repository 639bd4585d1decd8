"""Handles tests inside source files: finds them (`spans`), and restores them (`splice`). Pure.

Rust has `#[cfg(test)]` modules, the files that these name (`modules`), and examples in doc
comments. Python has examples in docstrings and sometimes test functions beside the product. A
source file joins the proof, so without this module the agent could write the tests that judge it,
or a macro that replaces an assertion (`replaces_assertions`).
"""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final, TypeAlias

Spans: TypeAlias = dict[str, tuple[int, int]]
"""Tests by name, with the character span of each."""
# The part of Rust's lexer that distinguishes code from strings and comments. `'a'` is a character,
# `'a` a lifetime; a quote in a comment opens nothing.
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
    |(?P<text>[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])')
    |'\w+|\w+|.""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_CFG_TEST: Final = re.compile(r"cfg\((?:test\)|(?:all|any)\([^)]*\btest\b)")
_TEST: Final = re.compile(r"(?:\w+::)*(?:\w*test|rstest|case)(?:\(|\Z)")
_DOC: Final = re.compile(
    r"""^[ \t]*(?:(?:///(?!/)|//!)[^\n]*\n
    |/\*[*!](?![*/]).*?\*/\s*
    |\#!?\[\s*(?:cfg_attr\b[^\]"]*)?doc\s*=\s*(?:r\#*".*?"\#*|"(?:\\.|[^"\\])*"|[^\]"]*)\s*\)?\s*\]\s*
    |[ \t]+)+""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""All documentation of one item, in any notation; the compiler joins it, too."""
_EXAMPLE: Final = re.compile(r"```|~~~|\bdoc\s*=|(?m:^[ \t]*(?://[/!]|\*)?[ \t]{5,}\S)")
_DOCUMENTED: Final = re.compile(r"\b(?:fn|struct|enum|trait|mod|const|type|macro_rules!)\s+(\w+)")
_OPEN: Final = {"{": "}", "[": "]", "(": ")"}
_MODULE: Final = re.compile(r"\bmod\s+(\w+)\s*;\Z")


def splice(path: str, old: str, new: str) -> str:
    """Returns `new` with the tests of `old` in place of its own; new test code is removed."""
    before, now = spans(path, old), spans(path, new)
    if not before and not now:
        return new
    edits: list[tuple[int, int, str]] = []
    for name, (start, end) in now.items():
        if name in before:
            edits.append((start, end, old[slice(*before[name])]))
        elif path.endswith(".rs") and not name.startswith("doc "):
            edits.append((start, end, ""))
    # From the end, so that the positions of earlier edits still hold.
    for start, end, text in sorted(edits, reverse=True):
        new = new[:start] + text + new[end:]
    # Deleted tests are appended to the file. Examples of doc comments are not: the documented item
    # may be gone.
    lost = [old[slice(*span)] for name, span in before.items() if name not in now]
    if path.endswith(".rs"):
        new += "".join([f"\n{text}\n" for text in lost if not text.lstrip().startswith("//")])
    return new


def spans(path: str, text: str) -> Spans:
    """Returns the tests in a source file; none for an unknown language or a syntax error."""
    if path.endswith(".rs"):
        return dict(_rust(text))
    if path.endswith(".py"):
        return dict(_python(text))
    return {}


def modules(path: str, text: str) -> tuple[str, ...]:
    """Returns test-only files because of `#[cfg(test)] mod name;` in a Rust file."""
    paths: list[str] = []
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".rs")
    # `mod x;` in `a.rs` is `a/x.rs`; for these three names it is in the same folder.
    base = folder if stem in ("lib", "main", "mod") else f"{folder}/{stem}".lstrip("/")
    for start, end in spans(path, text).values() if path.endswith(".rs") else ():
        named = _MODULE.search(text[start:end])
        if named:
            target = f"{base}/{named[1]}".lstrip("/")
            paths += [f"{target}.rs", f"{target}/mod.rs"]
    return tuple(paths)


def _rust(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    tokens = list(_tokens(text))
    at, counts = 0, dict[str, int]()
    while at < len(tokens):
        if not _opens_attribute(tokens, at):
            at += 1
            continue
        start = at
        at, attributes = _attributes(tokens, at)
        if not any([_CFG_TEST.match(text) or _TEST.match(text) for text in attributes]):
            continue
        end = _item_end(tokens, at)
        # A name may occur twice (`#[cfg]` variants), so occurrences are counted.
        head = " ".join([token[0] for token in tokens[at : min(end, at + 12)]]).partition(" {")[0]
        counts[head] = counts.get(head, 0) + 1
        yield f"{head} {counts[head]}", (tokens[start].start(), tokens[end].end())
        at = end + 1
    for match in _DOC.finditer(text):
        if not _EXAMPLE.search(match[0]):
            continue
        after = _DOCUMENTED.search(text, match.end())
        name = f"doc {after[1] if after else ''}"
        counts[name] = counts.get(name, 0) + 1
        yield f"{name} {counts[name]}", match.span()


def _opens_attribute(tokens: list[re.Match[str]], at: int) -> bool:
    return [token[0] for token in tokens[at : at + 2]] == ["#", "["]


def _attributes(tokens: list[re.Match[str]], at: int) -> tuple[int, list[str]]:
    """Returns the content of the attributes that begin at `at`, and their end."""
    attributes: list[str] = []
    while _opens_attribute(tokens, at):
        end = _closing(tokens, at + 1)
        attributes.append("".join([token[0] for token in tokens[at + 2 : end]]))
        at = end + 1
    return at, attributes


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yields the tokens of Rust code, without blanks and comments."""
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _comment_end(text, at)
            continue
        token = _TOKEN.match(text, at)
        assert token is not None  # the last alternative matches any character
        if token["skip"] is None:
            yield token
        at = token.end()


def _comment_end(text: str, at: int) -> int:
    """Returns the end of the comment at `at`. Rust comments nest, so no pattern can match them."""
    depth = 0
    for sign in _COMMENT.finditer(text, at):
        depth += 1 if sign[0] == "/*" else -1
        if depth == 0:
            return sign.end()
    return len(text)


def _closing(tokens: list[re.Match[str]], at: int) -> int:
    """Returns the index of the closing bracket for the one at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        sign = tokens[index][0]
        depth += (sign in _OPEN) - (sign in _OPEN.values())
        if depth == 0:
            return index
    return len(tokens) - 1


def _item_end(tokens: list[re.Match[str]], at: int) -> int:
    """Returns the end of the item that begins at `at`: its `;`, or its `{…}`."""
    index = at
    while index < len(tokens):
        sign = tokens[index][0]
        if sign == ";":
            return index
        if sign in _OPEN:
            index = _closing(tokens, index)
            if sign == "{":
                return index
        index += 1
    return len(tokens) - 1


def _python(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = [0, *accumulate([len(line) for line in text.splitlines(keepends=True)])]

    def place(line: int, column: int) -> int:
        # The parser counts columns in bytes of UTF-8, slices count characters.
        row = text[lines[line - 1] : lines[line]].encode()[:column].decode("utf-8", "ignore")
        return lines[line - 1] + len(row)

    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, tuple[int, int]]]:
        first = next(iter(getattr(node, "body", [])), None)
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            docstring = first.value.value
            if isinstance(docstring, str) and ">>>" in docstring:
                end = place(first.end_lineno or 0, first.end_col_offset or 0)
                yield f"doc {name}", (place(first.lineno, first.col_offset), end)
        for inner in ast.iter_child_nodes(node):
            if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            full = f"{name}.{inner.name}"
            if inner.name.startswith(("test", "Test")):
                top = min([inner.lineno, *[decorator.lineno for decorator in inner.decorator_list]])
                end = place(inner.end_lineno or 0, inner.end_col_offset or 0)
                yield f"test {full}", (lines[top - 1] + inner.col_offset, end)
            else:
                yield from walk(inner, full)

    yield from walk(tree, "")


def replaces_assertions(texts: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Returns Rust files that now define a macro with the name of an assertion macro.

    `texts` are the old and the new text of each file.
    """
    return tuple([p for p, (old, new) in texts.items() if _macros(new) - _macros(old)])


def _macros(text: str) -> set[str]:
    return set(re.findall(r"macro_rules!\s*((?:debug_)?assert\w*|panic|unreachable)\b", text))

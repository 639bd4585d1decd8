"""Rows out of tests that are written as assertions, in C++ (gtest) and in Rust.

OpenVINO's model server: `src/test/llm/output_parsers/*_test.cpp`. mistral.rs and candle-vllm: the
`#[test]` functions beside their parsers. A test is a row when it reads one finished text and
asserts the number or the content of its calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from literals import Call, Literals, Name, Struct, plain, tokens_of
from rows import Row, Wanted, loads, names_in, schema

_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"([^(\s]*)\(.*?\)\1\"|r(#*)\".*?\"\2|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)'",
    re.DOTALL,
)
_STREAMS = re.compile(r"stream|chunk|holdback|delta|token_by_token|grammar", re.IGNORECASE)


def openvino(root: Path) -> Iterator[Row]:
    for path in sorted((root / "src/test/llm/output_parsers").glob("*_output_parser_test.cpp")):
        source = path.read_text()
        family = path.stem.removesuffix("_output_parser_test")
        types = _parameter_types(source)
        for name, body in _tests(source, r"^TEST(?:_F)?\(\w+, (\w+)\) "):
            # A request without tools: no call may be read from any reply.
            if _STREAMS.search(name) or re.search(r"arse\w*\([^;]*, false\)", body):
                continue
            for number, text in enumerate(_cpp_texts(body)):
                yield from _row("openvino", f"{family} {name}.{number}", text, body, types)


def mistral_rs(root: Path) -> Iterator[Row]:
    yield from _rust("mistral.rs", root / "mistralrs-core/src/tools/parsers")


def candle(root: Path) -> Iterator[Row]:
    yield from _rust("candle-vllm", root / "src/tools")


_ENTRY = re.compile(
    r"(?:\.parse|\bparse_(?!recovered)\w+|[^:]\bparse|message|get_call_with_content|with_fallback)"
    r"\(\s*(?=r#*\"|\"|&?\w+\s*,?\s*\))"
)


def _rust(suite: str, folder: Path) -> Iterator[Row]:
    for path in sorted(folder.glob("*.rs")):
        source = path.read_text().partition("mod tests {")[2]
        head = r"#\[(?:tokio::)?test\]\s+(?:async )?fn (\w+)\(\) "
        for name, body in _tests(source, head):
            if _STREAMS.search(name) or "process_token" in body or "normalize_" in body:
                continue
            entries = list(_ENTRY.finditer(body))
            texts = [_text(body, found.end()) for found in entries]
            known = [text for text in texts if text is not None]
            if len(set(known)) == 1:
                yield from _row(suite, f"{path.stem} {name}", known[0], body, {})


def _tests(source: str, head: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(head, source, re.MULTILINE):
        yield found[1], _block(source, found.end())


def _block(source: str, at: int) -> str:
    """Returns the text between the bracket at `at` and its closing bracket."""
    depth, begin = 0, at
    while at < len(source):
        skipped = _SKIPPED.match(source, at)
        if skipped:
            at = skipped.end()
            continue
        depth += (source[at] in "({[") - (source[at] in ")}]")
        at += 1
        if not depth:
            break
    return source[begin + 1 : at - 1]


def _arguments(source: str, at: int) -> list[str]:
    """The arguments of a call whose bracket opens at `at`."""
    inner = _block(source, at)
    out, begin, depth, at = [], 0, 0, 0
    while at < len(inner):
        skipped = _SKIPPED.match(inner, at)
        if skipped:
            at = skipped.end()
            continue
        depth += (inner[at] in "({[") - (inner[at] in ")}]")
        if inner[at] == "," and not depth:
            out.append(inner[begin:at].strip())
            begin = at + 1
        at += 1
    return [*out, inner[begin:].strip()]


def _text(body: str, at: int) -> str | None:
    """The text that stands at `at`, or that the variable there was last set to."""
    value = Literals(tokens_of(body[at:])).expression()
    if isinstance(value, Name):
        settings = re.finditer(rf"\b{re.escape(value.text)}(?::[^=]+)? = ", body[:at])
        last = next(reversed(list(settings)), None)
        value = None if last is None else Literals(tokens_of(body[last.end() :])).expression()
    return value if isinstance(value, str) else None


def _cpp_texts(body: str) -> list[str]:
    listed = re.search(r"inputs\s*=\s*\{([\w\s,]+)\}", body)
    names = [each.strip() for each in listed[1].split(",")] if listed else []
    if not names:
        begins = re.finditer(r"generateParsedOutput\(|->encode\(|auto content = ", body)
        texts = {text for each in begins if (text := _text(body, each.end())) is not None}
        return list(texts) if len(texts) == 1 else []
    found = (re.search(rf"\b{name}\s*=\s*", body) for name in names)
    return [text for each in found if each and (text := _text(body, each.end())) is not None]


def _parameter_types(source: str) -> dict[str, dict[str, Any]]:
    """The schemas that a table of names and types stands for."""
    out: dict[str, dict[str, Any]] = {}
    one = r'\{"(\w+)",\s*(?:ovms::)?ParameterType::(\w+)\}'
    for found in re.finditer(rf'\{{"(\w+)",\s*\{{((?:{one}[,\s]*)+)\}}\}}', source):
        fields = {name: {"type": kind.lower()} for name, kind in re.findall(one, found[2])}
        out[found[1]] = schema(fields)
    return out


@dataclass
class _Expected:
    count: int | None = None
    calls: dict[int, Wanted] = field(default_factory=dict)

    def call(self, number: int) -> Wanted:
        return self.calls.setdefault(number, Wanted())


def _row(
    suite: str, name: str, text: str, body: str, types: dict[str, dict[str, Any]]
) -> Iterator[Row]:
    expected = _Expected()
    aliases: dict[str, str] = {}
    alias = r"let (\w+)[^=;]*=\s*serde_json::from_str\(\s*(?:&\w*\()?([^;]*)"
    for found in re.finditer(alias, body):
        aliases[found[1]] = re.sub(r"\.as_\w+\(\)|\.unwrap\(\)|[&\s()?]", "", found[2])
    for found in re.finditer(r"(?:assert_eq!|(?:EXPECT|ASSERT)_EQ)(?=\()", body):
        arguments = _arguments(body, found.end())
        if len(arguments) >= 2:
            _expect(expected, arguments[0], arguments[1], aliases)
    empty = r"(?:is_none|is_empty)\(\)\)|ASSERT_FALSE\(callsOpt|EXPECT_FALSE\(callsOpt"
    if expected.count is None and not expected.calls and re.search(empty, body):
        expected.count = 0
    if expected.count is None and not expected.calls:
        return
    last = max(expected.calls, default=-1) + 1
    calls = [expected.call(number) for number in range(expected.count or last)]
    names = names_in(text) | {call.name for call in calls if call.name}
    tools = {each: schema() for each in names} | {k: v for k, v in types.items() if k in names}
    yield Row(suite, name, text, tools, calls)


_STEP = re.compile(r'\.(\w+)|\[(\d+)\]|\["([^"]*)"\]|\.get\("([^"]*)"\)')
_ARGUMENTS = ("arguments", "parameters")


def _expect(expected: _Expected, left: str, right: str, aliases: dict[str, str]) -> None:
    """Takes one equality: of a count, of a name, of arguments or of something in them."""
    left = re.sub(r"\.as_\w+\(\)|\.unwrap\(\)|\.as_deref|&|\s", "", left)
    root = re.match(r"\w+", left)
    if root is None:
        return
    within = aliases.get(root[0], "")
    if re.search(r"\[\d+\]|\.arguments|\.parameters", within):
        left = within + left[root.end() :]
    if re.search(r"(?:alls|parsed|value)(?:\.size\(\)|\.len\(\))$", left):
        number = re.match(r"\d+", right)
        expected.count = int(number[0]) if number else None
        return
    steps = [next(g for g in step if g) for step in _STEP.findall(left) if any(step)]
    if steps and steps[0] == "toolCalls":
        steps.pop(0)
    number = int(steps.pop(0)) if steps and steps[0].isdigit() else 0
    if steps and steps[0] == "function":
        steps.pop(0)
    try:
        value = plain(Literals(tokens_of(right.replace("serde_json::", ""))).expression())
    except ValueError:
        return
    if isinstance(value, Call | Struct | Name) or not steps:
        return
    if steps == ["name"] and isinstance(value, str):
        expected.call(number).name = value
    elif steps[0] in _ARGUMENTS and len(steps) == 1:
        decoded = loads(value) if isinstance(value, str) else value
        if isinstance(decoded, dict):
            expected.call(number).arguments = decoded
    elif steps[0] in _ARGUMENTS and "size" not in steps and "len" not in steps:
        path = tuple(int(step) if step.isdigit() else step for step in steps[1:])
        expected.call(number).entries.append((path, value))

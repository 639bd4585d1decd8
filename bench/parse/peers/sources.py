"""Rows out of the Go, Rust and C++ suites of other servers, from checkouts on disk.

ollama: `model/parsers/*_test.go`. smg: `crates/tool_parser/tests/*.rs`. llama.cpp:
`tests/test-chat.cpp`. LocalAI: `pkg/functions/*_test.go`. The texts never leave the checkouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from literals import Call, Literals, Name, Struct, plain, tokens_of
from rows import Row, Wanted, loads, names_in, schema
from scope import DIFFERENT


def ollama(root: Path) -> Iterator[Row]:
    for path in sorted((root / "model" / "parsers").glob("*_test.go")):
        tokens = tokens_of(path.read_text())
        number = 0
        for at, (_, text) in enumerate(tokens):
            if text != "{" or not _has_key(tokens, at, "input"):
                continue
            case = Literals(tokens, at)._term()
            number += 1
            row = _go_row(f"{path.stem}.{number}", case)
            if row:
                yield row


def _has_key(tokens: list[tuple[str, Any]], at: int, key: str) -> bool:
    return any(
        tokens[i] == ("word", key) and tokens[i + 1][1] == ":"
        for i in range(at + 1, min(at + 9, len(tokens) - 1))
        if i == at + 1 or tokens[i - 1][1] == ","
    )


def _go_row(name: str, case: Any) -> Row | None:
    if not isinstance(case, Struct) or not isinstance(case.fields.get("input"), str):
        return None
    keys = ("expectedCalls", "expectedToolCalls", "wantToolCall", "expectedToolCall")
    wanted = next((case.fields[key] for key in keys if key in case.fields), None)
    if wanted is None and "expectedContent" not in case.fields:
        return None
    if any(key.startswith(("wantErr", "expectErr", "expectedErr")) for key in case.fields):
        return None
    items = [] if wanted is None else [wanted] if "Function" in wanted.fields else wanted.items
    try:
        calls = [_go_call(each) for each in items]
    except (ValueError, AttributeError, KeyError):
        return None
    text = case.fields["input"]
    tools = _go_tools(case.fields.get("tools"))
    for each in names_in(text) | {c.name for c in calls if c.name}:
        tools.setdefault(each, schema())
    return Row("ollama", name, text, tools, calls)


def _go_call(value: Struct) -> Wanted:
    inner = value.fields["Function"]
    given = inner.fields.get("Arguments")
    if isinstance(given, Call):
        given = given.arguments[0] if given.arguments else Struct("map")
    if isinstance(given, Struct) and not given.fields:
        return Wanted(inner.fields["Name"], {})
    return Wanted(inner.fields["Name"], plain(given) if given is not None else {})


def _go_tools(value: Any) -> dict[str, dict[str, Any]]:
    tools: dict[str, dict[str, Any]] = {}
    for each in value.items if isinstance(value, Struct) else []:
        function = each.fields.get("Function") if isinstance(each, Struct) else None
        if function is None:
            continue
        fields: dict[str, Any] = {}
        for properties in _structs(function):
            for key, entry in properties.fields.items():
                if isinstance(entry, Struct) and "Type" in entry.fields:
                    kinds = entry.fields["Type"]
                    kinds = kinds.items if isinstance(kinds, Struct) else []
                    if kinds and all(isinstance(kind, str) for kind in kinds):
                        fields[key] = {"type": kinds if len(kinds) > 1 else kinds[0]}
        tools[function.fields["Name"]] = schema(fields)
    return tools


def _structs(value: Any) -> Iterator[Struct]:
    if isinstance(value, Call):
        for each in value.arguments:
            yield from _structs(each)
    if isinstance(value, Struct):
        yield value
        for each in [*value.fields.values(), *value.items]:
            yield from _structs(each)


_FN = re.compile(r"fn (test_\w+|\w+)\(\) \{(.*?)\n\}", re.DOTALL)


def rust(root: Path) -> Iterator[Row]:
    folder = root / "crates" / "tool_parser" / "tests"
    common = _rust_tools((folder / "common" / "mod.rs").read_text())
    for path in sorted(folder.glob("*.rs")):
        for found in _FN.finditer(path.read_text()):
            if "parse_incremental" in found[2]:
                continue
            for number, row in enumerate(_rust_rows(found[2], common)):
                row.id = f"{path.stem}.{found[1]}.{number}"
                yield row


def _rust_tools(source: str) -> dict[str, dict[str, Any]]:
    tools: dict[str, dict[str, Any]] = {}
    for found in re.finditer(
        r'name: "([\w.-]+)".*?parameters: json!\((\{.*?\n {12}\})\)', source, re.DOTALL
    ):
        value = loads(re.sub(r",(\s*[}\]])", r"\1", found[2]))
        tools[found[1]] = value if isinstance(value, dict) else schema()
    return tools


def _rust_rows(body: str, common: dict[str, dict[str, Any]]) -> Iterator[Row]:  # noqa: C901
    inputs: dict[str, str] = {}
    row: Row | None = None
    results = ""
    read: dict[str, int] = {}
    counted = False
    for statement in _statements(body):
        let = re.match(r"\s*let (?:mut )?(\w+)(?:: [^=]+)? = (?:concat!)?\(?(?=r?#*\")", statement)
        if let:
            value = Literals(
                tokens_of(
                    statement[let.end() :].replace(",", "+")
                    if "concat!" in statement
                    else statement[let.end() :]
                )
            ).expression()
            if isinstance(value, str):
                inputs[let[1]] = value
            continue
        parsed = re.search(
            r"let \((\w+), (?:mut )?(\w+)\) = \w+\s*\.parse_complete(?:_with_tools)?\(&?(\w+)",
            statement,
        )
        if parsed:
            if row is not None and counted:
                yield row
            row, counted, read = None, False, {}
            if parsed[3] in inputs:
                text = inputs[parsed[3]]
                tools = {name: schema() for name in names_in(text)}
                tools |= {name: each for name, each in common.items() if name in text}
                row = Row("smg", "", text, tools, [])
            results = parsed[2]
            continue
        if row is None:
            continue
        length = re.search(rf"assert_eq!\(\s*{results}\.len\(\),\s*(\d+)", statement)
        if length:
            row.calls = [Wanted() for _ in range(int(length[1]))]
            counted = True
        if re.search(rf"assert!\({results}\.is_empty\(\)", statement):
            counted = True
        named = re.search(
            rf"assert_eq!\(\s*{results}\[(\d+)\]\.function\.name,\s*(r?#*\".*\"#*)\s*[,)]",
            statement,
            re.DOTALL,
        )
        if named and int(named[1]) < len(row.calls):
            value = Literals(tokens_of(named[2])).expression()
            if isinstance(value, str):
                row.calls[int(named[1])].name = value
                row.tools.setdefault(value, schema())
        decoded = re.search(
            rf"let (\w+)[^=]*= serde_json::from_str\(\s*&?{results}\[(\d+)\]", statement
        )
        if decoded:
            read[decoded[1]] = int(decoded[2])
        entry = re.match(
            r"\s*assert_eq!\(\s*(\w+)((?:\[[^\]]+\])+),\s*(.*)\)\s*$", statement, re.DOTALL
        )
        if entry and entry[1] in read and read[entry[1]] < len(row.calls):
            path = tuple(
                int(p) if p.isdigit() else p.strip('"')
                for p in re.findall(r"\[([^\]]+)\]", entry[2])
            )
            try:
                value = plain(Literals(tokens_of(entry[3])).expression())
            except ValueError:
                continue
            row.calls[read[entry[1]]].entries.append((path, value))
    if row is not None and counted:
        yield row


def _statements(body: str) -> Iterator[str]:
    """Splits a Rust body into statements at `;` outside of strings."""
    begin = at = 0
    pattern = re.compile(r'r(#*)".*?"\1|"(?:[^"\\]|\\.)*"|;|//[^\n]*', re.DOTALL)
    while found := pattern.search(body, at):
        at = found.end()
        if found[0] == ";":
            yield re.sub(r"^(\s*//[^\n]*\n)+", "", body[begin : found.start()])
            begin = at
    yield body[begin:]


def llama_cpp(root: Path) -> Iterator[Row]:
    source = (root / "tests" / "test-chat.cpp").read_text()
    tools = _cpp_tools(source)
    messages = _cpp_messages(source)
    tokens = tokens_of(source)
    number = 0
    for at in range(len(tokens) - 4):
        if [t[1] for t in tokens[at : at + 4]] != ["tst", ".", "test", "("]:
            continue
        reader = Literals(tokens, at + 4)
        text = reader.expression()
        if not isinstance(text, str):
            continue
        chain: dict[str, list[Any]] = {}
        reader.at += 1
        while reader.peek()[1] == ".":
            reader.at += 1
            step = reader.expression()
            if isinstance(step, Call):
                head, *rest = step.name.split(".")
                chain[head] = step.arguments
                if rest:
                    break
            else:
                break
        number += 1
        if "is_partial" in chain:
            continue
        calls = _cpp_calls(chain, messages)
        if calls is None or (not calls and "tools" not in chain):
            continue
        offered = chain.get("tools", [Struct("")])
        names = (
            [n.text for n in offered[0].items if isinstance(n, Name)]
            if isinstance(offered[0], Struct)
            else []
        )
        given = {tools[n][0]: tools[n][1] for n in names if n in tools}
        for call in calls:
            if call.name:
                given.setdefault(call.name, schema())
        yield Row("llama.cpp", str(number), text, given, calls)


def _cpp_tools(source: str) -> dict[str, tuple[str, dict[str, Any]]]:
    out: dict[str, tuple[str, dict[str, Any]]] = {}
    for found in re.finditer(r"common_chat_tool (\w+)\s*(?:=\s*)?\{", source):
        tokens = tokens_of(source[found.end() - 1 : found.end() + 6000])
        value = Literals(tokens)._term()
        texts = [each for each in value.items or value.fields.values() if isinstance(each, str)]
        known = next((s for s in map(loads, texts) if isinstance(s, dict)), None)
        if texts:
            out[found[1]] = (texts[0], known or schema())
    return out


def _cpp_messages(source: str) -> dict[str, list[Wanted]]:
    out: dict[str, list[Wanted]] = {}
    for found in re.finditer(r"common_chat_msg\s+(\w+)\s*=\s*simple_assist_msg\(", source):
        tokens = tokens_of(source[found.end() : found.end() + 2000])
        reader = Literals([("word", "f"), ("mark", "("), *tokens])
        call = reader.expression()
        given = [a for a in call.arguments if isinstance(a, str)] if isinstance(call, Call) else []
        named = len(given) >= 3 and bool(given[2])
        out[found[1]] = (
            [Wanted(given[2], loads(given[3]) if len(given) > 3 else {})] if named else []
        )
    return out


def _cpp_calls(
    chain: dict[str, list[Any]], messages: dict[str, list[Wanted]]
) -> list[Wanted] | None:
    if "expect_tool_calls" in chain:
        calls: list[Wanted] = []
        for each in chain["expect_tool_calls"][0].items:
            name, arguments = each.items[0], each.items[1]
            if not isinstance(name, str) or not isinstance(arguments, str):
                return None
            calls.append(Wanted(name, loads(arguments) if arguments else {}))
        return calls
    expected = chain.get("expect")
    if expected and isinstance(expected[0], Name):
        return messages.get(expected[0].text)
    if expected and isinstance(expected[0], Call) and expected[0].name == "simple_assist_msg":
        given = [a for a in expected[0].arguments if isinstance(a, str)]
        named = len(given) >= 3 and bool(given[2])
        return [Wanted(given[2], loads(given[3]) if len(given) > 3 else {})] if named else []
    return [] if "expect_content" in chain else None


_IT = re.compile(
    r'^(\t+)It\("(?P<title>(?:[^"\\]|\\.)*)", func\(\) \{\n(?P<body>.*?)^\1\}\)',
    re.DOTALL | re.MULTILINE,
)
_OWN_FORM = re.compile(
    r"Regex|XMLFormat:|XMLToolCallFormat|NameKey|ReplaceFunctionResults"
    r"|, true\)|ParseJSON|ParseTextContent"
)
"""Test settings that no reply shows, or an incomplete text."""


def local_ai(root: Path) -> Iterator[Row]:
    """`pkg/functions/*_test.go` of LocalAI: one row for each text that it parses as it stands."""
    for path in sorted((root / "pkg" / "functions").rglob("*_test.go")):
        source = path.read_text()
        for number, found in enumerate(_IT.finditer(source)):
            row = None if _OWN_FORM.search(found["body"]) else _ginkgo_row(found["body"])
            if row is not None:
                row.id = f"{path.stem}.{number}"
                yield row


def _ginkgo_row(body: str) -> Row | None:
    begin = re.search(r"\binput :?= ", body)
    asked = re.search(r"Parse\w*\(input\b", body)
    if begin is None or asked is None:
        return None
    text = Literals(tokens_of(body[begin.end() :])).expression()
    length = re.search(r"Expect\((?:len\()?results\)?\)\.To\((?:HaveLen|Equal)\((\d+)\)", body)
    empty = re.search(r"Expect\(results\)\.To\(BeEmpty", body)
    if not isinstance(text, str) or not (length or empty):
        return None
    calls = [Wanted() for _ in range(int(length[1]) if length else 0)]
    said = re.compile(
        r"Expect\(results\[(\d+)\]\.(Name|Arguments)\)\.To\((Equal|ContainSubstring)\("
    )
    for each in said.finditer(body):
        value = Literals(tokens_of(body[each.end() :])).expression()
        if int(each[1]) >= len(calls) or not isinstance(value, str):
            continue
        call = calls[int(each[1])]
        if each[2] == "Name":
            call.name = value
        elif each[3] == "Equal":
            call.arguments = loads(value)
        elif isinstance(entry := loads("{" + value.strip("{}") + "}"), dict):
            call.entries += [((key,), item) for key, item in entry.items()]
    tools = {name: schema() for name in names_in(text) | {c.name for c in calls if c.name}}
    return Row("localai", "", text, tools, calls)


_PARITY = ("dynamo", "vllm", "sglang")


def dynamo(root: Path) -> Iterator[Row]:
    """The table with which Dynamo compares its parsers with those of vLLM and SGLang.

    `tests/parity/toolcalling/fixtures/*/*.yaml`; Dynamo's own reading is the one that is wanted.
    """
    import yaml

    for path in sorted((root / "tests/parity/toolcalling/fixtures").glob("*/*.yaml")):
        table = yaml.safe_load(path.read_text())
        for name, case in table["cases"].items():
            readings = [case.get("expected", {}).get(server, {}) for server in _PARITY]
            if "calls" not in readings[0]:
                continue
            text = case.get("model_text")
            if text is None:
                text = "".join(each.get("delta_text") or "" for each in case["chunks"])
            calls = [each["calls"] for each in readings if "calls" in each]
            differ = any(each != calls[0] for each in calls)
            yield Row(
                "dynamo",
                f"{path.parent.name} {name}{' ' + DIFFERENT if differ else ''}",
                text,
                {each["name"]: each.get("parameters") or schema() for each in case["tools"]},
                [Wanted(each["name"], each["arguments"]) for each in calls[0]],
            )


def recorded(root: Path) -> Iterator[Row]:
    """Streams that Dynamo recorded of other servers: `lib/llm/tests/data/*/*/*.json`.

    The text is what the model wrote, its reasoning in the field of its own left out; a stream
    that the output limit ended is no whole reply and is left out.
    """
    for path in sorted((root / "lib/llm/tests/data").glob("*/*/*.json")):
        record = loads(path.read_text())
        if not isinstance(record, dict) or "input_stream" not in record:
            continue
        choices = [c for each in record["input_stream"] for c in each["data"].get("choices", ())]
        if any(each.get("finish_reason") == "length" for each in choices):
            continue
        text = "".join(each.get("delta", {}).get("content") or "" for each in choices)
        calls = [
            Wanted(each["function"]["name"], loads(each["function"]["arguments"]))
            for each in record["expected_output"].get("tool_calls") or ()
        ]
        tools = {name: schema() for name in names_in(text) | {each.name or "" for each in calls}}
        tools.pop("", None)
        yield Row("recorded", f"{path.parent.name} {path.stem}", text, tools, calls)

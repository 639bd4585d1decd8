"""Reasoning never runs as a call: the reasoning suites of other servers, with planted calls.

    python bench/parse/peers/reasoning.py vllm=PATH sglang=PATH vllm-mlx=PATH ollama=PATH smg=PATH

A row is a reply whose reasoning and answer a suite separates. Calls in six spellings are written
into its reasoning; none of them may come back. The answer of the reply as it stands is compared
with the suite's. Rows whose reasoning has no mark at all (a server's setting declares the whole
text as reasoning) prove nothing and are left out.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[2] / "src")]
from literals import Literals, Struct, tokens_of  # noqa: E402
from sources import _has_key  # noqa: E402

PLANTED = (
    '<tool_call>{"name": "shell", "arguments": {"command": "rm"}}</tool_call>',
    '{"name": "shell", "arguments": {"command": "rm"}}',
    "\n[shell(command='rm')]\n",
    "<function=shell><parameter=command>rm</parameter></function>",
    '[TOOL_CALLS]shell[ARGS]{"command": "rm"}',
    "\nThought: now\nAction: shell\nAction Input: rm\n",
)
TOOLS = {"shell": {"type": "object", "properties": {"command": {"type": "string"}}}}
_PYTHON = {
    "vllm": ("tests/reasoning",),
    "sglang": ("test/registered/unit/parser",),
    "vllm-mlx": ("tests/test_reasoning_parser.py", "tests/test_step3p5_reasoning_parser.py",
                 "tests/test_harmony_parsers.py", "tests/test_poolside_v1_parsers.py"),
}  # fmt: skip
_TEXTS = frozenset({"text", "output", "model_output", "full_text", "full_output"})
_THOUGHTS = frozenset({"reasoning", "reasoning_text", "reasoning_content"})
_ANSWERS = frozenset({"content", "normal_text"})


@dataclass
class Row:
    id: str
    text: str
    reasoning: str
    answer: str | None


def python_rows(root: Path, suite: str) -> Iterator[Row]:
    for part in _PYTHON[suite]:
        path = root / part
        for each in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
            tree = ast.parse(each.read_text())
            names: dict[str, Any] = {}
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    names[node.targets[0].id] = _value(node.value, names)
            rows = [*_tables(tree, names), *_functions(tree, names)]
            for number, row in enumerate(rows):
                row.id = f"{each.stem}.{number}"
                yield row


def _value(node: ast.AST, names: dict[str, Any]) -> Any:
    try:
        expression = ast.Expression(node)  # type: ignore[arg-type]
        return eval(compile(expression, "<row>", "eval"), {"__builtins__": {}}, dict(names))
    except Exception:  # every other computed value is no literal
        return None


def _tables(tree: ast.Module, names: dict[str, Any]) -> Iterator[Row]:
    for node in ast.walk(tree):
        value = _value(node, names) if isinstance(node, ast.Dict) else None
        if isinstance(value, dict) and isinstance(value.get("output"), str):
            thought = value.get("reasoning", value.get("reasoning_content"))
            yield Row("", value["output"], thought or "", value.get("content"))


def _functions(tree: ast.Module, names: dict[str, Any]) -> Iterator[Row]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or "stream" in function.name:
            continue
        row: Row | None = None
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                text = _value(node.value, names) if node.targets[0].id in _TEXTS else None
                row = row or (Row("", text, "", None) if isinstance(text, str) else None)
            pair = _compared(node)
            if pair is None or row is None:
                continue
            wanted = _value(pair[1], names)
            name = getattr(pair[0], "attr", getattr(pair[0], "id", ""))
            if isinstance(wanted, str) and name in _THOUGHTS:
                row.reasoning = wanted
            elif isinstance(wanted, str) and name in _ANSWERS:
                row.answer = wanted
        if row is not None:
            yield row


def _compared(node: ast.AST) -> tuple[ast.AST, ast.AST] | None:
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        return node.left, node.comparators[0]
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "assertEqual":
        return node.args[0], node.args[1]
    return None


def ollama_rows(root: Path, suite: str) -> Iterator[Row]:
    for path in sorted((root / "model" / "parsers").glob("*_test.go")):
        tokens = tokens_of(path.read_text())
        for at, (_, text) in enumerate(tokens):
            if text != "{" or not _has_key(tokens, at, "input"):
                continue
            case = Literals(tokens, at)._term()
            fields = case.fields if isinstance(case, Struct) else {}
            thought = fields.get("expectedThinking", fields.get("wantThinking"))
            answer = fields.get("expectedContent", fields.get("wantContent", ""))
            if isinstance(fields.get("input"), str) and isinstance(thought, str):
                calls = any("all" in key and "Call" in key for key in fields)
                row_answer = answer if isinstance(answer, str) and not calls else None
                yield Row(f"{path.stem}.{at}", fields["input"], thought, row_answer)


_MARK = re.compile(
    r"[<\[◁][^<>\[\]]{0,30}(?:think|thought|reason|channel|inner_|analysis|message)[^<>\[\]]{0,20}[>\]▷]",
    re.IGNORECASE,
)
_RUST = re.compile(
    r"detect_and_parse_reasoning\(\s*(?P<text>r?#*\".*?\"#*)\s*,?\s*\).*?"
    r"assert_eq!\(\s*\w+\.normal_text,\s*(?P<answer>\".*?\")\s*\).*?"
    r"assert_eq!\(\s*\w+\.reasoning_text,\s*(?P<thought>\".*?\")",
    re.DOTALL,
)


def smg_rows(root: Path, suite: str) -> Iterator[Row]:
    folder = root / "crates" / "reasoning_parser" / "src" / "parsers"
    for path in sorted(folder.glob("*.rs")):
        for number, part in enumerate(path.read_text().split("#[test]")[1:]):
            found = _RUST.search(part)
            if found:
                values = [Literals(tokens_of(found[key])).expression() for key in _RUST.groupindex]
                yield Row(f"{path.stem}.{number}", values[0], values[2], values[1])


SUITES = dict.fromkeys(_PYTHON, python_rows) | {"ollama": ollama_rows, "smg": smg_rows}


def is_marked(row: Row) -> bool:
    """Returns whether the text itself marks its reasoning."""
    at = row.text.find(row.reasoning.strip()) if row.reasoning.strip() else -1
    around = row.text[:at] + row.text[at + len(row.reasoning.strip()) :] if at >= 0 else ""
    return bool(_MARK.search(around))


def planted(row: Row) -> Iterator[str]:
    thought = row.reasoning.strip()
    for call in PLANTED:
        half = len(thought) // 2
        yield row.text.replace(thought, f"{thought[:half]} {call} {thought[half:]}", 1)


def main() -> None:
    from taofold.parsing import Prose, Turn, read_reply

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", help="NAME=PATH")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    print("| suite | rows | replies with a planted call | run | answers compared | other answer |")
    print("|---|---|---|---|---|---|")
    for each in args.suites:
        suite, _, path = each.partition("=")
        tally: Counter[str] = Counter()
        seen: set[str] = set()
        for row in SUITES[suite](Path(path), suite):
            if row.text in seen or not is_marked(row):
                continue
            seen.add(row.text)
            tally["rows"] += 1
            for text in planted(row):
                reply = read_reply(text, TOOLS, finish_reason="stop")
                tally["planted"] += 1
                if isinstance(reply, Turn) and any(c.tool == "shell" for c in reply.calls):
                    tally["run"] += 1
                    if args.show:
                        print("RUN", row.id, repr(text))
            if row.answer is None or not row.answer.strip():
                continue
            reply = read_reply(row.text, TOOLS, finish_reason="stop")
            tally["answers"] += 1
            if not isinstance(reply, Prose) or reply.text != row.answer.strip():
                tally["other"] += 1
                if args.show:
                    print("OTHER", row.id, repr(row.text), "->", reply, "not", repr(row.answer))
        keys = ("rows", "planted", "run", "answers", "other")
        print(f"| {suite} | " + " | ".join(str(tally[key]) for key in keys) + " |")


if __name__ == "__main__":
    main()

"""Values and the ways in which models spoil them: the grid that the tests walk."""

from __future__ import annotations

import json
import pprint
import re
from collections.abc import Callable
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Person(BaseModel):
    name: str
    age: int
    email: str | None = None


class Ticket(BaseModel):
    title: str
    priority: Literal["low", "medium", "high"]
    labels: list[str]
    hours: float | None
    blocked: bool


class Vendor(BaseModel):
    full_name: str
    country: Literal["DE", "SG"]


class Line(BaseModel):
    sku: str
    qty: int


class Invoice(BaseModel):
    number: str
    issued: date
    vendor: Vendor
    lines: list[Line]
    paid: bool


class WriteArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str
    content: str
    overwrite: bool


class Write(BaseModel):
    name: Literal["write_file"]
    arguments: WriteArguments


class Shell(BaseModel):
    name: Literal["bash"]
    arguments: dict[str, Any]


CODE = 'def f(x):\n    d = {"a": [1, 2]}  # {not json}\n    return d["a"][x]\n'
VALUES: list[tuple[Any, dict[str, Any]]] = [
    (Person, {"name": "Ann Lee", "age": 41, "email": "ann@example.com"}),
    (Ticket, {"title": "Login fails, twice", "priority": "high", "labels": ["auth", "ios"],
              "hours": 4.5, "blocked": False}),
    (Invoice, {"number": "INV-0042", "issued": "2026-03-01",
               "vendor": {"full_name": "Müller & Söhne", "country": "DE"},
               "lines": [{"sku": "A-1", "qty": 3}, {"sku": "B-22", "qty": 1}], "paid": True}),
    (Write, {"name": "write_file", "arguments": {"path": "a.py", "content": CODE,
                                                 "overwrite": True}}),
    (Shell, {"name": "bash", "arguments": {"command": "grep -rn \"a: {b}\" . | awk '{print $1}'"}}),
]  # fmt: skip


def dump(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def _strings(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    return re.sub(r'"((?:[^"\\]|\\.)*)"', replace, text)


def _bare_keys(value: Any) -> str:
    return re.sub(r'"([A-Za-z_]\w*)":', r"\1:", dump(value, indent=2))


def _keys(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {rename(key): _keys(each, rename) for key, each in value.items()}
    return [_keys(each, rename) for each in value] if isinstance(value, list) else value


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.title, rest))


def _single(match: re.Match[str]) -> str:
    return "'" + match[1].replace('\\"', '"').replace("'", "\\'") + "'"


SLIPS: dict[str, Callable[[Any], str]] = {
    "plain": dump,
    "indented": lambda v: dump(v, indent=2),
    "python": repr,
    "python lines": lambda v: pprint.pformat(v, width=60, sort_dicts=False),
    "unquoted keys": _bare_keys,
    "javascript": lambda v: _strings(_bare_keys(v), _single),
    "smart quotes": lambda v: _strings(dump(v, indent=2), lambda m: f"“{m[1]}”"),
    "missing commas": lambda v: dump(v, indent=2).replace(",\n", "\n"),
    "trailing commas": lambda v: re.sub(r"([^\[{,\s])\n(\s*[}\]])", r"\1,\n\2", dump(v, indent=2)),
    "unescaped quotes": lambda v: dump(v).replace('\\"', '"'),
    "raw newlines": lambda v: dump(v).replace("\\n", "\n"),
    "hash comments": lambda v: dump(v, indent=2).replace(",\n", ',  # the "note", {here\n'),
    "line comments": lambda v: dump(v, indent=2).replace(",\n", ",  // it's {x}\n"),
    "semicolons": lambda v: dump(v, indent=2).replace(",\n", ";\n"),
    "double braces": lambda v: "{" + dump(v) + "}",
    "surplus closers": lambda v: dump(v) + "}]}",
    "lost quote": lambda v: re.sub(
        r'": "([^"\\\n]+)",\n', r'": "\1,\n', dump(v, indent=2), count=1
    ),
    "no opening quote": lambda v: re.sub(
        r'": "([^"\\\n]+)",\n', r'": \1",\n', dump(v, indent=2), count=1
    ),
    "camel case": lambda v: dump(_keys(v, _camel)),
    "encoded": lambda v: dump(dump(v)),
    "escaped": lambda v: dump(dump(v))[1:-1],
    "no-break spaces": lambda v: re.sub(
        r"^ +", lambda m: "\u00a0" * len(m[0]), dump(v, indent=2), flags=re.MULTILINE
    ),
    "prefilled": lambda v: dump(v)[1:],
}
ENVELOPES: dict[str, Callable[[str], str]] = {
    "bare": lambda s: s,
    "fence": lambda s: f"```json\n{s}\n```",
    "fence on one line": lambda s: f"```json {s} ```",
    "prose": lambda s: f"Sure! Here is the JSON:\n\n{s}\n\nMore on request (or {{other}} things).",
    "thinking": lambda s: f'<think>\nhm {{"name": "x"}} it\'s "odd"\n</think>\n{s}',
    "tag": lambda s: f"<answer>{s}</answer>",
    "assignment": lambda s: f"const x = {s};",
    "end token": lambda s: f"{s}<|im_end|>",
    "harmony": lambda s: (
        "<|channel|>analysis<|message|>need {x}<|end|><|start|>assistant<|channel|>final"
        f"<|message|>{s}<|return|>"
    ),
    "twice": lambda s: f"{s}\n\n{s}",
    "tool tag": lambda s: f"<tool_call>\n{s}\n</tool_call>",
    "response": lambda s: f'{{"response": {s}}}',
    "status": lambda s: f'{{"status": "ok", "output": {s}, "tokens": 12}}',
}
WHOLE_TEXT = ("encoded", "escaped", "prefilled", "surplus closers")
"""Slips that only make sense without an envelope."""

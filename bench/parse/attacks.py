"""Texts that are made to be large: 10 kB and 1 MB, nesting, repetition."""

from __future__ import annotations

import json
from typing import Any

ANN = {"name": "Ann Lee", "age": 41, "email": "ann@example.com"}
JSON = json.dumps(ANN)
REPEATED = {
    "open_arrays": "[", "open_objects": '{"a":', "bare_open_braces": "{", "quotes": '"',
    "quote_comma": '",', "quote_colon": '":"', "brace_soup": "}{][", "fences": "```json\n",
    "empty_fences": "```json\n```\n", "thinks": "<think>", "tool_tags": "<tool_call>",
    "prose": "The quick brown fox jumps over the lazy dog. ",
    "prose_braces": 'if {x} then [y] else "z" and {a: b, ',
}  # fmt: skip
FRAMED = {
    "nested_arrays": ("", "[", "", "]", "", 2), "nested_objects": ("", '{"a":', "1", "}", "", 6),
}  # fmt: skip
FILLED = {
    "backslashes": ('{"name": "', "\\", "", 1), "commas": ("[", ",", "]", 1),
    "colons": ('{"a"', ":", "", 1), "slash_comment": ('{"name": /*', "*", "", 1),
    "digits": ('{"name": "A", "age": ', "1", "}", 1),
    "single_quotes": ("{'name': '", "it's ", "', 'age': 41}", 5),
    "unescaped_quotes": ('{"name": "', 'say "hi" and ', '", "age": 41}', 13),
    "truncated_string": ('{"name": "', "word ", "", 5),
    "truncated_list": ("[", '{"id": 1, "action": "x", "depends_on": []}, ', "", 43),
    "missing_commas": ("[", '"abc" ', "]", 6), "repeat_key": ("{", '"name": "A", ', '"age": 1', 13),
    "many_objects": ("", '{"a": 1}\n', "", 9),
    "many_decoys": ("", '{"nam": "x", "ag": 1}\n', "", 22),
    "whitespace_after": (JSON, " \n", "", 2),
    "prose_before": ("", "Lorem ipsum dolor sit amet. ", JSON, 28),
    "whitespace_inside": ('{"name": "Ann Lee",', " ", '"age": 41, "email": "ann@example.com"}', 1),
    "prose_after": (JSON, " Lorem ipsum dolor sit amet.", "", 28),
    "decoys_before": ("", "x {a} [1] ", JSON, 10),
    "think_before": ("<think>", 'maybe {"name": 1} or [2]. ', "</think>" + JSON, 26),
    "null_bytes": ('{"name": "A\x00", ', "\x00", "", 1),
}  # fmt: skip


def attack(name: str, size: int) -> tuple[str, list[Any]]:
    """A text of about `size` characters, and the values that may be read from it."""
    if name in REPEATED:
        unit = REPEATED[name]
        return unit * (size // len(unit) + 1), []
    if name in FRAMED:
        left, opener, middle, closer, right, step = FRAMED[name]
        count = size // step
        return left + opener * count + middle + closer * count + right, []
    if name in FILLED:
        before, unit, after, step = FILLED[name]
        return before + unit * (size // step) + after, _accept(name, size)
    code = {"filename": "a.py", "language": "python"}
    if name == "big_string":
        value: Any = {**code, "content": 'print("x")\n' * (size // 14)}
        return json.dumps(value), [value]
    if name == "big_string_rawnl":
        value = {**code, "content": "print(1)\n" * (size // 9)}
        return json.dumps(value).replace("\\n", "\n"), [value]
    if name == "big_string_fenced":
        value = {**code, "content": "x = 1\n" * (size // 7)}
        return f"Here:\n```json\n{json.dumps(value)}\n```", [value]
    if name == "big_map":
        value = {f"k{i}": i for i in range(size // 16)}
        return json.dumps(value), [value]
    count = size // (49 if name == "big_list_trailing" else 48)
    steps = [{"id": i, "action": "do it", "depends_on": []} for i in range(count)]
    text = json.dumps(steps)
    if name == "big_list_trailing":
        text = text.replace("[]}", "[],}")[:-1] + ",]"
    elif name == "big_list_single":
        text = text.replace('"', "'")
    return text, [steps]


def _accept(name: str, size: int) -> list[Any]:
    filled = {"age": 41, "email": None}
    return {
        "single_quotes": [{"name": "it's " * (size // 5), **filled}],
        "unescaped_quotes": [{"name": 'say "hi" and ' * (size // 13), **filled}],
        "many_objects": [{"a": 1}],
        "missing_commas": [["abc"] * (size // 6)],
        "repeat_key": [{"name": "A", "age": 1, "email": None}],
    }.get(name, [ANN])

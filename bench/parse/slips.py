"""Valid calls with one or two structural characters deleted, inserted or swapped.

    python bench/parse/slips.py [--rows 8000]

Structural characters are the quotes, braces, brackets, commas and colons of JSON outside its
strings. A reader is right when it gives the intended call or refuses. Another call is wrong, or
`marked` if a repair records that its content was changed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "São Paulo", "days": 2}),
    ("delete_path", {"path": "/home/user/project", "recursive": True}),
    ("write_file", {"path": "a.py", "content": 'd = {"a": [1]}  # no\nreturn d["a"]\n'}),
    ("bash", {"command": "grep -rn \"x: {y}\" . | awk '{print $1}'", "timeout": 30}),
    (
        "edit",
        {"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "", "new": "y"}]},
    ),
    ("send", {"to": ["ann", "bob"], "subject": "Hi, all", "urgent": False, "cc": None}),
]
_TYPES = {
    str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
    dict: "object", type(None): "null",
}  # fmt: skip
TOOLS = {
    name: {
        "type": "object",
        "properties": {key: {"type": _TYPES[type(value)]} for key, value in arguments.items()},
        "required": list(arguments),
    }
    for name, arguments in CALLS
}
FORMS = {
    "ours": lambda n, a: {"thought": "I act now", "action": {"tool": n, "parameters": a}},
    "flat": lambda n, a: {"thought": "I act", "tool": n, "parameters": a, "rationale": "why"},
    "plain": lambda n, a: {"name": n, "arguments": a},
}
FRAMES = ("{}", "```json\n{}\n```", "<tool_call>\n{}\n</tool_call>", "<|python_tag|>{}",
          "[TOOL_CALLS][{}]")  # fmt: skip
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_MARKS = '{}[]",:'


def structure(text: str) -> list[int]:
    """The offsets of the structural characters of a JSON text."""
    out: list[int] = []
    at = 0
    for found in _STRING.finditer(text):
        out += [i for i in range(at, found.start()) if text[i] in _MARKS]
        out += [found.start(), found.end() - 1]
        at = found.end()
    return out + [i for i in range(at, len(text)) if text[i] in _MARKS]


def slip(text: str, draw: random.Random) -> str:
    """The text with one structural character deleted, inserted or swapped with the next."""
    places = structure(text)
    at = draw.choice(places)
    kind = draw.randrange(3)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:  # beside a quote, never in the string that it closes
        at += text[at] == '"' and text[: at + 1].count('"') % 2 == 0
        return text[:at] + draw.choice(_MARKS) + text[at:]
    following = next((i for i in places if i > at), at)
    if following == at:
        return text[:at] + text[at + 1 :]
    swapped = text[:at] + text[following] + text[at + 1 : following] + text[at]
    return swapped + text[following + 1 :]


def rows(count: int, seed: int = 7) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Returns replies with slips, and the intended call."""
    draw = random.Random(seed)
    for _ in range(count):
        name, arguments = draw.choice(CALLS)
        form = FORMS[draw.choice(sorted(FORMS))]
        text = json.dumps(form(name, arguments), ensure_ascii=False, indent=draw.choice((None, 2)))
        for _ in range(draw.choice((1, 2))):
            text = slip(text, draw)
        yield draw.choice(FRAMES).replace("{}", text), name, arguments


def taofold(text: str) -> tuple[list[tuple[str, Any]], bool]:
    from taofold.parsing import Turn, read_reply

    reply = read_reply(text, TOOLS, finish_reason="stop")
    if not isinstance(reply, Turn) or any(call.error for call in reply.calls):
        return [], False
    repairs = [r for call in reply.calls for r in call.repairs] + list(reply.repairs)
    calls = [(call.tool, call.parameters) for call in reply.calls]
    return calls, any(repair.content for repair in repairs)


def json_repair(text: str) -> tuple[list[tuple[str, Any]], bool]:
    import json_repair as library

    value = library.loads(text)
    calls: list[tuple[str, Any]] = []
    for each in value if isinstance(value, list) else [value]:
        inner = each.get("action", each) if isinstance(each, dict) else None
        if isinstance(inner, dict) and ("tool" in inner or "name" in inner):
            name = inner.get("tool", inner.get("name"))
            calls.append((name, inner.get("parameters", inner.get("arguments"))))
    return calls, False


def runs(name: str, arguments: Any) -> bool:
    """Returns whether a runtime that checks names and schemas would run a call."""
    schema = TOOLS.get(name)
    if schema is None or not isinstance(arguments, dict):
        return False
    return arguments.keys() == schema["properties"].keys() and all(
        _TYPES[type(arguments[key])] == kind["type"] for key, kind in schema["properties"].items()
    )


def measure(reader: Any, count: int) -> tuple[Counter[str], list[str]]:
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    for text, name, arguments in rows(count):
        calls, marked = reader(text)
        if not calls or not all(runs(*call) for call in calls):
            tally["refused"] += 1
        elif calls == [(name, arguments)]:
            tally["right"] += 1
        else:
            tally["marked" if marked else "wrong"] += 1
            if not marked:
                wrong.append(f"{text!r} -> {calls}")
    return tally, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    readers = {"taofold": taofold, "json_repair": json_repair}
    for name, reader in readers.items():
        try:
            tally, wrong = measure(reader, args.rows)
        except ImportError:
            continue
        shares = ", ".join(f"{k} {100 * v / args.rows:.2f} %" for k, v in sorted(tally.items()))
        print(f"{name}: {shares}")
        if args.show and name == "taofold":
            print("\n".join(wrong))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
    main()

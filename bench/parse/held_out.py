"""Calls in every family's notation with up to two structural slips, new for each seed.

    python -m bench.parse.held_out [--rows 20000] [--seed 2] [--show]

`slips.py` spoils JSON; this spoils the notations of `tests/parsing/calls.py` too: a mark or a
structural character outside of the values is deleted, doubled, cut off or swapped, something
foreign is inserted, or the reply ends there. A row is right when the call that was meant comes
back, refused when no call would run, marked when another call would run that a repair marks, and
wrong when another call would run unmarked. No row is kept: a seed that was never run is held out.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.parsing.calls import DIALECTS

from taofold.parsing import Turn, read_reply

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("book_table", {"restaurant": "Chez Rosé & Co", "guests": 4, "outdoor": True}),
    ("remove_rows", {"table": "orders_2024", "where": "status = 'void' AND total < 10",
                     "limit": 250}),
    ("send_note", {"to": ["mia@x.org", "leo@x.org"], "silent": False,
                   "body": 'Hi,\nsee <b>§3</b> {draft}: "final"?\n'}),
    ("run_query", {"sql": "SELECT a->>'k' FROM t WHERE b = \"x\" -- [1]", "dry_run": True}),
    ("patch", {"file": "src/a b.py", "hunks": [{"line": 3, "text": "x = {1: 2}"},
                                               {"line": 9, "text": ""}]}),
    ("ping", {"host": "10.0.0.7"}),
    ("set_level", {"zone": "north", "value": -2.5, "note": None}),
]  # fmt: skip
_TYPES = {
    str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
    type(None): "null",
}  # fmt: skip
TOOLS = {
    name: {
        "type": "object",
        "properties": {key: {"type": _TYPES[type(value)]} for key, value in arguments.items()},
        "required": list(arguments),
    }
    for name, arguments in CALLS
}
UNQUOTED = re.compile(r'<\w*:?(?:｜DSML｜)?(?:parameter|arg_|tool_arg)|<\|"\|>|^Let me')
"""Notations that do not quote a text: what touches it is part of it."""
NESTED = ("gemma",)
"""Notations that do not define how an object in a list is written."""
FOREIGN = (" OK ", "\n\n", "}", "</x>", "<tool_call>", "<think>", '"', "Note: done.\n", "```\n")
_TOKEN = re.compile(
    r'<[^<>\n]{1,60}>|\[/?[A-Z_]{3,}\]|"(?:[^"\\\n]|\\.)*"|[{}\[\](),:=\n]|```\w*|[A-Z]{4,}'
    r"|[\w.\-]+|\s+|.",
    re.DOTALL,
)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str) and value:
        yield value


def _spans(text: str, arguments: dict[str, Any]) -> list[tuple[int, int]]:
    """Returns the positions of the arguments' texts, in any notation."""
    out: list[tuple[int, int]] = []
    for value in _texts(arguments):
        quoted = json.dumps(value, ensure_ascii=False)
        twice = json.dumps(quoted, ensure_ascii=False)[3:-3]
        for form in {value, quoted[1:-1], repr(value)[1:-1], twice}:
            at = text.find(form)
            while at >= 0:
                out.append((at, at + len(form)))
                at = text.find(form, at + 1)
    return out


def slip(text: str, arguments: dict[str, Any], draw: random.Random) -> str:
    """The text with one slip outside of the values."""
    tokens = [each[0] for each in _TOKEN.finditer(text)]
    spans = _spans(text, arguments)
    starts: list[int] = []
    at = 0
    for token in tokens:
        starts.append(at)
        at += len(token)

    def is_value(number: int) -> bool:
        token, begin = tokens[number], starts[number]
        first = begin + (token[:1] == '"')
        last = begin + len(token) - (token[-1:] == '"')
        return any(start < last and first < end for start, end in spans)

    places = [
        number
        for number, token in enumerate(tokens)
        if token.strip()
        and (token[0] in '<[{}](),:=`"' or token.isupper())
        and not is_value(number)
    ]
    if not places:
        return text
    number, kind = draw.choice(places), draw.randrange(6)
    is_unquoted = UNQUOTED.search(text) is not None
    touches = any(abs(starts[number] - edge) <= 1 for span in spans for edge in span)
    if is_unquoted and ((kind in (1, 4) and touches) or kind == 2):
        return text
    if kind == 0:
        tokens.pop(number)
    elif kind == 1:
        tokens.insert(number, tokens[number])
    elif kind == 2:
        other = draw.choice(places)
        tokens[number], tokens[other] = tokens[other], tokens[number]
    elif kind == 3:
        del tokens[number:]
    elif kind == 4:
        tokens.insert(number, draw.choice(FOREIGN))
    else:
        tokens[number] = tokens[number][:-1]
    return "".join(tokens)


def _would_run(name: str, arguments: Any) -> bool:
    schema = TOOLS.get(name)
    if schema is None or not isinstance(arguments, dict):
        return False
    return arguments.keys() == schema["properties"].keys() and all(
        _TYPES.get(type(arguments[key])) == kind["type"]
        for key, kind in schema["properties"].items()
    )


def verdict(text: str, name: str, arguments: dict[str, Any]) -> str:
    """`right`, `refused`, `marked` or `wrong`."""
    reply = read_reply(text, TOOLS, finish_reason="stop")
    if not isinstance(reply, Turn) or any(call.error for call in reply.calls):
        return "refused"
    calls = [(call.tool, call.parameters) for call in reply.calls]
    if not calls or not all(_would_run(*call) for call in calls):
        return "refused"
    if calls == [(name, arguments)]:
        return "right"
    repairs = [*reply.repairs, *(each for call in reply.calls for each in call.repairs)]
    return "marked" if any(repair.content for repair in repairs) else "wrong"


def rows(count: int, seed: int) -> Iterator[tuple[str, str, dict[str, Any], int]]:
    """Returns replies, the intended call, and the number of slips."""
    draw = random.Random(seed)
    notations = sorted(set(DIALECTS) - set(NESTED))
    while count:
        name, arguments = draw.choice(CALLS)
        text = DIALECTS[draw.choice(notations)](name, arguments)
        slips = draw.choice((0, 1, 1, 1, 2))
        for _ in range(slips):
            text = slip(text, arguments, draw)
        yield text, name, arguments, slips
        count -= 1


def arguments(description: str | None) -> argparse.Namespace:
    """Reads the command line: how many rows, of which seed, and whether to show wrong ones."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="the rows that are wrong")
    return parser.parse_args()


def report(tally: Mapping[str, Counter[str]]) -> None:
    """Prints the share of each verdict by kind of row, and of what is silently wrong."""
    for kind, counts in tally.items():
        total = counts.total()
        shares = ", ".join(f"{k} {100 * v / total:.2f} %" for k, v in sorted(counts.items()))
        print(f"{kind}: {total} rows, {shares}")
    rows = sum(counts.total() for counts in tally.values())
    wrong = sum(counts["wrong"] for counts in tally.values())
    print(f"silently wrong: {wrong} of {rows} ({100 * wrong / rows:.2f} %)")


def main() -> None:
    args = arguments(__doc__)
    tally: dict[str, Counter[str]] = {"whole": Counter(), "spoilt": Counter()}
    for text, name, meant, slips in rows(args.rows, args.seed):
        result = verdict(text, name, meant)
        tally["spoilt" if slips else "whole"][result] += 1
        if args.show and result == "wrong":
            print(repr(text))
    report(tally)


if __name__ == "__main__":
    main()

"""Measures the growth of parsing time with the text: `python bench/parse/growth.py [--all]`.

Each shape is a unit that is repeated, made to make a pattern or a reader look far: the marks of
every family, their beginnings, and the texts of `attacks.py`. Every shape is read at 25 kB and 100
kB; what grows faster than its text or is slow, and the slowest of each reader, at 1 MB too. There
ten times the text must not cost more than `LIMIT` times the time of 100 kB, and none more than
`SECONDS`. A stream is fed in pieces of several sizes; by single characters a tenth of that, as a
call costs more than a character does. Prints what fails, with `--all` every row, slowest first, and
a table of the readers; the exit code is 1 if any failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from attacks import FILLED, FRAMED, REPEATED, attack

from taofold.parsing import ReplyStream, parse, read_reply
from taofold.parsing.markup.families import FAMILIES

SIZES = (25_000, 100_000, 1_000_000)
PIECES = (1_000_000, 4_096, 64, 16, 1)
SLOWEST = 25
LIMIT = 15.0
SECONDS = 0.5
FLOOR = 0.02
"""Seconds below which a ratio of two times is noise."""
TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {"properties": {"city": {"type": "string"}}},
    "search": {},
}
UNITS = (
    '<a', '<a<a', '<a:', '<a|', '<a ', '<a=', '<a b=', '<|', '<|a', '<|open|>', '<|open|>a ',
    '</', '</a', '<｜', '<｜DSML｜', ']<]', ']<]a[>[', ']<]a[>[<', '[', '[/', '[T', '[a(', '◁',
    '◁t',    '▷', '<function=', '<function=a ', '<function=get_weather>', '<invoke name="',
    '<invoke name="a" ', '<parameter=', '<parameter=a>', '<parameter name="a"',
    '<function=search><parameter=q>', '<tool_call>search<arg_key>q</arg_key>', '<arg_key>',
    '</arg_key>', 'a</arg_key>', '<arg_value>', '<tool_call>{"name": "search"',
    '<tool_call>\n{"name": "search", "arguments": {}}\n</tool_call>', '<search>', '<search/>',
    '<search><q>', '<get_weather><city>', 'to=', 'to=a', 'to=a ', '<|channel|>',
    '<|channel|>commentary to=search', '<|start|>', '<|start|>assistant',
    '<|channel|>analysis<|message|>', '<|message|>', '<|end|>', 'assistantfinal', 'call:',
    'call:search{', 'call:search {', '> call:search', 'functools', 'functools ', 'functools[',
    'function call', 'function call ', 'function call {', '>>>', '>>>search\n', '>>>search\n ',
    '\n>>>search\n{', '<|recipient|>', '<|recipient|>search', '<|recipient|> ',
    '<|recipient|>all <|content|>', '<|content|>', 'search(', 'search(a=', 'search(a=1)',
    'search()\n', '[search(a=1), ', 'print(', 'print(search(a=1))\n', 'x = ', 'THOUGHT: ',
    'ACTION: ', 'ACTION: search\n', 'Action Input:', 'Action:\n', 'THOUGHT [Goal]: a\n',
    '\nAction: search[', 'OBSERVATION: a\n', 'Observation:', '\nUser: ', 'User: bob\n',
    'tool result:', '```', '```\n', '```json', '```tool_code\n', '~~~\n', '`', '- a\n', 'a: ',
    'a:\n ', 'a:\n', '> {', '> {"a": 1}\n', '{"tool": "search"}', '{"tool": "search"}\n',
    '{"tool": ', '{"tool":"search",', '{"a":"b"},', "{'a': '", '{a: ', '{"a": "b" "', '\\', '\\"',
    '"""', "'''", '{"a": "\\n', '{"a": <|"|>', '<|"|>', '<escape>', '<think>a</think>',
    '</think>', '<think', '<seed:think>', '[THINK]', '[/THINK]', '[TOOL_CALLS]',
    '[TOOL_CALLS]search', '[TOOL_CALLS]search[ARGS]', '[ARGS]', '[CALL_ID]a', ' ', '\n', '\t\n',
    '\ufeff', '\u200b', 'é', 'a ', '1', '1,', '1,234', '-', '0x', '1e', '// a\n', '/*', '/* */',
    '#', '# a\n', '&lt;', '<![CDATA[', '<a><![CDATA[', '<!--', '<answer>', '</answer>',
    '<response>', 'final answer: ', '\nFinal answer: a', 'Final Answer: a\n', 'not ', '?', '\n?',
)  # fmt: skip


def units() -> dict[str, str]:
    """The units by name: those above, and the marks of the table whole, begun and doubled."""
    marks = {
        mark for family in FAMILIES for pair in (*family.reasoning, *family.calls) for mark in pair
    }
    marks |= {mark for family in FAMILIES for mark in (*family.noise, *family.separators)}
    literal = {mark for mark in marks if mark and not mark.startswith("re:")}
    begun = {mark[:-1] for mark in literal} | {mark + " " for mark in literal}
    return {repr(unit): unit for unit in sorted({*UNITS, *literal, *begun}) if unit}


def readers() -> dict[str, Callable[[str], object]]:
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int
        email: str | None = None

    def streamed(size: int) -> Callable[[str], object]:
        def read(text: str) -> None:
            stream = ReplyStream(TOOLS)
            for at in range(0, len(text), size):
                stream.feed(text[at : at + size])

        return read

    return {
        "read_reply": lambda text: read_reply(text, TOOLS, finish_reason="stop"),
        "parse": lambda text: parse(text, Person),
        **{f"stream/{size}": streamed(size) for size in PIECES},
    }


def seconds(read: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every row, slowest first")
    parser.add_argument("--only", default="", help="names of readers, separated by commas")
    args = parser.parse_args()
    shapes: dict[str, Callable[[int], str]] = {
        name: lambda size, unit=unit: unit * (size // len(unit)) for name, unit in units().items()
    }
    for name in (*REPEATED, *FRAMED, *FILLED):
        shapes[name] = lambda size, name=name: attack(name, size)[0]
    rows: list[tuple[float, float, str, str]] = []
    for reader, read in readers().items():
        if args.only and reader not in args.only.split(","):
            continue
        sizes = [size // 10 for size in SIZES] if reader == "stream/1" else SIZES
        quick: list[tuple[float, float, str]] = []
        for name, make in shapes.items():
            small, middle = (seconds(read, make(size)) for size in sizes[:2])
            quick.append((middle, middle / max(small, FLOOR / 40), name))
        quick.sort(reverse=True)
        for number, (middle, growth, name) in enumerate(quick):
            if number >= SLOWEST and growth < 6 and middle < SECONDS / 15:
                rows.append((middle * 10, growth * 2.5, reader, name))  # as if it went on so
                continue
            middle = min(middle, seconds(read, shapes[name](sizes[1])))
            large = min(seconds(read, shapes[name](sizes[2])) for _ in range(2))
            rows.append((large, large / max(middle, FLOOR / 10), reader, name))
            print(f"{large:7.3f} s  x{large / middle:5.1f}  {reader:14} {name}", flush=True)
    rows.sort(reverse=True)
    failed = [row for row in rows if row[0] > SECONDS or (row[1] > LIMIT and row[0] > FLOOR)]
    print("failed:")
    for large, growth, reader, name in rows if args.all else failed:
        print(f"{large:7.3f} s  x{growth:5.1f}  {reader:14} {name}")
    print("reader          shapes  failed  slowest  of                      grows most")
    for reader in dict.fromkeys(row[2] for row in rows):
        own = [row for row in rows if row[2] == reader]
        steepest = max((row[1] for row in own if row[0] > FLOOR), default=0.0)
        bad = sum(row in failed for row in own)
        print(f"{reader:14} {len(own):7} {bad:7} {own[0][0]:6.2f} s  {own[0][3]:24}x{steepest:.1f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

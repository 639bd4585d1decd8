"""Typed values in every envelope with up to two structural slips, new for each seed.

    python -m bench.parse.held_out_values [--rows 20000] [--seed 2] [--show]

The types and values are none of the tests'. Four kinds of rows: `whole` (one way of writing and
one envelope of `tests/parsing/corruptions.py`), `spoilt` (a slip of `held_out.py` outside of the
texts, too), `cut` (the reply ends anywhere) and `misfit` (a value that does not fit its type; any
value that comes back is wrong).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any, Literal

from bench.parse.held_out import arguments, report, slip
from pydantic import BaseModel, ConfigDict
from tests.parsing.corruptions import ENVELOPES, SLIPS, WHOLE_TEXT

from taofold.parsing import Parsed, parse


class Leg(BaseModel):
    origin: str
    target: str
    km: float


class Trip(BaseModel):
    traveller: str
    legs: list[Leg]
    paid: bool
    note: str | None = None


class Judgement(BaseModel):
    label: Literal["approve", "reject", "escalate"]
    score: float
    reasons: list[str]


class Setting(BaseModel):
    model_config = ConfigDict(extra="forbid")
    key: str
    value: int
    scope: Literal["user", "team", "all"]


class Hunk(BaseModel):
    file: str
    start: int
    end: int
    text: str


class Stock(BaseModel):
    counts: dict[str, int]
    open: bool


class Removal(BaseModel):
    name: Literal["delete_rows"]
    arguments: dict[str, Any]


class Contact(BaseModel):
    name: str
    birthday: date
    phones: list[str]
    vip: bool = False


VALUES: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (Trip, {"traveller": "Ito, Ken", "paid": False, "note": None,
            "legs": [{"origin": "Köln", "target": "Lyon", "km": 640.5},
                     {"origin": "Lyon", "target": "Turin", "km": 312}]}),
    (Trip, {"traveller": "O'Neil", "legs": [], "paid": True, "note": 'say "yes": {now}'}),
    (Judgement, {"label": "escalate", "score": 0.75, "reasons": ["sum > 10,000", "new payee"]}),
    (Setting, {"key": "retries.max", "value": 12, "scope": "team"}),
    (Hunk, {"file": "src/a.py", "start": 4, "end": 9, "text": "x = {'a': [1]}\n# done, \"ok\"\n"}),
    (Stock, {"counts": {"bolt": 40, "nut": 7}, "open": True}),
    (Removal, {"name": "delete_rows",
               "arguments": {"table": "log", "where": "id < 10", "limit": 3}}),
    (Contact, {"name": "Zoë", "birthday": "1990-04-01", "phones": ["+49 30 1", "0221-7"],
               "vip": True}),
]  # fmt: skip
GRID = [(s, e) for s in SLIPS for e in ENVELOPES if e == "bare" or s not in WHOLE_TEXT]
NO_NUMBERS = ("a few", "about 7", "n/a", "TBD", "5-6", "1,5", "twelve", "7 or 8", [1, 2], None)
NO_WORDS = ("unknown", "approve or reject", "not approve", "user/team", "everyone", "", None)
KINDS = ("whole", "spoilt", "cut", "misfit")


def _data(value: Any) -> list[str]:
    """Texts of a value as they may be written, and keys that are data: no slip goes there."""
    if isinstance(value, list):
        return [each for entry in value for each in _data(entry)]
    if isinstance(value, dict):
        keys = list(value) if all(isinstance(each, int) for each in value.values()) else []
        return keys + [each for entry in value.values() for each in _data(entry)]
    if not isinstance(value, str):
        return []
    quoted = json.dumps(value, ensure_ascii=False)[1:-1]
    escaped = value.replace("'", "\\'")
    return [value, escaped, quoted.replace("\\n", "\n"), quoted.replace('\\"', '"')]


def misfit(type_: type[BaseModel], value: dict[str, Any], draw: random.Random) -> Any:
    """Returns the value with one absent or mistyped field; None if it still fits."""
    key, kind = draw.choice(list(value)), draw.randrange(3)
    if kind == 0:
        absent = {name: each for name, each in value.items() if name != key}
        return absent if type_.model_fields[key].is_required() else None
    if kind == 1 and isinstance(value[key], int | float):
        return {**value, key: draw.choice(NO_NUMBERS)}
    if kind == 2 and "Literal" in str(type_.model_fields[key].annotation):
        return {**value, key: draw.choice(NO_WORDS)}
    return None if key == "arguments" else {**value, key: {"unexpected": True}}


def rows(count: int, seed: int) -> Iterator[tuple[str, type[BaseModel], Any, str]]:
    """Returns kinds, types, the intended value (None: none) and replies."""
    draw = random.Random(seed)
    while count:
        type_, value = draw.choice(VALUES)
        notation, envelope = draw.choice(GRID)
        kind = draw.choice(KINDS)
        meant: Any = value if kind != "misfit" else misfit(type_, value, draw)
        if meant is None:
            continue
        text = ENVELOPES[envelope](SLIPS[notation](meant))
        if kind == "spoilt":
            for _ in range(draw.choice((1, 1, 2))):
                text = slip(text, {"data": _data(value)}, draw)
        elif kind == "cut":
            text = text[: draw.randrange(1, len(text))]
        yield kind, type_, None if kind == "misfit" else value, text
        count -= 1


def verdict(type_: type[BaseModel], meant: Any, text: str) -> str:
    """`right`, `refused`, `marked` or `wrong`."""
    result = parse(text, type_)
    if not isinstance(result, Parsed):
        return "refused"
    if meant is not None and result.value == type_.model_validate(meant):
        return "right"
    return "marked" if any(repair.content for repair in result.repairs) else "wrong"


def main() -> None:
    args = arguments(__doc__)
    tally: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for kind, type_, meant, text in rows(args.rows, args.seed):
        result = verdict(type_, meant, text)
        tally[kind][result] += 1
        if args.show and (result == "wrong" or (kind == "whole" and result != "right")):
            print(kind, type_.__name__, repr(text))
    report(tally)


if __name__ == "__main__":
    main()

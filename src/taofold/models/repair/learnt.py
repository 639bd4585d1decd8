"""What earlier searches came to, as a section of the prompt: how often kinds of edits were right.

A candidate's score is multiplied by its keys' rates. The section is data: a line is a key and a
number, and it can change the order of candidates, not the set.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from keyword import iskeyword
from math import log
from typing import Final

from taofold.learning.attribution.rates import LINE, MOST_KEYS, SHAPE, STATEMENT, Rates, key_of
from taofold.learning.extraction.diffs import abstracted, shape
from taofold.models.repair.source import Change, Source

HEADING: Final = "## Search Rates"
_ABOUT: Final = "Reference data of the search policy: kinds of edits, and how often each was right."
_LINE: Final = re.compile(r"(?m)^([a-z][0-9a-f]{12}) (\d{1,4}\.\d{1,4})$")
_TELLING: Final = 0.1
"""Rates nearer to 1 than this, as a logarithm, are not worth a line."""
_MOST: Final = 50.0

Factors = Mapping[str, float]
"""What the score of an edit with a key is multiplied by; 1 where a key is not named."""


def section(rates: Rates) -> str:
    """The section of a prompt that tells a search the `rates`; "" if they would change nothing."""
    power = rates.power
    lines: list[str] = []
    for key in list(rates.by_key)[:MOST_KEYS] if power else ():
        theta = rates.theta(key) ** power
        if abs(log(theta)) >= _TELLING:
            lines.append(f"{key} {min(theta, _MOST):.4f}")
    return "\n".join([HEADING, _ABOUT, *lines]) if lines else ""


@lru_cache(maxsize=8)
def factors(prompt: str) -> Factors:
    """The rates that a prompt tells."""
    start = prompt.find(HEADING)
    if start < 0:
        return {}
    found = _LINE.findall(prompt[start:])
    return {key: float(text) for key, text in found[:MOST_KEYS]}


def keys_of(source: Source, change: Change) -> tuple[str, str, str]:
    """An edit's keys, the outer first: what it does, in which kind of statement, to which line.

    Names are left out. `n < len(xs)` to `n <= len(xs)` behind `while` is the shape `<` to `<=`, the
    same in a `while`, and the same on a line `while ID < len(ID):`.
    """
    first, last = source.line_of(change.start), source.line_of(change.end)
    start, end = source.line_start(first), source.line_start(last + 1)
    old = source.text[start:end]
    new = old[: change.start - start] + change.text + old[change.end - start :]
    done = shape(old, new)
    line = tuple(abstracted(source.text[start : source.line_start(first + 1)]))
    return key_of(SHAPE, done), key_of(STATEMENT, done, _statement(line)), key_of(LINE, done, line)


def _statement(line: tuple[str, ...]) -> str:
    """The kind of statement that a line begins: its keyword, or whether it assigns."""
    if line and iskeyword(line[0]):
        return line[0]
    return "=" if "=" in line else ""

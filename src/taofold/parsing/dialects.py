"""The tool-call dialects of model families, as tables: a head with a name, then arguments.

Adding a dialect is adding a line. Whether the name is offered is for the caller to judge. Knows
nothing about types.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from taofold.parsing.actions import labelled
from taofold.parsing.conversion import Text
from taofold.parsing.fitting import Request
from taofold.parsing.labels import has_action
from taofold.parsing.outcome import Repair
from taofold.parsing.pythonic import pythonic
from taofold.parsing.reader import Reader
from taofold.parsing.shape import ANYTHING

_N = r"(?:functions\.|default_api\.|tools\.)?([A-Za-z_][\w.-]{0,63}?)"
HEADS: dict[str, str] = {
    "mistral": rf"\[TOOL_CALLS\]\s*+{_N}\s*+(?:\[CALL_ID\][\w-]*+)?\[ARGS\]\s*+(?=\{{)",
    "deepseek": rf"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?{_N}(?:<｜tool▁sep｜>)?"
    r"\s*+(?:```json\s*+)?(?=\{)",
    "kimi": rf"<\|tool_call_begin\|>\s*+{_N}(?::\d+)?\s*+<\|tool_call_argument_begin\|>\s*+(?=\{{)",
    "harmony": rf"\bto={_N}(?:\s|<\|)[^{{\n]{{0,60}}?\n?(?:<\|constrain\|>\w*\s*+)?"
    r"<\|message\|>\s*+(?=\{)",
    "function": rf"<function(?:=|\s+name=)\"?{_N}\"?>\s*+(?=\{{)",
    "invoke": rf"<(?:invoke|tool_call|tool)\s+name=\"{_N}\"\s*>\s*+(?=\{{)",
    "hermes_name": rf"<tool_call>\s*+{_N}\s*+(?=\{{)",
    "gemma": rf"(?:^|(?<=[>\s]))call:{_N}\s*+(?=[{{(])",
}
"""Dialect to the pattern of its head; group 1 is the tool, an object follows."""
TAGS: dict[str, tuple[str, str]] = {
    "qwen": (rf"<function=\s*\"?{_N}\"?\s*>", "</function>"),
    "anthropic": (rf"<invoke\s+name=\"{_N}\"\s*>", "</invoke>"),
    "glm": (
        rf"<tool_call>\s*+{_N}\s*+(?=<arg_key>|<tool_call>|\n<|[A-Za-z_]\w*</arg_key>)",
        "</tool_call>",
    ),
}
"""Dialect to the pattern of its opening tag and its closing tag; parameters are tags inside."""
_HEAD = re.compile("|".join(HEADS.values()), re.MULTILINE)
_TAG = re.compile("|".join(opening for opening, _ in TAGS.values()))
_CLOSERS = [closing for _, closing in TAGS.values()]
_NOISE = re.compile(
    r"[｜‖|]{1,2}DSML[｜‖|]{1,2}[ \t]?|\]<\]minimax\[>\[|(?<=[</])[a-z]{2,12}:(?=[ip])"
)
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name=)\s*\"?([\w.-]{1,64})\"?([^>\n]{0,80})>"
    r"|(?:<arg_key>\s*+)?([\w.-]{1,64})\s*+</arg_key>\s*+(?:<arg_value>)?"
)
_CHILD = re.compile(_PARAMETER.pattern + r"|<([A-Za-z_][\w.-]{0,63})>")


_BRACKET = re.compile(r"[{<(\[]")
"""No form of a call does without one."""


def cleaned(text: str) -> str:
    """A text without the decoration of dialects; every other offset refers to this text."""
    if "DSML" in text or "minimax" in text or ":invoke" in text:
        text = _NOISE.sub("", text)
    return text.replace('<|"|>', "\x02")  # gemma's quote


def requests_in(text: str, offered: Collection[str] = (), labels: bool = True) -> list[Request]:
    """Every call in a text, in the first form that yields one.

    Args:
        text: Text without its reasoning.
        offered: Names that a bare tag `<name>` or a call `name(…)` must have; empty allows none.
        labels: Whether the labelled forms are read too.
    """
    if labels and has_action(text):
        request = labelled(text)
        return [request] if request is not None else []
    if _BRACKET.search(text) is None:
        return []
    found = list(_headed(text))
    if not found:
        found = list(_tagged(text, offered))
    return found or pythonic(text, offered)


def _headed(text: str) -> Iterator[Request]:
    reader = Reader(text, ANYTHING)
    position = 0
    while found := _HEAD.search(text, position):
        name = next(each for each in found.groups() if each)
        reading = reader.read(found.end())
        position = max(reading.end, found.end())
        closed = not (reading.cut or reading.open or reading.failed)
        yield Request(name, reading.value, None, found.start(), tuple(reading.repairs), closed)
        if not closed:
            return


def _tagged(text: str, offered: Collection[str]) -> Iterator[Request]:
    opening = _TAG
    if offered:
        names = "|".join(map(re.escape, offered))
        opening = re.compile(rf"{_TAG.pattern}|<({names})>\s*+(?=<)")
    find = _Finder(text)
    position = 0
    while (found := opening.search(text, position)) is not None:
        number, name = next((i, each) for i, each in enumerate(found.groups()) if each)
        closer = _CLOSERS[number] if number < len(_CLOSERS) else f"</{name}>"
        pattern = _PARAMETER if closer in ("</function>", "</tool_call>") else _CHILD
        repairs: list[Repair] = []
        parameters, position, closed = _parameters(find, found.end(), closer, pattern, repairs)
        yield Request(name, parameters, None, found.start(), tuple(repairs), closed)
        if not closed:
            return


class _Finder:
    """Finds the next of some words; a word is looked for once, so all searches are linear."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._known: dict[str, int] = {}

    def __call__(self, word: str, at: int) -> int:
        known = self._known.get(word, 0)
        if 0 <= known < at or word not in self._known:
            known = self._known[word] = self.text.find(word, at)
        return known


def _parameters(
    find: _Finder, at: int, closer: str, pattern: re.Pattern[str], repairs: list[Repair]
) -> tuple[dict[str, Any], int, bool]:
    text = find.text
    values: dict[str, Any] = {}
    while True:
        end = find(closer, at)
        found = pattern.search(text, at, end if end >= 0 else len(text))
        if found is None:
            return values, (end + len(closer) if end >= 0 else len(text)), end >= 0
        stop, at = _value_end(find, found, closer)
        if stop < 0:
            return values, len(text), False
        if at == stop:  # where its own end was lost, the value may have lost more
            repairs.append(Repair("missing_closer", "syntax", content=True, at=stop, cost=3))
        body = text[found.end() : stop]
        if body[:1] == "\n" and (body[-1:] == "\n" or at == stop):
            body = body[1:].removesuffix("\n")
        elif at == stop:
            body = body.rstrip("\n")
        verbatim = 'string="true"' in (found[2] or "")
        values[_key(found)] = body if verbatim else Text(body)


def _key(found: re.Match[str]) -> str:
    return next(each for each in (found[1], found[3], *found.groups()[3:]) if each)


def _value_end(find: _Finder, found: re.Match[str], closer: str) -> tuple[int, int]:
    """Where a parameter's value ends and where the next may begin; -1 when it was cut off."""
    closing = "</parameter>" if found[1] else "</arg_value>" if found[3] else f"</{_key(found)}>"
    follower = "<parameter" if found[1] else "<arg_key>" if found[3] else ""
    stop = find(closing, found.end())
    following = find(follower, found.end()) if follower else -1
    if stop >= 0 and not 0 <= following < stop:
        return stop, stop + len(closing)
    edges = [each for each in (following, find(closer, found.end())) if each >= 0]
    return (min(edges), min(edges)) if edges else (-1, -1)

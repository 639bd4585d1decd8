"""Reads the action of a labelled text (TAO, ReAct): its tool and its arguments.

Knows nothing about types or which tools exist.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from taofold.parsing.conversion import Text
from taofold.parsing.decision import Tools, turn_of
from taofold.parsing.feedback import refusal
from taofold.parsing.fitting import Request, request_of
from taofold.parsing.hedging import is_hedged
from taofold.parsing.keys import PARAMETER_KEYS
from taofold.parsing.kinds import is_list, is_object
from taofold.parsing.labels import parameters_of, sections_of
from taofold.parsing.outcome import Repair, Unparsed
from taofold.parsing.outline import outline_in
from taofold.parsing.pythonic import pythonic
from taofold.parsing.reader import Reader, Reading
from taofold.parsing.shape import ANYTHING, fold
from taofold.parsing.spans import unescaped
from taofold.parsing.turn import Turn

NO_TOOL: Final = "The action names no tool."
_HEADINGS = frozenset(map(fold, PARAMETER_KEYS))
_OBJECTS = re.compile(r"\s*(?:```(?:json|JSON)?\s*)?(?:\{|\[\s*\{)")


def labelled(text: str) -> Request | None:
    """The first action of a TAO or ReAct text; `None` when it names no tool."""
    parts = sections_of(text)
    thought = parts.text("thought") or None
    section = next((each for each in parts.sections if each.label == "action"), None)
    if section is None or is_hedged(text, parts.sections[0].at, len(text)):
        return None
    blank = Request("", None, thought, section.at, closed=parts.ended)
    if section.text.lstrip().startswith(("{", "```")):
        return _described(section.text, blank)
    head, _, rest = section.text.partition("\n")
    name = head.strip().strip("`*\"' ")
    name = name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name
    if not name:
        return None
    given = parts.text("action_input")
    if given is not None:
        return _encoded(given, replace(blank, tool=name))
    brace, paren = name.find("{"), name.find("(")
    if paren > 0 and (brace < 0 or paren < brace):
        call = pythonic(section.text, ())
        return replace(call[0], thought=thought, at=section.at) if call else None
    if brace > 0:
        given = head[head.index("{") :] + "\n" + rest
        return _encoded(given, replace(blank, tool=name[:brace].strip()))
    if rest.lstrip()[:1] in ("{", "`"):
        return _encoded(rest, replace(blank, tool=name))
    return _listed(rest, replace(blank, tool=name))


def described(section: str, reply: str, tools: Tools) -> Turn | Unparsed | None:
    """An action of `reply` that is one object, or a list of them; None if it is neither.

    It is read as a reply in JSON is: nothing beside the parameters is lost without a trace.
    """
    reading = _object(section) if _OBJECTS.match(section) else None
    if reading is None:
        return None
    if not reading.whole:
        return refusal("incomplete", reply)
    value = reading.value if is_object(reading.value) else {"actions": reading.value}
    turn = turn_of(value, tools, tuple(reading.repairs))
    return turn if turn.calls else refusal("invalid", reply, note=NO_TOOL)


def _listed(text: str, request: Request) -> Request:
    """Arguments as `key: value` lines, which nothing but an end line closes."""
    bare = text.lstrip()
    if bare[:1] == '"':
        reading = Reader(text, ANYTHING).read(len(text) - len(bare), headless=True)
        if not reading.failed and not reading.cut and request.closed:
            return replace(request, parameters=reading.value, repairs=tuple(reading.repairs))
    values, error = parameters_of(text)
    if error:
        return replace(request, parameters=Text(text.strip()), closed=True)
    for key in ("rationale", "justification"):
        values.pop(key, None)
    values = _unwrapped(values)
    end = () if request.closed else (Repair("open_end", "none", content=True, at=request.at),)
    closed = request.closed or not values or list(values.values())[-1] != ""
    return replace(request, parameters=values or None, repairs=end, closed=closed)


def _unwrapped(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters without the heading that some models put over them."""
    first = next(iter(values), "")
    if fold(first) not in _HEADINGS:
        return values
    if len(values) == 1:
        inner = values[first]
        outline = outline_in(inner) if isinstance(inner, Text) else (inner, True)
        return outline[0] if outline is not None and is_object(outline[0]) else values
    if len(values) > 1 and values[first] == "":
        return {key: value for key, value in values.items() if key != first}
    return values


def _encoded(text: str, request: Request) -> Request:
    """Arguments as one JSON object; other text stays for the caller to refuse."""
    if not text.strip():
        return replace(request, parameters={})
    reading = _object(unescaped(text) or text)
    outline = outline_in(text.strip()) if reading is None and "```" in text else None
    if outline is not None and is_object(outline[0]):
        return replace(request, parameters=outline[0])
    if reading is None:
        return replace(request, parameters=Text(text.strip()), closed=True)
    repairs = tuple(reading.repairs)
    return replace(request, parameters=reading.value, repairs=repairs, closed=reading.whole)


def _described(text: str, request: Request) -> Request | None:
    """An action that is one object, tool and arguments together."""
    reading = _object(text)
    if reading is None:
        return None
    if not reading.whole:
        return replace(request, closed=False)
    value = reading.value[0] if is_list(reading.value) and len(reading.value) == 1 else None
    found = request_of(value or reading.value)
    if found is None:
        return None
    thought = request.thought or found.thought
    repairs = tuple(reading.repairs)
    return replace(found, thought=thought, at=request.at, repairs=repairs)


def _object(text: str) -> Reading | None:
    start = len(text) - len(text.lstrip(" \t\r\n`jsonJSON"))
    if text[start : start + 1] not in ("{", "["):
        return None
    reading = Reader(text, ANYTHING).read(start)
    return None if reading.failed else reading

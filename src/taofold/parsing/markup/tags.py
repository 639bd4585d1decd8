"""Reads arguments that are written as tags, and nested tags as a value.

Every character between an opening and its closing tag belongs to one argument. Text between two
arguments is an error. So is an argument that is given twice, unless its schema takes a list. Every
leaf is `LooseText`, which a schema types later. Knows nothing about calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from taofold.core.json_values import decoded
from taofold.core.late_patterns import found_by, late
from taofold.parsing.jsonlike.quoting import after_blank
from taofold.parsing.markup.families import (
    CALL_CLOSE,
    CALL_OPEN,
    CHILD,
    EMPTY,
    ENTRY,
    HEAD,
    KEY,
    NOISE,
    closing,
    closing_of,
    edges_of,
)
from taofold.parsing.outcome import Repair
from taofold.parsing.schema.scalars import LooseText, TaggedText

DEPTH = 40
ENTRIES = 5_000
"""The most arguments, repeated ones included, in all calls of one text."""
_CDATA = late(r"\s*<!\[CDATA\[(.*?)\]\]>\s*", re.DOTALL)
_VERBATIM = late(r"(?:string\s*=\s*[\"']?true|type\s*=\s*[\"']?(?:string|str\b))|^\s*string\s*$")
_ENCODED = late(r"(?:string\s*=\s*[\"']?false|type\s*=\s*[\"']?\w)")
_WORD = r"[A-Za-z_][\w:.]*(?:-\w+)*"
_LABELLED = late(
    rf"(?:\s+{_WORD})?(?:\s+{_WORD}\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>=]+))*\s*/?", re.ASCII
)
"""The attributes after a parameter's name: an optional type, then attributes with a value."""
_ENTRY_EDGE = edges_of("parameter|param|argument|arg", r"(?![a-z_])")
_KEY_EDGE = edges_of("arg_key|arg_value|arg_type", "")
_ENTRY_END = late(lambda: closing("(?:parameter|param|argument|arg)"))
_KEY_END = late(lambda: rf"{closing('arg_value')}|<\|tool_arg:end\|>")
_ANY_END = late(
    lambda: closing(r"(?:function|invoke|tool_call|tool|call|parameters?|arguments?|args)")
)
_ENTITY = late(r"&(?:lt|gt|amp|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});")
_QUOTED = late(r'\s*+"(?:[^"\\]|\\.)*+"\s*+', re.DOTALL)
"""A JSON string in a place where text needs no quotes."""
_INNER = late(r"</?(?:parameters|arguments|args|params)>")
NO_TAG = late(r"(?!)")
_ITEMS = frozenset({"item", "li", "entry", "element", "value"})


@dataclass(slots=True)
class Entries:
    """The arguments of one call.

    Attributes:
        values: The arguments by name; a list if one was given several times.
        end: The offset after the closing tag.
        closed: True if the end of the call was present.
        error: The reason why the arguments cannot be used.
        repairs: The changes made while reading.
        repeated: The names that were given more than once.
    """

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    end: int = 0
    closed: bool = True
    error: str = ""
    repairs: list[Repair] = field(default_factory=list[Repair])
    repeated: set[str] = field(default_factory=set[str])

    def put(self, key: str, value: Any) -> None:
        """Adds an argument.

        A repeated argument is never overwritten: `/tmp/a` and then `/etc/passwd` is a list if the
        schema takes one, and an error otherwise.
        """
        if key not in self.values:
            self.values[key] = value
        elif key in self.repeated:
            self.values[key].append(value)
        else:
            self.values[key] = [self.values[key], value]
            self.repeated.add(key)


class TagReader:
    """Reads the tags of one text; each pattern searches each stretch once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = ENTRIES
        self._ahead: dict[int, tuple[re.Pattern[str], re.Match[str] | None]] = {}
        """The next match of each pattern, keyed by `id`: hashing a pattern hashes its whole code.
        """

    def entries(
        self, at: int, end: re.Pattern[str], children: bool, declared: Collection[str] = ()
    ) -> Entries:
        """Reads arguments up to the closing tag `end`.

        Args:
            at: The earliest offset of the first argument.
            end: The closing tag of the call; `NO_TAG` if it has none.
            children: True if the tag of an argument may be its name.
            declared: The names of the parameters, if known. A tag with any other name inside the
                value of a declared parameter is part of that value.
        """
        out = Entries()
        while self._left > 0:
            self._left -= 1
            at = self._blank(at)
            closer = end.match(self._text, at)
            if closer:
                out.end = closer.end()
                return out
            opener = ENTRY.match(self._text, at) or KEY.match(self._text, at)
            if opener is None and children:
                empty = EMPTY.match(self._text, at)
                if empty:
                    out.put(empty["key"], LooseText(""))
                    at = empty.end()
                    continue
                opener = CHILD.match(self._text, at)
            if opener is None or self._is_boundary(at):
                return self._unclosed(out, at, end)
            at = self._value(out, opener, end, declared)
            if at < 0:
                out.closed, out.end = False, len(self._text)
                return out
        out.end, out.error = at, f"more than {ENTRIES:,} arguments"
        return out

    def _blank(self, at: int) -> int:
        while True:
            at = after_blank(self._text, at)
            inner = _INNER.match(self._text, at)
            if inner is None:
                return at
            at = inner.end()

    def _is_boundary(self, at: int) -> bool:
        """Returns whether the call ended here without its own closing tag."""
        return bool(
            at >= len(self._text)
            or CALL_CLOSE.match(self._text, at)
            or _ANY_END.match(self._text, at)
            or CALL_OPEN.match(self._text, at)
            or HEAD.match(self._text, at)
            or NOISE.match(self._text, at)
        )

    def _unclosed(self, out: Entries, at: int, end: re.Pattern[str]) -> Entries:
        out.end = at
        if at >= len(self._text):
            out.closed = False
        elif not self._is_boundary(at):
            out.error = f"text outside the arguments: {self._text[at : at + 60]!r}"
        elif end is not NO_TAG:
            out.repairs.append(Repair("missing_closer", "syntax", content=True, at=at, cost=3))
        return out

    def _value(
        self,
        out: Entries,
        opener: re.Match[str],
        end: re.Pattern[str],
        declared: Collection[str],
    ) -> int:
        """Reads the value of an argument; returns the offset of its end, -1 if it was cut off."""
        groups = opener.groupdict()
        key = _key_of(opener)
        follower = ENTRY if found_by(ENTRY, opener) else KEY if found_by(KEY, opener) else None
        closer = _ENTRY_END if follower is ENTRY else _KEY_END if follower else closing_of(key)
        begin = opener.end()
        if not found_by(KEY, opener) and not _LABELLED.fullmatch(groups.get("rest") or ""):
            # The `>` is inside an attribute, or inside the value after a tag without an end.
            out.error = f"the tag of the parameter {key!r} has no end"
        stop = self._search(closer, begin)
        following = self._search(follower, begin) if follower else None
        # Text about tags: a tag that names no parameter does not open an argument.
        nested: list[int] = []
        while following and key in declared and _key_of(following) not in declared:
            nested.append(following.start())
            following = follower and self._search(follower, following.end())
        first, stop = stop, self._own_closer(stop, closer, following, end, opener)
        if stop is None:
            # The closing tag is missing: the value ends at the next mark, and a repair is noted.
            ends = (following, self._search(end, begin), self._search(CALL_CLOSE, begin))
            edges = [each.start() for each in ends if each]
            if not edges:
                return -1
            at = min(edges)
            own = first if first and first.start() < at else None
            if own and follower is KEY and not (following and following.start() < own.start()):
                out.error = f"text behind the end of the parameter {key!r}"
            body = self._text[begin:at].strip("\n")
            if not body.strip():
                # Neither a value nor its end: an empty value would be a guess.
                out.error = f"the parameter {key!r} has no value"
            note = Repair("missing_closer", "syntax", content=True, at=at, cost=3)
            out.repairs.append(note)
        else:
            written, at = self._text[begin : stop.start()], stop.end()
            body = _unframed(written, opener)
            inner = [each for each in nested if each < stop.start()]
            if inner and first and first.start() < inner[-1]:
                out.error = f"the parameter {key!r} holds what may be another one"
            is_torn = bool(inner) or not _is_balanced(written, opener)
            doubt = "inner_tags" if is_torn else _doubt_of(written, opener)
            if doubt:
                path = f"parameters.{key}"
                out.repairs.append(Repair(doubt, "none", content=True, at=begin, path=path))
        out.put(key, _leaf(body, groups.get("rest") or ""))
        return at

    def _own_closer(
        self,
        first: re.Match[str] | None,
        closer: re.Pattern[str],
        following: re.Match[str] | None,
        end: re.Pattern[str],
        opener: re.Match[str],
    ) -> re.Match[str] | None:
        """Returns the argument's own closing tag, `first` or a later one; `None` if it is missing.

        More of the value follows a closing tag inside it (code that writes XML). Another argument
        or the end of the call follows the argument's own closing tag.
        """
        stop = first
        while stop and not (following and following.start() < stop.start()):
            if self._is_next(self._blank(stop.end()), end, opener.re):
                return stop
            stop = self._search(closer, stop.end())
        return None

    def _is_next(self, at: int, end: re.Pattern[str], opener: re.Pattern[str]) -> bool:
        return bool(end.match(self._text, at) or opener.match(self._text, at)) or (
            self._is_boundary(at) or bool(EMPTY.match(self._text, at))
        )

    def _search(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        cached = self._ahead.get(id(pattern))
        if cached is not None and cached[0] is pattern:
            previous = cached[1]
            if previous is None or previous.start() >= at:
                return previous
        match = pattern.search(self._text, at)
        self._ahead[id(pattern)] = pattern, match
        return match


def _key_of(opener: re.Match[str]) -> str:
    groups = opener.groupdict()
    return str(groups.get("key") or groups.get("bare") or groups.get("marked"))


def _leaf(body: str, attributes: str) -> Any:
    data = _CDATA.fullmatch(body)
    if data:
        return data[1]
    if attributes and _VERBATIM.search(attributes):
        return TaggedText(body)
    if attributes and _ENCODED.search(attributes):
        try:
            value = decoded(body)
        except (ValueError, RecursionError):
            return LooseText(body)
        # for a parameter of text, `null` is a word
        return LooseText(body) if value is None else value
    return LooseText(body)


def _unframed(body: str, opener: re.Match[str]) -> str:
    """Removes the line breaks that only separate a value from its tags.

    A break at the end alone may be part of the value, such as the last one of a file. But the
    families that write `<parameter=key>` frame every value, and their models often omit the first
    break and keep the last.
    """
    inner = body.removeprefix("\n")
    return inner.removesuffix("\n") if _is_assigned(opener) or inner != body else body


def _is_balanced(written: str, opener: re.Match[str]) -> bool:
    """Returns whether a value has as many closing as opening marks of its kind, whole or cut off.

    Text about tags has both. A single mark belongs to the surrounding call: a mark was lost or
    duplicated.
    """
    if "<" not in written:
        return True
    if found_by(ENTRY, opener):
        edges = _ENTRY_EDGE
    elif found_by(KEY, opener):
        edges = _KEY_EDGE
    else:
        edges = edges_of(re.escape(_key_of(opener)))
    depth = Counter[str]()
    for edge in edges.finditer(written):
        depth[edge["tag"]] += -1 if edge["close"] else 1
    if any(depth.values()):
        return False
    opened = sum(1 for _ in CALL_OPEN.finditer(written))
    return opened == sum(1 for _ in CALL_CLOSE.finditer(written))


def _is_assigned(opener: re.Match[str]) -> bool:
    """Returns whether a tag is written as `<parameter=key>`."""
    return "tag" in opener.re.groupindex and opener.string.startswith("=", opener.end("tag"))


def _doubt_of(written: str, opener: re.Match[str]) -> str:
    """Returns the repair for doubtful content of a value: layout, XML escapes, quotes."""
    if _CDATA.fullmatch(written):
        return ""
    if opener.groupdict().get("rest"):
        return ""
    # After one line the break is layout; after several lines it may be the end of a file.
    is_half_framed = written[-1:] == "\n" and written[:1] != "\n" and "\n" in written[:-1]
    if is_half_framed and _is_assigned(opener):
        return "padding"
    if written[:1].isspace() and written[-1:].isspace():
        line = written.rpartition("\n")[2]
        is_framed = written[0] == "\n" and not line and len(written) > 1
        if not is_framed:
            return "padding"
    # With raw brackets in the text, XML escaping was not used: an entity is then literal.
    if "<" not in written and ">" not in written and _ENTITY.search(written):
        return "entities"
    return "quotes" if _QUOTED.fullmatch(written) else ""


def elements_in(text: str, wants: str = "any") -> Any:
    """Reads the outermost elements of a text: `<a>1</a><b>2</b>` -> `{"a": …, "b": …}`.

    Args:
        text: The text.
        wants: The expected kind of value. An `object` keeps the name of elements that share one
            name, an `array` drops it.

    Returns:
        The value, or `None` if the text has other content than complete elements, or tags do not
        nest.
    """
    root: list[tuple[str, Any]] = []
    stack: list[tuple[str, list[tuple[str, Any]], int]] = []
    at = 0
    for tag in _ELEMENT.finditer(text):
        name = tag["name"]
        loose = text[at : tag.start()].strip()
        if not tag["close"]:
            if len(stack) >= DEPTH or loose:
                return None
            at = tag.end()
            if tag["empty"]:
                (stack[-1][1] if stack else root).append((name, LooseText("")))
            else:
                stack.append((name, [], at))
            continue
        if not stack or stack[-1][0] != name:
            return None
        _, children, begin = stack.pop()
        # An object has no place for text beside elements.
        if children and loose:
            return None
        body = unescape(text[begin : tag.start()])
        framed = len(body) > 1 and body[0] == "\n" == body[-1]
        value: Any = LooseText(body[1:-1] if framed else body)
        if children:
            value = _value(name, children)
        (stack[-1][1] if stack else root).append((name, value))
        at = tag.end()
    if stack or not root or text[at:].strip():
        return None
    if wants == "array" and len({name for name, _ in root}) == 1:
        return [value for _, value in root]
    return _members(root) if wants == "object" else _value("", root)


_ELEMENT = late(
    r"(?:\]<\]\w{1,12}\[>\[)?<(?P<close>/?)(?P<name>[A-Za-z_][\w.-]{0,63})(?:\s[^<>]{0,200}?)?(?P<empty>/?)>"
)


def _value(parent: str, children: list[tuple[str, Any]]) -> Any:
    names = [name for name, _ in children]
    first = names[0]
    alike = all(name == first for name in names)
    if alike and (len(names) > 1 or first in _ITEMS or parent in (first + "s", first + "es")):
        return [value for _, value in children]
    return _members(children)


def _members(children: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object; a repeated name gets a list."""
    out = Entries()
    for name, value in children:
        out.put(name, value)
    return out.values

"""Reads the calls after a family's marks: blocks of calls, in any spelling of arguments.

A block is read completely or not at all: every mark and character in it belongs to exactly one
call, or the block has an `error`. Any family's spelling is accepted inside any block, because
models mix them. Knows nothing about types, nor about the places where a block may stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taofold.core.late_patterns import late
from taofold.parsing.jsonlike.quoting import after_blank
from taofold.parsing.jsonlike.reader import JsonReader
from taofold.parsing.markup.families import (
    ATTRIBUTE,
    ATTRIBUTES,
    CALL_CLOSE,
    CALL_OPEN,
    CHILD,
    EMPTY,
    FAMILIES,
    HEAD,
    HEADER,
    KEY,
    LABELS,
    NOISE,
    SEPARATOR,
    closer_of,
    closing,
    closing_of,
    family_of,
    opening,
    tags_of,
)
from taofold.parsing.markup.tags import NO_TAG, Entries, TagReader
from taofold.parsing.outcome import Repair
from taofold.parsing.schema.reading_plan import ANYTHING
from taofold.parsing.schema.scalars import LooseText

LIMIT = 64
"""The most calls that one text may hold."""
_DEPTH = 8
"""The deepest nesting of blocks."""
_MARKS = 10_000
"""The most marks of calls that one text may hold."""
_BETWEEN = late(r"[\s,;]*(?:```(?:json|python|py|xml)?(?=\s|$))?[\s,;]*")
_NAMED = late(
    r"(?:(?:call)?:\s{0,4})?(?P<space>functions\.|default_api\.|tools\.)?(?P<name>[A-Za-z_][\w.-]{0,127}(?::[A-Za-z_][\w.-]{0,63}){0,3})(?::\d{1,4})?"
)
_FENCE = late(r"\s*```(?:json)?\s*(?=\{)")
_PYTHON = late(
    r"(?:print\(\s*)?(?:default_api\.|functions\.|tools\.)?(?P<name>[A-Za-z_][\w.-]{0,127})"
    r"(?=\(\s*(?:[A-Za-z_]\w*\s*=(?!=)|\)))"
)
_NAME_TAG = late(
    lambda: (
        rf"{opening('(?:name|tool_name)')}\s*(?P<name>[A-Za-z_][\w.-]{{0,127}})\s*"
        rf"{closing('(?:name|tool_name)')}"
    )
)
_ARGUMENTS_TAG = late(lambda: opening("(?:arguments|parameters|args)"))
_ARGUMENTS_END = late(lambda: closing("(?:arguments|parameters|args)"))
_OBJECT_IN_CALL = late(r"\(\s*\{")
RECIPIENT = late(r"\bto=(?:functions\.)?(?P<name>[\w.-]{1,128})")
TO_NOBODY = frozenset({"commentary", "self", "user", "all", "assistant", "developer"})
"""Recipients that are not tools."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call found in text, before its arguments are typed.

    Attributes:
        closed: True if the call was written to its end.
        error: The reason why its arguments cannot be used.
        source: The object, or list of objects, that describes the call, if it was written so. It
            then holds the name and the arguments.
        repeated: The arguments that were given several times; their values are lists.
    """

    tool: str
    parameters: Any
    thought: str | None = None
    at: int = -1
    repairs: tuple[Repair, ...] = ()
    closed: bool = True
    error: str = ""
    source: Any = None
    repeated: frozenset[str] = frozenset()


@dataclass(slots=True)
class Block:
    """The calls between one opening mark and its closing mark.

    Attributes:
        calls: The calls, in order.
        closed: True if the last call was written to its end.
        error: The reason why the block cannot be read, for the model.
        bare: True if the block was opened by its first call's own tag or name instead of a mark.
        ended: True if the closing mark was present, or the family writes none.
        lists: The number of JSON lists that hold its calls, if the family writes lists.
    """

    start: int
    end: int
    calls: list[RawCall] = field(default_factory=list[RawCall])
    closed: bool = True
    error: str = ""
    bare: bool = False
    ended: bool = True
    lists: int = 0


def _undeclared(_tool: str) -> Collection[str]:
    return ()


class CallReader:
    """Reads the calls of one text.

    Args:
        text: The text.
        offered: Names whose bare tag opens a call.
        parameters: Returns the parameter names of a tool, if they are known. Other tags inside an
            argument then do not open the next argument.
    """

    def __init__(
        self,
        text: str,
        offered: Collection[str] = (),
        parameters: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        self._text = text
        self._offered = offered
        self._parameters = parameters or _undeclared
        self.tags = tags_of(tuple(offered))
        """Finds the tags that may begin a call without a family's mark."""
        self._reader = JsonReader(text, ANYTHING)
        self._tags = TagReader(text)
        self._family = FAMILIES[0]
        """The family of the block being read."""
        self._last_close = -2
        """Offset of the last closing mark of calls: -1 if there is none, -2 if not yet searched."""

    def block_at(self, at: int) -> Block | None:
        """Returns the block whose opening mark, tag or name stands at `at`."""
        opener = CALL_OPEN.match(self._text, at)
        if opener:
            return self._block(at, opener)
        header = HEADER.match(self._text, at)
        if header:
            return self._addressed(header)
        if HEAD.match(self._text, at) or self._is_offered_tag(at):
            bare, end = self._item(at)
            if bare is None:
                return Block(at, end, error="a call that could not be read", bare=True)
            return Block(at, self._past_closers(end), [bare], bare.closed, bare.error, bare=True)
        return None

    def _past_closers(self, at: int) -> int:
        """Skips closing marks whose opening marks were in the prompt."""
        while closer := CALL_CLOSE.match(self._text, self._blank(at)):
            at = closer.end()
        return at

    def is_python(self, at: int) -> bool:
        """Returns whether calls of offered tools in Python's notation begin at `at`."""
        call = _PYTHON.match(self._text, self._blank(at + (self._text[at : at + 1] == "[")))
        return call is not None and call["name"] in self._offered

    def python_block(self, at: int) -> Block:
        """Reads the calls in Python's notation at `at`: `[f(a=1), g()]`."""
        block = Block(at, at, bare=True)
        block.end = self._python(block, at)
        return block

    def _is_offered_tag(self, at: int) -> bool:
        """Returns whether a tag named after an offered tool stands at `at` and opens a call."""
        empty = EMPTY.match(self._text, at)
        if empty is not None:
            return empty["key"] in self._offered
        child = CHILD.match(self._text, at)
        if child is None or child["key"] not in self._offered:
            return False
        # A bare tag is a call only if it is empty or contains tags: `<search>` followed by words is
        # HTML.
        after = self._blank(child.end())
        return bool(CHILD.match(self._text, after)) or self._text.startswith("</", after)

    def _blank(self, at: int) -> int:
        return after_blank(self._text, at)

    def _addressed(self, header: re.Match[str]) -> Block | None:
        """Reads a harmony message to a tool; None if its recipient is not a tool."""
        recipient = RECIPIENT.search(header[0])
        if recipient is None or recipient["name"] in TO_NOBODY:
            return None
        block = Block(header.start(), header.end())
        at = self._blank(header.end())
        is_bare = self._text[at : at + 1] in ("{", "[") or HEADER.match(self._text, at)
        inner = None if is_bare else self.block_at(at)  # heads may stand in a row: no recursion
        if inner is not None:  # tags instead of arguments repeat the name of the tool
            inner.start = header.start()
            return inner
        call, block.end = self._arguments(recipient["name"], header.start(), at)
        if call is None:
            block.error = "the arguments of a call are not an object"
            return block
        block.calls.append(call)
        block.closed = call.closed
        block.ended = self._blank(block.end) < len(self._text)
        return block

    def _block(self, start: int, opener: re.Match[str]) -> Block:
        block = Block(start, opener.end())
        self._family = family_of(opener[0])
        stack = [closer_of(opener[0])]
        at = opener.end()
        while stack and block.closed and not block.error:
            at = self._between(at, stack)
            if at >= len(self._text):
                block.closed = bool(block.calls)
                block.ended = not any(stack)
                break
            # Models forget closing marks: the mark of any open block also ends the blocks inside
            # it.
            closed = next((m for each in stack if each and (m := each.match(self._text, at))), None)
            if closed:
                forgotten = False
                while not ((top := stack.pop()) and top.match(self._text, at)):
                    forgotten = forgotten or top is not None
                # An object has its own end. After arguments in tags, more arguments may have been
                # lost.
                if (
                    forgotten
                    and block.calls
                    and self._text[max(0, at - 40) : at].rstrip().endswith(">")
                ):
                    note = Repair("missing_closer", "syntax", content=True, at=at, cost=3)
                    block.calls[-1] = _noted(block.calls[-1], note)
                at = closed.end()
                continue
            # `<tool_call name=…>` matches both: with a name it is a call, not a block around calls.
            inner = None if HEAD.match(self._text, at) else CALL_OPEN.match(self._text, at)
            if inner and block.lists and not any(stack):
                break  # another list of calls is a separate block
            if inner and inner.end() > at and len(stack) < _DEPTH:
                stack.append(closer_of(inner[0]))
                at = inner.end()
                continue
            # `any`: a mark without a closing mark (Mistral's `[TOOL_CALLS]`) is None in the stack.
            is_open_ended = not any(stack) or self._is_left_open(at)
            if is_open_ended and block.calls and not self._starts_call(at):
                break
            at = self._append(block, at, open_ended=not any(stack))
        block.end = at
        if not block.calls and not block.error and block.closed:
            block.error = "a mark of a call without a call"
        return block

    def _is_left_open(self, at: int) -> bool:
        """Returns whether a new line begins and no closing mark of any block follows.

        The rest is then prose beside the block.
        """
        if self._last_close < -1:
            self._last_close = max((m.start() for m in CALL_CLOSE.finditer(self._text)), default=-1)
        before = self._text[max(0, at - 40) : at]
        is_line = "\n" in before[len(before.rstrip()) :]
        return is_line and self._last_close < at and self._text[at] not in "<[]|｜"

    def _append(self, block: Block, at: int, open_ended: bool) -> int:
        """Reads the next call of a block, or records an error."""
        is_list = self._text[at] == "["
        if is_list and self.is_python_list(at):
            return self._python(block, at)
        block.lists += is_list and self._family.listed
        call, end = self._item(at)
        lacks_list = self._family.listed and (
            self._text[at] == "{" or _PYTHON.match(self._text, at)
        )
        if call is not None and lacks_list:
            call = _noted(call, Repair("missing_brackets", "syntax", content=True, at=at, cost=2))
        # Everything up to the closing mark is in doubt: it may be the rest of the unreadable call.
        if call is None or len(block.calls) >= LIMIT:
            closer = CALL_CLOSE.search(self._text, end)
            excerpt = self._text[at : at + 60]
            block.error = f"no call could be read at {excerpt!r}"
            return closer.end() if closer and not open_ended else len(self._text)
        block.calls.append(call)
        block.closed = call.closed
        block.error = call.error
        return end

    def _between(self, at: int, stack: list[re.Pattern[str] | None]) -> int:
        """Skips separators and noise between two calls of a block."""
        while True:
            begin = at
            gap = _BETWEEN.match(self._text, at)
            if gap and not (gap[0].strip().startswith("```") and self._closes(gap, stack)):
                at = gap.end()
            else:
                at = self._blank(at)
            mark = SEPARATOR.match(self._text, at) or NOISE.match(self._text, at)
            if mark and not any(each and each.match(self._text, at) for each in stack):
                at = mark.end()
            if at == begin:
                return at

    def _closes(self, found: re.Match[str], stack: list[re.Pattern[str] | None]) -> bool:
        at = found.start() + found[0].index("`")
        return any(each and each.match(self._text, at) for each in stack)

    def _starts_call(self, at: int) -> bool:
        text = self._text
        if text[at] in "{[":
            return True
        if HEAD.match(text, at) or SEPARATOR.match(text, at):
            return True
        named = _NAMED.match(text, at)
        return named is not None and named["name"] in self._offered

    def is_python_list(self, at: int) -> bool:
        """Returns whether a list of calls in Python's notation opens at `at`."""
        return _PYTHON.match(self._text, self._blank(at + 1)) is not None

    def _item(self, at: int) -> tuple[RawCall | None, int]:
        """Reads one call at `at`; returns it and the offset of its end."""
        text = self._text
        if text[at : at + 1] in ("{", "["):
            return self._object(at)
        head = HEAD.match(text, at)
        if head:
            return self._tagged(head["name"], head)
        if self._is_offered_tag(at):
            tag = EMPTY.match(text, at)
            if tag is not None:
                return RawCall(tag["key"], {}, at=at), tag.end()
            tag = CHILD.match(text, at)
            assert tag is not None
            return self._tagged(tag["key"], tag, tag["key"])
        attributes = ATTRIBUTES.match(text, at)
        if attributes:
            return self._attributes(attributes)
        described = _NAME_TAG.match(text, at)
        if described:
            return self._described(described)
        python = _PYTHON.match(text, at)
        if python:
            block = Block(at, at)
            end = self._python(block, at, single=True)
            return (block.calls[0] if block.calls else None), end
        return self.named(at)

    def _attributes(self, found: re.Match[str]) -> tuple[RawCall, int]:
        """Reads a call in one row of attributes: `"x" key="value"`."""
        entries = Entries()
        for each in ATTRIBUTE.finditer(found["rest"]):
            entries.put(each["key"], LooseText(each["value"].replace('\\"', '"')))
        return _of_entries(found["name"], found.start(), entries), found.end()

    def _described(self, name: re.Match[str]) -> tuple[RawCall | None, int]:
        """Reads a call whose name and object are each in a tag."""
        opener = _ARGUMENTS_TAG.match(self._text, self._blank(name.end()))
        if opener is None:
            return RawCall(name["name"], None, at=name.start()), name.end()
        at = self._blank(opener.end())
        call, end = self._arguments(name["name"], name.start(), at)
        closer = _ARGUMENTS_END.match(self._text, self._blank(end))
        if call is None or (closer is None and call.closed):
            return None, end
        return call, closer.end() if closer else end

    def _object(self, at: int) -> tuple[RawCall | None, int]:
        reading = self._reader.read(at)
        if reading.failed or not (reading.value or not reading.whole):
            return None, reading.end
        repairs = tuple(reading.repairs)
        request = RawCall("", None, at=at, repairs=repairs, closed=reading.whole)
        return replace(request, source=reading.value), reading.end

    def _tagged(self, name: str, head: re.Match[str], tag: str = "") -> tuple[RawCall | None, int]:
        call, end = self._tag_content(name, head, tag)
        if call is not None and not LABELS.fullmatch(head["rest"] or ""):
            error = f"unsupported attributes in the tag of the call: {head['rest'].strip()!r}"
            call = replace(call, error=call.error or error)
        return call, end

    def _tag_content(self, name: str, head: re.Match[str], tag: str) -> tuple[RawCall | None, int]:
        if head.groupdict().get("empty"):
            return RawCall(name, {}, at=head.start()), head.end()
        tag = tag or head["tag"]
        end = closing_of(tag)
        at = self._blank(head.end())
        if self._text[at : at + 1] == "{" or _FENCE.match(self._text, at):
            call, stop = self._arguments(name, head.start(), at)
            closer = end.match(self._text, self._blank(stop))
            return call, closer.end() if closer else stop
        if (
            tag == "tool_call"
            and KEY.match(self._text, at) is None
            and CHILD.match(self._text, at) is None
        ):
            # `<tool_call name="x">` around plain text is not a call. If empty, it is one without
            # arguments.
            closer = end.match(self._text, at)
            if closer is None:
                return None, at
        declared = self._parameters(name)
        entries = self._tags.entries(head.end(), end, children=True, declared=declared)
        # Cut off before the first argument: `closed` reports it, not an error about the fragment.
        if not entries.values and not entries.closed:
            entries.error = ""
        return _of_entries(name, head.start(), entries), entries.end

    def named(self, at: int) -> tuple[RawCall | None, int]:
        """Reads a name, optional separators, and arguments."""
        named = _NAMED.match(self._text, at)
        if named is None:
            return None, at
        stop = named.end()
        after = self._separated(stop)
        if named["name"] == "function" and after > stop and self._text[after : after + 1] != "{":
            call, end = self._item(after)  # deepseek: the word, a separator, the name
            return (call and replace(call, at=at)), end
        name = named["name"]
        # `tools.search` may be the full name of a tool.
        if named["space"] and named[0] in self._offered:
            name = named[0]
        char = self._text[after : after + 1]
        if char == "{" or _FENCE.match(self._text, after):
            call, end = self._arguments(name, at, after)
            if call is not None and char == "{" and after == stop and self._family.separated:
                note = Repair("missing_separator", "none", content=True, at=after, cost=2)
                call = _noted(call, note)
            return call, end
        if char == "(" and _OBJECT_IN_CALL.match(self._text, after):
            return self._written(name, at, after)
        if char == "(" and named[0].startswith("call:"):
            return self._arguments(name, at, after)
        has_tags = KEY.match(self._text, after) or CHILD.match(self._text, after)
        if has_tags and CALL_OPEN.match(self._text, after) is None:
            # The block's own mark ends the arguments.
            entries = self._tags.entries(after, NO_TAG, children=True)
            is_ended = CALL_CLOSE.match(self._text, entries.end) is not None
            entries.closed = is_ended or bool(entries.error)
            return _of_entries(name, at, entries), entries.end
        if CALL_CLOSE.match(self._text, after) or CALL_OPEN.match(self._text, after):
            # Families whose arguments are one object always write it; the others omit tags.
            is_object = self._family.separated or named[0].startswith("call:")
            return RawCall(name, None if is_object else {}, at=at), after
        if after >= len(self._text):
            return RawCall(name, {}, at=at, closed=False), after
        return None, after

    def _written(self, name: str, start: int, at: int) -> tuple[RawCall | None, int]:
        """Reads a name and its object in parentheses: `f({"a": 1})`."""
        request, end = self._arguments(name, start, self._blank(at + 1))
        end = self._blank(end)
        if request is None or not request.closed:
            return request, end
        return (request, end + 1) if self._text.startswith(")", end) else (None, end)

    def _separated(self, at: int) -> int:
        while True:
            begin = at
            at = self._blank(at)
            mark = SEPARATOR.match(self._text, at)
            at = mark.end() if mark else at
            if at == begin:
                return at

    def _arguments(self, name: str, start: int, at: int) -> tuple[RawCall | None, int]:
        fence = _FENCE.match(self._text, at)
        at = fence.end() if fence else at
        if self._text[at : at + 1] not in ("{", "[", "("):
            return None, at
        reading = self._reader.read(at)
        if reading.failed:
            return None, reading.end
        repairs = tuple(reading.repairs)
        end = reading.end
        if fence and self._text.startswith("```", self._blank(end)):
            end = self._blank(end) + 3
        return RawCall(name, reading.value, None, start, repairs, reading.whole), end

    def _python(self, block: Block, at: int, single: bool = False) -> int:
        """Reads calls in Python's notation: a list of them, or a sequence."""
        listed = self._text[at] == "["
        at = self._blank(at + listed)
        while len(block.calls) <= LIMIT:
            head = _PYTHON.match(self._text, at)
            if head is None:
                break
            reading = self._reader.read(head.end())
            whole = reading.whole
            # Quotes and colons of Python are not errors here: only changes of content are reported.
            notes = tuple(each for each in reading.repairs if each.content)
            call = RawCall(head["name"], reading.value, None, at, notes, whole)
            block.calls.append(call)
            at = reading.end
            if reading.failed or not whole:
                block.closed = not reading.failed and whole
                block.error = (
                    "a call in Python's notation could not be read" if reading.failed else ""
                )
                return at
            at = self._blank(at)
            if head[0].startswith("print") and self._text.startswith(")", at):
                at = self._blank(at + 1)
            if self._text[at : at + 1] in (",", ";") and not single:
                at = self._blank(at + 1)
            elif single:
                return at
        if listed and self._text.startswith("]", at):
            return at + 1
        # A list without its end may have lost calls.
        if listed:
            block.closed = False if at >= len(self._text) else block.closed
            block.error = "" if at >= len(self._text) else "a list of calls without its end"
        return at


def _of_entries(name: str, at: int, entries: Entries) -> RawCall:
    return RawCall(
        name,
        entries.values,
        at=at,
        repairs=tuple(entries.repairs),
        closed=entries.closed,
        error=entries.error,
        repeated=frozenset(entries.repeated),
    )


def _noted(call: RawCall, note: Repair) -> RawCall:
    return replace(call, repairs=(*call.repairs, note))


def blocks_in(text: str, offered: Collection[str]) -> Iterator[Block]:
    """Yields every block of calls, in order, in a text without reasoning."""
    reader = CallReader(text, offered)
    marks = MarkFinder(text, (_BLOCK, reader.tags))
    at = count = 0
    for _ in range(_MARKS):
        mark = marks.next(at)
        if mark is None or count > LIMIT:
            return
        block = reader.block_at(mark.start())
        at = max(mark.end(), block.end) if block else mark.end()
        if block:
            count += 1
            yield block


_BLOCK = late(lambda: rf"{CALL_OPEN.pattern}|{HEADER.pattern}")


class MarkFinder:
    """Finds the next match of any of several patterns and searches each stretch of text once.

    Of two matches at one offset, the earlier pattern's match is returned.
    """

    def __init__(self, text: str, patterns: Sequence[re.Pattern[str]]) -> None:
        self._text = text
        self._patterns = patterns
        self._ahead = [pattern.search(text) for pattern in patterns]

    def next(self, at: int) -> re.Match[str] | None:
        """Returns the first match at or after `at`, which must not decrease between calls."""
        first: re.Match[str] | None = None
        for number, match in enumerate(self._ahead):
            if match is not None and match.start() < at:
                match = self._ahead[number] = self._patterns[number].search(self._text, at)
            if match is not None and (first is None or match.start() < first.start()):
                first = match
        return first

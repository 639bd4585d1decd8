"""Text for displays and the log: excerpts, one-liners, near misses, amounts, instants. Pure.

JSON values, parameters and errors become one short line. Text from models, tools and files must not
control the screen: `visible` escapes characters that move the cursor, change colours, reverse the
reading direction or hide text from an approver. `utf8` replaces characters that cannot be encoded.
Instants are ISO 8601 in UTC with milliseconds; this module reads no clock.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from hashlib import blake2b
from itertools import islice
from typing import Any, Final
from unicodedata import category, east_asian_width

from taofold.core.late_patterns import found_by, late

_ERROR: Final = late(
    r"(?i:\b(?:error|exception|traceback|failed|failure|fatal|panic|assert(?:ion)?\w*)\b|^E\s)"
    r"|\b[A-Z]\w*(?:Error|Exception)\b"
)
_LINE: Final = 200


def clip(text: str, width: int) -> str:
    """Returns `text`, or its beginning and an ellipsis: at most `width` characters."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def shorten(text: str, longest: int) -> str:
    """Returns the first `longest` characters, and the number of further ones."""
    more = len(text) - longest
    return f"{text[:longest]}… ({times(more, 'more character')})" if more > 0 else text


def excerpt(text: str, limit: int) -> str:
    """Returns at most about `limit` characters of `text`: its head, its error lines, its tail.

    A marker states the number of characters left out.
    """
    if len(text) <= limit:
        return text
    # 30 % head, 30 % tail, the rest for error lines between them. At least 1, because text[-0:] is
    # the whole text.
    part = max(limit * 3 // 10, 1)
    head, tail = text[:part], text[-part:]
    errors = _errors(text[part:-part], limit - 2 * part)
    left = len(text) - 2 * part - len(errors)
    middle = f"\n[… {left} characters left out …]\n"
    if errors:
        middle += f"{errors}\n[…]\n"
    return head + middle + tail


def _errors(text: str, limit: int) -> str:
    """Returns the first lines that look like errors, within `limit` characters."""
    chosen: list[str] = []
    for line in text.splitlines():
        # A minified file or a base64 blob is one line of megabytes: only its beginning is searched.
        if _ERROR.search(line[:2000]):
            line = line[:_LINE]
            limit -= len(line) + 1
            if limit < 0:
                break
            chosen.append(line)
    return "\n".join(chosen)


def key_line(text: str, *, failed: bool = False) -> str:
    """Returns the first informative line, or with `failed` the first that looks like an error."""
    first = ""
    for line in text.splitlines():
        line = line.strip()
        if not line:
            continue
        first = first or line
        if not failed:
            break
        if _ERROR.search(line[:2000]):
            first = line
            break
    return first[:_LINE]


# Control characters, lone surrogates, and Unicode's format and default-ignorable characters:
# bidirectional marks (Trojan Source), joiners, fillers, variation selectors and the tag block,
# which can hide text for a model. Braille's blank and the null notehead are invisible, too. Tab and
# newline stay. `server/static/js/format.js` has the same table.
_UNSEEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
_CONTROL: Final = late(f"[{_UNSEEN}]")
# Emoji and some scripts need a joiner between two of their characters, and a selector after a
# symbol. After another selector or joiner neither is needed, so they cannot encode a text.
_SYMBOL: Final = "\xa9\xae\u203c-\u27ff\u2900-\u33ff\U0001f000-\U0001faff"
_PROSE: Final = late(
    f"((?<=[^\x00-\x7f{_UNSEEN}])[\u200c\u200d](?=[^\x00-\x7f{_UNSEEN}])"
    f"|(?<=[{_SYMBOL}])(?<!\u2800)\ufe0f(?:\u200d(?=[{_SYMBOL}]))?|(?<=[0-9#*])\ufe0f(?=\u20e3))"
    f"|[{_UNSEEN}]"
)


def visible(text: str, *, prose: bool = False) -> str:
    """Returns `text` with control, bidirectional and invisible characters made visible.

    Args:
        text: Any text.
        prose: Keeps the joiners and selectors that emoji and scripts need. Not for names and
            questions: two that differ must look different.
    """
    return (_PROSE if prose else _CONTROL).sub(_shown, text.replace("\r\n", "\n"))


def _shown(match: re.Match[str]) -> str:
    if found_by(_PROSE, match) and match[1]:
        return match[1]
    code = ord(match.group())
    if code < 0x20:
        # The block "Control Pictures" has a symbol for each: ESC is ␛.
        return chr(0x2400 + code)
    return f"\\u{{{code:x}}}"


def visible_line(text: str) -> str:
    """Returns `text` made visible on one line: a line end is ␊, a tab ␉."""
    return visible(text).replace("\n", "␊").replace("\t", "␉")


# Marks drawn over the preceding character. Scripts need theirs, but not at the start of a line,
# where they would change the sign of a difference.
_OVER: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# Blanks beyond ASCII, the tab mark and the escapes of `unambiguous`, and trailing blanks. The
# look-behind keeps the search for those linear.
_ALIKE: Final = late(
    rf"[{_UNSEEN}{_OVER}\xa0\u1680\u2000-\u200a\u202f\u205f\u3000⇥]|\\(?=u\{{)"
    r"|(?<![ \t])[ \t]+(?![^\n])|\t|(?P<first>(?<![^\n])[^\x00-\u02ff])"
)


def unambiguous(text: str) -> str:
    """Returns `text` spelled so that different texts look different, except for similar letters.

    Unlike `visible` it also shows blanks beyond ASCII, trailing blanks, carriage returns, and the
    position of a tab (⇥). `server/static/js/format.js` has the same function.
    """
    return _ALIKE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    found, following = match.group(), match.string[match.end() : match.end() + 1]
    if match["first"] and not category(found).startswith("M"):
        return found
    if found == "\t" and following not in ("", "\n"):
        return "⇥\t"
    return "".join([f"\\u{{{ord(character):x}}}" for character in found])


BAR: Final = "│ "
"""Prefix of each line of text that a model, a tool or a server wrote."""
CONTINUED: Final = "│↳  "
"""Prefix of the further rows of a line that is too long for one."""


def framed(text: str, width: int = 80, *, first: str = BAR, further: str = CONTINUED) -> list[str]:
    """Returns `text` made visible, in rows of at most `width` columns.

    Each line begins with `first`, its further rows with `further`. No row begins with foreign text,
    so none can imitate the question around it or a line of its own. Rows are broken here because a
    terminal would continue at the left edge.
    """
    rows: list[str] = []
    for line_ in visible(text).expandtabs(4).split("\n"):
        row, used = first, _columns(first)
        for character in line_:
            columns = _columns(character)
            # A very narrow terminal gets eight columns a row, even if it breaks them again.
            if used + columns > max(width, _columns(further) + 8):
                rows.append(row)
                row, used = further, _columns(further)
            row, used = row + character, used + columns
        rows.append(row)
    return [row.rstrip() for row in rows]


def quoted(text: str) -> str:
    """Returns `text` made visible, each line after `BAR`: foreign text within a text of ours."""
    return "\n".join([f"{BAR}{row}".rstrip() for row in visible(text).split("\n")])


def _columns(text: str) -> int:
    """Returns the maximum number of terminal columns for `text`.

    Terminals and Unicode versions differ about symbols (U+2630, U+4DC0), so all but letters, marks,
    digits and punctuation beyond ASCII count as two columns.
    """
    narrow = ("L", "M", "P", "Z", "Nd")
    return sum(
        1
        if one.isascii()
        or (east_asian_width(one) in ("N", "Na", "H") and category(one).startswith(narrow))
        else 2
        for one in text
    )


_MOST: Final = 12
"""Maximum number of names listed when none is similar."""
_COMPARED: Final = 500
"""Maximum number of names compared: data may have any number of keys."""


def frame_mark(text: str) -> str:
    """Returns a mark for the frame of `text`: 12 hexadecimal digits that do not occur in it.

    The same text always gets the same mark, so that a replay builds the same prompt.
    """
    content = text.encode("utf-8", "replace")
    # A text can hold many possible marks, but not the one that is chosen after all of these.
    while (mark := blake2b(content, digest_size=6).hexdigest()) in text:
        content += b"\0"
    return mark


def near(word: str, known: Iterable[str]) -> str:
    """Returns a hint to the most similar name, else the known names; "" if those are too many.

    >>> near("reakt", ["react", "plan"])
    "did you mean 'react'?"
    """
    # Bounded before sorting: a hint is not worth a scan of a large mapping.
    names = sorted(islice(known, _COMPARED))
    matches = get_close_matches(word.lower(), names, n=2, cutoff=0.6)
    if matches:
        return f"did you mean {' or '.join(map(repr, matches))}?"
    if not names or len(names) > _MOST:
        return ""
    return f"known are {', '.join(names)}"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def iso(ms: int) -> str:
    """Returns `ms` since the epoch as `2026-01-25T10:30:01.150Z`.

    Raises:
        OverflowError: The year is not between 1 and 9999.
    """
    instant = _EPOCH + timedelta(milliseconds=ms)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """Returns milliseconds since the epoch; a time without an offset is taken as UTC.

    Raises:
        ValueError: `text` is not an ISO 8601 time.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    # Integer division of timedeltas: `timestamp() * 1000` rounds through a float.
    return (instant - _EPOCH) // _MS


_BEFORE: Final = 12
"""Characters of context before a change."""


def line(text: object, width: int = 100) -> str:
    """Returns `text` on one line of at most `width` characters."""
    # Cut before it is cleaned, because a result may have megabytes. Eight times the width, because
    # white space is removed.
    flat = " ".join(visible(str(text)[: width * 8]).split())
    return clip(flat, width)


def value(thing: Any, width: int = 60) -> str:
    """Returns a JSON value on one short line."""
    try:
        text = json.dumps(thing, ensure_ascii=False)
    except (TypeError, ValueError):
        # A value that JSON cannot represent is shown as its repr.
        text = repr(thing)
    return line(text, width)


def parameters(given: dict[str, Any], width: int = 100) -> str:
    """Returns parameters as `path="a.py" limit=3`, each shortened so that all fit.

    Of two texts that form a change (`old`, `new`) only the difference is shown.
    """
    if not given:
        return ""
    old, new = given.get("old"), given.get("new")
    if isinstance(old, str) and isinstance(new, str):
        old, new = apart(old, new)
        given = {**given, "old": old, "new": new}
    # Short values (24 characters at most) are shown whole; the long ones share the remaining width.
    short = sum(len(value(v, 24)) for v in given.values() if len(value(v, 25)) <= 24)
    long = [v for v in given.values() if len(value(v, 25)) > 24]
    room = width - short - sum(len(str(name)) + 2 for name in given)
    each = max(24, room // max(1, len(long)))
    return line(" ".join(f"{visible(str(k))}={value(v, each)}" for k, v in given.items()), width)


def apart(old: str, new: str) -> tuple[str, str]:
    """Returns both texts from a little before their first difference."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    start = max(0, same - _BEFORE)
    # They differ near their beginning: cutting would cost more than it saves.
    if start < _BEFORE:
        return old, new
    return f"…{old[start:]}", f"…{new[start:]}"


def duration(ms: float) -> str:
    """Returns milliseconds in a readable unit."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def dollars(usd: float | None) -> str:
    """Returns $0.00, with more places for less than a cent; "unknown cost" for None."""
    if usd is None:
        return "unknown cost"
    return f"${usd:.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.5f}"


def times(count: int, singular: str, plural: str = "") -> str:
    """Returns a count with its noun: `1 step`, `2 steps`, `0 replies`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def tokens(count: int) -> str:
    """Returns a count of tokens: `1 token`, `2.1k tokens`."""
    return f"{number(count)} token{'s' * (count != 1)}"


def number(count: int) -> str:
    """Returns a short number: 812, 2.1k, 3.4M."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def utf8(value: Any) -> str:
    """Returns `value`, a str, as text that every encoder accepts."""
    # A lone surrogate (for example from os.fsdecode) cannot be written as UTF-8.
    if value.isascii():
        return str(value)
    return str(value).encode("utf-8", "backslashreplace").decode()


def error_text(error: BaseException) -> str:
    """Returns class and text of `error`, safe for a log even if its `__str__` raises."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - __str__ of a foreign exception
        text = ""
    return utf8(f"{kind}: {text}" if text else kind)

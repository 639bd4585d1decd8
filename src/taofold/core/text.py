"""Text for people and the log: excerpts, one-liners, near misses, amounts, instants. Pure.

JSON values, parameters and errors become one short line. What models, tools and files say must not
act on the screen: `visible` shows what would move the cursor, change colours, reverse the reading
direction or hide what a person is asked to approve. `utf8` replaces what no encoder takes. Instants
are ISO 8601 in UTC with milliseconds; nothing here knows what time it is.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
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
    """`text`, or its beginning and an ellipsis: at most `width` characters."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def shorten(text: str, longest: int) -> str:
    """The first `longest` characters, and how many more there are."""
    more = len(text) - longest
    return f"{text[:longest]}… ({times(more, 'more character')})" if more > 0 else text


def excerpt(text: str, limit: int) -> str:
    """At most about `limit` characters of `text`: its head, its error lines, its tail.

    What was left out is said in place, in characters.
    """
    if len(text) <= limit:
        return text
    # 30 % head, 30 % tail, the rest for error lines between them. At least 1, because text[-0:]
    # would be the whole text.
    part = max(limit * 3 // 10, 1)
    head, tail = text[:part], text[-part:]
    errors = _errors(text[part:-part], limit - 2 * part)
    left = len(text) - 2 * part - len(errors)
    middle = f"\n[… {left} characters left out …]\n"
    if errors:
        middle += f"{errors}\n[…]\n"
    return head + middle + tail


def _errors(text: str, limit: int) -> str:
    """Lines that look like errors, from the start, within `limit` characters."""
    chosen: list[str] = []
    for line in text.splitlines():
        # A minified file or a base64 blob is one line of megabytes: look only at its beginning.
        if _ERROR.search(line[:2000]):
            line = line[:_LINE]
            limit -= len(line) + 1
            if limit < 0:
                break
            chosen.append(line)
    return "\n".join(chosen)


def key_line(text: str, *, failed: bool = False) -> str:
    """The first informative line, or with `failed` the first that looks like an error."""
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


# Control characters, lone surrogates, and what Unicode calls format or default ignorable:
# bidirectional marks (Trojan Source), joiners, fillers, variation selectors and the tag block, in
# which text for a model alone can be written. Braille's blank and the null notehead are drawn as
# nothing, too. Tab and newline stay. `server/static/js/format.js` has the same table.
_UNSEEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
_CONTROL: Final = late(f"[{_UNSEEN}]")
# Emoji and some scripts need a joiner between two of their characters, and a selector behind a
# symbol. Behind another selector or joiner neither is needed, so nothing can be written with them.
_SYMBOL: Final = "\xa9\xae\u203c-\u27ff\u2900-\u33ff\U0001f000-\U0001faff"
_PROSE: Final = late(
    f"((?<=[^\x00-\x7f{_UNSEEN}])[\u200c\u200d](?=[^\x00-\x7f{_UNSEEN}])"
    f"|(?<=[{_SYMBOL}])(?<!\u2800)\ufe0f(?:\u200d(?=[{_SYMBOL}]))?|(?<=[0-9#*])\ufe0f(?=\u20e3))"
    f"|[{_UNSEEN}]"
)


def visible(text: str, *, prose: bool = False) -> str:
    """`text` with control, bidirectional and invisible characters made visible.

    Args:
        prose: keeps the joiners and selectors that emoji and scripts need. Not for names and
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
    """`text` made visible on one line: a line end is ␊, a tab ␉."""
    return visible(text).replace("\n", "␊").replace("\t", "␉")


# Marks that are drawn over what stands before them. Those of scripts are needed, but not at the
# start of a line, where they would change the sign of a difference.
_OVER: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# Blanks beyond ASCII, what `unambiguous` marks tabs with, its own escapes, and trailing blanks. The
# look-behind keeps the search for those linear.
_ALIKE: Final = late(
    rf"[{_UNSEEN}{_OVER}\xa0\u1680\u2000-\u200a\u202f\u205f\u3000⇥]|\\(?=u\{{)"
    r"|(?<![ \t])[ \t]+(?![^\n])|\t|(?P<first>(?<![^\n])[^\x00-\u02ff])"
)


def unambiguous(text: str) -> str:
    """`text` spelled so that no two texts look alike, except for letters that resemble others.

    Unlike `visible` it also shows blanks beyond ASCII, trailing blanks, carriage returns, and where
    a tab stands (⇥). `server/static/js/format.js` has the same function.
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
"""What stands before each line of text that a model, a tool or a server wrote."""
CONTINUED: Final = "│↳  "
"""What stands before the further rows of a line that is too long for one."""


def framed(text: str, width: int = 80, *, first: str = BAR, further: str = CONTINUED) -> list[str]:
    """`text` made visible, in rows of at most `width` columns.

    Each line begins with `first`, its further rows with `further`: no row begins with what the
    text says, so none looks like the question around it or like a line of its own. Rows are broken
    here, since a terminal would go on at the left edge.
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
    """`text` made visible, each line behind `BAR`: foreign text within a text of ours."""
    return "\n".join([f"{BAR}{row}".rstrip() for row in visible(text).split("\n")])


def _columns(text: str) -> int:
    """Columns that a terminal takes for `text` at most.

    Terminals and versions of Unicode differ about symbols (U+2630, U+4DC0), so all but letters,
    marks, digits and punctuation beyond ASCII count as two columns.
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
"""Names listed when none is near."""
_COMPARED: Final = 500
"""Names that a word is compared with: data may have any number of keys."""


def near(word: str, known: Iterable[str]) -> str:
    """What `word` was probably meant to be, else what there is; "" if that is too much.

    >>> near("reakt", ["react", "plan"])
    "did you mean 'react'?"
    """
    # Bounded before sorting: near misses are a courtesy, not worth a scan of a large mapping.
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
    """`ms` since the epoch as `2026-01-25T10:30:01.150Z`.

    Raises:
        OverflowError: the year is not between 1 and 9999.
    """
    instant = _EPOCH + timedelta(milliseconds=ms)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int:
    """Milliseconds since the epoch; a time without an offset is taken as UTC.

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
    """`text` on one line of at most `width` characters."""
    # Cut before it is cleaned: a result may have
    # megabytes. Eight times, because white space goes.
    flat = " ".join(visible(str(text)[: width * 8]).split())
    return clip(flat, width)


def value(thing: Any, width: int = 60) -> str:
    """A JSON value on one short line."""
    try:
        text = json.dumps(thing, ensure_ascii=False)
    except (TypeError, ValueError):
        # What JSON cannot say is still shown, as Python shows it.
        text = repr(thing)
    return line(text, width)


def parameters(given: dict[str, Any], width: int = 100) -> str:
    """`path="a.py" limit=3`, each value shortened so that all find their place.

    Of two texts that stand for a change (`old`, `new`) only what differs is shown.
    """
    if not given:
        return ""
    old, new = given.get("old"), given.get("new")
    if isinstance(old, str) and isinstance(new, str):
        old, new = apart(old, new)
        given = {**given, "old": old, "new": new}
    # Short values (24 characters at most) are shown whole; the long ones share what is left.
    short = sum(len(value(v, 24)) for v in given.values() if len(value(v, 25)) <= 24)
    long = [v for v in given.values() if len(value(v, 25)) > 24]
    room = width - short - sum(len(str(name)) + 2 for name in given)
    each = max(24, room // max(1, len(long)))
    return line(" ".join(f"{visible(str(k))}={value(v, each)}" for k, v in given.items()), width)


def apart(old: str, new: str) -> tuple[str, str]:
    """Both texts from a little before the place where they part."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    start = max(0, same - _BEFORE)
    # They part near their beginning: cutting would cost more than it saves.
    if start < _BEFORE:
        return old, new
    return f"…{old[start:]}", f"…{new[start:]}"


def duration(ms: float) -> str:
    """Milliseconds as people read them."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def dollars(usd: float | None) -> str:
    """$0.00, and more places for less than a cent; "unknown cost" for None."""
    if usd is None:
        return "unknown cost"
    return f"${usd:.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.5f}"


def times(count: int, singular: str, plural: str = "") -> str:
    """`1 step`, `2 steps`, `0 replies`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def tokens(count: int) -> str:
    """`1 token`, `2.1k tokens`."""
    return f"{number(count)} token{'s' * (count != 1)}"


def number(count: int) -> str:
    """812, 2.1k, 3.4M."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def utf8(value: Any) -> str:
    """`value`, a str, as text that any encoder takes."""
    # A lone surrogate (from os.fsdecode, say) cannot be written as UTF-8.
    if value.isascii():
        return str(value)
    return str(value).encode("utf-8", "backslashreplace").decode()


def error_text(error: BaseException) -> str:
    """Kind and text of `error`, fit for a log: its `__str__` may raise, or not be UTF-8."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - __str__ of a foreign exception
        text = ""
    return utf8(f"{kind}: {text}" if text else kind)

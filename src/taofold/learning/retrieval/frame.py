"""Makes text of unknown origin safe to stand inside a prompt: it cannot leave its place.

It stays readable, but forges no line, heading, fence, mark or id of ours. Knows nothing about
what the text says.
"""

import re
from hashlib import blake2b
from typing import Final

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]?")
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\ufff0-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_FENCE: Final = re.compile(r"`{3,}|~{3,}")
_ROLE: Final = re.compile(r"<(?=\||/?s>)|\[(?=/?INST\b|(?:begin|end) reference data)")
"""Marks by which chat templates, and we, tell who speaks."""
_ID: Final = re.compile(r"\b(pat|tmpl)-(?=\w)", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s+")
_RUN: Final = 8


def line(text: str, most: int) -> str:
    """`text` as a part of one line, at most `most` characters."""
    flat = _SPACE.sub(" ", _clean(text[: most * _RUN])).strip()
    return flat if len(flat) <= most else f"{flat[: most - 1].rstrip()}…"


def block(text: str, indent: str, most_lines: int, most: int) -> str:
    """`text` as lines that all start with `indent`, within bounds; what is left out is said."""
    lines = [_clean(one.expandtabs(4)).rstrip() for one in text[: most * _RUN].split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    kept: list[str] = []
    left = most
    for one in lines[:most_lines]:
        left -= len(one) + 1
        if left < 0:
            break
        kept.append(f"{indent}{one}".rstrip())
    while kept and not kept[-1]:
        kept.pop()
    if len(kept) < len(lines):
        kept.append(f"{indent}…")
    return "\n".join(kept)


def _clean(text: str) -> str:
    text = _UNSEEN.sub("", _ANSI.sub("", text))
    text = _FENCE.sub(lambda found: "'" * len(found[0]), text)
    text = _ROLE.sub(lambda found: f"{found[0]}\u2009", text)
    return _ID.sub("\\1\u2010", text)


def framed(text: str) -> str:
    """`text` between two marks that carry its digest, so that no text can contain its own."""
    mark = blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"[begin reference data {mark}]\n\n{text}\n\n[end reference data {mark}]"

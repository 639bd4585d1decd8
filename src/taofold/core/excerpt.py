"""Long text made short without losing what matters: the ends and the error lines."""

import re
from typing import Final

_ERROR: Final = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|assert(?:ion)?\w*)\b|^E\s"
)
_LINE: Final = 200


def excerpt(text: str, limit: int) -> str:
    """At most about `limit` characters of `text`: its head, its error lines, its tail.

    What was left out is said in place, in characters.
    """
    if len(text) <= limit:
        return text
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
    kept: list[str] = []
    for line in text.splitlines():
        if _ERROR.search(line[:2000]):
            line = line[:_LINE]
            limit -= len(line) + 1
            if limit < 0:
                break
            kept.append(line)
    return "\n".join(kept)


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

"""Redaction of text that arrives in pieces: what may become a secret is held back.

Pure. The pieces that come out, put together, are the redacted text.
"""

import re
from typing import Final

from taofold.policy.redaction import Redactor, unescaped

_OPEN: Final = re.compile(
    r"-----BEGIN[ A-Z]*PRIVATE KEY-----(?:(?!-----END[ A-Z]*PRIVATE KEY-----)[\s\S])*\Z"
    r"""|(?i:bearer|basic|passw(?:or)?d|secret|key|token)["'\\]*\s*[:=]?\s*["'\\]*[^\s"',;]*\Z"""
    r"|(?<![A-Za-z0-9+/_\-.=:@\\])[A-Za-z0-9+/_\-.=:@\\]+\s?\Z|-----[ A-Z\-]*\Z"
)
"""The end of a text in which a shape may have begun."""
MOST: Final = 16_384
"""Characters that are held back at most."""


class Trickle:
    """Takes secrets out of one text that arrives in pieces."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._rest = redactor, ""

    def feed(self, piece: str) -> str:
        """What may be shown after `piece` arrived; "" if nothing yet."""
        self._rest += piece
        cut = self._safe(self._rest)
        said, self._rest = self._rest[:cut], self._rest[cut:]
        return self._redactor.text(said)

    def end(self) -> str:
        """What was held back, at the end of the text."""
        said, self._rest = self._rest, ""
        return self._redactor.text(said)

    def _safe(self, text: str) -> int:
        """How much of `text` no later piece can make part of a secret."""
        cut = len(text)
        if cut > MOST:
            return self._apart(text, cut - MOST // 2)
        opened = _OPEN.search(text)
        if opened is not None:
            cut = opened.start()
        cut = min(cut, self._begun(text))
        return self._apart(text, cut)

    def _apart(self, text: str, cut: int) -> int:
        """`cut`, or the start of the secret that it would cut in two."""
        for start, end in self._redactor.spans(text):
            if start < cut < end or end == len(text):
                return min(start, cut)
        return cut

    def _begun(self, text: str) -> int:
        """Where a known secret may have begun that has not arrived in full."""
        cut = len(text)
        for known in self._redactor.known:
            tail = text[-6 * len(known) :]
            plain, escapes = unescaped(tail) if "\\" in tail else (tail, [])
            at = plain.find(known[0], max(0, len(plain) - len(known)))
            while at >= 0 and not known.startswith(plain[at:]):
                at = plain.find(known[0], at + 1)
            if at >= 0:
                # Behind an escape the place is that of the whole escaped stretch: cautious.
                cut = min(cut, len(text) - len(tail) + (at if not escapes else 0))
        return cut

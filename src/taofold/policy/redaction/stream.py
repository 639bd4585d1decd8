"""Redaction of text that arrives in pieces: what may become a secret is held back.

Pure. The pieces that come out, put together, are the redacted text.
"""

import re
from typing import Final

from taofold.policy.redaction import Redactor, telling, unescaped, without
from taofold.policy.redaction.assignments import STEMS, Says, says

_OPEN: Final = re.compile(
    r"-----BEGIN[ A-Z]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END[ A-Z]*PRIVATE KEY(?: BLOCK)?-----)[\s\S])*\Z"
    r"|(?<![A-Za-z0-9+/_\-.=:@\\])[A-Za-z0-9+/_\-.=:@\\]+\s?\Z|-----[ A-Z\-]*\Z"
    r"|\b(?i:bearer|basic|login)(?:\s+\S*){0,4}\Z|\b(?i:curl)\s[^\n]{0,400}\Z"
)
"""The end of a text in which a shape may have begun."""
_STEM: Final = re.compile("|".join(STEMS), re.IGNORECASE)
_NAME: Final = re.compile(r"[\w.\-]*")
_NEAR: Final = 400
_WORDS: Final = 6
"""Words between a name and its value, at most: `password: str | None = …`."""
_LONG: Final = 512
MOST: Final = 16_384
"""Characters that are held back at most."""
REMEMBERED: Final = 64


class Trickle:
    """Takes secrets out of one text that arrives in pieces."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._rest = redactor, ""
        self._next = 0
        """Characters held back from which another look is worth its cost."""
        self._seen: dict[str, None] = {}
        """Secrets that were taken out: the same value later on is one without its name, too."""

    def feed(self, piece: str) -> str:
        """What may be shown after `piece` arrived; "" if nothing yet."""
        self._rest += piece
        held = len(self._rest)
        if held < self._next:
            return ""
        cut = self._safe(self._rest)
        safe, self._rest = self._rest[:cut], self._rest[cut:]
        # A look reads all that is held back. Looked at again for each piece, a long stretch without
        # an end would cost the square of its length; waiting longer is always safe.
        self._next = held + held // 8 if held > _LONG and not safe else 0
        return self._redact(safe)

    def end(self) -> str:
        """What was held back, at the end of the text."""
        safe, self._rest = self._rest, ""
        return self._redact(safe)

    def _redact(self, text: str) -> str:
        spans = self._redactor.spans(text, self._seen)
        for start, end in spans:
            if len(self._seen) < REMEMBERED and telling(text[start:end]):
                self._seen[text[start:end]] = None
        return without(text, spans)

    def _safe(self, text: str) -> int:
        """How much of `text` no later piece can make part of a secret."""
        cut = len(text)
        # A text that never closes must not be held back without end: half of it is let go.
        if cut > MOST:
            return self._apart(text, cut - MOST // 2)
        opened = _OPEN.search(text)
        if opened is not None:
            cut = opened.start()
        cut = min(cut, _open_name(text), self._begun(text))
        return self._apart(text, cut)

    def _apart(self, text: str, cut: int) -> int:
        """`cut`, or the start of the secret that it would cut in two."""
        # A secret that ends with the text may go on in the next piece.
        for start, end in self._redactor.spans(text, self._seen):
            if start < cut < end or end == len(text):
                return min(start, cut)
        return cut

    def _begun(self, text: str) -> int:
        """Where a known secret may have begun that has not arrived in full."""
        cut = len(text)
        for secret in (*self._redactor.known, *self._seen):
            # Six characters for one: the longest escape of a single character is \uXXXX.
            tail = text[-6 * len(secret) :]
            plain, escapes = unescaped(tail) if "\\" in tail else (tail, [])
            at = plain.find(secret[0], max(0, len(plain) - len(secret)))
            while at >= 0 and not secret.startswith(plain[at:]):
                at = plain.find(secret[0], at + 1)
            if at >= 0:
                # Behind an escape the place is that of the whole escaped stretch: cautious.
                cut = min(cut, len(text) - len(tail) + (at if not escapes else 0))
        return cut


def _open_name(text: str) -> int:
    """Where a name stands whose value may not have arrived in full."""
    for stem in _STEM.finditer(text, max(0, len(text) - _NEAR)):
        start = stem.start()
        while start > 0 and (text[start - 1] in "_-." or text[start - 1].isalnum()):
            start -= 1
        name = _NAME.match(text, start)
        assert name is not None
        end = name.end()
        if says(text[start:end]) is not Says.NOTHING and len(text[end:].split()) <= _WORDS:
            return start
    return len(text)

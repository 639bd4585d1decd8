"""Redaction of text that arrives in pieces: possible beginnings of secrets are held back.

The rules are those of whole texts. A rule that has read up to the end of the text, in any layer of
escapes, waits for more. Pure. The concatenated output is the redacted text.
"""

import re
from typing import Final

from taofold.policy.redaction.escapes import decoded, foldings, numbered_end, whole_end
from taofold.policy.redaction.redactor import (
    CUT,
    LAYERS,
    MARK,
    Redactor,
)
from taofold.policy.redaction.tokens import Span

_OPEN: Final = re.compile(
    r"-----BEGIN[ A-Z0-9]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END[ A-Z0-9]*PRIVATE KEY(?: BLOCK)?-----)[\s\S])*\Z"
    r"|(?<![A-Za-z0-9+/_\-.=:@\\~$|%&?])[A-Za-z0-9+/_\-.=:@\\~$|%&?]+\Z|-----[ A-Z0-9\-]*\Z"
)
"""The end of a text in which a token or a key may have begun."""
_LONG: Final = 512
MOST: Final = 16_384
"""Maximum number of characters held back."""
_CONTEXT: Final = 24
"""Characters already released that are still examined: some rules depend on preceding text."""


class Trickle:
    """A filter that removes secrets from one text that arrives in pieces."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._text = redactor, ""
        self._shown = 0
        """The length of the released part of `_text`."""
        self._begins = True
        """True if `_text` starts at the beginning of the whole text."""
        self._next = 0
        """Number of held-back characters from which another search is worth its cost."""

    def feed(self, piece: str) -> str:
        """Returns the text that may be shown after `piece` arrived; "" if none yet."""
        self._text += piece
        held = len(self._text) - self._shown
        if held < self._next:
            return ""
        spans = self._spans()
        cut = self._safe(spans)
        # Each search reads all held-back text. A search per piece would make a long open stretch
        # quadratic; waiting longer is always safe.
        self._next = held + held // 8 if held > _LONG and cut == self._shown else 0
        return self._release(spans, cut)

    def end(self) -> str:
        """Returns the held-back text, at the end of the text."""
        return self._release(self._spans(), len(self._text))

    def _spans(self) -> list[Span]:
        return self._redactor.spans(self._text, begins=self._begins)

    def _release(self, spans: list[Span], cut: int) -> str:
        """Returns the text up to `cut` without its secrets, and releases it."""
        parts, at = list[str](), self._shown
        for start, end in spans:
            if end <= self._shown or start >= cut:
                continue
            parts += (self._text[at : max(at, start)], MARK)
            at = end
        parts.append(self._text[at:cut])
        before = cut
        if cut > self._shown:
            before = _whole(self._text, max(0, cut - _CONTEXT), LAYERS)
            for start, end in spans:
                # Half a secret would be read as something else; a whole one may by its form name
                # the value that follows.
                if start < before < end:
                    before = start if end - start <= _LONG else end
            self._begins = self._begins and before == 0
            self._text, self._shown = self._text[before:], cut - before
        return "".join(parts)

    def _safe(self, spans: list[Span]) -> int:
        """Returns the position up to which no later piece can complete a secret."""
        text, size = self._text, len(self._text)
        # A text that never closes must not be held back forever: half of it is released.
        endless = size - self._shown > MOST
        cut = size - MOST // 2 if endless else self._decided(text, LAYERS)
        while True:
            for start, end in spans:
                # A secret that ends with the text may continue in the next piece.
                if start < cut < end or (end == size and start < cut and not endless):
                    if end < size and not endless:
                        return self._shown  # its context must still be present with the rest
                    cut = start
            cut = max(_whole(text, cut, LAYERS), self._shown)
            if cut == self._shown or not any([start < cut < end for start, end in spans]):
                return cut

    def _decided(self, text: str, layers: int) -> int:
        """Returns the longest prefix that no rule can still extend into."""
        cut, end = self._settled(text), whole_end(text)
        if end < len(text):
            text = text[:end]
            cut = min(cut, self._settled(text))
        layer = decoded(text) if layers else None
        return (
            cut if layer is None else min(cut, layer.start(self._decided(layer.text, layers - 1)))
        )

    def _settled(self, text: str) -> int:
        """Returns the same for a text without escapes."""
        layers, opened = foldings(text[: numbered_end(text)]), _OPEN.search(text)
        cut = min([layer.start(self._begun(layer.text)) for layer in layers])
        return cut if opened is None else min(cut, opened.start())

    def _begun(self, plain: str) -> int:
        """Returns the start of a known secret, or a part of one, that may be incomplete."""
        cut = len(plain)
        # A truncated value may end before an ellipsis that has not arrived.
        ends = {cut, len(plain.rstrip()), len(plain.rstrip(" [(<.*"))}
        *_, ellipsis = [None, *CUT.finditer(plain)]
        behind = None if ellipsis is None else plain[ellipsis.end() :].strip()
        for form in self._redactor.forms:
            for end in ends:
                at = plain.find(form[0], max(0, end - len(form)), end)
                while at >= 0 and not form.startswith(plain[at:end]):
                    at = plain.find(form[0], at + 1, end)
                if at >= 0:
                    cut = min(cut, at)
            if ellipsis is not None and behind is not None and behind in form:
                cut = min(cut, ellipsis.start())
            if self._begins and plain.strip() in form:
                return 0
        return cut


def _whole(text: str, cut: int, layers: int) -> int:
    """Returns `cut`, or the start of the escape that it would split, in any layer."""
    cut = whole_end(text, cut)
    layer = decoded(text[:cut]) if layers else None
    if layer is None:
        return cut
    return min(cut, layer.start(_whole(layer.text, len(layer.text), layers - 1)))

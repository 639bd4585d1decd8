"""Tells a decision from one that is only quoted, refused, asked about or given as an example.

Knows nothing about what was decided: it looks at the prose around it.
"""

from __future__ import annotations

import re

_HEDGE = re.compile(
    r"\b(?:(?:will|would|do|did|should|must|can|could) not|cannot|(?:wo|do|did|ca|should)n['’]t"
    r"|instead of|would (?:write|look|be|use|call|run|send|need)|something like|looks? like"
    r"|for example|e\.g\.|as an example|such as|(?:should|shall|may|can|could) i\b"
    r"|do you want|would you like|want me to|(?:please|before you) confirm|confirmation|injection"
    r"|i (?:stop|refuse|decline)|ask(?:ing)? (?:you )?first|hypothetical\w*|suspicious"
    r"|(?:page|file|document|user|email|text|tool|output) (?:says|said|contains|contained|asks))",
    re.IGNORECASE,
)
_WINDOW = 240
_REASONED = re.compile(
    r"</(?:think|thinking|reasoning|thought|reflection|scratchpad|analysis)>|<\|message\|>"
    r"|assistantfinal",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:\s|```\w*|~~~\w*|`|<[^<>\n]{1,60}>|\[\w+\]|functools|assistant|commentary|final)+\Z"
)
_CLOSING = re.compile(r"\A(?:\s|```|~~~|</?[^<>\n]{1,60}>|[\]})`'\"”.])+")


def is_hedged(text: str, start: int, end: int) -> bool:
    """Whether the prose just before or after a decision takes it back."""
    before = _REASONED.split(text[max(0, start - _WINDOW) : start])[-1]
    before = _OPENING.sub("", before)
    before = before[before.rfind("\n\n") + 1 :]
    after = _CLOSING.sub("", text[end : end + _WINDOW]).partition("\n\n")[0]
    if not before.strip() and not after.strip():
        return False
    if after.startswith("?"):
        return True
    return bool(_HEDGE.search(before) or _HEDGE.search(after))

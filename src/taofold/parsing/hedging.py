"""Tells a decision from one that is only quoted, refused, asked about or given as an example.

Knows nothing about what was decided: it looks at the prose around it.
"""

from __future__ import annotations

import re

_ACT = r"(?:run|call|execute|do|use|send|make|perform|delete|write|apply|proceed|want|take|issue)"
_HEDGE = re.compile(
    rf"\b(?:(?:(?:will|would|do|did|should|must|can|could) not|cannot"
    rf"|(?:wo|do|did|ca|should)n['’]t)"
    rf" {_ACT}|never {_ACT}|would (?:write|look|be|use|call|run|send|need)|something like"
    r"|looks? like|(?:should|shall|may|can|could) i\b|do you want (?:me|to)|would you like me"
    r"|want me to|(?:please|before you|if you) confirm|confirmation|injection|attacker|hypothetical"
    r"|i (?:stop|refuse|decline|already (?:ran|called))|decided against|ask(?:ing)? (?:you )?first"
    r"|ignor\w+ (?:the|this)|was (?:executed|called|rejected|refused)"
    r"|previous\w* (?:message|call))",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"(?:\b(?:example|e\.g\.|such as|says|said|contains|contained|shows|was|were)[:,]?|<!--|~~)\Z",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WINDOW = 240
_REASONED = re.compile(
    r"</(?:think|thinking|reasoning|thought|reflection|scratchpad|analysis)>|<\|message\|>"
    r"|assistantfinal",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:\s|[\"'“]|[`~]\w{0,12}+|<[^<>\n]{1,60}>|\[\w+\]|functools|assistant|commentary|final)++\Z"
)
_CLOSING = re.compile(r"\A(?:\s|[`~\]})'\"”.]|</?[^<>\n]{1,60}>)++")


def is_hedged(text: str, start: int, end: int) -> bool:
    """Whether the prose just before or after a decision takes it back."""
    before = _REASONED.split(text[max(0, start - _WINDOW) : start])[-1]
    before = _OPENING.sub("", before)
    before = before[before.rfind("\n\n") + 1 :]
    after = _CLOSING.sub("", text[end : end + _WINDOW]).partition("\n\n")[0]
    if after.startswith("?") or _LEADS.search(before):
        return True
    last = _SENTENCE.split(before)[-1]
    return any(map(_HEDGE.search, (last, *_SENTENCE.split(after)[:2])))

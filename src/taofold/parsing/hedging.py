"""Tells a decision from one that is only quoted, refused, asked about or given as an example.

Knows nothing about what was decided: it looks at the prose around it.
"""

from __future__ import annotations

import re

_ACT = r"(?:run|call|execute|do|use|send|make|perform|delete|write|apply|proceed|want|take|issue)"
_HEDGE = re.compile(
    rf"\b(?:(?:(?:will|would|do|did|should|must|can|could) not|cannot|(?:wo|do|did|ca|should)n['’]t) "
    rf"{_ACT}|never {_ACT}|instead of|would (?:write|look|be|use|call|run|send|need)"
    r"|something like|looks? like|(?:for|an?|as an) example|example:|e\.g\.|such as"
    r"|(?:should|shall|may|can|could) i\b|do you want (?:me|to)|would you like me|want me to"
    r"|(?:please|before you|if you) confirm|confirmation|injection|attacker|suspicious|hypothetical\w*"
    r"|i (?:stop|refuse|decline|considered|already)|decided against|ask(?:ing)? (?:you )?first"
    r"|ignor\w+ (?:the|this)|was (?:executed|called|rejected|refused)|previous\w* (?:assistant|message|call)"
    r"|(?:page|file|document|user|email|text|tool|output|log) (?:says|said|contains|contained|asks|shows))"
    r"|<!--\s*\Z|~~\Z",
    re.IGNORECASE,
)
_WINDOW = 240
_REASONED = re.compile(
    r"</(?:think|thinking|reasoning|thought|reflection|scratchpad|analysis)>|<\|message\|>"
    r"|assistantfinal",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"(?:\s|[`~]\w{0,12}+|<[^<>\n]{1,60}>|\[\w+\]|functools|assistant|commentary|final)++\Z"
)
_CLOSING = re.compile(r"\A(?:\s|[`~\]})'\"”.]|</?[^<>\n]{1,60}>)++")


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

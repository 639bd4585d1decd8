"""Detects empty texts: a thought without an intent, a result that only announces a result.

Judges form alone, in English: "Looking at the code." names an activity and an unspecific thing,
without aim, reason or place. It does not judge whether a longer sentence is clear or its reason
good. Pure, and bounded.
"""

import re
from typing import Final

from taofold.core.late_patterns import late

_ACTIVITY: Final = (
    "look|check|read|view|open|see|search|think|work|process|examine|inspect|analyze|analyse|review|"
    "explore|investigate|continue|proceed|run|try|start|do|use|update|edit|fetch|get|handle|call"
)
_DOING: Final = (
    "looking|checking|reading|viewing|opening|seeing|searching|thinking|working|processing|"
    "examining|inspecting|analyzing|analysing|reviewing|exploring|investigating|continuing|"
    "proceeding|running|trying|starting|doing|using|updating|editing|fetching|getting|handling|"
    "calling"
)
_DONE: Final = "got|looked|checked|viewed|opened|saw|searched|ran|did|used|fetched"
_THING: Final = (
    "code|codebase|files?|logs?|outputs?|results?|problem|issue|errors?|tests?|project|repository|"
    "repo|directory|folder|config|configuration|data|tool|command|it|this|that|things?|something|"
    "stuff|task|step|next|one"
)
_BARE: Final = late(
    r"(?:(?:ok|okay|now|next|then|first|so|well|alright)\b[,:]?\s*)*"
    r"(?:(?:let me|let's|let us|i will|i'll|i am going to|i'm going to)\s+"
    rf"(?:now\s+|just\s+|first\s+)?(?:{_ACTIVITY})"
    rf"|(?:i am\s+|i'm\s+|just\s+|still\s+)?(?:{_DOING})"
    rf"|(?:i\s+|i have\s+|i've\s+)?(?:{_DONE}))"
    r"(?:\s+(?:at|into|in|through|on|for|up|with|over|around))*"
    r"(?:\s+(?:the|this|that|some|a|an|my|our|all|more|relevant|next))*"
    rf"(?:\s+(?:{_THING}))*",
    re.IGNORECASE,
)
_RECEIPT: Final = late(
    r"(?:i\s+|we\s+)?(?:got|have|received)\s+(?:the|a|an|some)\s+"
    r"(?:results?|outputs?|responses?|answers?|data)",
    re.IGNORECASE,
)
_LONGEST: Final = 80
"""Characters; longer texts are not vague. This also bounds the work of the pattern."""


def lacks_intent(text: str) -> bool:
    """Returns whether `text` names an activity only, without aim, reason or place.

    >>> lacks_intent("Looking at the code.")
    True
    >>> lacks_intent("Looking at the code of the token check.")
    False
    """
    plain = _plain(text)
    return len(plain) <= _LONGEST and _BARE.fullmatch(plain) is not None


_WISH: Final = late(
    r"\b(?:need|needs|needed|want|wants|wanted|going|have|has|had|try|trying|able|about|ought|like)"
    r"\s+to\b(?!\s+be\b)|\b(?:look|looking|search|searching|wait|waiting|ask|asking)\s+for\b|\bfor\s+now\b",
    re.IGNORECASE,
)
"""Phrases with `to` and `for` that state no purpose."""
_REASON: Final = late(
    r"\b(?:because|since|therefore|thus|hence|so|as|for|if|whether|why|reason\w*|due\s+to|given"
    r"|based\s+on|otherwise|until|before|must|needs?|caus\w+|means|explains|confirms?|shows?"
    r"|showed|says|said|indicates?|suggests?|implies|to\s+(?!(?:the|an?|some|this|that|it|my|our)\b)"
    r"[a-z]\w+)\b",
    re.IGNORECASE,
)
_ENGLISH: Final = late(
    r"\b(?:the|i|an?|is|are|was|of|it|to|and|in|this|that|we|my|let|now|next)\b", re.IGNORECASE
)
_JUDGED: Final = 1000
"""Maximum length in characters of a thought that is searched for a reason."""


def lacks_reason(text: str) -> bool:
    """Returns whether `text`, a thought in English, gives no reason or purpose.

    Text without an English function word is not judged.

    >>> lacks_reason("I read the configuration of the server.")
    True
    >>> lacks_reason("I read the configuration to find the token's lifetime.")
    False
    """
    plain = _plain(text)
    if len(plain) > _JUDGED or _ENGLISH.search(plain) is None:
        return False
    return _REASON.search(_WISH.sub(" ", plain)) is None


def lacks_content(text: str) -> bool:
    """Returns whether `text`, a tool result, only announces a result ("Got the result").

    Much narrower than `lacks_intent`: tools do return "running" or "opened the file".
    """
    return len(text) <= _LONGEST and _RECEIPT.fullmatch(_plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(text.replace("\u2019", "'").split()).strip(" .…!:")

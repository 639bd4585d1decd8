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

    A text without a letter or a digit names nothing. An empty text is left to other rules.

    >>> lacks_intent("Looking at the code.")
    True
    >>> lacks_intent("Looking at the code of the token check.")
    False
    """
    plain = _plain(text)
    if not _has_words(plain):
        return bool(text.strip())
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
    r"|showed|says|said|indicates?|suggests?|implies|meaning"
    r"|to\s+(?!(?:the|an?|some|this|that|it|my|our|at|on|below|above|under|over)\b)"
    r"[a-z]\w+)\b",
    re.IGNORECASE,
)
_ENGLISH: Final = late(
    r"\b(?:the|i|a|is|are|was|of|it|to|and|this|that|we|my|let|now|next)\b", re.IGNORECASE
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


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SENTENCE: Final = late(
    r"[.!?;\u2026]+(?:\s+|$)|,?\s+(?:so|hence|thus|therefore|then)\s+(?!that\b)"
)
_QUOTED: Final = late(r"\"[^\"\n]*\"|`[^`\n]*`|\u201c[^\u201d\n]*\u201d|(?<!\w)'[^'\n]*'(?!\w)")
_BECAUSE: Final = late(r",?\s+(?:because|since|as)\b")
_TOKEN: Final = late(r"[^\W\d_]+(?:'[a-z]+)?|\d+")
_PLANS: Final = late(
    r"\b(?:i'll|i will|we'll|let me|let's|let us|i'd|we'd|i (?:want|need|should|must|have|would)"
    r"|i plan|we (?:need|should|must)|going to|needs? to|has to|should|must|next i|in order|until i"
    r"|to (?!(?:some|any)\w+\b|the\b|an?\b|be\b|act\b|proceed\b|continue\b)[a-z]{3,})\b",
    re.IGNORECASE,
)
"""Words that state an intention or a purpose."""
_SUBJECTS: Final = _words(
    "the a an it its this that these those there here he she they my our his her "
    "their all some every each no any both half one two three four five six seven eight "
    "nine ten only what which who everything nothing something someone everyone"
)
"""First words of a sentence that make it a statement, because no request begins with them."""
_FINITE: Final = _words(
    "is are was were isn't aren't wasn't weren't has have had hasn't haven't hadn't does did "
    "doesn't didn't says said cannot can't can could won't will would failed fails returned "
    "returns shows showed came went got seems looks means contains expects requires complains "
    "appears remains exists lies sits stands holds hangs stopped died exited ran threw raised "
    "took takes ends ended lasted"
)
"""Second or third words of a sentence that make what precedes them its subject."""
_EMPTY: Final = _words(
    "ok okay well right good great fine hm hmm yes no noted understood alright sure now "
    "next then first again further forward ahead still just also more else other another on "
    "onto up as is it the a an this that these those and or of to for with at in into "
    "through by from my our your i i'm i'll i'd me we us let let's will do does did done so "
    "be been am are what whatever which how whether some any all every each one ones thing "
    "things stuff something way usual before after here there time need needs needed want "
    "going go goes gone come comes came get got give take takes taking make making keep "
    "keeping stay look looking looks see seeing check checking read reading view viewing "
    "open opening search searching think thinking work working works process processing "
    "examine examining inspect inspecting analyze analyzing analyse analysing review "
    "reviewing explore exploring investigate investigating continue continuing proceed "
    "proceeding run running try trying start starting doing use using update updating fetch "
    "fetching handle handling call calling act acting action actions evaluate evaluating "
    "consider considering execute executing perform performing carry carrying move moving "
    "monitor monitoring deal dealing begin beginning apply applying complete completing "
    "finish figure figuring understand required necessary appropriate accordingly properly "
    "carefully current currently given relevant possible code codebase file files log logs "
    "output outputs result results problem problems issue issues error errors test tests "
    "project repository repo directory folder config configuration data tool tools command "
    "commands task tasks step steps plan plans option options approach situation state "
    "affairs matter matters material information details context stage point moment "
    "situation regarding about over around out off back always must should can might may"
)
"""Words that name no topic: fillers, activities, and things that every task has."""


def lacks_aim(text: str) -> bool:
    """Returns whether `text`, a thought in English, states no aim.

    Its sentences only name activities ("Calling the next tool.") or only state facts ("The build
    failed."). A sentence with an intention, or one that may be a request, is an aim. Text in
    another language is not judged.

    >>> lacks_aim("The build failed. Continuing.")
    True
    >>> lacks_aim("The build failed. Read the log of the linker.")
    False
    """
    # The aim is the model's: words that it quotes state none.
    plain = _QUOTED.sub(" it ", _plain(text)[:_JUDGED].lower())
    pieces = [_TOKEN.findall(piece) for piece in _SENTENCE.split(plain)]
    sentences = [words for words in pieces if words]
    if not sentences:
        return bool(text.strip())
    empty = [_EMPTY.issuperset(words) for words in sentences]
    if all(empty) or _is_activity(plain):
        return True
    english = any(empty) or _ENGLISH.search(plain) is not None
    if not english or _PLANS.search(plain):
        return False
    # Findings come before the aim: if a filler ends the thought ("Noted."), no aim follows.
    return empty[-1] or all([_EMPTY.issuperset(w) or _is_statement(w) for w in sentences])


def _is_activity(plain: str) -> bool:
    """Returns whether a thought is one empty activity and its reason: "Carrying on, because …"."""
    head, *reason = _BECAUSE.split(plain, maxsplit=1)
    words = _TOKEN.findall(head)
    return bool(reason and words) and words[0].endswith("ing") and _EMPTY.issuperset(words)


def _is_statement(words: list[str]) -> bool:
    if not words or words[0] in _SUBJECTS or words[0] == "got":
        return True
    # "Fix the failed tests" is a request: an article before the verb makes it an adjective.
    return not _FINITE.isdisjoint(words[1:2] if words[1:2] == ["the"] else words[1:3])


def lacks_content(text: str) -> bool:
    """Returns whether `text`, a tool result, only announces a result ("Got the result").

    Much narrower than `lacks_intent`: tools do return "running" or "opened the file".
    """
    return len(text) <= _LONGEST and _RECEIPT.fullmatch(_plain(text)) is not None


def is_blank(text: str) -> bool:
    """Returns whether `text` has no letter and no digit.

    >>> is_blank("…")
    True
    """
    return not _has_words(text)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


_INVISIBLE: Final = dict.fromkeys(
    [
        *(0xAD, 0x61C, 0x180E, 0xFEFF),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
    ]
)
"""Characters without a glyph. Between two letters they hide a word from the patterns."""


def _plain(text: str) -> str:
    shown = text.translate(_INVISIBLE).replace("\u2019", "'")
    return " ".join(shown.split()).strip(" .…!:")

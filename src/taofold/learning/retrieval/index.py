"""The words and signatures by which patterns are found.

A store finds patterns by the stems of their text (`log/patterns/stores`); `relevance` then compares
the results closely. Signatures may look like regular expressions and come from a model or a file:
they are never run as such. Only wildcards and escapes are interpreted, in time proportional to the
text. Measured in `bench/retrieval`.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from taofold.learning.extraction.diffs import sides
from taofold.learning.patterns.kinds import Approach, Avoidance, CodeTemplate, ErrorFix
from taofold.learning.patterns.pattern import Pattern

_WORD: Final = re.compile(r"[^\W_]\w*|_+[^\W_]\w*")
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_SHORTEST_STEM: Final = 4
_LONGEST_WORD: Final = 64

_GENERIC: Final = """
    a an and any are as at be been but by can cannot could did do does each else for from had
    has have how i if in into is it its like make may me more most must need no not of on one or
    our out over own please same should so some such than that the their them then there these
    they this those to too up us use very want was we were what when where which while who will
    with would you your
    add all bug case change check code error exception expect fail failure file fix function get
    green issue line list method miss module name new none number object pass problem program
    project python repair return run set task test type typescript update value work wrong write
    implement create build actual assert call true false self str int import def class main src
    py ts js expected got assertionerror assertion
    added adding called calling changed changing failed failing fixed fixing missing needed passed
    passing raised repaired returned returning running testing used using working writing
"""
GENERIC: Final[frozenset[str]] = frozenset(_GENERIC.split())
"""Words without information about a task's subject, unstemmed."""


def words(text: str) -> list[str]:
    """Returns the stems in `text`, in order, with repeats; compound names also as a whole."""
    stems: list[str] = []
    for word in _WORD.findall(text):
        stems += _stems(word[:_LONGEST_WORD])
    return stems


def plain_words(text: str) -> list[str]:
    """Returns the words in `text`, in lower case; a compound name is one word."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=1 << 15)
def _stems(word: str) -> tuple[str, ...]:
    # `birthYear` and `HTTPServer` are also searched for by their parts.
    parts = _PART.findall(word)
    stems = [stem(part.lower()) for part in parts]
    return (*stems, word.lower()) if len(parts) > 1 else tuple(stems)


def stem(word: str) -> str:
    """Returns `word`, in lower case, without its English plural."""
    if len(word) < _SHORTEST_STEM or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_STEM:
        return f"{word[:-3]}y"
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


STOPS: Final[frozenset[str]] = GENERIC | frozenset([stem(word) for word in GENERIC])


def telling(text: str) -> list[str]:
    """Returns the informative stems in `text`: no generic words, no lone letters or digits."""
    return [
        stem for stem in words(text) if len(stem) > 1 and stem not in STOPS and not stem.isdigit()
    ]


_WILD: Final = re.compile(r"(?:\\[dwsS]|\.|\[\^?[^\]\\]{1,20}\])[*+]\??|\\d|\{\{\s*\w+\s*\}\}")
_ESCAPED: Final = re.compile(r"\\([^A-Za-z0-9])")
_SPECIAL: Final = re.compile(r"(?<!\\)[()\[\]{}|*+?]|\\[A-Za-z0-9]")
_LONGEST: Final = 4000
"""The most characters of a message that are compared."""
_MOST_PIECES: Final = 60


@lru_cache(maxsize=4096)
def pieces(pattern: str) -> tuple[str, ...] | None:
    """Returns the literal texts between wildcards; None if `pattern` has more than wildcards.

    `Cannot read '.*' of null` is `("Cannot read '", "' of null")`. Anchors are ignored.
    """
    if len(pattern) > _LONGEST:
        return None
    texts: list[str] = []
    for part in _WILD.split(pattern.removeprefix("^").removesuffix("$")):
        # Escaped backslashes are literals. They are removed first, because they seem to escape the
        # next character.
        if _SPECIAL.search(part.replace("\\\\", "")) and not _plain(part):
            return None
        texts.append(_ESCAPED.sub(r"\1", part))
    return tuple([piece for piece in texts if piece]) if len(texts) <= _MOST_PIECES else None


def _plain(part: str) -> bool:
    """Returns whether brackets are literal, as in a message that was never escaped."""
    return "\\" not in part and not re.search(r"[*+?|]|\[[^\]]*\]|\([^)]*\)", part)


def literal(pattern: str) -> str:
    """Returns the words of the signature, its wildcards as spaces."""
    texts = pieces(pattern)
    if texts is not None:
        return " ".join(texts)
    return _ESCAPED.sub(r"\1", _WILD.sub(" ", pattern[:_LONGEST]))


def matches(pattern: str, message: str) -> bool:
    """Returns whether the literal texts of `pattern` occur in `message` in this order.

    False for a pattern without any literal text, and for one with more than wildcards.
    """
    texts = pieces(pattern)
    if not texts:
        return False
    message = message[:_LONGEST]
    at = 0
    for piece in texts:
        # The earliest place for each piece leaves the most room for the rest: no backtracking is
        # needed.
        at = message.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


POOL: Final = 60
"""The most patterns that the first stage returns."""
_MOST_WORDS: Final = 240


class PatternHit(NamedTuple):
    """A pattern that shares rare words with the question, and the stems of its text."""

    id: str
    stems: str


def entry(pattern: Pattern) -> str:
    """Returns the stems by which a pattern is found, in order, with repeats and spaces between."""
    stems = [*_class(pattern), *words(text_of(pattern))]
    return " ".join(stems[:_MOST_WORDS])


def text_of(pattern: Pattern) -> str:
    """Returns all texts of a pattern."""
    return "\n".join(_texts(pattern))


def classname(name: str) -> str:
    """Returns the term for an error's class, distinct from the same word in prose."""
    return f"={name.lower()}"


def _class(pattern: Pattern) -> list[str]:
    signature = pattern.signature
    if signature is None:
        return []
    causes = [cause.partition(":")[0] for cause in signature.causes]
    return [classname(name) for name in (signature.name or signature.type, *causes)]


def _texts(pattern: Pattern) -> list[str]:
    texts = [pattern.name, *pattern.tags]
    signature = pattern.signature
    if signature is not None:
        texts += [signature.name, literal(signature.pattern), *signature.causes, *signature.hints]
    match pattern.body:
        case ErrorFix(fix=fix):
            # Without context lines: they are about something else.
            gone, new = sides(fix.diff)
            texts += [fix.description, fix.code, *gone, *new]
        case Approach() as body:
            texts += [body.description, literal(body.task), *body.steps, *body.preconditions]
        case Avoidance() as body:
            texts += [body.approach, *body.symptoms, body.why, body.better]
        case CodeTemplate() as body:
            texts += [body.use, body.code, *body.holes.values()]
    return [text for text in texts if text]

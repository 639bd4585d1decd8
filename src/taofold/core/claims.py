"""The claims of a text in a form that can be compared.

Content words by their stems, numbers in digits with the nouns beside them, states and negations.
States and negations are English, words and numbers of any language. Scripts without spaces are read
in pairs of characters. Pure, and linear in the text.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

from taofold.core.late_patterns import late

_READ: Final = 50_000
"""Characters of a text that are read: a thought quotes no more of a longer one."""
_LONGEST: Final = 40
"""Characters of a word; a longer one is encoded data."""
_STEM: Final = 6
"""Characters of a stem; what follows them in a long word is a suffix."""
_REACH: Final = 3
"""Words before a state in which a negation concerns it."""
_ATOM: Final = late(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[:=\n]")
_ASCII: Final = late(r"[0-9]+(?:[.,][0-9]+)*|[a-z]+|[:=\n]")
"""The same in ASCII, where it takes half the time."""
_DIGIT: Final = late(r"\d")
_SPACELESS: Final = late(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_GROUPED: Final = late(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PHRASE: Final = late(
    r"[.!?;\n]+(?:\s+|$)"
    r"|,?\s+\b(?=(?:and|because|but|so|since|therefore|which|while|although|then)\b)"
)


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _words(words: str) -> frozenset[str]:
    return frozenset(_listed(words))


_UNSTATED: Final = _words(
    "should will shall would could might may must can let ll d need needs want wants going plan "
    "try if whether unless until expect maybe perhaps possibly probably likely suspect think "
    "assume guess hope increase raise lower reduce change set update fix make ensure verify "
    "confirm check see retry next instead more fewer less another other extra total together "
    "roughly about nearly almost around difference"
)
"""Words of a phrase that is an intention, a doubt or a calculation, and states nothing."""
_NEGATIONS: Final = _words("not no never none without nothing cannot zero 0 neither nor t")
"""`t` is the end of "isn't"."""
_FALSE: Final = _words("false none null no off disabled 0")
_ARTICLES: Final = _words("a an the any")
_OPPOSITES: Final = (
    (
        "pass passes passed passing succeed succeeds succeeded success successful successfully "
        "green works worked allowed granted permitted authorized accepted valid healthy connected "
        "reachable alive active running",
        "fail fails failed failing failure failures error errors broken broke breaks crashed "
        "crashes red denied forbidden refused rejected unauthorized invalid unhealthy "
        "disconnected unreachable dead down timed timeout died",
    ),
    ("exists exist present available", "missing absent nonexistent unavailable"),
    ("enabled", "disabled"),
    ("true", "false"),
    ("open opened", "closed"),
    ("empty", "full"),
    ("expired", "unexpired"),
)
_STATES: Final[dict[str, tuple[str, bool]]] = {
    word: (poles[0].split()[0], pole == 0)
    for poles in _OPPOSITES
    for pole, words in enumerate(poles)
    for word in words.split()
}
"""A state → the name of its pair of opposites, and whether it is the first of the two."""
_SIGNS: Final = _STATES.keys() | _NEGATIONS | _FALSE
_ONES: Final = _listed(
    "zero _ two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS: Final = _listed("twenty thirty forty fifty sixty seventy eighty ninety")
_NUMBERS: Final = {
    # One is left out: it is an article in many languages.
    **{word: str(number) for number, word in enumerate(_ONES) if word != "_"},
    **{word: str(10 * number) for number, word in enumerate(_TENS, 2)},
    **dict.fromkeys(("both", "pair", "couple", "twice", "zwei", "deux", "dos", "dois"), "2"),
    **dict.fromkeys(("drei", "trois", "tres"), "3"),
    **dict.fromkeys(("vier", "quatre", "cuatro", "quatro"), "4"),
    **dict.fromkeys(("f\u00fcnf", "cinq", "cinco"), "5"),
    "dozen": "12",
    "hundred": "100",
}
_STOPS: Final = _words(
    "a an the this that these those it its he she they them their we our us i me my you your and "
    "or but not no nor so if then than as at by for from in into of off on onto out over to up "
    "with without about after again all also any are be because been before being both can could "
    "did do does done each else ever few had has have having here how is just let like made make "
    "many may might more most much must need now only other own per rather same should since some "
    "still such there therefore thus too until was were what when where whether which while who "
    "why will would yet t s d ll ve re m isn don doesn via next first last new old one der die "
    "das den dem des ein eine einer eines und oder nicht ist sind war wird mit von zu auf im la "
    "le les un une du et ou est sont dans pour que qui el los las una y es son en por lo gli di "
    "da che e o del della con per se si al como os as"
)
_SUFFIXES: Final = _listed(
    "ations ation ating ated ates ingly ings ing ions ion ments ment ures ure ances ance ences "
    "ence ables able ibles ible als al ied ies ers er ed es en ly s e y"
)


_UNITS: Final[dict[str, tuple[str, str]]] = {
    word: (dimension, words.split()[0])
    for dimension, units in {
        "time": (
            "milliseconds millisecond ms msec",
            "seconds second secs sec s sekunden secondes segundos",
            "minutes minute mins min minuten minutos",
            "hours hour hrs hr h stunden heures horas",
            "days day d tage jours",
        ),
        "size": (
            "bytes byte b",
            "kilobytes kilobyte kb kib k",
            "megabytes megabyte mb mib m",
            "gigabytes gigabyte gb gib g",
            "terabytes terabyte tb tib",
        ),
    }.items()
    for words in units
    for word in words.split()
}
"""A unit directly behind a number → its dimension, and its name."""


class Claims:
    """The words and numbers of a text, and what it states of them."""

    __slots__ = ("counts", "denied", "states", "units", "weights")

    def __init__(self, weights: dict[str, int]) -> None:
        self.weights = weights
        """Words, numbers, and each number with a noun beside it ("3 test")."""
        self.counts: list[tuple[str, str]] = []
        """Each number with a noun beside it; without one, with ""."""
        self.units: list[tuple[str, str, str]] = []
        """Each number with a unit behind it, and the unit's dimension and name."""
        self.denied: set[str] = set()
        """The words that are negated: "no errors", `private: false`."""
        self.states: set[tuple[str, bool]] = set()
        """Pairs of opposites, and whether the first of the pair holds."""


def read(text: str, *, facts: bool = False) -> Claims:
    """Returns the claims of a text; its negations and states only with `facts`."""
    low = text[:_READ].lower()
    atoms = _atoms(low)
    found = [*filter(None, map(_unit, atoms))]
    claims = Claims(dict.fromkeys(found, 1))
    if _DIGIT.search(low) or not _NUMBERS.keys().isdisjoint(atoms):
        _read_numbers(claims, found)
        if facts:
            _read_units(claims, atoms)
    # Most texts have no sign of a state or a negation.
    if facts and not _SIGNS.isdisjoint(atoms):
        _read_signs(claims, atoms)
    return claims


def _read_numbers(claims: Claims, found: list[str]) -> None:
    for at, unit in enumerate(found):
        if unit[0].isdigit():
            claims.counts.append((unit, ""))
            for noun in (*found[max(0, at - 1) : at], *found[at + 1 : at + 2]):
                if not noun[0].isdigit():
                    claims.counts.append((unit, noun))
                    claims.weights[f"{unit} {noun}"] = 1


def _read_units(claims: Claims, atoms: list[str]) -> None:
    for number, unit in pairwise(atoms):
        if unit in _UNITS and (count := _unit(number))[:1].isdigit():
            claims.units.append((count, *_UNITS[unit]))


def _atoms(low: str) -> list[str]:
    if low.isascii():
        return _ASCII.findall(low)
    return _ATOM.findall(_SPACELESS.sub(_pairs, low))


def _pairs(match: re.Match[str]) -> str:
    run = match.group()
    return " ".join([run[at : at + 2] for at in range(len(run) - 1)])


def _read_signs(claims: Claims, atoms: list[str]) -> None:
    for at, atom in enumerate(atoms):
        if atom not in _SIGNS:
            continue
        after = atoms[at + 1 : at + 3]
        if atom in _NEGATIONS and after:
            word = after[-1] if after[0] in _ARTICLES else after[0]
            if word.isalpha():
                claims.denied.add(_unit(word))
        if atom in _FALSE and at > 1 and atoms[at - 1] in ":=":
            claims.denied.add(_unit(atoms[at - 2]))
        if atom in _STATES:
            pair, first = _STATES[atom]
            negated = not _NEGATIONS.isdisjoint(atoms[max(0, at - _REACH) : at])
            none = len(after) == 2 and after[0] in ":=" and after[1] == "0"
            claims.states.add((pair, first is not (negated or none)))


def stated(thought: str) -> Iterator[Claims]:
    """Yields the claims of each phrase that is no intention, doubt or calculation."""
    for phrase in _PHRASE.split(thought.lower()):
        atoms = _atoms(phrase)
        if atoms and _UNSTATED.isdisjoint(atoms):
            claims = read(phrase, facts=True)
            if not _FALSE.isdisjoint(atoms) or not _NEGATIONS.isdisjoint(atoms):
                # A negation agrees with what was observed as absent.
                claims.denied = set(claims.weights)
            yield claims


@lru_cache(maxsize=8192)
def _unit(atom: str) -> str:
    """Returns a word by its stem, or a number in plain digits; "" for a word without content.

    >>> {_unit(word) for word in ("expired", "expires", "expiration")}
    {'expir'}
    """
    if atom[0].isdigit():
        number = atom.replace(",", "" if _GROUPED.fullmatch(atom) else ".")
        # "19.0" is 19, but "3.10" is no 3.1: it may be a version.
        whole, _, rest = number.partition(".")
        return whole if rest and not rest.strip("0") else number
    number = _NUMBERS.get(atom, "")
    if number:
        return number
    if atom in _STOPS or len(atom) > _LONGEST or (len(atom) < 2 and atom.isascii()):
        return ""
    return _stem(atom) if atom not in ":=\n" else ""


def _stem(word: str) -> str:
    if len(word) < 4:
        return word
    if word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    # "running" and "run": a doubled last consonant belongs to the suffix.
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:_STEM]

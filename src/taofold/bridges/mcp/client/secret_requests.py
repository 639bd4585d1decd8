"""Recognises questions that ask for a secret: a password, a code, a card, a key, a seed phrase.

An MCP server writes the question, so it is read as the user sees it: letters that look alike,
signs for letters, and letters that stand apart are undone. `secret_words.json` has the words of
about thirty languages, by kind: `stems` are parts of words, in which `_` is any separator of
two words, or none; `words` are whole ones, which count as the name of a field, or in a text that
asks for something. It errs on the side of refusing: a server has a page of its own to ask such
things. Knows nothing about the protocol.
"""

import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final
from unicodedata import category, normalize

from taofold.core.json_values import is_array, is_object
from taofold.core.text import visible
from taofold.policy.redaction import is_named_secret

_ASKING: Final = re.compile(
    r"\b(?:your|enter|type|paste|provide|give|send|tell|confirm|what\s+is|log\s?in|sign\s?in|dein\w*|ihre?n?|"
    r"eingeben|gib|geben|votre|vos|ton|ta|entrez|saisi\w*|tu|su|tus|sus|introdu\w*|escrib\w*|seu|sua|"
    r"digite|insira|tuo|tua|inserisci|je|uw|voer|din|ditt|ange|twoj\w*|podaj|вве\w*|ваш\w*|твой)\b"
)
_CODE: Final = r"\bcod(?:e|es|ice|igo|igos)\b"
_DIGITS: Final = r"(?:digits?|stellig\w*|chiffres|digitos|cifre)"
_SENT: Final = re.compile(
    rf"{_CODE}.{{0,60}}\b(?:sent|sms|texted|received|gesendet|geschickt|erhalten|recu|envoye|"
    r"enviado|enviamos|recibi\w*|recebe\w*|inviato|ricevuto|verzonden|skickat)\b"
    rf"|\b(?:sent|texted|sms|envoye|enviado|inviato|gesendet)\b.{{0,40}}{_CODE}"
    r"|\bcode (?:from|in|on) (?:your|the) (?:authenticator|phone|app|e-?mail|text|message)\b"
    rf"|\b(?:[0-9]+|six|four|eight|sechs|vier)[ -]?{_DIGITS}\b.{{0,40}}{_CODE}"
    rf"|{_CODE}.{{0,20}}\b{_DIGITS}\b"
)
"""A code that the user was sent, under any name."""
_ALIKE: Final = str.maketrans(
    {
        **dict(zip("аеорсухіїѕјһԁոԛԝкмнтвгѵӏзб", "aeopcyxiisjhdnqwkmhtbrvlzb", strict=True)),
        **dict(zip("αορνεικτυχωηγμβ", "aopveiktuxwnyub", strict=True)),
        **dict(zip("ıłøđħŧɡɑɩ", "ilodhtgai", strict=True)),
        **dict(zip("ʟᴀʙᴄᴅᴇɢʜɪᴊᴋᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "labcdeghijkmnoprstuvwyz", strict=True)),
        "ß": "ss", "æ": "ae", "œ": "oe",
    }
)  # fmt: skip
"""Letters that look like another letter."""
_SIGNS: Final = (
    str.maketrans("013457@$!|", "oieastasil"),
    str.maketrans("013457@$!|", "oleastasii"),
)
"""Signs that stand for letters: `p4ssw0rd`."""
_APART: Final = re.compile(r"(?<!\w)(?:\w[ ._*\-]{1,2}){3,}\w(?!\w)")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _pattern(stems: Iterable[str]) -> re.Pattern[str]:
    alternatives = [re.escape(_plain(stem)).replace("_", r"[\W_]*") for stem in stems]
    return re.compile("|".join(alternatives))


def _plain(text: str) -> str:
    return "".join([c for c in normalize("NFD", text) if category(c) != "Mn"])


_LISTS: Final[Mapping[str, Mapping[str, list[str]]]] = json.loads(
    files("taofold.bridges.mcp.client").joinpath("secret_words.json").read_text("utf-8")
)
_KINDS: Final = {kind: _pattern(lists["stems"]) for kind, lists in _LISTS.items()}
_NAMED: Final = {kind: frozenset(lists["words"]) for kind, lists in _LISTS.items()}
_LIKE_A_SECRET: Final = "x" * 12
_SMALL: Final = 100


def secret_asked(message: str, properties: Mapping[str, Any]) -> str:
    """Returns the kind of secret that a form asks for, "" if it asks for none.

    Args:
        message: What the person reads above the form.
        properties: The form's fields, by name, as JSON Schema.
    """
    open_fields = {name: rules for name, rules in properties.items() if _is_open(rules)}
    if not open_fields:  # whoever only chooses or ticks gives nothing away
        return ""
    for name, rules in open_fields.items():
        prose = [rules.get(key) for key in ("title", "description")] if is_object(rules) else []
        if is_object(rules) and rules.get("format") == "password":
            return "password"
        kind = _first([_in_name(name), *[_in_name(str(text)) for text in prose[:1] if text]])
        kind = kind or _first([_in_prose(str(text), of_field=True) for text in prose if text])
        if kind:
            return kind
    # One secret in several fields (`pass` and `word`), or in the text alone.
    several = _in_name("".join(open_fields)) if len(open_fields) > 1 else ""
    return several or _in_prose(message)


def _is_open(rules: Any) -> bool:
    """May the user enter free text?"""
    if not is_object(rules):
        return True
    items = rules.get("items")
    if rules.get("type") == "array" and is_object(items):
        return _is_open(items)
    return rules.get("type") != "boolean" and not _is_chosen(rules) and not _is_small(rules)


def _is_chosen(rules: Mapping[str, Any]) -> bool:
    """Does the user choose one of some values? A mere type among alternatives takes any text."""
    if "const" in rules or is_array(rules.get("enum")):
        return True
    offers = [rules[word] for word in ("oneOf", "anyOf") if is_array(rules.get(word))]
    return any(
        [offer and all([is_object(each) and "const" in each for each in offer]) for offer in offers]
    )


def _is_small(rules: Mapping[str, Any]) -> bool:
    """Is it a number of so few that no PIN and no check digits of a card are among them?"""
    least, most = rules.get("minimum"), rules.get("maximum")
    if rules.get("type") != "integer" or not isinstance(least, int) or not isinstance(most, int):
        return False
    return 0 <= least <= most <= _SMALL


def _first(kinds: Iterable[str]) -> str:
    return next(filter(None, kinds), "")


def _readings(text: str) -> set[str]:
    """The readings of the text, in lower case."""
    seen = "".join([c for c in normalize("NFKC", _squared(text)) if visible(c) == c])
    readings: set[str] = set()
    # `2FA` is one word and `yourPin` two.
    for words in (seen, _HUMP.sub(" ", seen)):
        words = _plain(words).casefold()
        words = _APART.sub(lambda apart: re.sub(r"[ ._*\-]", "", apart[0]), words)
        latin = words.translate(_ALIKE)
        readings |= {words, latin, *[latin.translate(signs) for signs in _SIGNS]}
    return readings


def _squared(text: str) -> str:
    """Letters in circles and squares, which no normal form undoes, as letters."""

    def plain(match: re.Match[str]) -> str:
        return chr(ord("a") + (ord(match[0]) - 0x1F130) % 32 % 26)

    return re.sub("[\U0001f150-\U0001f169\U0001f170-\U0001f189]", plain, text)


def _in_name(name: str) -> str:
    """What a field of this name asks for."""
    # The redactor's own rules for names, tried with a value that looks like a secret.
    if is_named_secret(name.replace("-", "_"), _LIKE_A_SECRET):
        return "secret"
    for reading in sorted(_readings(name)):
        words = re.split(r"[\W_]+", reading)
        joined = "".join(words)
        for kind, pattern in _KINDS.items():
            if pattern.search(reading) or pattern.search(joined) or _NAMED[kind] & {*words, joined}:
                return kind
    return ""


def _in_prose(text: str, *, of_field: bool = False) -> str:
    """What a text asks for; `of_field`: it describes a field, so it asks."""
    for reading in sorted(_readings(text)):
        for kind, pattern in _KINDS.items():
            if pattern.search(reading):
                return kind
        if _SENT.search(reading):
            return "code"
        words = set(re.split(r"[\W_]+", reading))
        for kind, named in _NAMED.items():
            if named & words and (of_field or _ASKING.search(reading)):
                return kind
    return ""

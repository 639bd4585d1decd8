"""Recognises questions that ask for a secret: a password, a code, a card, a key, a seed phrase.

An MCP server writes the question, so it is read as the user sees it: look-alike letters, signs for
letters and spaced letters are normalized. `secret_words.json` has words of about thirty languages,
by kind. `stems` are parts of words, so that endings do not matter. `words` are whole words, which
count in the name of a field or in a text that asks for something. In both, `_` is any separator of
two words or none, `*` any letters and `^` the beginning of a word. In doubt it refuses, because a
server can ask for secrets on its own page. Knows nothing about the protocol.
"""

import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from math import prod
from typing import Any, Final
from unicodedata import category, normalize

from taofold.bridges.mcp.client.elicited_form import option_names, options
from taofold.core.text import visible
from taofold.policy.redaction import is_named_secret


def _plain(text: str) -> str:
    return "".join([c for c in normalize("NFD", text) if category(c) != "Mn"])


_ASKING: Final = re.compile(_plain(
    r"\b(?:your|enter|type|paste|provide|give|send|tell|confirm|what\s+is|log\s?in|sign\s?in|dein\w*|ihre?n?|"
    r"eingeben|gib|geben|votre|vos|ton|ta|entrez|saisi\w*|tu|su|tus|sus|introdu\w*|escrib\w*|seu|sua|"
    r"digite|insira|tuo|tua|inserisci|je|uw|voer|din|ditt|ange|twoj\w*|podaj|вве\w*|ваш\w*|твой|"
    r"zadej\w*|vloz\w*|vas\w{0,4}|wpisz\w*|panst\w*|adja|add\s+meg|irja\w*|jusu|iveskit\w*|ivesk\w*|"
    r"gir\w*|yazin\w*|unesit\w*|введ\w*|ваш\w*)\b|입력|알려|入力|教えて|输入|輸入|请|請"
))  # fmt: skip
_PASTED: Final = re.compile(_plain(
    r"paste|\bcontents\b|\bcopy\b|\bdump\b|output of|\bcat\b|upload|einfug|fuge\b|inhalt|kopier|"
    r"coll(?:ez|er)\b|contenu|\bpega|\bcopi[ae]|contenid|\bcol(?:e|ar)\b|conteud|incoll|contenut|plak|inhoud|klistra|"
    r"innehall|wklej|zawartosc|vloz|obsah|illessz|tartalm|iklij|turini|yapistir|icerig|встав|скопир|"
    r"содержим|붙여|내용|貼|内容|粘贴"
))  # fmt: skip
"""Matches requests for existing text, such as the contents of a file."""
_PRIVATE: Final = re.compile(
    r"(?<![\w/.])\.[a-z][\w.\-]+|~/|/etc/|/root/|/home/|\w*(?:config|konfig|configur)\w*|\bcfg\b|\bconf\b|"
    r"\w+rc\b|\b(?:print)?env\b|environment\s+variab|umgebungsvariab|variables\s+d.env|variables\s+de\s+ent|"
    r"histor[yi]|key_?chain|key_?store|wallet|\.(?:pem|key|p12|pfx|jks|kdbx|ovpn|ppk|asc|gpg)\b"
)
"""Matches names of files with credentials: dotfiles, configuration, environments, keys."""
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
"""Matches a code that was sent to the user."""
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
_APART: Final = re.compile(r"(?<![^\W_])(?:[^\W_][\W_]{1,3}){2,}[^\W_](?![^\W_])")
_HYPHEN: Final = re.compile(r"[-\u2010-\u2015]\s*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _pattern(stems: Iterable[str]) -> str:
    return "|".join([
        re.escape(_plain(stem))
        .replace("_", r"[\W_]*")
        .replace(r"\*", r"\w*")
        .replace(r"\^", _START)
        for stem in stems
    ])  # fmt: skip


_LISTS: Final[Mapping[str, Mapping[str, list[str]]]] = json.loads(
    files("taofold.bridges.mcp.client").joinpath("secret_words.json").read_text("utf-8")
)
_START: Final = r"(?<![^\W_])"
_END: Final = r"(?![^\W_])"
_FILE: Final = "file with credentials"
_KINDS: Final = {kind: re.compile(_pattern(lists["stems"])) for kind, lists in _LISTS.items()}
_NAMED: Final = {
    kind: re.compile(f"{_START}(?:{_pattern(lists['words'])}){_END}")
    for kind, lists in _LISTS.items()
}
_LIKE_A_SECRET: Final = "x" * 12
_FEW: Final = 250
"""Fewer combinations than a PIN or a card's check digits."""
_MANY: Final = 10**12
"""More combinations than an honest form of choices has."""


_READ: Final = 4000
"""Maximum characters of a text of the form."""


def secret_asked(message: str, fields: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the kind of secret that a form asks for; "" if none.

    Args:
        message: The text above the form.
        fields: The fields of a `plain_form`, by name.
    """
    texts = [message, *[text for rules in fields.values() for text in _texts(rules)]]
    if max(map(len, texts)) > _READ:
        return f"something, in a text of more than {_READ} characters"
    asking = fields if _spells(fields.values()) else {
        name: rules for name, rules in fields.items() if not _answers(rules)
    }  # fmt: skip
    if not asking:  # a form of choices and checkboxes reveals no secret
        return ""
    for name, rules in asking.items():
        if rules.get("format") == "password":
            return "password"
        title, *prose = _texts(rules)
        kind = _first([_in_name(name), _in_name(title)])
        kind = kind or _first([_in_prose(text, of_field=True) for text in (title, *prose)])
        if kind:
            return kind
    # One secret may be split over several fields (`pass` and `word`) or named in a text beside
    # them.
    several = [[*asking], [_texts(rules)[0] for rules in asking.values()]]
    joined = [_in_name("".join(names)) for names in several if len(names) > 1]
    beside = [(text, rules) for rules in fields.values() for text in _texts(rules)]
    prose = [_in_prose(text, may_ask=rules["type"] != "integer") for text, rules in beside]
    whole = "\n".join([message, *[text for text, _ in beside], *fields])
    return _first([*joined, _in_prose(message), *prose, _pasted(whole)])


def _texts(rules: Mapping[str, Any]) -> list[str]:
    """Returns the visible texts of a field: its title, then the rest."""
    titles = [str(rules.get(key, "")) for key in ("title", "description", "default")]
    # An option of one or two words is a name, such as `1Password`.
    return [*titles, *[name for name in option_names(rules) if name.count(" ") > 1]]


def _spells(fields: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether the choices of a form have enough combinations to spell a secret."""
    counts = [(_answers(rules), _is_short(rules)) for rules in fields]
    short = prod([count for count, is_short in counts if count and is_short])
    return short > _FEW or prod([count for count, _ in counts if count]) > _MANY


def _is_short(rules: Mapping[str, Any]) -> bool:
    """Returns whether each answer is a number or one or two letters."""
    return rules["type"] == "integer" or all([len(str(each)) <= 2 for each in options(rules)])


def _answers(rules: Mapping[str, Any]) -> int:
    """Returns the number of possible answers of a field; 0 if it is not counted."""
    kind, values = rules["type"], options(rules)
    if kind == "boolean":
        return 1  # booleans cannot spell a secret
    if kind == "array":
        # A list of short items is ordered and can spell; a list of words is a set.
        return int((len(values) if _is_short(rules) else 2) ** min(len(values), 64))
    least, most = rules.get("minimum"), rules.get("maximum")
    if values or kind != "integer" or not isinstance(least, int) or not isinstance(most, int):
        return len(values)
    return max(most - least + 1, 0)


def _first(kinds: Iterable[str]) -> str:
    return next(filter(None, kinds), "")


def _readings(text: str) -> set[str]:
    """Returns the readings of the text, in lower case."""
    seen = "".join([c for c in normalize("NFKC", _squared(text)) if visible(c) == c])
    readings: set[str] = set()
    # `2FA` is one word, `yourPin` two.
    for words in (seen, _HUMP.sub(" ", seen), _HYPHEN.sub("", seen)):
        words = _plain(words).casefold()
        words = _APART.sub(lambda apart: re.sub(r"[\W_]", "", apart[0]), words)
        latin = words.translate(_ALIKE)
        readings |= {words, latin, *[latin.translate(signs) for signs in _SIGNS]}
    return readings


def _squared(text: str) -> str:
    """Replaces letters in circles and squares, which Unicode normalization keeps."""

    def plain(match: re.Match[str]) -> str:
        return chr(ord("a") + (ord(match[0]) - 0x1F130) % 32 % 26)

    return re.sub("[\U0001f150-\U0001f169\U0001f170-\U0001f189]", plain, text)


def _in_name(name: str) -> str:
    """Returns the kind of secret that a field's name asks for."""
    # The redactor's rules for names, tested with a value that looks like a secret.
    if is_named_secret(name.replace("-", "_"), _LIKE_A_SECRET):
        return "secret"
    for reading in sorted(_readings(name)):
        joined = re.sub(r"[\W_]+", "", reading)
        for kind, pattern in _KINDS.items():
            if any([p.search(text) for p in (pattern, _NAMED[kind]) for text in (reading, joined)]):
                return kind
    return ""


def _in_prose(text: str, *, of_field: bool = False, may_ask: bool = True) -> str:
    """Returns the kind of secret that a text asks for.

    Args:
        text: The visible text.
        of_field: True for the text of a field that accepts a secret.
        may_ask: False for a small number, whose text denies being a PIN as often as it asks for
            one.
    """
    for reading in sorted(_readings(text)):
        for kind, pattern in _KINDS.items():
            if kind != _FILE and pattern.search(reading):
                return kind
        if _SENT.search(reading):
            return "code"
        for kind, named in _NAMED.items():
            asks = of_field or (may_ask and _ASKING.search(reading))
            if asks and named.search(reading):
                return kind
    return ""


def _pasted(text: str) -> str:
    """Returns `_FILE` if the text asks for the contents of a file with credentials."""
    for reading in _readings(text):
        named = _PRIVATE.search(reading) or _KINDS[_FILE].search(reading)
        if named and _PASTED.search(reading):
            return _FILE
    return ""

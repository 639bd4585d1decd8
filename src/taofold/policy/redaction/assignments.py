"""Secrets that their names suggest: `password=`, `"apiKey": "…"`, `--token …`.

Recognises names and values in source code, environment listings, JSON, YAML, XML, headers,
addresses and command lines. `says` rates a name, and the other functions decide whether a value
with such a name looks like a secret. All of it is a guess. Pure, and linear in the length of the
text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from functools import lru_cache
from math import log2
from typing import Final, NamedTuple
from unicodedata import normalize

from taofold.core.late_patterns import late
from taofold.policy.redaction.tokens import Span

LONGEST: Final = 128
"""Maximum length of a name in characters; longer ones are ignored."""
STEMS: Final = (
    "pass",
    "pwd",
    "pw",
    "secret",
    "token",
    "key",
    "cred",
    "auth",
    "cookie",
    "session",
    "pat",
    "dsn",
    "jwt",
    "otp",
    "sid",
    "connstr",
    "conn_str",
    "connectionstr",
    "connection_str",
)
"""Every rated name contains one of these, in any case."""


class Says(IntEnum):
    """The probability that a name denotes a secret."""

    NOTHING = 0
    PERHAPS = 1
    """`key`, `sessionId`: a value that looks random is secret."""
    LIKELY = 2
    """`token`: any value is secret unless it is plainly a word."""
    SURELY = 3
    """`password`, `apiKey`: any value is secret except references, types and labels."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS: Final = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SURE: Final = _words(
    """
    password passwords passwd passphrase passcode passwort pwd pw pass secret secrets
    credential credentials creds cred apikey accesskey secretkey privatekey authkey authtoken
    accesstoken masterkey encryptionkey signingkey apitoken apisecret clientsecret appsecret
    appkey sharedkey accountkey functionkey hostkey licensekey userpass userpwd
    """
)
_KEYS: Final = _words(
    """
    api access secret private auth signing encryption encrypt crypt cipher master account app
    application consumer client license shared service deploy subscription integration admin
    write ingest webhook function hmac aes rsa ssh pgp gpg jwt session root
    """
)
"""Words that make a `key` a secret one."""
_TOKENS: Final = _words(
    """
    token tokens pat jwt
    """
)
_STRONG: Final = _SURE | _TOKENS
_SURE_TOKENS: Final = _words(
    """
    access auth refresh bearer api bot deploy personal private oauth secret security client
    """
)
_SURE_TOKEN: Final = late(r"(?:access|auth|api|refresh|bearer|bot)token\Z")
_WEAK: Final = _words(
    """
    key keys auth authorization cookie session sid dsn otp bearer authentication
    """
)
_STILL: Final = _words(
    """
    value string str text plain plaintext raw default old new current confirm confirmation
    again prod production dev test staging stage live base b64 base64 env secure super real
    main primary secondary backup v
    """
)
"""Suffixes that do not change the rating: `password_prod`, `token_2`."""
_NOT: Final = _words(
    """
    id ids name names field fields path paths file files filename folder dir directory url urls
    uri type types length len size count limit limits policy policies regex pattern label hint
    prompt placeholder error errors message messages required require validator validation
    reset manager provider helper form input class usage index expiry expires expiration
    expired expire ttl scope scopes endpoint header headers param params ref reference arn
    version alias format stats budget budgets mode model info hash hashed hasher strength
    changed change date time at on in by algorithm alg code codes event events handler callback
    function fn func state status store storage cache map dict set list array prefix suffix
    separator delimiter symbol kind role user username email host port present exists enabled
    disabled valid invalid check checker verify verified verification rule rules schema spec
    column table attr attribute property props generator factory service response request
    result results generate create update delete get print printer press pressed down up
    binding bindings board word words frame point pair pairs ring usages
    """
)
"""Suffixes that make the name denote something else: `password_field`, `token_count`."""
_PLAIN_KEYS: Final = _words(
    """
    primary foreign public pub cache sort partition row hash range dict map lookup group unique
    natural composite idx index bucket column object arrow hot short shortcut enter return
    escape tab ctrl control shift alt meta last first next previous prev item list parent child
    react translation i18n message msg s3 json yaml config attribute property field routing
    order by schema data event metric label tag option param query form state context cookie
    """
)
_PLAIN_TOKENS: Final = _words(
    """
    page next continuation continue continued sync start end stop bos eos pad unk mask cls sep
    csrf xsrf special max min total num input output prompt completion cached reasoning lexer
    parser punctuation cancellation cancel abort whitespace identifier operator keyword comment
    resume paging nextpage cursor delimiter injection resource design first last prev previous
    current peek expected unexpected string number literal bad invalid illegal
    """
)
# Excludes monkey, turkey, hotkey, donkey, jockey, hockey, whiskey, shortkey.
_FLAT_KEY: Final = late(r"(?<!mon)(?<!tur)(?<!hot)(?<!don)(?<!joc)(?<!hoc)(?<!whis)(?<!short)key\Z")
_ENDINGS: Final = late(
    r"(?:password|passwd|passphrase|secrete?|(?:api|access|secret|private|auth|storage|account|shared|master|signing|encryption|function)key|credentials?)\Z"
)
_TURKISH: Final = {0x130: "I", 0x131: "i"}
"""A capital i with a dot and a small one without, which NFKC does not change."""
_CONNECTION: Final = late(r"(?i)conn(?:ection)?[-_. ]?str(?:ing)?s?\Z")
_TOKEN_ENDING: Final = late(r"(?<!de)(?<!to)token\Z")


class _Noun(NamedTuple):
    """The rating by a name's last word, with exceptions by the word before it."""

    says: Says
    before: Mapping[str, Says] = {}


_TOKEN_BEFORE: Final = {
    **dict.fromkeys(_SURE_TOKENS, Says.SURELY),
    **dict.fromkeys(_PLAIN_TOKENS, Says.NOTHING),
}
_TOKEN: Final = _Noun(Says.LIKELY, _TOKEN_BEFORE)
_KEY_BEFORE: Final = dict.fromkeys(_PLAIN_KEYS, Says.NOTHING)
_NOUNS: Final[Mapping[str, _Noun]] = {
    **dict.fromkeys(_NOT, _Noun(Says.NOTHING)),
    **dict.fromkeys(_WEAK, _Noun(Says.PERHAPS)),
    **dict.fromkeys(_TOKENS, _TOKEN),
    "tokens": _Noun(Says.NOTHING),
    "key": _Noun(Says.PERHAPS, {**_KEY_BEFORE, **dict.fromkeys(_KEYS, Says.SURELY)}),
    "keys": _Noun(Says.PERHAPS, {**_KEY_BEFORE, **dict.fromkeys(_KEYS, Says.PERHAPS)}),
    **dict.fromkeys(_SURE, _Noun(Says.SURELY)),
    "pass": _Noun(Says.SURELY, dict.fromkeys(("by", "first", "second"), Says.NOTHING)),
    "pw": _Noun(Says.SURELY, {"": Says.NOTHING}),
}
_NOUNS_BY_ENDING: Final = (
    (_ENDINGS, _Noun(Says.SURELY)),
    (_SURE_TOKEN, _Noun(Says.SURELY, dict.fromkeys(_PLAIN_TOKENS, Says.NOTHING))),
    (_TOKEN_ENDING, _TOKEN),
    (_FLAT_KEY, _Noun(Says.PERHAPS)),
)
"""For compound words that are not in the list; the first match applies."""
_DO: Final = late(r"\b(?:tests|checks|gates|cases|builds|they|all|to|must|should) \Z")
"""Before a `pass` that is a verb: "until all tests pass: see below" names no secret."""


@lru_cache(maxsize=4096)
def says(name: str) -> Says:
    """Returns the rating of `name`."""
    if len(name) > LONGEST:
        return Says.NOTHING
    words = _words_of(name)
    # Public keys and tokens are meant to be seen.
    if not words or "public" in words:
        return Says.NOTHING

    before, last = ["", *words][-2:]
    noun = _NOUNS.get(last) or next(
        (noun for ending, noun in _NOUNS_BY_ENDING if ending.search(last)), None
    )
    if noun is not None:
        return noun.before.get(before, noun.says)
    strong = any(word in _STRONG or _ENDINGS.search(word) for word in words)
    return Says.PERHAPS if strong or (before == "key" and "api" in words) else Says.NOTHING


def _words_of(name: str) -> list[str]:
    """Returns the words of a name in lower case; the last one is its subject."""
    if not name.isascii():
        # Lookalike and wide letters would hide a name from the list of words.
        name = normalize("NFKC", name).translate(_TURKISH)  # a long s, a wide letter
    # `connection` and `string` are harmless alone; together they are the address of a store.
    words = [word.lower() for word in _WORDS.findall(_CONNECTION.sub("dsn", name))]
    # From the end: in English the subject is last, before its number or stage.
    while words and (words[-1] in _STILL or words[-1].isdigit()):
        words.pop()
    return words


SHORTEST: Final = 6
"""Minimum length in characters of a secret that only its name suggests."""
_RANDOM: Final = 16
"""Minimum length of a random-looking value under a weak name."""
_ENTROPY: Final = 2.8
"""Minimum bits per character of a random value; 32 random hex digits have 3.3 or more."""
_DISTINCT: Final = 3
"""Minimum number of different characters; fewer are a placeholder."""
_CHANGES: Final = 3
"""Minimum changes between letters and digits, or between cases, in a random-looking value."""


class ValueForm(Enum):
    """The notation of a value."""

    QUOTED = "quoted"
    BARE = "bare"
    """`name = value`, `name: value`, in any language."""
    LISTED = "listed"
    """`NAME=value`, `?name=value`, `<name>value</name>`: rarely source code."""
    DATA = "data"
    """A member of an object: never a piece of source code."""


_REFERENCE: Final = late(
    r"""
      \$[{(]{1,2}\s*[A-Za-z_./<~].* | %[A-Za-z_]+% | %\(\w+\).* | %<[\w ]+>.* | %[sdrqv]
    | .{0,8}\{\{\s*[\w.$@|()'"\s:-]+\}\}.* | [\#@]\{[^{}]*\}.*              # of templates
    | @\w+@ | __\w+__ | env:\w+ | \.{3}.* | \w{0,8}\.{3} | \\[nrt].* | \[redacted.* | \*{3}.*
    | ![A-Z]?[a-z_]{2,15}(?:[\s.(\[{].*)?                                   # of YAML
    | (?i:your)[-_ ][\w\-. ]* | (?i:my)[-_ ][A-Za-z\-_ ]{0,24}
    | (?i:change[-_]?me.{0,8} | replace[-_]?me | example | dummy | redacted | placeholder
        | required | optional | undefined | string | number | boolean | object | integer
        | nullable | unknown | missing | invalid | incorrect | hidden | prompt | default
        | disabled | enabled | expired)
    """,
    re.VERBOSE | re.DOTALL,
)
"""References to a secret, and values that state its absence."""
_VARIABLE: Final = late(r"[$*&](?P<name>[A-Za-z_][\w-]*)(?:[/:.\[(>?-].*)?", re.DOTALL)
"""A variable in a shell, PHP, YAML or C."""
_BRACED: Final = late(r"\{(?P<name>[\w.()\[\]:!'\"-]+)(?:\}|\Z)")
_ANGLED: Final = late(r"<(?P<name>[\w \t.,:/|'-]*)>?")
_CODE: Final = late(
    r"""
    (?:[!&*+|%$@-]|\.{1,3}|[(\[{<]+)*+                  # in front of a name
    (?:[A-Za-z_$][\w$]*+ | [0-9][\w.]*+)
    (?: (?:\.|::|->|\?\.|!\.|!?[(\[{]|[<>=+*/%&|?:,-]|[)\]}]+)++
        (?:[!&*$-]?(?:[A-Za-z_$][\w$]*+|[0-9][\w.]*+))?+
    )*+
    [!?]?
    """,
    re.VERBOSE,
)
"""Names and numbers joined by operators: a path, a call, a type."""
_NAME_IN_CODE: Final = late(r"[\w$]+")
_IDENTIFIER: Final = late(
    r"\$?_*(?:[a-z]+(?:_+[a-z]+)*|[A-Z]+(?:_+[A-Z]+)*)_*[0-9]{0,3}_*"
    r"|[A-Za-z]?[a-z]{2,}(?:[A-Z][a-z]{2,})+[0-9]{0,3}"
    r"|[a-z]{1,8}(?:2|8|16|32|64|85|256|512)_?[a-z]{2,}(?:_[a-z]+)*"
)
"""`user_pass`, `USER_PASS`, `SecretStr`, `b64encode`."""
_SHORT_NAME: Final = late(r"[A-Za-z_]+[0-9]?|[0-9]+")
_LONGEST_SHORT: Final = 3
_THOUGHT_OF: Final = late(
    r"[A-Z][a-z]+[0-9]+[^\w(\[{]*|[a-z]+[0-9]{3,}[^\w(\[{]*|[A-Z][A-Za-z]+[!?*$%&]+|\w+[*$%&]+"
)
"""A typical human password: a word, its number, a sign."""
_CLOSING: Final = {")": "(", "]": "[", "}": "{"}
_DRAWN: Final = late(
    r"(?=.*[A-Za-z])(?=.{0,11}[0-9].|.{12,}[0-9])[^\s]{8,}|(?=.*[a-z][A-Z].*[a-z][A-Z])[^\s]{12,}"
)
"""A digit, not as the last of few characters; or alternating cases."""
_PATH: Final = late(r"(?:[.~]{0,2}/|[A-Za-z]:\\|https?://|file:)[^\s]*|[\w.\-]+/[\w.\-/]*\.\w{1,5}")
_CALL: Final = late(r"[A-Za-z_][\w.:]{2,}[(\[].*", re.DOTALL)
_VOWEL: Final = late(r"[aeiouyAEIOUY]")
_PIECES: Final = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN: Final = late(r"[A-Za-z][A-Za-z_\-.: ]*")
_NAMED: Final = late(r"\w+(?:[\-_. :/]+\w+)+")
_SENTENCE: Final = late(r"[A-Z][a-z]+(?:'[a-z]+)?[ ,.!?].*|.*[a-z][.!?:,]\s.*|.*[.!?:]", re.DOTALL)


def secret(value: str, name: Says, form: ValueForm) -> bool:
    """Returns whether `value`, written in `form`, is a secret, given the rating of its name."""
    value = value.strip()
    # The order is from cheap to expensive, and from excluding to proving checks.
    if len(value) < SHORTEST:
        return False
    # Before the templates: a password like `a{b(c}d)` would match one.
    if name >= Says.LIKELY and _crossed(value):
        return True
    if referring(value):
        return False
    listed = form in (ValueForm.LISTED, ValueForm.DATA)
    if not listed and len(set(value)) < _DISTINCT:
        return False
    if _is_path(value) or _program(value, name, form):
        return False
    if name is Says.PERHAPS:
        return random(value)
    if name is Says.LIKELY:
        return random(value) or looks_random(value)
    return listed or not _label(value)


def referring(value: str) -> bool:
    """Returns whether `value` is a reference or placeholder: `${TOKEN}`, `<key>`, `changeme`."""
    value = value.strip()
    if _REFERENCE.fullmatch(value) is not None:
        return True
    for shape in (_VARIABLE, _ANGLED):
        match = shape.fullmatch(value)
        if match is not None:
            return all(map(_is_name, _NAME_IN_CODE.findall(match["name"])))
    return _is_template(value)


def _is_template(value: str) -> bool:
    """Returns whether `value` has a name in braces: `{token}`, `Bearer {self.token}`."""
    if not all(map(_is_name, _NAME_IN_CODE.findall(value))):
        return False
    for match in _BRACED.finditer(value):
        names = _NAME_IN_CODE.findall(match["name"])
        # A letter in braces may occur in a password; a format has it at one of its ends.
        alone = match.start() == 0 or match.end() == len(value)
        if all(map(_is_name, names)) and (alone or len(match["name"]) > 1):
            return True
    return False


def _is_path(value: str) -> bool:
    """Returns whether `value` is a file path or an address."""
    if _PATH.fullmatch(value) is None:
        return False
    # Base64 has slashes too, also as its first character.
    return "://" in value or not any(map(random, re.split(r"[/\\]", value)))


def _is_name(name: str) -> bool:
    """Returns whether `name` looks like an identifier."""
    if len(name) <= _LONGEST_SHORT:
        return _SHORT_NAME.fullmatch(name) is not None
    return _IDENTIFIER.fullmatch(name) is not None or is_made_of_words(name)


def _crossed(value: str) -> bool:
    """Returns whether the brackets in `value` cross, which excludes code and templates."""
    opened: list[str] = []
    for character in value:
        if character in "([{":
            opened.append(character)
        elif character in _CLOSING and opened and opened.pop() != _CLOSING[character]:
            return True
    return False


def _program(value: str, name: Says, form: ValueForm) -> bool:
    """Returns whether `value` is plainly source code: a name, a call, a type."""
    if form is ValueForm.BARE:
        if value.isalnum() and not value.isalpha():
            if name is not Says.SURELY:
                return is_made_of_words(value)
            named = says(value) is not Says.NOTHING and is_made_of_words(value)
            return named and _THOUGHT_OF.fullmatch(value) is None
        return _is_code(value)
    return form is ValueForm.LISTED and _CALL.fullmatch(value) is not None and _is_code(value)


def _is_code(value: str) -> bool:
    """Returns whether `value` consists of names and numbers joined by operators."""
    if _CODE.fullmatch(value) is None:
        return False
    if _THOUGHT_OF.fullmatch(value) is not None:
        return False
    return all(map(_is_name, _NAME_IN_CODE.findall(value)))


def looks_random(value: str) -> bool:
    """Returns whether `value` has digits or cases unlike those of words."""
    if _DRAWN.fullmatch(value) is None:
        return value.isdigit() and len(value) >= _RANDOM - 1
    return len(value) >= _RANDOM or not is_made_of_words(value)


def random(value: str) -> bool:
    """Returns whether `value` looks machine-generated."""
    if len(value) < _RANDOM or any(character.isspace() for character in value):
        return False
    changes = sum(1 for _ in _CHANGE.finditer(value))
    return changes >= _CHANGES and _entropy(value) >= _ENTROPY and not is_made_of_words(value)


_CHANGE: Final = late(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])")


def is_made_of_words(value: str) -> bool:
    """Returns whether `value` is made of words, like identifiers."""
    pieces = _PIECES.findall(value)
    letters = [piece for piece in pieces if not piece.isdigit()]
    digits = len(pieces) - len(letters)
    long = sum(len(piece) for piece in letters if len(piece) >= 3 and _VOWEL.search(piece))
    return (
        bool(letters)
        and digits <= max(1, len(letters) // 3)
        and long >= 0.7 * sum(map(len, pieces))
    )


def _entropy(value: str) -> float:
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def _label(value: str) -> bool:
    """Returns whether `value` is the label of a secret in a form, a message or code."""
    if " " in value and _SENTENCE.fullmatch(value):
        return True
    if _PLAIN.fullmatch(value) is None:
        return _NAMED.fullmatch(value) is not None and is_made_of_words(value)
    if value.isalpha() and value.islower():
        return value in _EXACT
    if " " in value:
        return any(says(word) is not Says.NOTHING for word in value.split())
    return says(value) is not Says.NOTHING or is_made_of_words(value)


_EXACT: Final = frozenset(
    (
        "password",
        "passwd",
        "passphrase",
        "secret",
        "secrets",
        "token",
        "apikey",
        "accesskey",
        "secretkey",
        "privatekey",
        "accesstoken",
        "credentials",
        "credential",
        "username",
        "header",
        "cookie",
        "bearer",
    )
)


_MOST: Final = 2048
"""Maximum length of a value in characters."""
_NESTED: Final = 8
"""Maximum number of nested names whose values may have that length; further ones get `_BRIEF`."""
_BRIEF: Final = 64
_RIGHT: Final = late(r"[\w.\-]*")
_OPERATOR: Final = r"(?:=>|->|={1,3}|!={1,2}|:{1,3}=|[?|+.]{1,2}=|:(?!:))"
_SEPARATED: Final = late(
    rf"""
    (?P<end>\\?["'`]?(?:[\])]|\[\d{{0,4}}\])?)
    (?: :\ ?[A-Za-z_][\w.:<>\[\]|?]{{0,31}}(?:\ \|\ \w{{1,24}}){{0,2}}\ =\s  # a type between
      | \s{{0,8}}{_OPERATOR}\s{{0,24}}
      | \ ?:?\ ?[A-Za-z_][\w.:<>\[\]|?]{{0,31}}\ ?:?=\s?
      | (?P<comma>\s{{0,4}},\s{{0,8}})(?=\\?["'`])
      | [ ]-[ ](?=["'])
      | >\s{{0,32}}(?P<element>)
      | (?P<space>[ \t]{{1,4}})(?:is[ \t])?
    )
    """,
    re.VERBOSE,
)
_COLON: Final = late(r"""["'`]?: ?(?=[A-Za-z_])""")
_PAIRED: Final = late(
    r"""\\?["']?\s{0,8}[,;]?\s{0,24}(?:[#\w.:-]{0,16}\s)?\\?["']?(?i:[a-z_]{0,16}value|val|default|content)\\?["']?\s{0,4}(?::|=>?)\s{0,8}"""
)
"""The text between a name and its value if both are values: `"name": "TOKEN", "value": "…"`."""
_BARE: Final = late(
    r"""(?:[^\s"'`;,&<>()\[\]{}\\|]|[;,&()\[\]{}|](?=[^\s"';,)\]}<])(?![\w.\-]{1,64}[=:]))+"""
)
_TO_SPACE: Final = late(r"""[()\[\]{}][^\s"'`;,&<>\\]+""")
_LISTED: Final = late(r"""(?:[^\s"'`;,&<>\\]|[;,&<>](?![\w.\-]{1,64}=|\s|["']|\Z|/))+""")
_ELEMENT: Final = late(r"[^<>\s][^<>]{0,2048}(?=</)")
_ODD: Final = late(r"[^A-Za-z\s.,:;?_-]")
_BLOCK: Final = late(r"[|>][+-]?[0-9]?[ \t]*\n[ \t]+(?=\S)")


def assigned_secrets(text: str, lower: str) -> Iterator[Span]:
    """Yields spans of secret values under rated names, unordered; `lower`: `text` lowered."""
    places: list[int] = []
    for stem in STEMS:
        at = lower.find(stem)
        while at >= 0:
            places.append(at)
            at = lower.find(stem, at + len(stem))

    # All stems in one sorted list: names are read from left to right, each character once.
    end = reach = inside = 0
    for position in sorted(places):
        if position < end:
            continue
        start, least = position, max(end, position - LONGEST)
        while start > least and (text[start - 1] in "_-." or text[start - 1].isalnum()):
            start -= 1
        right = _RIGHT.match(text, position)
        assert right is not None
        end = right.end()
        # From the stem outwards in both directions: `my_api_key_2` is found at `key`.
        name = text[start:end].strip("-.")
        says_ = says(name)
        if says_ is Says.NOTHING:
            continue
        if name == "pass" and _DO.search(text, max(0, start - 10), start):
            continue
        # A value may hold names with values of their own. Each character is read a bounded number
        # of times.
        inside = inside + 1 if start < reach else 0
        most = _MOST if inside < _NESTED else _BRIEF
        span, read = _value(text, start, end, name, says_, most)
        reach = max(reach, read)
        if span is not None:
            yield span


def _value(
    text: str, start: int, end: int, name: str, says_: Says, most: int
) -> tuple[Span | None, int]:
    """Returns the span of a name's secret value or None, and the end of the text that was read."""
    reach = end
    for span, form in _candidates(text, start, end, name, most):
        reach = max(reach, span[1])
        if form is not None and secret(text[slice(*span)], says_, form):
            return span, reach
    return None, reach


def _candidates(
    text: str, start: int, end: int, name: str, most: int
) -> Iterator[tuple[Span, ValueForm | None]]:
    """Yields the possible values of a name with their form; None: it was read but is no value."""
    separated = _SEPARATED.match(text, end)
    if separated is not None:
        yield from _separated_values(text, start, separated, name, most)
        # `password: hunter22 = x`: the text read as a type may be the value itself.
        colon = _COLON.match(text, end)
        if colon is not None and colon.end() < separated.end():
            span = _read(text, colon.end(), False, most, element=False)
            if span is not None:
                yield span, ValueForm.BARE

    paired = _PAIRED.match(text, end)
    if paired is not None:
        span = _read(text, paired.end(), True, most, element=False)
        if span is not None:
            yield span, ValueForm.LISTED


def _separated_values(
    text: str, start: int, separated: re.Match[str], name: str, most: int
) -> Iterator[tuple[Span, ValueForm | None]]:
    """Yields the value after an operator, a blank or a tag; a bare one also with its brackets."""
    listed = _is_listed(text, start, separated, name)
    begin = separated.end()
    span = _read(text, begin, listed, most, element=separated["element"] is not None)
    if span is None:
        return
    loose = separated["comma"] is not None or separated["space"] is not None
    if loose and not _is_value(text, start, separated, name, span):
        yield span, None
    elif text[begin : span[0]].rstrip().endswith(("'", '"', "`")):
        yield span, ValueForm.QUOTED
    elif listed:
        yield span, ValueForm.LISTED
    else:
        longer = _with_brackets(text, span, most)
        if longer != span:
            yield longer, ValueForm.BARE
        yield span, ValueForm.BARE


def _with_brackets(text: str, span: Span, most: int) -> Span:
    """Returns `span`, extended if a closing bracket ended it: `a3[]x9`, `f(x).y`."""
    run = _TO_SPACE.match(text, span[1], span[0] + most)
    if run is None:
        return span
    end = run.end()
    while end > span[1] and text[end - 1] in ")]}>":
        end -= 1
    return span[0], end


def _is_value(text: str, start: int, separated: re.Match[str], name: str, span: Span) -> bool:
    """Returns whether text separated from its name only by a comma or a space is a value."""
    if separated["comma"] and not (separated["end"] and text[start - 1 : start] in "\"'"):
        return False
    if name.lower() == "pass" or text[span[0]] == "-":
        return False
    value = text[slice(*span)]
    if text[span[0] - 1] in "\"'`":
        return _ODD.search(value) is not None
    value = value.rstrip(".,:;?!")
    # A flag or an "is" means that a value follows, so anything but a word counts.
    if text.startswith("--", start) or separated.group().endswith(("is ", "is\t")):
        return _ODD.search(value) is not None or not _is_name(value)
    return len(_ODD.findall(value)) > 1


def _is_listed(text: str, start: int, separated: re.Match[str], name: str) -> bool:
    """Returns whether the name is in an environment, an address, a command line or an element."""
    if separated["element"] is not None:
        return True
    between = separated.group()
    before = text[start - 1 : start]
    if (before and before in "?&") or text[start : start + 2] == "--":
        return True
    return name.isupper() and between in ("=", ": ", ":")


def _read(text: str, at: int, listed: bool, most: int, *, element: bool) -> Span | None:
    """Returns the span of the value that begins at `at`."""
    if element:
        match = _ELEMENT.match(text, at)
        return match.span() if match else None
    block = _BLOCK.match(text, at)
    if block is not None:
        at = block.end()
    # Prefixes of string literals: b"", r"", u"", f"" in Python, @"" and $"" in C#.
    while text[at : at + 1] and text[at] in "bruf@$" and text[at + 1 : at + 2] in ('"', "'"):
        at += 1
    if text[at : at + 1] == "\\" and text[at + 1 : at + 2] in ('"', "'"):
        quote, at = text[at : at + 2], at + 2
        stop = text.find(quote, at, at + most)
        return (at, stop) if stop > at else _unended(text, at, most)
    quote = text[at : at + 1]
    if quote and quote in "\"'`":
        return _quoted(text, at + 1, quote, most)
    match = (_LISTED if listed else _BARE).match(text, at, at + most)
    return match.span() if match else None


def _quoted(text: str, at: int, quote: str, most: int) -> Span | None:
    stop = at
    while True:
        stop = text.find(quote, stop, at + most)
        if stop < 0:
            return _unended(text, at, most)
        # A quote after a backslash belongs to the value.
        if text[stop - 1] != "\\" or stop == at:
            break
        stop += 1
    line = text.find("\n", at, stop)
    stop = stop if line < 0 else line
    while at < stop and text[at] == " ":
        at += 1
    while at < stop and text[stop - 1] == " ":
        stop -= 1
    return at, stop


def _unended(text: str, at: int, most: int) -> Span | None:
    """Returns an unterminated quoted value: to the end of the line, or of a truncated text."""
    line = text.find("\n", at, at + most)
    if line >= 0:
        return at, line
    return (at, len(text)) if at < len(text) <= at + most else None

"""Which names say that what stands under them is secret: `DB_PASSWORD`, `apiKey`, `X-Auth-Token`.

Pure. Names come from texts of every kind, so they are read as words: of camelCase, snake_case,
kebab-case and dotted paths.
"""

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final
from unicodedata import normalize

LONGEST: Final = 128
"""Characters of a name; longer ones are none."""
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
)
"""Every name that says anything holds one of these, in whatever case."""


class Says(IntEnum):
    """How much a name says of its value."""

    NOTHING = 0
    PERHAPS = 1
    """`key`, `sessionId`: a value that looks random is secret."""
    LIKELY = 2
    """`token`: whatever is not plainly a word is."""
    SURELY = 3
    """`password`, `apiKey`: whatever is not plainly a reference, a type or a label is."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
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
"""What makes a `key` a secret one."""
_TOKENS: Final = _words(
    """
    token tokens pat jwt
    """
)
_SURE_TOKENS: Final = _words(
    """
    access auth refresh bearer api bot deploy personal private oauth secret security client
    """
)
_SURE_TOKEN: Final = re.compile(r"(?:access|auth|api|refresh|bearer|bot)token\Z")
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
"""Words behind the one that counts that change nothing: `password_prod`, `token_2`."""
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
"""Words behind it that make the name speak of something else: `password_field`, `token_count`."""
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
_FLAT_KEY: Final = re.compile(
    r"(?<!mon)(?<!tur)(?<!hot)(?<!don)(?<!joc)(?<!hoc)(?<!whis)(?<!short)key\Z"
)
_ENDINGS: Final = re.compile(
    r"(?:password|passwd|passphrase|secrete?|(?:api|access|secret|private|auth|storage|account|shared|master|signing|encryption|function)key|credentials?)\Z"
)
_TOKEN_ENDING: Final = re.compile(r"(?<!de)(?<!to)token\Z")


@lru_cache(maxsize=4096)
def says(name: str) -> Says:
    """What `name` says of its value."""
    if len(name) > LONGEST:
        return Says.NOTHING
    if not name.isascii():
        name = normalize("NFKC", name)  # a long s, a wide letter
    words = [word.lower() for word in _WORDS.findall(name)]
    while words and (words[-1] in _STILL or words[-1].isdigit()):
        words.pop()
    if not words:
        return Says.NOTHING
    if "public" in words:
        return Says.NOTHING
    if words == ["pw"]:
        return Says.NOTHING
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _SURE or (last not in _NOT and _ENDINGS.search(last)):
        return (
            Says.SURELY
            if last != "pass" or before not in ("by", "first", "second")
            else Says.NOTHING
        )
    if last in ("key", "keys") and before in _KEYS:
        return Says.SURELY if last == "key" else Says.PERHAPS
    if last in _TOKENS or _TOKEN_ENDING.search(last):
        if last == "tokens" or before in _PLAIN_TOKENS:
            return Says.NOTHING
        sure = before in _SURE_TOKENS or _SURE_TOKEN.search(last)
        return Says.SURELY if sure else Says.LIKELY
    if last in ("key", "keys"):
        return Says.NOTHING if before in _PLAIN_KEYS else Says.PERHAPS
    if last in _WEAK or (last not in _NOT and _FLAT_KEY.search(last)):
        return Says.PERHAPS
    if last == "string" and before == "connection":
        return Says.PERHAPS
    if last in _NOT:
        # `secret_id`, `session_id`, `key_id`: what looks random may well open something.
        return Says.NOTHING
    strong = any(word in _SURE or word in _TOKENS or _ENDINGS.search(word) for word in words)
    return Says.PERHAPS if strong or (before == "key" and "api" in words) else Says.NOTHING

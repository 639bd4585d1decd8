"""Authentication of requests: credentials, tokens, sessions, hosts and origins.

`Authenticator` takes the headers of a request and returns the `Caller`, or refuses. All requests
need credentials: a loopback address proves nothing, because an agent's command, another user and a
web page in the user's browser share it. Programs send a token. Browsers send the secret of a
session in a header that only the console's own page can set. The host must be known (DNS
rebinding), and foreign origins are refused. Cookies are not used: browsers share them between all
ports of a host.

`TokenStore`: a token is `tf_<id>_<secret>`; only its SHA-256 hash is stored, which is enough for
256 random bits. A revoked token is refused at once. If the file cannot be read, all tokens are
refused.

`LocalToken` is the secret of the principal `local`. With it a program on this machine proves that
it has the user's rights. It is outside every project, in a folder that file tools and sandboxed
commands cannot reach (`taofold.reserved_places`).

`Signin`: a browser sends a one-time link's code or a token, and gets the secret of a session, which
the page stores for its own host and port. A session is stored by the hash of its secret, so it
survives a restart, is valid at every server of the folder, and ends for all holders at sign-out. A
session from a token has the token's current rights.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Any, Final, TypeAlias

from starlette.datastructures import Headers

from taofold.clocks import clock
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.option_values import checked_names
from taofold.core.text import iso
from taofold.core.values import Principal
from taofold.network import is_loopback
from taofold.policy.roles import ROLES
from taofold.reserved_places import make_folder, state_folder
from taofold.server.endpoint import Problem
from taofold.shared_document import DocumentFormat, Shared, SharedDocument

# Names that the log uses for deciders and endings; no principal may have them.
_RESERVED: Final = frozenset({"local", "policy", "clock", "interrupted"})
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_TOKEN: Final = re.compile(r"tf_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Token:
    """One token, without its secret. Times are milliseconds since the epoch, 0 = never."""

    id: str
    digest: str
    principal: str
    roles: tuple[str, ...] = ()
    created_at: int = 0
    expires_at: int = 0
    revoked_at: int = 0

    def active(self, now: int) -> bool:
        """Returns whether the token is valid at `now`."""
        return not self.revoked_at and (not self.expires_at or now < self.expires_at)


Known: TypeAlias = Mapping[str, Token]
"""Tokens by their ids, the oldest first."""


def _token(entry: Any) -> Token:
    fields: dict[str, Any] = {**entry, "roles": tuple(entry["roles"])}
    return Token(**fields)


def _known(document: Any) -> Known:
    entries = document["tokens"] if is_object(document) else None
    if not is_array(entries):
        raise ValueError("it has no list of tokens")
    return {token.id: token for token in map(_token, entries)}


_TOKENS_FORM: Final = DocumentFormat[Known](
    {}, _known, lambda known: {"tokens": [asdict(token) for token in known.values()]}
)


class TokenStore:
    """The tokens in `path`, a file or a place in a database; None = no tokens."""

    def __init__(self, path: Path | Shared | None = None) -> None:
        self.path = path
        self._kept = SharedDocument(path, _TOKENS_FORM)

    def all(self) -> Sequence[Token]:
        """Returns all tokens, the oldest first.

        Raises:
            ConfigError: The file cannot be read.
        """
        return tuple(self._kept.value().values())

    def active(self) -> int:
        """Returns the number of valid tokens.

        Raises:
            ConfigError: The file cannot be read.
        """
        return sum(token.active(clock()) for token in self.all())

    @property
    def configured(self) -> bool:
        """True if there is a valid token. An unreadable file counts as one."""
        try:
            return self.active() > 0
        except ConfigError:
            # With a damaged file the server must not fall back to serving without tokens.
            return True

    def check(self, text: str) -> Token | None:
        """Returns the valid token for `text`, or None."""
        parts = _TOKEN.fullmatch(text)
        token = self.get(parts[1]) if parts is not None else None
        # In constant time, so that timing does not reveal how many characters match.
        if token is None or not hmac.compare_digest(token.digest, _digest(text)):
            return None
        return token

    def get(self, id_: str) -> Token | None:
        """Returns the valid token with this id, or None."""
        try:
            token = self._kept.value().get(id_)
        except ConfigError:
            return None
        return token if token is not None and token.active(clock()) else None

    def principal(self, token: Token) -> Principal:
        """Returns the token's principal with the token's roles."""
        return Principal(token.principal, token.roles)

    def current(self, principal: Principal) -> Principal:
        """Returns the principal with its current roles, but none above its recorded roles."""
        if principal.id == "local":
            return principal
        try:
            own = [token for token in self.all() if token.principal == principal.id]
        except ConfigError:
            own = []
        # A role that is not in the table of ranks grants nothing.
        most = max([ROLES.get(role, -1) for role in principal.roles], default=-1)
        roles = [role for token in own if token.active(clock()) for role in token.roles]
        allowed = dict.fromkeys([role for role in roles if ROLES.get(role, 1 << 30) <= most])
        return Principal(principal.id, tuple(allowed))

    def add(self, principal: str, roles: Sequence[str], *, seconds: float = 0.0) -> str:
        """Creates a token and returns it. It cannot be read again.

        Raises:
            ConfigError: The name is reserved, a role is unknown, or there is no file.
            LogError: The file cannot be written.
        """
        if not _NAME.fullmatch(principal) or principal in _RESERVED:
            raise ConfigError(
                f"{principal!r} cannot be a principal's name: use letters, digits and . _ @ -, "
                f"and none of {', '.join(sorted(_RESERVED))}"
            )
        unknown = [role for role in roles if role not in ROLES]
        if unknown:
            raise ConfigError(f"unknown role {unknown[0]!r}; there are {', '.join(ROLES)}")
        id_, now = token_hex(4), clock()
        text = f"tf_{id_}_{token_urlsafe(32)}"
        expires = now + round(seconds * 1000) if seconds else 0
        token = Token(id_, _digest(text), principal, tuple(roles), now, expires)
        self._change(lambda known: {**known, id_: token})
        return text

    def revoke(self, id_: str) -> Token:
        """Revokes a token.

        Raises:
            ConfigError: There is no such token.
            LogError: The file cannot be written.
        """

        def revoked(tokens: Known) -> Known:
            if id_ not in tokens:
                raise ConfigError(f"there is no token {id_!r}")
            token = tokens[id_]
            # Revoked tokens stay in the file for the list. A second call keeps the first time.
            return {**tokens, id_: replace(token, revoked_at=token.revoked_at or clock())}

        self._change(revoked)
        return self._kept.value()[id_]

    def _change(self, step: Callable[[Known], Known]) -> None:
        if self.path is None:
            raise ConfigError("there is no file for tokens")
        self._kept.change(step)


def token_row(token: Token) -> dict[str, Any]:
    """Returns the token's row for a list, without its secret."""
    times = {
        name: iso(at) if at else None
        for name, at in (
            ("created_at", token.created_at),
            ("expires_at", token.expires_at),
            ("revoked_at", token.revoked_at),
        )
    }
    return {"id": token.id, "principal": token.principal, "roles": list(token.roles), **times}


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


NAME: Final = "local-token.json"


def _local_secret(document: Any) -> str:
    token = document.get("token") if is_object(document) else None
    if not isinstance(token, str) or len(token) < 32:
        raise ValueError("it holds no token")
    return token


_LOCAL_FORM: Final = DocumentFormat[str]("", _local_secret, lambda token: {"token": token})


class LocalToken:
    """The token in the file `path`, created on first use; without `path` in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._kept = SharedDocument(path, _LOCAL_FORM)

    @classmethod
    def of_user(cls) -> "LocalToken":
        """Returns the local token of this process's user."""
        return cls(state_folder() / NAME)

    def value(self) -> str:
        """Returns the token. Creating it blocks. To replace it, delete the file.

        Raises:
            ConfigError: The file cannot be read, or other users can read it.
            LogError: The file cannot be written.
        """
        stored = self._kept.value()
        if stored:
            return stored
        if self.path is not None:
            make_folder(self.path.parent)
        # If two processes create it at once, both use the first one's token.
        self._kept.change(lambda token: token or f"tf_{token_hex(4)}_{token_urlsafe(32)}")
        return self._kept.value()

    def matches(self, text: str) -> bool:
        """Returns whether `text` is the token; False if there is none.

        Raises:
            ConfigError: The file cannot be read.
        """
        token = self._kept.value()
        return bool(token) and hmac.compare_digest(token.encode(), text.encode("utf-8", "replace"))


CODE_S: Final = 600
"""Seconds for which a one-time link is valid."""
SESSION_S: Final = 7 * 24 * 3600
MOST_SESSIONS: Final = 50
"""Maximum sessions of one token, or of links. One more ends the oldest."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser."""

    principal: Principal
    token: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A stored session: the token's id ("" = by link), and its end in milliseconds since the
    epoch.
    """

    token: str
    until: int


StoredSessions: TypeAlias = Mapping[str, StoredSession]


def _entries(document: Any) -> StoredSessions:
    if not is_object(document):
        raise ValueError("it has no sessions")
    return {
        digest: StoredSession(str(entry["token"]), int(entry["until"]))
        for digest, entry in document.items()
    }


_SESSIONS_FORM: Final = DocumentFormat[StoredSessions](
    {}, _entries, lambda entries: {digest: asdict(entry) for digest, entry in entries.items()}
)


class Signin:
    """The codes and sessions of one server. `path` stores the sessions; None = in memory."""

    def __init__(
        self, tokens: TokenStore, path: Path | Shared | None = None, now: Callable[[], int] = clock
    ) -> None:
        self._tokens, self._now = tokens, now
        self._kept = SharedDocument(path, _SESSIONS_FORM)
        self._codes: dict[str, int] = {}

    def active(self) -> int:
        """Returns the number of valid sessions.

        Raises:
            ConfigError: The sessions cannot be read.
        """
        now = self._now()
        return sum(
            now <= session.until and (not session.token or bool(self._tokens.get(session.token)))
            for session in self._kept.value().values()
        )

    def code(self) -> str:
        """Creates a one-time code for the principal `local`."""
        code = token_urlsafe(24)
        self._codes[_hash(code)] = self._now() + CODE_S * 1000
        return code

    def redeem(self, code: str) -> str | None:
        """Returns the secret of a new session for a code; None if the code is not valid. Blocks."""
        # Removed before the check, so that a code works only once, also with concurrent requests.
        expires = self._codes.pop(_hash(code), 0)
        return self._begin("") if self._now() < expires else None

    def begin(self, token: Token | None) -> str:
        """Returns the secret of a new session for a token; None = the local token. Blocks."""
        return self._begin("" if token is None else token.id)

    def read(self, secret: str) -> BrowserSession | None:
        """Returns the session of `secret`; None if it has ended or its token is revoked."""
        try:
            stored = self._kept.value().get(_hash(secret)) or self._elsewhere(_hash(secret))
        except ConfigError:
            # No session is valid if they cannot be read.
            return None
        if stored is None or self._now() > stored.until:
            return None
        if not stored.token:
            return BrowserSession(Principal())
        token = self._tokens.get(stored.token)
        if token is None:
            return None
        return BrowserSession(self._tokens.principal(token), stored.token)

    def _elsewhere(self, digest: str) -> StoredSession | None:
        """Returns a session that another server has just created."""
        # The database is read only for secrets that are unknown here.
        return self._kept.newest().get(digest) if isinstance(self._kept.path, Shared) else None

    def end(self, secret: str) -> None:
        """Ends the session at all servers. Blocks.

        Raises:
            ConfigError: The sessions cannot be read, so no session is valid anyway.
            LogError: They cannot be written, so the session stays valid.
        """
        gone = _hash(secret)
        self._kept.change(lambda known: {at: entry for at, entry in known.items() if at != gone})

    def _begin(self, token: str) -> str:
        secret, now = token_urlsafe(32), self._now()
        entry = StoredSession(token, now + SESSION_S * 1000)

        def begun(sessions: StoredSessions) -> StoredSessions:
            good = {at: session for at, session in sessions.items() if now <= session.until}
            digests = [
                at for at, session in good.items() if session.token == token
            ]  # the oldest first
            # `+ 1` makes room for the session that is added below.
            for at in digests[: max(0, len(digests) - MOST_SESSIONS + 1)]:
                del good[at]
            return {**good, _hash(secret): entry}

        self._kept.change(begun)
        return secret


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
SESSION: Final = "session"
"""The scheme of an `Authorization` header with a session's secret."""
_ONCE: Final = (
    "host",
    "origin",
    "sec-fetch-site",
    "authorization",
    "content-type",
    "idempotency-key",
    "last-event-id",
)
"""Headers that may occur only once. A proxy may use another of two values than this server."""
_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers of proxies. With one of them a local address does not identify the client."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated sender of a request."""

    principal: Principal


@dataclass(frozen=True, slots=True)
class Authenticator:
    """The authentication of one server. `hosts` and `origins` are allowed besides loopback."""

    tokens: TokenStore
    signin: Signin
    local: LocalToken
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a text, of which parts of host names would be allowed."""
        for name in ("hosts", "origins"):
            checked = checked_names(getattr(self, name), name)
            object.__setattr__(self, name, frozenset(checked))

    def check_address(self, headers: Headers, *, page: bool) -> None:
        """Refuses requests for another host, or from a foreign page.

        Raises:
            Problem: 400 or 403.
        """
        for name in _ONCE:
            if len(headers.getlist(name)) > 1:
                raise Problem(400, name.replace("-", "_"), f"a request has one header {name}")
        hosts = headers.getlist("host")
        if not hosts:
            raise Problem(400, "host", "a request names its host")
        # DNS rebinding: a foreign name that resolves to this machine arrives with its own Host.
        if not self.host_allowed(hosts[0]):
            raise Problem(403, "host", "this host is not served here")
        origins = headers.getlist("origin")
        if origins and not self.origin_allowed(origins[0], hosts[0]):
            raise Problem(403, "origin", "this origin may not use the server")
        # Browsers send this header and pages cannot forge it; programs do not send it.
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and not page and not origins:
            raise Problem(403, "origin", "a page of another site may not use the server")

    def host_allowed(self, host: str) -> bool:
        """Returns whether the host's name, without its port, is served here."""
        name = _name(host)
        return name is not None and (name in LOOPBACK or name in self.hosts)

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Returns whether the origin is the server itself or an allowed one."""
        if origin in self.origins:
            return True
        scheme, sign, rest = origin.partition("://")
        # The same host and port is the server's own page. `null` (sandboxed frames, files) has no
        # `://`.
        return bool(sign) and scheme in ("http", "https") and rest.lower() == host.lower()

    def authenticate(self, headers: Headers, client: str) -> Caller | None:
        """Returns the caller; None if there are no credentials.

        Raises:
            Problem: 401, the credentials are wrong.
        """
        if "authorization" not in headers:
            return None
        secret = self.session(headers)
        if secret is None:
            return self._bearer(headers["authorization"], near=_near(headers, client))
        session = self.signin.read(secret)
        # 401, so that a browser learns that it is signed out.
        if session is None:
            raise _unknown("your session has ended: sign in again")
        return Caller(session.principal)

    def accepts_local_token(self, token: str, headers: Headers, client: str) -> bool:
        """Returns whether `token` is the local token, sent from this machine."""
        return _near(headers, client) and self._is_local(token)

    def session(self, headers: Headers) -> str | None:
        """Returns the secret of the request's session, or None."""
        scheme, _, text = headers.get("authorization", "").partition(" ")
        return text.strip() if scheme.lower() == SESSION else None

    def _bearer(self, header: str, *, near: bool) -> Caller:
        scheme, _, text = header.partition(" ")
        token = text.strip() if scheme.lower() == "bearer" else ""
        # The local token has the user's rights and is accepted from this machine only.
        if near and self._is_local(token):
            return Caller(Principal())
        record = self.tokens.check(token)
        if record is None:
            raise _unknown("the token is not valid")
        return Caller(self.tokens.principal(record))

    def _is_local(self, token: str) -> bool:
        try:
            return self.local.matches(token)
        # An unreadable file matches nothing; named tokens still work.
        except ConfigError:
            return False


def _near(headers: Headers, client: str) -> bool:
    """Returns whether a program on this machine sent the request, without a proxy."""
    return is_loopback(client) and not any(name in headers for name in _PASSED_ON)


def _unknown(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def unauthorized() -> Problem:
    """Returns the refusal of a request without credentials."""
    return _unknown("sign in, or send a bearer token (`taofold serve tokens local` prints yours)")


def _name(host: str) -> str | None:
    """Returns the host without its port; None if it is malformed."""
    lowered = host.strip().lower()
    if lowered.startswith("["):
        name, bracket, port = lowered[1:].partition("]")
        # `[::1]x` is malformed: "x" is no number and is refused below.
        port = port.removeprefix(":") if port.startswith(":") else port and "x"
        return name if bracket and (not port or port.isdigit()) else None
    name, _, port = lowered.partition(":")
    if not name or (port and not port.isdigit()):
        return None
    # Resolvers treat `localhost.` as the same host.
    return name.rstrip(".")

"""Who sends a request: its credentials, and whether it may be sent here.

`Authenticator` takes the headers of a request and returns the `Caller`, or refuses. Nobody comes in
without credentials: an address proves nothing, for a command of an agent, another user and a web
page that the user happens to visit all share this machine's loopback. So a program brings a token,
a browser the secret of its session, in a header that only our own page can send; the host must be
one of ours (DNS rebinding), and a foreign origin gets nothing. No cookie is read or set: browsers
send cookies to every port of a host, and let every port set them.

`TokenStore`: a token is `tf_<id>_<secret>`; only the SHA-256 of it is stored, which is enough for
256 random bits. A revoked token is refused at once. A file that cannot be read lets nobody in.

`LocalToken`, the secret of the principal `local`: a program on this machine proves with it that it
runs with the user's rights. It lies outside every project, in a folder that no file tool and no
contained command reaches (`taofold.reserved_places`).

`Signin`: a browser brings a one-time link or a token, and gets the secret of a session, which our
page keeps for its own host and port. A session is kept by the hash of its secret, so it survives a
restart, holds for every server of the folder, and ends for everyone with the secret when its owner
signs out. A session that came from a token is worth what that token is worth today.
"""

import hashlib
import hmac
import ipaddress
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
from taofold.core.text import iso
from taofold.core.values import Principal
from taofold.policy.roles import ROLES
from taofold.reserved_places import make_folder, state_folder
from taofold.server.endpoint import Problem
from taofold.shared_document import DocumentFormat, Shared, SharedDocument

# Names that the log uses for who decided or why a run ended: nobody may pose as them.
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
        """May it be used?"""
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
    """The tokens in the file, or the place of a database, `path`; None = there are none."""

    def __init__(self, path: Path | Shared | None = None, now: Callable[[], int] = clock) -> None:
        self.path, self.now = path, now
        self._kept = SharedDocument(path, _TOKENS_FORM)

    def all(self) -> Sequence[Token]:
        """Every token, the oldest first.

        Raises:
            ConfigError: the file cannot be read.
        """
        return tuple(self._kept.value().values())

    def active(self) -> int:
        """Returns how many tokens may be used now.

        Raises:
            ConfigError: the file cannot be read.
        """
        return sum(token.active(self.now()) for token in self.all())

    @property
    def configured(self) -> bool:
        """Is there a token that may be used? A file that cannot be read counts as one."""
        try:
            return self.active() > 0
        except ConfigError:
            # A server whose file is damaged must not fall back to serving without tokens.
            return True

    def check(self, text: str) -> Token | None:
        """The token that `text` is, None if it is none that may be used."""
        parts = _TOKEN.fullmatch(text)
        token = self.get(parts[1]) if parts is not None else None
        # In constant time: how long it takes must not tell how many characters were right.
        if token is None or not hmac.compare_digest(token.digest, _digest(text)):
            return None
        return token

    def get(self, id_: str) -> Token | None:
        """The token with this id, None if it may not be used."""
        try:
            token = self._kept.value().get(id_)
        except ConfigError:
            return None
        return token if token is not None and token.active(self.now()) else None

    def principal(self, token: Token) -> Principal:
        """Who holds the token: with the roles that it says, no other's."""
        return Principal(token.principal, token.roles)

    def current(self, principal: Principal) -> Principal:
        """The principal with the roles that it has today, none above what it had then."""
        if principal.id == "local":
            return principal
        try:
            own = [token for token in self.all() if token.principal == principal.id]
        except ConfigError:
            own = []
        # Ranks, the higher the more. A role that is not
        # in the table grants nothing on either side.
        most = max([ROLES.get(role, -1) for role in principal.roles], default=-1)
        roles = [role for token in own if token.active(self.now()) for role in token.roles]
        allowed = dict.fromkeys([role for role in roles if ROLES.get(role, 1 << 30) <= most])
        return Principal(principal.id, tuple(allowed))

    def add(self, principal: str, roles: Sequence[str], *, seconds: float = 0.0) -> str:
        """Make a token and return it: the only time that it is seen.

        Raises:
            ConfigError: the name is taken by us, a role is unknown, or there is no file.
            LogError: the file cannot be written.
        """
        if not _NAME.fullmatch(principal) or principal in _RESERVED:
            raise ConfigError(
                f"{principal!r} cannot be a principal's name: letters, digits and . _ @ - "
                f"are, and not {', '.join(sorted(_RESERVED))}"
            )
        unknown = [role for role in roles if role not in ROLES]
        if unknown:
            raise ConfigError(f"unknown role {unknown[0]!r}; there are {', '.join(ROLES)}")
        id_, now = token_hex(4), self.now()
        text = f"tf_{id_}_{token_urlsafe(32)}"
        expires = now + round(seconds * 1000) if seconds else 0
        token = Token(id_, _digest(text), principal, tuple(roles), now, expires)
        self._change(lambda known: {**known, id_: token})
        return text

    def revoke(self, id_: str) -> Token:
        """Refuse the token from now on.

        Raises:
            ConfigError: there is no such token.
            LogError: the file cannot be written.
        """

        def revoked(tokens: Known) -> Known:
            if id_ not in tokens:
                raise ConfigError(f"there is no token {id_!r}")
            token = tokens[id_]
            # Revoked tokens stay in the file: the list says
            # when, and a second call keeps the first time.
            return {**tokens, id_: replace(token, revoked_at=token.revoked_at or self.now())}

        self._change(revoked)
        return self._kept.value()[id_]

    def _change(self, step: Callable[[Known], Known]) -> None:
        if self.path is None:
            raise ConfigError("there is no file for tokens")
        self._kept.change(step)


def token_row(token: Token) -> dict[str, Any]:
    """The token for a list: nothing that could be used."""
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
    """The token in the file at `path`, made at the first need; without one, in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._kept = SharedDocument(path, _LOCAL_FORM)

    @classmethod
    def of_user(cls) -> "LocalToken":
        """The one of the user that this process runs as."""
        return cls(state_folder() / NAME)

    def value(self) -> str:
        """The token. Blocks when it is made. Delete the file to have another.

        Raises:
            ConfigError: the file cannot be read, or others can read it.
            LogError: it cannot be written.
        """
        stored = self._kept.value()
        if stored:
            return stored
        if self.path is not None:
            make_folder(self.path.parent)
        # Two processes may come here at once: the first one's token is everybody's.
        self._kept.change(lambda token: token or f"tf_{token_hex(4)}_{token_urlsafe(32)}")
        return self._kept.value()

    def matches(self, text: str) -> bool:
        """Is it the token? Where none was made, nothing is.

        Raises:
            ConfigError: the file cannot be read.
        """
        token = self._kept.value()
        return bool(token) and hmac.compare_digest(token.encode(), text.encode("utf-8", "replace"))


CODE_S: Final = 600
"""Seconds that a one-time link can be used."""
SESSION_S: Final = 7 * 24 * 3600
MOST_SESSIONS: Final = 50
"""Sessions of one token, or by link. One more ends the oldest."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser."""

    principal: Principal
    token: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What is kept of a session: the token's id ("" = by link), milliseconds since the epoch."""

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
    """The codes and sessions of one server; `path` keeps the sessions, None = in memory."""

    def __init__(
        self, tokens: TokenStore, path: Path | Shared | None = None, now: Callable[[], int] = clock
    ) -> None:
        self._tokens, self._now = tokens, now
        self._kept = SharedDocument(path, _SESSIONS_FORM)
        self._codes: dict[str, int] = {}

    def active(self) -> int:
        """Returns how many sessions are signed in now.

        Raises:
            ConfigError: the sessions cannot be read.
        """
        now = self._now()
        return sum(
            now <= session.until and (not session.token or bool(self._tokens.get(session.token)))
            for session in self._kept.value().values()
        )

    def code(self) -> str:
        """A new one-time code for the principal `local`."""
        code = token_urlsafe(24)
        self._codes[_hash(code)] = self._now() + CODE_S * 1000
        return code

    def redeem(self, code: str) -> str | None:
        """Returns the secret of a session for a code; None if the code is not good. Blocks."""
        # Taken out before it is looked at: a code is good for one try, also under a race.
        expires = self._codes.pop(_hash(code), 0)
        return self._begin("") if self._now() < expires else None

    def begin(self, token: Token | None) -> str:
        """Returns the secret of a session for a token, None = the local one. Blocks."""
        return self._begin("" if token is None else token.id)

    def read(self, secret: str) -> BrowserSession | None:
        """Returns the session of `secret`; None if it has ended or its token was revoked."""
        try:
            stored = self._kept.value().get(_hash(secret)) or self._elsewhere(_hash(secret))
        except ConfigError:
            # Unreadable sessions sign nobody in.
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
        """A session that began at another server just now."""
        # Only a secret that is unknown here pays for a reading of the database.
        return self._kept.newest().get(digest) if isinstance(self._kept.path, Shared) else None

    def end(self, secret: str) -> None:
        """Ends the session everywhere. Blocks.

        Raises:
            ConfigError: the sessions cannot be read, so nobody is signed in anyway.
            LogError: they cannot be written: the session goes on.
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
"""The scheme of an `Authorization` header that holds the secret of a browser's session."""
_ONCE: Final = (
    "host",
    "origin",
    "sec-fetch-site",
    "authorization",
    "content-type",
    "idempotency-key",
    "last-event-id",
)
"""Which of two values counts would be a guess, and a proxy before us may guess differently."""
_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""A proxy sent it: that its address is this machine says nothing of who asks."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request comes from."""

    principal: Principal


@dataclass(frozen=True, slots=True)
class Authenticator:
    """The rules of one server. `hosts` and `origins` are those allowed besides loopback."""

    tokens: TokenStore
    signin: Signin
    local: LocalToken
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def check_address(self, headers: Headers, *, page: bool) -> None:
        """Refuse what was not sent to us, or was sent by somebody else's page.

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
        # Programs do not send it; browsers do, and a page cannot forge it.
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and not page and not origins:
            raise Problem(403, "origin", "a page of another site may not use the server")

    def host_allowed(self, host: str) -> bool:
        """Is the name, without its port, one of ours?"""
        name = _name(host)
        return name is not None and (name in LOOPBACK or name in self.hosts)

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Is it our own page, or one that was allowed by name?"""
        if origin in self.origins:
            return True
        scheme, sign, rest = origin.partition("://")
        # Same host and port is our own page. `null` (sandboxed frames, files) has no `://`.
        return bool(sign) and scheme in ("http", "https") and rest.lower() == host.lower()

    def authenticate(self, headers: Headers, client: str) -> Caller | None:
        """Who it is; None if there are no credentials.

        Raises:
            Problem: 401 wrong credentials.
        """
        if "authorization" not in headers:
            return None
        secret = self.session(headers)
        if secret is None:
            return self._bearer(headers["authorization"], near=_near(headers, client))
        session = self.signin.read(secret)
        # 401, not the public page: a browser must learn that it is signed out.
        if session is None:
            raise _unknown("you are not signed in any more")
        return Caller(session.principal)

    def accepts_local_token(self, token: str, headers: Headers, client: str) -> bool:
        """Is it the local token, sent from this machine?"""
        return _near(headers, client) and self._is_local(token)

    def session(self, headers: Headers) -> str | None:
        """Returns the secret of the session that the request is made in, None without one."""
        scheme, _, text = headers.get("authorization", "").partition(" ")
        return text.strip() if scheme.lower() == SESSION else None

    def _bearer(self, header: str, *, near: bool) -> Caller:
        scheme, _, text = header.partition(" ")
        token = text.strip() if scheme.lower() == "bearer" else ""
        # The local token is the user's own authority;
        # copied to another machine it is worth nothing.
        if near and self._is_local(token):
            return Caller(Principal())
        record = self.tokens.check(token)
        if record is None:
            raise _unknown("the token is not valid")
        return Caller(self.tokens.principal(record))

    def _is_local(self, token: str) -> bool:
        try:
            return self.local.matches(token)
        # A file that cannot be read matches nothing: fail closed, and leave named tokens usable.
        except ConfigError:
            return False


def _near(headers: Headers, client: str) -> bool:
    """Did a program on this machine send it, and no proxy pass it on?"""
    return loopback(client) and not any(name in headers for name in _PASSED_ON)


def loopback(client: str) -> bool:
    """Is it an address of this machine?"""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client == "localhost"
    # ::ffff:127.0.0.1 is how a dual-stack socket shows an IPv4 client.
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _unknown(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def unauthorized() -> Problem:
    """What somebody without credentials is told."""
    return _unknown("sign in, or send a bearer token (`taofold serve tokens local` prints yours)")


def _name(host: str) -> str | None:
    """The host without its port; None if it is malformed."""
    lowered = host.strip().lower()
    if lowered.startswith("["):
        name, bracket, port = lowered[1:].partition("]")
        # `[::1]x` is malformed: "x" is no number, so it is refused below.
        port = port.removeprefix(":") if port.startswith(":") else port and "x"
        return name if bracket and (not port or port.isdigit()) else None
    name, _, port = lowered.partition(":")
    if not name or (port and not port.isdigit()):
        return None
    # `localhost.` is the same host to a resolver, so it is to us.
    return name.rstrip(".")

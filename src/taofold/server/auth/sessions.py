"""How a browser signs in: a one-time link or a token, then a cookie that scripts cannot read.

A session is kept by the hash of its cookie, so it survives a restart, holds for every server
of the folder, and ends when its owner signs out, whoever else has the cookie. Whoever changes
something with it must also send the CSRF token, which a page of another site can neither read
nor guess. A cookie that came from a token is worth what that token is worth today.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Any, Final, TypeAlias

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.values import Principal
from taofold.log.store import clock
from taofold.server.auth.tokens import Token, TokenStore
from taofold.shared_document import DocumentFormat, Shared, SharedDocument

CODE_S: Final = 600
"""Seconds that a one-time link can be used."""
SESSION_S: Final = 7 * 24 * 3600
MOST: Final = 50
"""Sessions of one token, or by link. One more ends the oldest."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser."""

    principal: Principal
    csrf: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What is kept of a session: the token's id ("" = by link), milliseconds since the epoch."""

    token: str
    until: int


StoredSessions: TypeAlias = Mapping[str, StoredSession]


def _entries(said: Any) -> StoredSessions:
    if not is_object(said):
        raise ValueError("it has no sessions")
    return {
        digest: StoredSession(str(entry["token"]), int(entry["until"]))
        for digest, entry in said.items()
    }


_FORM: Final = DocumentFormat[StoredSessions](
    {}, _entries, lambda entries: {digest: asdict(entry) for digest, entry in entries.items()}
)


class Signin:
    """The codes and sessions of one server; `path` keeps the sessions, None = in memory."""

    def __init__(
        self, tokens: TokenStore, path: Path | Shared | None = None, now: Callable[[], int] = clock
    ) -> None:
        self._tokens, self._now = tokens, now
        self._kept = SharedDocument(path, _FORM)
        self._codes: dict[str, int] = {}
        self.name: Final = f"taofold_session_{_server(tokens, path)}"
        """The cookie's. Browsers send cookies to every port of a host: each server has its own."""

    def check(self) -> None:
        """Can the sessions be read?

        Raises:
            ConfigError: no.
        """
        self._kept.value()

    def code(self) -> str:
        """A new one-time code for the principal `local`."""
        code = token_urlsafe(24)
        self._codes[_hash(code)] = self._now() + CODE_S * 1000
        return code

    def redeem(self, code: str) -> str | None:
        """The cookie for a code; None if it was used, is too old, or never was one. Blocks."""
        # Taken out before it is looked at: a code is good for one try, also under a race.
        expires = self._codes.pop(_hash(code), 0)
        return self._begin("") if self._now() < expires else None

    def cookie(self, token: Token | None) -> str:
        """The cookie for a token, None = the local one. Blocks."""
        return self._begin("" if token is None else token.id)

    def read(self, cookie: str) -> BrowserSession | None:
        """Whose cookie it is, None if it is not ours, has ended, or its token was revoked."""
        try:
            stored = self._kept.value().get(_hash(cookie)) or self._elsewhere(_hash(cookie))
        except ConfigError:
            # Unreadable sessions sign nobody in.
            return None
        if stored is None or self._now() > stored.until:
            return None
        if not stored.token:
            return BrowserSession(Principal(), _csrf(cookie))
        token = self._tokens.get(stored.token)
        if token is None:
            return None
        return BrowserSession(self._tokens.principal(token), _csrf(cookie), stored.token)

    def _elsewhere(self, digest: str) -> StoredSession | None:
        """A session that began at another server just now."""
        # Only a cookie that is unknown here pays for a reading of the database.
        return self._kept.newest().get(digest) if isinstance(self._kept.path, Shared) else None

    def end(self, cookie: str) -> None:
        """Refuse the cookie from now on, everywhere. Blocks.

        Raises:
            ConfigError: the sessions cannot be read, so no cookie is good anyway.
            LogError: they cannot be written: the cookie is still good.
        """
        gone = _hash(cookie)
        self._kept.change(lambda known: {at: entry for at, entry in known.items() if at != gone})

    def _begin(self, token: str) -> str:
        cookie, now = token_urlsafe(32), self._now()
        entry = StoredSession(token, now + SESSION_S * 1000)

        def begun(known: StoredSessions) -> StoredSessions:
            good = {at: session for at, session in known.items() if now <= session.until}
            digests = [
                at for at, session in good.items() if session.token == token
            ]  # the oldest first
            # `+ 1` makes room for the session that is added below.
            for at in digests[: max(0, len(digests) - MOST + 1)]:
                del good[at]
            return {**good, _hash(cookie): entry}

        self._kept.change(begun)
        return cookie


def _server(tokens: TokenStore, path: Path | Shared | None) -> str:
    """Which server it is: the same after a restart, another one for another folder.

    Servers that share their sessions are one server.
    """
    # Sessions in memory end with the process, so the cookie's name may change with it too.
    if path is None:
        return token_hex(4)
    if isinstance(path, Shared) or isinstance(tokens.path, Shared):
        return "shared"
    identity = f"{path.absolute()}\n{tokens.path and tokens.path.absolute()}"
    return _hash(identity)[:8]


def _csrf(cookie: str) -> str:
    # Derived, not stored: whoever reads the sessions
    # file has the cookie's hash and cannot make it.
    return hmac.new(cookie.encode("utf-8", "replace"), b"csrf", hashlib.sha256).hexdigest()


def _hash(said: str) -> str:
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()

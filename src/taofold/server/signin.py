"""How a browser signs in: a one-time link or a token, then a cookie that scripts cannot read.

The cookie is a signed statement, so it survives a restart and holds for every server that
has the key file. Whoever changes something with it must also send the CSRF token, which a
page of another site can neither read nor guess. A cookie that came from a token is worth
what that token is worth today.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_bytes, token_urlsafe
from typing import Any, Final

from taofold.core.errors import ConfigError
from taofold.core.values import Principal
from taofold.server.tokens import Token, Tokens
from taofold.store.fields import is_mapping
from taofold.store.store import clock

COOKIE: Final = "taofold_session"
CODE_S: Final = 600
"""Seconds that a one-time link can be used."""
SESSION_S: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in browser."""

    principal: Principal
    csrf: str
    token: str = ""


@dataclass(slots=True)
class Signin:
    """The codes and cookies of one server. `key` signs cookies."""

    tokens: Tokens
    key: bytes = field(default_factory=lambda: token_bytes(32))
    now: Callable[[], int] = clock
    _codes: dict[str, int] = field(default_factory=dict[str, int])

    def code(self) -> str:
        """A new one-time code for the principal `local`."""
        said = token_urlsafe(24)
        self._codes[_hash(said)] = self.now() + CODE_S * 1000
        return said

    def redeem(self, code: str) -> str | None:
        """The cookie for a code; None if it was used, is too old, or never was one."""
        expires = self._codes.pop(_hash(code), 0)
        return self._cookie("") if self.now() < expires else None

    def cookie(self, token: Token) -> str:
        """The cookie for a token."""
        return self._cookie(token.id)

    def read(self, cookie: str) -> Session | None:
        """Whose cookie it is, None if it is not ours, too old, or its token was revoked."""
        body, _, signature = cookie.partition(".")
        ours = self._sign("cookie", body).encode()
        if not hmac.compare_digest(ours, signature.encode("utf-8", "replace")):
            return None
        said: Any = json.loads(base64.urlsafe_b64decode(body))
        if not is_mapping(said) or self.now() > int(said["until"]):
            return None
        csrf, token_id = self._sign("csrf", body), str(said["token"])
        if not token_id:
            return Session(Principal(), csrf)
        token = self.tokens.get(token_id)
        if token is None:
            return None
        return Session(self.tokens.principal(token), csrf, token_id)

    def _cookie(self, token: str) -> str:
        until = self.now() + SESSION_S * 1000
        said = {"token": token, "until": until, "nonce": token_urlsafe(12)}
        body = base64.urlsafe_b64encode(json.dumps(said).encode()).decode()
        return f"{body}.{self._sign('cookie', body)}"

    def _sign(self, purpose: str, body: str) -> str:
        said = f"{purpose}:{body}".encode("utf-8", "replace")
        return hmac.new(self.key, said, hashlib.sha256).hexdigest()


def load_key(path: Path) -> bytes:
    """The key in the file, made if it is missing.

    Raises:
        ConfigError: it cannot be read, or others can.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    else:
        with os.fdopen(descriptor, "wb") as file:
            file.write(token_bytes(32))
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConfigError(f"{str(path)!r} is open to others: chmod 600 it")
    key = path.read_bytes()
    if len(key) != 32:
        raise ConfigError(f"{str(path)!r} holds no key: delete it and start again")
    return key


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()

"""Who sends a request, and whether it may be sent here: host, origin, credentials. No I/O.

Nobody comes in without credentials: an address proves nothing. A command of an agent, another
user and a web page that the user happens to visit all share this machine's loopback. So a
program brings a token, a browser a cookie that only our own page can use; the host must be one
of ours (DNS rebinding), and a foreign origin gets nothing.
"""

import hmac
import ipaddress
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from taofold.core.errors import ConfigError
from taofold.core.values import Principal
from taofold.server.credentials import LocalToken, Signin, TokenStore
from taofold.server.endpoint import Problem

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
CSRF: Final = "x-csrf-token"
_ONCE: Final = (
    "host",
    "origin",
    "sec-fetch-site",
    "authorization",
    "cookie",
    CSRF,
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
    csrf: str = ""


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

    def authenticate(self, headers: Headers, client: str, *, unsafe: bool) -> Caller | None:
        """Who it is; None if there are no credentials.

        Raises:
            Problem: 401 wrong credentials, 403 no CSRF token.
        """
        authorization = headers.get("authorization")
        # An explicit header wins over a cookie, which a browser sends by itself.
        if authorization is not None:
            return self._bearer(authorization, near=_near(headers, client))
        cookie = self.cookie(headers)
        if cookie is None:
            return None
        session = self.signin.read(cookie)
        # 401, not the public page: a browser with an old cookie must learn that it is signed out.
        if session is None:
            raise _unknown("you are not signed in any more")
        if unsafe and not _same(headers.get(CSRF, ""), session.csrf):
            raise Problem(403, "csrf", f"the header {CSRF} must hold the CSRF token of GET /me")
        return Caller(session.principal, session.csrf)

    def accepts_local_token(self, token: str, headers: Headers, client: str) -> bool:
        """Is it the local token, sent from this machine?"""
        return _near(headers, client) and self._is_local(token)

    def cookie(self, headers: Headers) -> str | None:
        """What the request has as our cookie."""
        return cookie_parser(headers.get("cookie", "")).get(self.signin.name)

    def _bearer(self, said: str, *, near: bool) -> Caller:
        scheme, _, text = said.partition(" ")
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


def _same(said: str, meant: str) -> bool:
    # On bytes: `compare_digest` raises on text that is not ASCII.
    return hmac.compare_digest(said.encode("utf-8", "replace"), meant.encode())


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

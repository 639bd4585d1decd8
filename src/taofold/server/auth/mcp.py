"""MCP over HTTP behind the same front as the server's own routes: nobody without credentials.

Knows nothing about the protocol: it stands before an ASGI application and says to it who asks.
"""

from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from taofold.core.values import Principal
from taofold.server.auth.admission import Door
from taofold.server.auth.sessions import Signin
from taofold.server.auth.tokens import LocalToken, TokenStore
from taofold.server.endpoint import Problem
from taofold.server.middleware import Audit, Counts, RateLimiter, Visit


@dataclass(frozen=True, slots=True)
class McpEntrance:
    """The entrance of an application that is no `Server`: tokens only, no cookies."""

    door: Door
    audit: Audit
    # The defaults of `server.Settings`: one failure more every six seconds.
    rates: RateLimiter = field(default_factory=lambda: RateLimiter(100.0, 400.0))
    failures: RateLimiter = field(default_factory=lambda: RateLimiter(1 / 6, 20.0))
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def of(
        cls,
        tokens: TokenStore,
        local: LocalToken,
        folder: Path | None,
        hosts: frozenset[str] = frozenset(),
    ) -> "McpEntrance":
        """The entrance for these tokens; the audit is kept in `folder`.

        `hosts` are served besides this machine's own names, in lower case.
        """
        audit = Audit(folder / "audit.jsonl" if folder else None)
        return cls(Door(tokens, Signin(tokens), local, hosts), audit)

    def authenticate(self, scope: Scope) -> Principal | None:
        """Who sent the request; None if nobody that is known."""
        visit: Visit = scope["taofold"]
        client = scope.get("client")
        try:
            # `unsafe`: an MCP request may always change
            # something, so a cookie alone would not do.
            guest = self.door.guest(Headers(scope=scope), client[0] if client else "", unsafe=True)
        except Problem as problem:
            visit.code, visit.detail = problem.code, problem.detail
            # Not raised: the caller answers 401 in MCP's own way, with where to get a token.
            return None
        if guest is None:
            visit.code, visit.detail = "unauthorized", "no credentials"
            return None
        visit.who = guest.principal.id
        return guest.principal

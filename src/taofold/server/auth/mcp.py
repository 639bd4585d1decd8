"""MCP over HTTP behind the same front as the server's own routes: nobody without credentials.

Knows nothing about the protocol: it stands before an ASGI application and says to it who asks.
"""

from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from taofold.core.values import Principal
from taofold.server.audit import Audit
from taofold.server.auth.authenticator import Authenticator
from taofold.server.auth.sessions import Signin
from taofold.server.auth.tokens import LocalToken, TokenStore
from taofold.server.endpoint import Problem
from taofold.server.metrics import Counts
from taofold.server.middleware import AccessRecord
from taofold.server.rates import RateLimiter


@dataclass(frozen=True, slots=True)
class McpProtection:
    """What protects an application that is no `Server`: tokens only, no cookies."""

    authenticator: Authenticator
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
    ) -> "McpProtection":
        """For these tokens; the audit is kept in `folder`.

        `hosts` are served besides this machine's own names, in lower case.
        """
        audit = Audit(folder / "audit.jsonl" if folder else None)
        return cls(Authenticator(tokens, Signin(tokens), local, hosts), audit)

    def authenticate(self, scope: Scope) -> Principal | None:
        """Who sent the request; None if nobody that is known."""
        access: AccessRecord = scope["taofold"]
        client = scope.get("client")
        try:
            # `unsafe`: an MCP request may always change
            # something, so a cookie alone would not do.
            caller = self.authenticator.authenticate(
                Headers(scope=scope), client[0] if client else "", unsafe=True
            )
        except Problem as problem:
            access.code, access.detail = problem.code, problem.detail
            # Not raised: the caller answers 401 in MCP's own way, with where to get a token.
            return None
        if caller is None:
            access.code, access.detail = "unauthorized", "no credentials"
            return None
        access.who = caller.principal.id
        return caller.principal

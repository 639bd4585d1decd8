"""OAuth 2.1 with the authorization server of an MCP server, on top of the package's client.

A user signs in once (`sign_in`, the command `taofold mcp login`) by the authorization code grant
with PKCE; the client registers itself at the server if needed. After that every process of the user
has the tokens and refreshes them when they expire or are refused. A run never asks for a sign-in:
the call fails with the command to type. Programs without a user use the client credentials grant.

The package stores only the tokens. `KeptTokens` also stores the address for refreshing them and
their time of expiry. The files are in the user's state folder
(`taofold.reserved_places.state_folder`), out of reach of file tools and sandboxed commands.

The MCP server names the authorization server. It is called over https only, and not at a private
address if the MCP server is public.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import msgspec

from taofold.bridges.mcp.client.address import OAuth, ServerAddress, with_environment
from taofold.bridges.mcp.sdk import load
from taofold.core.json_values import is_object
from taofold.core.text import visible
from taofold.network import is_loopback, is_public, origin, parse_address
from taofold.policy.redaction import Redactor
from taofold.reserved_places import make_folder, state_folder
from taofold.shared_document import DocumentFormat, SharedDocument, lock_file

FOLDER: Final = "mcp"
CALLBACK: Final = "/callback"
_NAME: Final = "taofold"
_SCOPE: Final = re.compile(r'scope="([^"]{1,300})"')
_ANOTHER: Final = "another scope"
_RENEWAL_S: Final = 30.0


class SignInRequired(Exception):
    """A sign-in is needed. The message has the command."""


class SignInFailed(Exception):
    """The authorization server or the user refused the sign-in, or it timed out."""


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """Stored sign-in of one server, as the package's JSON."""

    url: str = ""
    tokens: dict[str, Any] | None = None
    client: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    """Metadata of the authorization server, with the address for refreshing tokens."""
    resource: dict[str, Any] | None = None
    expires_at: float | None = None
    """Seconds since the epoch."""
    principal: str = ""
    """The principal that signed in; "" = the user of this process."""


def _stored(value: Any) -> StoredTokens:
    if not is_object(value):
        raise ValueError("it holds no tokens")
    return msgspec.convert(value, StoredTokens)


_FORM: Final = DocumentFormat[StoredTokens](StoredTokens(), _stored, asdict)


class KeptTokens:
    """Storage of the tokens for one server, in the interface of the package's client."""

    def __init__(self, url: str, client_id: str = "", principal: str = "") -> None:
        # Files from releases without principals keep their names.
        parts = [url, client_id, principal] if principal else [url, client_id]
        name = f"{blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()}.json"
        self.url, self.principal = url, principal
        self.path = state_folder() / FOLDER / name
        self._document = SharedDocument(self.path, _FORM)
        self.context: Any = None
        """Context of the package's client."""
        self.registered = False
        """True if the operator registered the client, with its secret."""

    def stored(self) -> StoredTokens:
        """Returns the content of the file; the same object until it changes.

        Raises:
            ConfigError: The file is damaged, or other users can read it.
        """
        return self._document.value()

    def how(self, scope: str = "") -> str:
        """Returns a hint with the command to sign in."""
        return sign_in_hint(self.url, scope, self.principal)

    def forget(self) -> bool:
        """Deletes the tokens. Returns whether there were any."""
        existed = self.path.exists()
        self.path.unlink(missing_ok=True)
        return existed

    def _keep(self, **changes: Any) -> None:
        make_folder(self.path.parent)
        self._document.change(lambda stored: StoredTokens(**{**asdict(stored), **changes}))

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Locks out other processes that renew the tokens: a server issues each token once."""
        descriptor = await asyncio.to_thread(self._locked)
        try:
            yield
        finally:
            os.close(descriptor)

    def _locked(self) -> int:
        make_folder(self.path.parent)
        return lock_file(Path(f"{self.path}.renewal"))

    async def get_tokens(self) -> Any:
        """Returns the tokens as the package's model."""
        stored = await asyncio.to_thread(self.stored)
        return _model("OAuthToken", stored.tokens)

    async def get_client_info(self) -> Any:
        """Returns the client's registration as the package's model."""
        stored = await asyncio.to_thread(self.stored)
        return _model("OAuthClientInformationFull", stored.client)

    async def set_tokens(self, tokens: Any) -> None:
        """Stores new tokens with the address and time of their renewal."""
        context = self.context
        await asyncio.to_thread(
            self._keep,
            url=self.url,
            principal=self.principal,
            tokens=_plain(tokens),
            metadata=_plain(context.oauth_metadata),
            resource=_plain(context.protected_resource_metadata),
            client=None if self.registered else _plain(context.client_info),
            expires_at=context.token_expiry_time,
        )

    async def set_client_info(self, client: Any) -> None:
        """Stores nothing: a registration without tokens is useless to the next process."""


def all_kept() -> list[StoredTokens]:
    """Returns the stored sign-ins of this user.

    Raises:
        ConfigError: A file is damaged, or other users can read it.
    """
    files = sorted((state_folder() / FOLDER).glob("*.json"))
    return [SharedDocument(file, _FORM).value() for file in files]


def _model(name: str, fields: dict[str, Any] | None) -> Any:
    return None if fields is None else getattr(load("mcp.shared.auth"), name)(**fields)


def _plain(model: Any) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


Show: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows the user the address for the sign-in."""
Redirected: TypeAlias = Callable[[], Awaitable[str]]
"""Returns the address to which the user's browser was redirected."""


@dataclass(frozen=True, slots=True)
class Person:
    """A user who can sign in: `show` gets the page, `redirected` returns the final address."""

    show: Show
    redirected: Redirected
    redirect: str
    """The redirect address for the browser."""


def provider(address: ServerAddress, oauth: OAuth, person: Person | None = None) -> Any:
    """Returns the HTTP authorizer for requests to the server at `address`.

    Without a `person` it uses and refreshes the stored tokens.

    Raises:
        ConfigError: The package is missing or too old, or a variable is not set.
    """
    tokens = KeptTokens(address.url, oauth.client_id, principal=address.principal)
    secret = with_environment({"client_secret": oauth.client_secret})["client_secret"]
    if oauth.grant == "client_credentials":
        extension = load("mcp.client.auth.extensions.client_credentials")
        client = _provider_class(extension.ClientCredentialsOAuthProvider)(
            tokens,
            None,
            address.url,
            tokens,
            oauth.client_id,
            secret,
            scope=oauth.scope or None,
            issuer=oauth.issuer,
        )
        client.alone, client.scope, tokens.registered = True, oauth.scope, True
        return client
    models, package = load("mcp.shared.auth"), load("mcp.client.auth")
    method = "client_secret_basic" if secret else "none"
    metadata = models.OAuthClientMetadata(
        client_name=_NAME,
        redirect_uris=[person.redirect if person else f"http://127.0.0.1{CALLBACK}"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method=method,
        scope=oauth.scope or None,
    )
    client = _provider_class(package.OAuthClientProvider)(
        tokens,
        person,
        address.url,
        metadata,
        tokens,
        redirect_handler=None if person is None else person.show,
        callback_handler=None if person is None else _code_of(person.redirected),
    )
    client.scope = oauth.scope
    if oauth.client_id:
        tokens.registered = True
        client.registered = models.OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=secret or None,
            redirect_uris=metadata.redirect_uris,
            token_endpoint_auth_method=method,
            issuer=oauth.issuer or None,
        )
    return client


def _code_of(redirected: Redirected) -> Callable[[], Awaitable[Any]]:
    async def result() -> Any:
        query = parse_qs(urlsplit(await redirected()).query)
        # Programs differ in which of two equal parameters they read, so duplicates are refused.
        twice = [name for name, values in query.items() if len(values) > 1]
        if twice:
            raise SignInFailed(f"the answer has {twice[0][:40]!r} more than once")
        parameters = {name: values[0] for name, values in query.items()}
        if "error" in parameters:
            detail = parameters.get("error_description", "")
            raise SignInFailed(f"it was refused: {parameters['error']} {detail}".strip()[:300])
        return load("mcp.client.auth").AuthorizationCodeResult(
            code=parameters.get("code", ""),
            state=parameters.get("state"),
            iss=parameters.get("iss"),
        )

    return result


def _provider_class(base: Any) -> Any:
    """Returns the package's client class `base` with stored tokens."""
    return type(f"Kept{base.__name__}", (_Keeping, base), {})


class _Keeping:
    """Uses and renews stored tokens; never asks for a sign-in during a run.

    A mixin before one of the package's clients. The package's flow is used only to sign in. It
    holds a lock from a request to the headers of its response, so calls would wait for each other,
    and a request cancelled during a renewal would lose a rotated token.
    """

    context: Any
    """Context of the package's client."""
    registered: Any = None
    """The client's registration, if the operator made it."""
    alone = False
    """True if the client needs no user."""
    scope = ""
    """The requested scope; "" = the scope that the server names."""

    def __init__(
        self, kept: KeptTokens, person: Person | None, *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.kept, self._person = kept, person
        self._seen: StoredTokens | None = None
        self._renewal: asyncio.Task[None] | None = None
        self.failed: Exception | None = None
        """Why a user's sign-in failed."""
        kept.context = self.context

    async def _initialize(self) -> None:
        above: Any = super()
        await above._initialize()
        if self._person is not None:  # a new sign-in ignores stored tokens
            self.context.clear_tokens()
            self.context.client_info = self.registered
            return
        self._seen = stored = await asyncio.to_thread(self.kept.stored)
        self.context.oauth_metadata = _model("OAuthMetadata", stored.metadata)
        self.context.protected_resource_metadata = _model(
            "ProtectedResourceMetadata", stored.resource
        )
        self.context.token_expiry_time = stored.expires_at
        if self.registered is not None:
            self.context.client_info = self.registered

    async def _validate_resource_match(self, prm: Any) -> None:
        above: Any = super()
        # RFC 8707, section 2: the identifier of a resource has no fragment.
        if "#" in str(prm.resource or ""):
            raise SignInFailed(
                f"the server names a resource with a fragment: {str(prm.resource)!r}"
            )
        await above._validate_resource_match(prm)

    async def _perform_authorization(self) -> Any:
        above: Any = super()
        if self.scope:  # else the server's scope
            self.context.client_metadata.scope = self.scope
        client, metadata = self.context.client_info, self.context.oauth_metadata
        methods = getattr(metadata, "token_endpoint_auth_methods_supported", None) or ()
        if client is self.registered and client is not None and client.client_secret:
            basic = "client_secret_basic" in methods or "client_secret_post" not in methods
            client.token_endpoint_auth_method = f"client_secret_{'basic' if basic else 'post'}"
        return await above._perform_authorization()

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Authorizes `request`."""
        await self._current()
        # After a sign-in the user is not asked again.
        signed_in = self._person is None or self.context.current_tokens is not None
        keeps = signed_in and not self.alone
        if keeps and self.context.current_tokens is None:
            response = yield request  # the server may need no credentials
            if response.status_code == 401:
                raise SignInRequired(self.kept.how())
            return
        if keeps and not self.context.is_token_valid():
            await self._renewed("")
        if self.context.is_token_valid():
            used = self._signed(request)
            response = yield request
            if response.status_code == 401 and keeps:
                await self._renewed(used)
                self._signed(request)
                response = yield request
            if response.status_code == 401 and keeps:
                raise SignInRequired(self.kept.how())
            missing = _missing_scope(response)
            if missing:
                raise SignInRequired(f"it wants {missing}: {self.kept.how(missing)}")
            if response.status_code != 401:
                return
        if self.failed is not None:
            # The client retries with another protocol version, but the user is asked only once.
            raise self.failed
        above: Any = super()
        flow = above.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    await admit(self.kept.url, str(outgoing.url))
                    admitted = origin(str(outgoing.url))
                    outgoing.extensions = {**outgoing.extensions, AUTHORIZING: admitted}
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except Exception as error:
            self.failed = error if self._person is not None else None
            raise
        finally:
            await flow.aclose()

    def _signed(self, request: Any) -> str:
        """Adds the token to the request and returns it."""
        token = str(self.context.current_tokens.access_token)
        request.headers["Authorization"] = f"Bearer {token}"
        return token

    async def _current(self) -> None:
        """Reads the stored tokens, including those that another process stored since."""
        package: Any = self
        if not package._initialized:
            await self._initialize()
        elif self._person is None:
            newest = await asyncio.to_thread(self.kept.stored)
            if newest is not self._seen:
                await self._initialize()

    async def _renewed(self, refused: str) -> None:
        """Renews the token if it is `refused` or expired.

        Raises:
            SignInRequired: The user must sign in.
        """
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(refused))
        # A cancelled request must not lose a token that the server issues only once.
        await asyncio.shield(self._renewal)

    async def _renew(self, refused: str) -> None:
        async with self.kept.alone():
            await self._current()
            tokens = self.context.current_tokens
            if self.context.is_token_valid() and tokens.access_token != refused:
                return  # another process renewed it
            if not self.context.can_refresh_token():
                raise SignInRequired(self.kept.how())
            above: Any = super()
            request = await above._refresh_token()
            await admit(self.kept.url, str(request.url))
            async with load("httpx2").AsyncClient(timeout=_RENEWAL_S) as client:
                response = await client.send(request, follow_redirects=False)
            if not await above._handle_refresh_response(response):
                raise SignInRequired(self.kept.how())


def _missing_scope(response: Any) -> str:
    """Returns the scope that the token lacks; "" if the server refused for another reason."""
    challenge = str(response.headers.get("www-authenticate", ""))
    if response.status_code != 403 or "insufficient_scope" not in challenge:
        return ""
    scope = _SCOPE.search(challenge)
    return _ANOTHER if scope is None else scope.group(1)


AUTHORIZING: Final = "taofold.authorizing"
"""Request extension that holds the admitted origin of an authorization server."""


def sign_in_hint(url: str, scope: str = "", principal: str = "") -> str:
    """Returns a hint with the command to sign in."""
    more = f" --scope {quote(visible(scope))}" if scope and scope != _ANOTHER else ""
    whose = f" --principal {quote(visible(principal))}" if principal else ""
    command = f"`taofold mcp login {quote(Redactor(guesses=True).text(url))}{more}{whose}`"
    if not principal:
        return f"sign in with {command}"
    return f"{visible(principal)} must sign in: on the page Servers of the console, or {command}"


async def admit(server: str, url: str) -> None:
    """Checks an address that the server names, before a request or the user's browser opens it.

    Raises:
        SignInFailed: The address is not encrypted, is in a network other than the server's, or
            contains a user name.
    """
    parts, home = urlsplit(url), urlsplit(server)
    host = parts.hostname or ""
    if parts.username is not None:
        # `https://known.example@other/` leads to `other`.
        raise SignInFailed(f"the server points to {host!r} behind the name of somebody")
    local = is_loopback(home.hostname or "")
    on_this_machine = parts.scheme == "http" and local and is_loopback(host)
    if parts.scheme != "https" and not on_this_machine:
        raise SignInFailed(f"the authorization server at {host!r} is not reached over https")
    if host == home.hostname:
        return
    addresses = await _addresses(host)
    # Link-local addresses serve cloud metadata, never an authorization server.
    if any(address.is_link_local for address in map(parse_address, addresses) if address):
        raise SignInFailed(f"the server points to {host!r} in a private network")
    if local or all(map(is_public, addresses)):
        return
    if all(map(is_public, await _addresses(home.hostname or ""))):
        raise SignInFailed(f"the server points to {host!r} in a private network")


async def _addresses(host: str) -> list[str]:
    """Returns the addresses of a host; none if it cannot be resolved, so that the request fails."""
    if parse_address(host) is not None:
        return [host]
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in entries]

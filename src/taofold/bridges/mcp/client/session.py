"""`McpSession`: the operations of one MCP session (list, read, watch, call), and how it is opened.

`open_session` opens stdio or HTTP for a `ServerAddress` with its credentials, and renews them. The
`mcp` package negotiates the protocol version. Requests go only to the origin of the server's URL.
Knows nothing about tools or runs.

The package maps most HTTP statuses to one error ("Server returned an error response"), and a short
outage ends the session with all its calls. Here each failure becomes a protocol error of the one
request, with its reason.
"""

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from inspect import isawaitable
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from taofold import __version__
from taofold.bridges.mcp.client.address import ServerAddress, with_environment
from taofold.bridges.mcp.client.leniency import lenient, make_plain
from taofold.bridges.mcp.client.oauth import AUTHORIZING, SignInFailed, SignInRequired, provider
from taofold.bridges.mcp.sdk import extension, load
from taofold.core.text import clip, visible
from taofold.core.values import Principal
from taofold.network import origin
from taofold.policy.redaction import Redactor
from taofold.reserved_places import MARK, SERVER

CLOSED: Final = -32000
"""The connection ended before the response, so the result of the request is unknown."""
LOST: Final = -32097
"""The server does not know the session, so it did not process the request."""
REFUSED: Final = -32096
"""The server does not accept the credentials."""
ABSENT: Final = -32095
"""Nothing listens at the server's address, so the request was not sent."""
LARGEST: Final = 32 * 1024 * 1024
"""Maximum bytes of one server event: a result, or a page of tools."""
_SHOWN: Final = 300
_TIMEOUT_S: Final = 30.0
_READING_S: Final = 300.0
"""Maximum seconds between two chunks of a response, as servers hold event streams open."""
_LOGGER: Final = logging.getLogger("taofold.mcp")

Headers: TypeAlias = Mapping[str, str]
_Sent: TypeAlias = Headers | Awaitable[Headers]
HeaderSource: TypeAlias = Callable[[], _Sent] | Callable[[Principal | None], _Sent]
"""Returns the headers, for a principal if it takes one. Called on first use, and again after each
response 401.
"""


class Credentials:
    """The cached headers for a server."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self.faults: tuple[type[Exception], ...] = ()
        """Errors of a missing or failed sign-in."""
        if address.oauth is not None:
            package = load("mcp.client.auth").OAuthFlowError
            self.faults = (SignInRequired, SignInFailed, package)
        self._known: dict[str, str] | None = None
        self._reading = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """Returns the headers.

        Raises:
            ConfigError: A named variable is not set.
        """
        async with self._reading:
            if self._known is None:
                self._known = await self._read()
            return self._known

    async def renewed(self, refused: dict[str, str]) -> bool:
        """Reads the headers again unless that is done.

        Returns whether they differ from `refused`.
        """
        async with self._reading:
            if self._known == refused:
                self._known = await self._read()
            return self._known != refused

    async def _read(self) -> dict[str, str]:
        source = self._address.header_source
        if source is None:
            return with_environment(self._address.headers)
        # In a thread, because a function may read a keychain or run a command. An awaitable runs
        # here.
        headers = await asyncio.to_thread(source)
        return dict(await headers if isawaitable(headers) else headers)


def client_factory(
    address: ServerAddress, credentials: Credentials, authorizer: Any = None
) -> Callable[..., Any]:
    """Returns a factory of HTTP clients with the signature that the package expects.

    The clients send requests only to the server's origin. Requests of `authorizer` (see `oauth`) go
    only to the admitted authorization server, because they may contain a code or a token.
    """
    errors = load("httpx2")
    scheme, host, port = origin(address.url)
    home = {(scheme, host, port)}
    if (scheme, port) == ("http", 80):
        home.add(("https", host, 443))  # the same server, encrypted

    async def at_home(request: Any) -> None:
        target = origin(str(request.url))
        if target not in home and target != request.extensions.get(AUTHORIZING):
            raise ConnectionError(f"the server redirects to {request.url.host!r}: not followed")

    def made(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return _client_class(errors, credentials)(
            headers=headers,
            timeout=timeout or errors.Timeout(_TIMEOUT_S, read=_READING_S),
            auth=auth or authorizer,
            event_hooks={"request": [at_home]},
        )

    return made


def _client_class(errors: Any, credentials: Credentials) -> Any:
    """Returns a client class of `httpx2` that sends `credentials`."""

    class ServerClient(errors.AsyncClient):  # type: ignore[misc]
        """Replaces responses without a protocol message by protocol errors."""

        async def send(self, request: Any, **options: Any) -> Any:
            try:
                sent = await credentials.headers()
                response = await self._sent(request, sent, options)
                # Once, and only with changed credentials, so that refusals cannot loop.
                if response.status_code == 401 and await self._renewed(sent):
                    await response.aclose()
                    response = await self._sent(request, await credentials.headers(), options)
            except credentials.faults as error:
                detail = clip(Redactor(guesses=True).text(str(error)), _SHOWN)
                text = f"the server wants credentials: {detail}"
                return _answer(errors, request, 401, REFUSED, text)
            except (errors.ConnectError, errors.ConnectTimeout) as error:
                return _answer(errors, request, 503, ABSENT, f"nobody answers there: {error}")
            except errors.TransportError as error:
                # Raising the error would end the session and all its calls.
                text = f"the connection broke off ({type(error).__name__})"
                return _answer(errors, request, 503, CLOSED, text)
            return await self._judged(request, response)

        async def _renewed(self, refused: dict[str, str]) -> bool:
            try:
                return await credentials.renewed(refused)
            except Exception:  # the refusal is reported
                _LOGGER.warning("the headers for a server cannot be read", exc_info=True)
                return False

        async def _sent(self, request: Any, headers: Headers, options: Any) -> Any:
            request.headers.update({"accept-encoding": "identity", **headers})
            above: Any = super()
            response = await above.send(request, **options)
            make_plain(errors, response, LARGEST)
            return response

        async def _judged(self, request: Any, response: Any) -> Any:
            status = response.status_code
            if status < 400:
                return await _whole(errors, request, response)
            reason = await _reason(response)
            if status in (401, 403):
                return _answer(errors, request, status, REFUSED, _refusal(status, reason))
            # The specification requires 404; many servers of the TypeScript SDK send 400.
            is_lost = status == 404 or (status == 400 and "session" in reason.lower())
            if is_lost and request.headers.get("mcp-session-id"):
                return _answer(errors, request, status, LOST, reason or "session not found")
            if (status >= 500 or _is_call(request)) and not _is_protocol(response):
                doubt = status in _IN_DOUBT and _method(request) == "tools/call"
                text = _failure(status, reason, response) + "; it may have happened" * doubt
                return _answer(errors, request, status, -32603, text)
            return response

    return ServerClient


_IN_DOUBT: Final = (500, 502, 504)
"""The server failed during the request, or a gateway did not wait for it."""


def _refusal(status: int, reason: str) -> str:
    what = "does not accept the credentials" if status == 401 else "forbids it"
    more = f": {reason}" if reason else ""
    return f"the server {what} ({status}){more}; check its `headers`"


async def _reason(response: Any) -> str:
    """Returns the text of an error response, without secrets."""
    await response.aread()
    return clip(Redactor(guesses=True).text(" ".join(response.text.split())), _SHOWN)


async def _whole(errors: Any, request: Any, response: Any) -> Any:
    """Returns the response.

    A JSON body is read here, because the package hides why reading failed.
    """
    if response.headers.get("content-type", "").startswith("application/json"):
        try:
            await response.aread()
        except errors.TransportError as error:
            return _answer(errors, request, 503, CLOSED, str(error))
    return response


def _failure(status: int, reason: str, response: Any) -> str:
    after = visible(response.headers.get("retry-after", ""))[:40]
    when = f"; try again after {after} (Retry-After)" if after else ""
    return f"the server answers {status}: {reason or 'no reason'}{when}"


def _is_call(request: Any) -> bool:
    """Returns whether the request belongs to a session after its handshake.

    The package itself handles a refused handshake and retries with an older version.
    """
    return _method(request).startswith(("tools/", "resources/", "prompts/", "tasks/"))


def _method(request: Any) -> str:
    """Returns the protocol method of the request, or ""."""
    try:
        return str(json.loads(request.content or b"null")["method"])
    except (ValueError, TypeError, KeyError):
        return ""


def _is_protocol(response: Any) -> bool:
    """Returns whether the response is a protocol message, which has more details than a status."""
    return '"jsonrpc"' in response.text


def _answer(errors: Any, request: Any, status: int, code: int, message: str) -> Any:
    error = {"code": code, "message": message}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return errors.Response(status, json=body, request=request)


URL_REQUIRED: Final = -32042
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_TAIL: Final = 4_000
_LOOK_S: Final = 1.0
"""Seconds between two checks of a session of an older protocol version."""

Elicit = Callable[[Any, Any], Awaitable[Any]]
Hear = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SessionHandlers:
    """Handlers of a server's requests in a session. None: the capability is not declared."""

    elicit: Elicit
    hear: Hear
    """Receives notifications."""
    sample: Elicit | None = None
    roots: Hear | None = None


async def _unchecked(*_: Any) -> None:
    return


class McpSession:
    """An open session. `modern`: the 2026 protocol, in which a call may return questions."""

    def __init__(self, inner: Any, *, modern: bool) -> None:
        self.inner, self.modern = inner, modern
        # Results are checked by taofold instead: a server's regular expression on a server's text
        # could run forever and block the whole process.
        inner.validate_tool_result = _unchecked
        self.idle = asyncio.Event()
        """Set while no call is running."""
        self.idle.set()
        self._calls = 0

    @contextmanager
    def busy(self) -> Generator[None]:
        """Marks a call as running."""
        self._calls += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self.idle.set()

    @property
    def closed(self) -> bool:
        """True if the server is known to have disconnected."""
        # A private attribute: the package has no public one. A session without it counts as open.
        return getattr(getattr(self.inner, "_dispatcher", None), "_closed", False) is True

    @property
    def instructions(self) -> str:
        """The server's instructions: foreign data, never trusted."""
        return str(self.inner.instructions or "")

    def declares(self, what: str) -> bool:
        """Returns whether the server declares tools, resources or prompts."""
        return getattr(self.inner.server_capabilities, what) is not None

    def tells(self, what: str) -> bool:
        """Returns whether the server declares notifications about changes of these."""
        offered = getattr(self.inner.server_capabilities, what)
        return offered is not None and bool(offered.list_changed)

    async def listen(self, hear: Hear) -> None:
        """Calls `hear` when the tools change, until the server disconnects (2026 protocol)."""
        subscriptions = load("mcp.client.subscriptions")
        # Without subscriptions the list is read again after its time-to-live.
        with suppress(Exception):
            async with subscriptions.listen(self.inner, tools_list_changed=True) as events:
                async for event in events:
                    if isinstance(event, subscriptions.ToolsListChanged):
                        await hear(SimpleNamespace(method=TOOLS_CHANGED))

    async def listed(self, what: str, cursor: str | None) -> Any:
        """Returns one page of tools, prompts, resources or resource_templates."""
        ask = getattr(self.inner, f"list_{what}")
        return await ask(params=load("mcp.types").PaginatedRequestParams(cursor=cursor))

    async def read(self, uri: str) -> Any:
        """Returns a resource."""
        return await self.inner.read_resource(uri)

    async def watch(self, uris: Sequence[str], hear: Callable[[str], None]) -> None:
        """Calls `hear` for each change of these resources, until the server disconnects.

        In older protocol versions the session's own `hear` (`open_session`) is called instead.
        """
        if not self.modern:
            types = load("mcp.types")
            for uri in uris:
                params = types.SubscribeRequestParams(uri=uri)
                request = types.SubscribeRequest(method="resources/subscribe", params=params)
                await self.inner.send_request(request, types.EmptyResult)
            while not self.closed:  # noqa: ASYNC110 - the package has no event for it
                await asyncio.sleep(_LOOK_S)
            return
        subscriptions = load("mcp.client.subscriptions")
        listening = subscriptions.listen(
            self.inner,
            tools_list_changed=False,
            prompts_list_changed=False,
            resources_list_changed=False,
            resource_subscriptions=list(uris),
            on_event=None,
        )
        with suppress(subscriptions.SubscriptionLost):
            async with listening as events:
                async for event in events:
                    if isinstance(event, subscriptions.ResourceUpdated):
                        hear(str(event.uri))

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Returns a filled-in prompt."""
        return await self.inner.get_prompt(name, arguments)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        seconds: float | None,
        progress: Callable[[float, float | None, str | None], Awaitable[None]],
        *,
        responses: dict[str, Any] | None = None,
        sealed: str | None = None,
    ) -> Any:
        """Calls a tool. Returns its result or its questions."""
        return await self.inner.call_tool(
            name,
            arguments,
            seconds,
            progress,
            input_responses=responses,
            request_state=sealed,
            allow_input_required=True,
            allow_claimed=True,
        )


@asynccontextmanager
async def open_session(
    address: ServerAddress,
    mode: str,
    handlers: SessionHandlers,
    tail: deque[str],
    authorizer: Any = None,
) -> AsyncGenerator[McpSession]:
    """Opens a session with the server at `address`, including the handshake.

    `tail` receives the last lines of a program's standard error. `authorizer` authorizes the
    requests. Default: with the stored tokens if the address has `oauth`.
    """
    mcp = load()
    async with AsyncExitStack() as stack:
        if address.kind == "here":
            transport: Any = address.server
        else:
            transport = lenient(await _transport(address, stack, tail, authorizer))
        client = mcp.Client(
            transport,
            mode=mode,
            elicitation_callback=handlers.elicit,
            message_handler=handlers.hear,
            sampling_callback=handlers.sample,
            list_roots_callback=handlers.roots,
            client_info=mcp.Implementation(name="taofold", version=__version__),
            cache=None,
            extensions=[extension()],
        )
        await stack.enter_async_context(client)
        modern = str(client.protocol_version) >= "2026"
        opened = McpSession(client.session, modern=modern)
        if modern and opened.tells("tools"):
            listening = asyncio.create_task(opened.listen(handlers.hear))
            stack.callback(listening.cancel)
        yield opened


async def _transport(
    address: ServerAddress, stack: AsyncExitStack, tail: deque[str], authorizer: Any
) -> Any:
    """Returns the package's transport for the address."""
    if address.kind == "stdio":
        stdio = load("mcp.client.stdio")
        # The mark comes last, so that an agent file cannot clear it (`cli.authority`).
        env = {**with_environment(address.env), MARK: f"{SERVER}{address.label}"}
        # Invalid UTF-8 must not end the reading: every later call would wait for its deadline.
        program = stdio.StdioServerParameters(
            command=address.command,
            args=list(address.args),
            env=env,
            cwd=address.cwd or None,
            encoding_error_handler="replace",
        )
        return stdio.stdio_client(program, errlog=await _stderr(stack, tail))
    credentials = Credentials(address)
    await credentials.headers()  # report missing variables before anything is sent
    if authorizer is None and address.oauth is not None:
        authorizer = provider(address, address.oauth)
    factory = client_factory(address, credentials, authorizer)
    if address.kind == "sse":
        sse = load("mcp.client.sse").sse_client
        return sse(address.url, httpx_client_factory=factory)
    http = load("mcp.client.streamable_http").streamable_http_client
    client = await stack.enter_async_context(factory())
    return http(address.url, http_client=client, max_sse_event_size=LARGEST)


async def _stderr(stack: AsyncExitStack, tail: deque[str]) -> Any:
    """Returns a pipe for standard error that keeps its last lines."""
    reading, writing = os.pipe()
    source = stack.enter_context(os.fdopen(reading, "rb", 0))
    channel, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _Tail(tail), source)
    stack.callback(channel.close)
    return stack.enter_context(os.fdopen(writing, "w"))


class _Tail(asyncio.Protocol):
    def __init__(self, tail: deque[str]) -> None:
        self._tail = tail

    def data_received(self, data: bytes) -> None:
        for line in data[-_TAIL:].decode("utf-8", "replace").splitlines():
            if line.strip():
                self._tail.append(clip(line, 300))

"""`McpSession`: the operations of one MCP session (list, read, watch, call), and how it is opened.

`open_session` takes a `ServerAddress` and opens stdio or HTTP with the credentials for it, which it
renews. The `mcp` package negotiates the version of the protocol. No request leaves the origin that
the server was given by. Knows nothing about tools or runs.

The package makes one error of most HTTP statuses ("Server returned an error response"), and a
server that is away for a moment ends its session with every call in it. Here each becomes an error
of the protocol that belongs to the one request and says what happened.
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
"""The connection ended before the answer: nobody knows what became of the request."""
LOST: Final = -32097
"""The server does not know the session (any more), so it has not looked at the request."""
REFUSED: Final = -32096
"""The server does not accept the credentials."""
ABSENT: Final = -32095
"""Nobody answers at the server's address: the request was not sent."""
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of one event from a server: a result, or a page of its tools."""
_SHOWN: Final = 300
_TIMEOUT_S: Final = 30.0
_READING_S: Final = 300.0
"""Seconds between two pieces of an answer: a server may hold a stream of events open."""
_LOGGER: Final = logging.getLogger("taofold.mcp")

Headers: TypeAlias = Mapping[str, str]
_Sent: TypeAlias = Headers | Awaitable[Headers]
HeaderSource: TypeAlias = Callable[[], _Sent] | Callable[[Principal | None], _Sent]
"""Gives the headers, a principal's own where it takes one, when they are first needed, and again
whenever the server answers 401.
"""


class Credentials:
    """The headers for a server, as they were last read."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self.faults: tuple[type[Exception], ...] = ()
        """What is raised where nobody is signed in, and where that failed."""
        if address.oauth is not None:
            package = load("mcp.client.auth").OAuthFlowError
            self.faults = (SignInRequired, SignInFailed, package)
        self._known: dict[str, str] | None = None
        self._reading = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """What to send along.

        Raises:
            ConfigError: a variable that they name is not set.
        """
        async with self._reading:
            if self._known is None:
                self._known = await self._read()
            return self._known

    async def renewed(self, refused: dict[str, str]) -> bool:
        """Reads them again, unless somebody did meanwhile; are they others than `refused`?"""
        async with self._reading:
            if self._known == refused:
                self._known = await self._read()
            return self._known != refused

    async def _read(self) -> dict[str, str]:
        source = self._address.header_source
        if source is None:
            return with_environment(self._address.headers)
        # In a thread: a function may ask a keychain or run a command. What it awaits runs here.
        headers = await asyncio.to_thread(source)
        return dict(await headers if isawaitable(headers) else headers)


def client_factory(
    address: ServerAddress, credentials: Credentials, authorizer: Any = None
) -> Callable[..., Any]:
    """Returns a maker of HTTP clients with the signature that the package asks for.

    They send nothing to another origin than the server's. What `authorizer` (see `oauth`) sends
    goes to the authorization server that it admitted, and is not redirected elsewhere either: it
    may be a code, or a token.
    """
    errors = load("httpx2")
    scheme, host, port = origin(address.url)
    home = {(scheme, host, port)}
    if (scheme, port) == ("http", 80):
        home.add(("https", host, 443))  # the same server, better protected

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
    """Returns the class of a client of `httpx2` that sends `credentials`."""

    class ServerClient(errors.AsyncClient):  # type: ignore[misc]
        """Answers for the server where it gives no answer of the protocol."""

        async def send(self, request: Any, **options: Any) -> Any:
            try:
                sent = await credentials.headers()
                response = await self._sent(request, sent, options)
                # Once, and only with other credentials than were refused: no loop of refusals.
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
                # Raised, it would end the session and every other call in it.
                text = f"the connection broke off ({type(error).__name__})"
                return _answer(errors, request, 503, CLOSED, text)
            return await self._judged(request, response)

        async def _renewed(self, refused: dict[str, str]) -> bool:
            try:
                return await credentials.renewed(refused)
            except Exception:  # the refusal is what is told
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
            # The specification demands 404; many servers made with the TypeScript SDK say 400.
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
"""A server that failed in the middle, or a gateway that did not wait for its answer."""


def _refusal(status: int, reason: str) -> str:
    what = "does not accept the credentials" if status == 401 else "forbids it"
    more = f": {reason}" if reason else ""
    return f"the server {what} ({status}){more}; check its `headers`"


async def _reason(response: Any) -> str:
    """What the server says about it, without secrets."""
    await response.aread()
    return clip(Redactor(guesses=True).text(" ".join(response.text.split())), _SHOWN)


async def _whole(errors: Any, request: Any, response: Any) -> Any:
    """The answer, read here if it is a document: the package does not say what broke it off."""
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
    """Does the request want something of a server that was greeted?

    The package itself reads the refusal of a greeting, to greet in the older way.
    """
    return _method(request).startswith(("tools/", "resources/", "prompts/", "tasks/"))


def _method(request: Any) -> str:
    """Returns the method of the protocol that the request is for, or ""."""
    try:
        return str(json.loads(request.content or b"null")["method"])
    except (ValueError, TypeError, KeyError):
        return ""


def _is_protocol(response: Any) -> bool:
    """Is the answer one of the protocol, which says more than its status?"""
    return '"jsonrpc"' in response.text


def _answer(errors: Any, request: Any, status: int, code: int, message: str) -> Any:
    error = {"code": code, "message": message}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return errors.Response(status, json=body, request=request)


URL_REQUIRED: Final = -32042
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
_TAIL: Final = 4_000
_LOOK_S: Final = 1.0
"""Seconds between two looks whether a session of the older era is still there."""

Elicit = Callable[[Any, Any], Awaitable[Any]]
Hear = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SessionHandlers:
    """Who answers what a server asks in a session. None: the server is told that nobody does."""

    elicit: Elicit
    hear: Hear
    """Gets its notifications."""
    sample: Elicit | None = None
    roots: Hear | None = None


async def _unchecked(*_: Any) -> None:
    return


class McpSession:
    """A connection that is open. `modern` is the era of 2026: a call may end in a question."""

    def __init__(self, inner: Any, *, modern: bool) -> None:
        self.inner, self.modern = inner, modern
        # Results are checked by us: a server's pattern on a server's text could run for ever, and
        # a regular expression that runs holds up the whole process.
        inner.validate_tool_result = _unchecked
        self.idle = asyncio.Event()
        """Set while no call is under way."""
        self.idle.set()
        self._calls = 0

    @contextmanager
    def busy(self) -> Generator[None]:
        """A call is under way."""
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
        """Is it known that the server has gone?"""
        # Private to the package, which has no other word
        # for it; a session without it counts as open.
        return getattr(getattr(self.inner, "_dispatcher", None), "_closed", False) is True

    @property
    def instructions(self) -> str:
        """What the server says of itself: data, never ours."""
        return str(self.inner.instructions or "")

    def declares(self, what: str) -> bool:
        """True if the server declares tools, resources or prompts."""
        return getattr(self.inner.server_capabilities, what) is not None

    def tells(self, what: str) -> bool:
        """True if the server declares notifications about changes of these."""
        offered = getattr(self.inner.server_capabilities, what)
        return offered is not None and bool(offered.list_changed)

    async def listen(self, hear: Hear) -> None:
        """Tell `hear` when the tools change, until the server goes away (the newer era)."""
        subscriptions = load("mcp.client.subscriptions")
        # The list of a server without subscriptions is read again after its time-to-live.
        with suppress(Exception):
            async with subscriptions.listen(self.inner, tools_list_changed=True) as events:
                async for event in events:
                    if isinstance(event, subscriptions.ToolsListChanged):
                        await hear(SimpleNamespace(method=TOOLS_CHANGED))

    async def listed(self, what: str, cursor: str | None) -> Any:
        """One page of tools, prompts, resources or resource_templates."""
        ask = getattr(self.inner, f"list_{what}")
        return await ask(params=load("mcp.types").PaginatedRequestParams(cursor=cursor))

    async def read(self, uri: str) -> Any:
        """A resource."""
        return await self.inner.read_resource(uri)

    async def watch(self, uris: Sequence[str], hear: Callable[[str], None]) -> None:
        """Tell `hear` of each of these resources that changes, until the server goes away.

        In the older era the server tells `hear` of the session (`open_session`) instead.
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
        """A prompt, filled in."""
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
        """Call a tool; its result, or the question that it ends in."""
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
    """A session with the server at `address`: started, connected and greeted.

    `tail` takes the last lines of what a program writes to standard error. `authorizer` authorizes
    the requests; by default with the tokens that are kept, if the address says so.
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
    """What opens the streams: as the package makes it."""
    if address.kind == "stdio":
        stdio = load("mcp.client.stdio")
        # The mark last: an agent file cannot clear it (`cli.authority`).
        env = {**with_environment(address.env), MARK: f"{SERVER}{address.label}"}
        # What is no UTF-8 must not end the reading: every later call would wait for its deadline.
        program = stdio.StdioServerParameters(
            command=address.command,
            args=list(address.args),
            env=env,
            cwd=address.cwd or None,
            encoding_error_handler="replace",
        )
        return stdio.stdio_client(program, errlog=await _stderr(stack, tail))
    credentials = Credentials(address)
    await credentials.headers()  # what is missing is told before anything is sent
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
    """Where a program may complain: its last lines are kept, the rest goes."""
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

"""The `mcp` package, as far as it is used: opening a session, in either of its generations.

The only module of the client side that imports it. Generation 2 speaks both eras of the protocol;
generation 1 (some frameworks still pin it) only the older one, under other names: `get` reads both.
"""

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from importlib import import_module
from inspect import signature
from typing import Any, Final, cast

from taofold import __version__
from taofold.bridges.mcp_http import CLOSED as CLOSED
from taofold.bridges.mcp_http import LARGEST, Credentials, client_factory
from taofold.bridges.mcp_place import Place, filled
from taofold.core.errors import ConfigError
from taofold.reserved import MARK, SERVER

HINT: Final = "the mcp package is missing: pip install 'taofold[mcp]'"
URL_REQUIRED: Final = -32042
_LOGGER: Final = logging.getLogger("mcp")
_SILENT: Final = logging.NullHandler()
_TAIL: Final = 4_000
_HUMP: Final = re.compile(r"_([a-z])")

Elicit = Callable[[Any, Any], Awaitable[Any]]
Hear = Callable[[Any], Awaitable[None]]


def load(module: str = "mcp") -> Any:
    """A module of the package. Raises ConfigError with the way to install it."""
    # What it logs is for whoever listens: without a handler, tracebacks go to the terminal.
    _LOGGER.addHandler(_SILENT)
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "mcp":
            raise ConfigError(HINT) from error
        broken = f"the mcp package cannot be loaded ({error}): pip install 'taofold[mcp]'"
        raise ConfigError(broken) from error


def get(thing: Any, name: str, default: Any = None) -> Any:
    """The attribute `name`, under the name that either generation gives it."""
    found = getattr(thing, name, None)
    if found is None:
        found = getattr(thing, _HUMP.sub(lambda hump: hump.group(1).upper(), name), None)
    return default if found is None else found


def plain(model: Any) -> Any:
    """A model of the package as JSON, with the names of the protocol."""
    dump = getattr(model, "model_dump", None)
    return model if dump is None else dump(mode="json", by_alias=True, exclude_none=True)


def code(error: BaseException) -> int | None:
    """The code of an error of the protocol; None if it is none."""
    inner = getattr(error, "error", None)
    found = getattr(inner, "code", getattr(error, "code", None))
    return found if isinstance(found, int) else None


def data(error: BaseException) -> Any:
    """What came with an error of the protocol."""
    return getattr(getattr(error, "error", None), "data", None)


def innermost(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that task groups make of it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


async def _unchecked(*_: Any) -> None:
    return


class Session:
    """A connection that is open. `modern` is the era of 2026: a call may end in a question."""

    def __init__(self, inner: Any, *, modern: bool, second: bool) -> None:
        self.inner, self.modern, self._second = inner, modern, second
        # Results are checked by us: a server's pattern on a server's text could run for ever, and
        # a regular expression that runs holds up the whole process.
        inner.validate_tool_result = inner._validate_tool_result = _unchecked
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
        return getattr(getattr(self.inner, "_dispatcher", None), "_closed", False) is True

    @property
    def instructions(self) -> str:
        """What the server says of itself: data, never ours."""
        return str(getattr(self.inner, "instructions", None) or "")

    async def listed(self, what: str, cursor: str | None) -> Any:
        """One page of tools, prompts, resources or resource_templates."""
        ask = getattr(self.inner, f"list_{what}")
        if not self._second:
            return await ask(cursor)
        return await ask(params=load("mcp.types").PaginatedRequestParams(cursor=cursor))

    async def read(self, uri: str) -> Any:
        """A resource."""
        return await self.inner.read_resource(uri)

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
        if not self._second:
            limit = None if seconds is None else timedelta(seconds=seconds)
            return await self.inner.call_tool(name, arguments, limit, progress_callback=progress)
        return await self.inner.call_tool(
            name,
            arguments,
            seconds,
            progress,
            input_responses=responses,
            request_state=sealed,
            allow_input_required=True,
        )


@asynccontextmanager
async def opened(
    place: Place, mode: str, elicit: Elicit, hear: Hear, tail: deque[str]
) -> AsyncGenerator[Session]:
    """A session with the server at `place`: started, connected and greeted.

    `tail` takes the last lines of what a program writes to standard error.
    """
    mcp = load()
    async with AsyncExitStack() as stack:
        if place.kind == "here":
            transport: Any = place.server
        else:
            transport = await _transport(place, stack, tail)
        if not hasattr(mcp, "Client"):
            streams = await stack.enter_async_context(transport)
            session: Any = mcp.ClientSession(
                *streams[:2], elicitation_callback=elicit, message_handler=hear
            )
            await stack.enter_async_context(session)
            await session.initialize()
            yield Session(session, modern=False, second=False)
            return
        client = mcp.Client(
            transport,
            mode=mode,
            elicitation_callback=elicit,
            message_handler=hear,
            client_info=mcp.Implementation(name="taofold", version=__version__),
            cache=None,
        )
        await stack.enter_async_context(client)
        modern = str(client.protocol_version) >= "2026"
        yield Session(client.session, modern=modern, second=True)


async def _transport(place: Place, stack: AsyncExitStack, tail: deque[str]) -> Any:
    """What opens the streams: as the package makes it."""
    if place.kind == "stdio":
        stdio = load("mcp.client.stdio")
        env = {**filled(place.env), MARK: f"{SERVER}{place.label}"}
        program = stdio.StdioServerParameters(
            command=place.command, args=list(place.args), env=env, cwd=place.cwd or None
        )
        return stdio.stdio_client(program, errlog=await _stderr(stack, tail))
    credentials = Credentials(place)
    await credentials.headers()  # what is missing is told before anything is sent
    create = load("mcp.shared._httpx_utils").create_mcp_http_client
    factory = client_factory(place, credentials, create)
    if place.kind == "sse":
        sse = load("mcp.client.sse").sse_client
        return sse(place.url, httpx_client_factory=factory)
    http = load("mcp.client.streamable_http")
    if not hasattr(http, "streamable_http_client"):
        return http.streamablehttp_client(place.url, httpx_client_factory=factory)
    connect = http.streamable_http_client
    client = await stack.enter_async_context(factory())
    bounded = "max_sse_event_size" in signature(connect).parameters
    more = {"max_sse_event_size": LARGEST} if bounded else {}
    return connect(place.url, http_client=client, **more)


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
                self._tail.append(line[:300])

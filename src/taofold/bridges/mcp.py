"""MCP servers as toolsets: `Agent(..., tools=[McpServer.stdio("npx", "-y", "…")])`.

A server is started or connected when its tools are first needed, in the background; it is kept for
as long as the process lives, or until `close`. What it says is data: it never lowers a tier unless
`trust` says so, and a tool that changed or is new since the server was met is called only after a
person has accepted it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

from typing_extensions import Unpack

from taofold.bridges import mcp_definitions as definitions
from taofold.bridges import mcp_results as results
from taofold.bridges.mcp_connection import Unreachable, beside, submitted
from taofold.bridges.mcp_definitions import Definition
from taofold.bridges.mcp_http import Headers, HeaderSource
from taofold.bridges.mcp_options import Options
from taofold.bridges.mcp_pins import Pins
from taofold.bridges.mcp_place import Place
from taofold.bridges.mcp_readers import readers
from taofold.bridges.mcp_sdk import get, load
from taofold.bridges.mcp_serving import Serving
from taofold.core.errors import ConfigError
from taofold.tools import Answer, InputRequired, Outcome, RunContext, Tool, Toolset

SLACK: Final = 5.0
_LOGGER: Final = logging.getLogger("taofold.mcp")


async def _asked(ask: Callable[[InputRequired], Awaitable[Answer]], wants: InputRequired) -> Answer:
    return await ask(wants)


def _place(kind: Literal["http", "sse"], url: str, headers: Headers | HeaderSource | None) -> Place:
    if callable(headers):
        return Place(kind, url=url, header_source=headers)
    return Place(kind, url=url, headers=dict(headers or {}))


class McpServer(Toolset):
    """The tools of one MCP server. It is asked for them at the first use."""

    __slots__ = ("_lock", "_made", "_options", "_pins", "_serving", "label", "place")
    remote: ClassVar[bool] = True

    def __init__(self, place: Place, **options: Unpack[Options]) -> None:
        self.place = place
        self._options = options
        self.label = options.get("name") or place.label
        pins = options.get("pins", True)
        folder = None if isinstance(pins, bool) else pins
        kept = place.kind != "here" if pins is True else pins is not False
        self._pins = Pins(Pins.file(place, folder) if kept else None)
        self._lock = threading.Lock()
        self._made: dict[str, Tool] | None = None
        self._serving: Serving | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = "",
        **options: Unpack[Options],
    ) -> Self:
        """A program to start. It inherits PATH, HOME and the like, and what `env` says."""
        place = Place("stdio", command, tuple(args), dict(env or {}), str(cwd))
        return cls(place, **options)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Headers | HeaderSource | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """A server that speaks streamable HTTP.

        `headers` may be a function that gives them, awaited if need be: it is asked once, and
        again whenever the server answers 401.
        """
        return cls(_place("http", url, headers), **options)

    @classmethod
    def sse(
        cls,
        url: str,
        *,
        headers: Headers | HeaderSource | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """A server that speaks the older HTTP with server-sent events; `headers` as in `http`."""
        return cls(_place("sse", url, headers), **options)

    @classmethod
    def within(cls, server: Any, **options: Unpack[Options]) -> Self:
        """A server object of the mcp package, in this process."""
        return cls(Place("here", server=server), **options)

    def __getitem__(self, name: str) -> Tool:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"McpServer({self.label}: {self.place.words})"

    def __eq__(self, other: object) -> bool:
        return self is other

    def _all(self) -> dict[str, Tool]:
        """The tools; waits for the server the first time.

        Raises:
            ConfigError: it is required and cannot be reached, or cannot be used as described.
        """
        with self._lock:
            if self._made is None:
                seconds = self._options.get("connect_timeout", 30.0)
                work = submitted(self._offer())
                try:
                    self._made = work.result(2 * seconds + SLACK)
                except TimeoutError:
                    work.cancel()
                    raise ConfigError(f"{self!r} did not list its tools in time") from None
            return self._made

    async def open(self) -> Self:
        """Ask for the tools now, without holding up the event loop."""
        if self._made is None:
            await asyncio.to_thread(self._all)
        return self

    async def close(self) -> None:
        """End the connection and the program. A later call opens it again."""
        if self._serving is not None:
            await beside(self._serving.connection.close())

    async def __aenter__(self) -> Self:
        """`open`."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """`close`."""
        await self.close()

    @property
    def skipped(self) -> tuple[str, ...]:
        """What the server lists and cannot be offered, and why."""
        return () if self._serving is None else self._serving.skipped

    @property
    def instructions(self) -> str:
        """What the server says of itself. It is data: nothing puts it into a prompt."""
        return "" if self._serving is None else self._serving.instructions

    async def _offer(self) -> dict[str, Tool]:
        load()
        options = self._options
        only = options.get("tools")
        wanted = None if only is None else list(only)
        if self._serving is None:
            mode, seconds = options.get("mode", "auto"), options.get("connect_timeout", 30.0)
            self._serving = Serving(
                self.label,
                self.place,
                self._pins,
                mode=mode,
                connect_timeout=seconds,
                wanted=None if wanted is None else frozenset(wanted),
            )
        try:
            found = await self._serving.tools()
        except Unreachable as error:
            if options.get("required", True):
                raise ConfigError(f"mcp server {self.label!r}: {error}") from error
            return {}
        for flaw in self._serving.skipped:
            _LOGGER.warning("mcp server %r: a tool is left out: %s", self.label, flaw)
        names = [one.name for one in found]
        missing = [name for name in wanted or () if name not in names]
        if missing:
            raise ConfigError(
                f"mcp server {self.label!r} has no tools {missing}; it has "
                f"{', '.join(self._serving.names or names)}"
            )
        made: dict[str, Tool] = {}
        prefix = options.get("prefix")
        prefix = f"{self.label}_" if prefix is None else prefix
        for one in found:
            if wanted is None or one.name in wanted:
                name = definitions.safe(one.name, prefix, made)
                made[name] = self._tool(one, name)
        for tool in readers(self, prefix, self._options):
            made.setdefault(tool.name, tool)
        return made

    def _tool(self, one: Definition, name: str) -> Tool:
        async def call(ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
            assert self._serving is not None
            loop = asyncio.get_running_loop()

            def report(text: str) -> None:
                loop.call_soon_threadsafe(ctx.report, text)

            async def ask(wants: InputRequired) -> Answer:
                assert ctx.ask is not None
                return await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(_asked(ctx.ask, wants), loop)
                )

            there = None if ctx.ask is None else ask
            return await beside(self._serving.call(one, ctx, parameters, report, there))

        options = self._options
        return definitions.made(
            one,
            name,
            call,
            trusted=options.get("trust", False),
            toolset=self.label,
            timeout=options.get("timeout", 60.0),
        )

    async def _served(self) -> Serving:
        await self.open()
        assert self._serving is not None
        return self._serving

    async def resources(self) -> list[dict[str, Any]]:
        """The server's resources, as it lists them."""
        return await beside((await self._served()).pages("resources"))

    async def prompts(self) -> list[dict[str, Any]]:
        """The server's prompts, as it lists them."""
        return await beside((await self._served()).pages("prompts"))

    async def read(self, uri: str) -> str:
        """The contents of a resource: text, or what it is."""
        serving = await self._served()
        said = await beside(serving.connection.use(lambda session: session.read(uri)))
        return results.bounded("\n".join(map(results.resource, get(said, "contents", ()))))

    async def prompt(self, name: str, /, **arguments: str) -> str:
        """A prompt filled in, a line for each message."""
        serving = await self._served()
        said = await beside(serving.connection.use(lambda s: s.prompt(name, arguments)))
        return results.bounded("\n".join(map(results.message, get(said, "messages", ()))))

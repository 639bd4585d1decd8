"""MCP servers as toolsets: `Agent(..., tools=[McpServer.stdio("npx", "-y", "…")])`.

`McpServer` is the public class. It starts or connects the server in the background when its tools
are first needed, and keeps it until `close` or the end of the process. The server's data never
lowers a tier unless `trust` is set. A tool that is changed or new since the first contact is called
only after the user has accepted it. Resources and prompts are read by tools (`readers`) or by the
program itself, which can also wait for changes of resources. If credentials depend on the
principal, each principal has its own connection. `remote_server` talks to the connected server.
"""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from typing_extensions import TypedDict, Unpack

from taofold.bridges.foreign_tools import name_forms, safe_names
from taofold.bridges.mcp.client import definitions
from taofold.bridges.mcp.client.address import OAuth, ServerAddress
from taofold.bridges.mcp.client.connection import Unreachable, on_loop, submit
from taofold.bridges.mcp.client.definitions import Definition, Pins
from taofold.bridges.mcp.client.questions import ServerInputs
from taofold.bridges.mcp.client.remote_server import RemoteServer
from taofold.bridges.mcp.client.session import Headers, HeaderSource
from taofold.bridges.mcp.sdk import load
from taofold.core.errors import ConfigError
from taofold.core.option_values import checked_names
from taofold.core.values import Principal, Sideeffect, Tier
from taofold.tools import (
    Outcome,
    RunContext,
    Tool,
    Toolset,
    external,
)

A = TypeVar("A")
T = TypeVar("T")
Mode = Literal["auto", "legacy"]


class McpOptions(TypedDict, total=False):
    """Options of all constructors of `McpServer`."""

    name: str
    """Name in messages and prefix. Default: from the command or the host."""
    prefix: str | None
    """Prefix of each tool's name. Default: `name_`."""
    tools: Iterable[str]
    """Only these tools, by the server's names. Default: all."""
    trust: bool
    """Trust the server's hints: read-only tools get tier 1."""
    timeout: float
    """Seconds of a call, unless the model sets another time."""
    connect_timeout: float
    """Seconds for starting and connecting."""
    mode: Mode
    """`legacy` uses the older protocol, for servers that ask questions during a call."""
    required: bool
    """True: an unreachable server is an error. False: the agent runs without its tools."""
    resources: bool
    """Offer tools that list and read its resources."""
    prompts: bool
    """Offer tools that list and fill in its prompts."""
    roots: Iterable[str | Path]
    """Folders that the server may list. Default: none."""
    sampling: bool
    """True: the server may request answers of the run's model. Each request needs approval."""
    pins: Path | bool
    """Folder of the accepted definitions. True = the operator's folder, False = keep them in
    memory."""


_URI: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"uri": {"type": "string"}},
    "required": ["uri"],
    "additionalProperties": False,
}
_NOTHING: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
_PROMPT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def readers(
    server: str,
    server_for: Callable[[Principal], Awaitable[RemoteServer]],
    prefix: str,
    options: McpOptions,
    lacks: Collection[str] = (),
) -> list[Tool]:
    """Makes the tools for resources and prompts that the options request and the server declares.

    Requests to an untrusted server need approval. Each tool reads as the principal of the calling
    run.
    """
    tier = Tier.AUTO if options.get("trust", False) else Tier.CARD

    async def resources(ctx: RunContext[Any], _: dict[str, Any]) -> Any:
        return await on_loop((await server_for(ctx.principal)).pages("resources"))

    async def templates(ctx: RunContext[Any], _: dict[str, Any]) -> Any:
        return await on_loop((await server_for(ctx.principal)).pages("resource_templates"))

    async def prompts(ctx: RunContext[Any], _: dict[str, Any]) -> Any:
        return await on_loop((await server_for(ctx.principal)).pages("prompts"))

    async def read(ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
        return await on_loop((await server_for(ctx.principal)).read(parameters["uri"]))

    async def fill(ctx: RunContext[Any], parameters: dict[str, Any]) -> str:
        remote = await server_for(ctx.principal)
        return await on_loop(remote.prompt(parameters["name"], parameters.get("arguments", {})))

    def reader(name: str, text: str, schema: dict[str, Any], call: Callable[..., Any]) -> Tool:
        description = f"{text} (MCP server {server})"
        return external(
            prefix + name, description, schema, call, context=True, tier=tier, effect="read"
        )

    tools: list[Tool] = []
    if options.get("resources", False) and "resources" not in lacks:
        tools.append(reader("list_resources", "List what can be read", _NOTHING, resources))
        about = "List the forms of uris, in braces what to fill in, that read_resource takes"
        tools.append(reader("list_resource_templates", about, _NOTHING, templates))
        tools.append(reader("read_resource", "Read a resource", _URI, read))
    if options.get("prompts", False) and "prompts" not in lacks:
        tools.append(reader("list_prompts", "List the prompts", _NOTHING, prompts))
        tools.append(reader("get_prompt", "Fill in a prompt", _PROMPT, fill))
    return tools


SLACK: Final = 5.0
EFFECTS: Final[tuple[Sideeffect, ...]] = ("read", "idempotent", "once")
"""Effects, the most careful last."""
PRINCIPALS: Final = 64
"""Maximum open connections of one server for principals with their own credentials."""
_LOGGER: Final = logging.getLogger("taofold.mcp")


def _folders(roots: Iterable[str | Path]) -> tuple[Path, ...]:
    """Returns the folders. A text is refused: each letter would be a folder, such as "/"."""
    if isinstance(roots, str):
        checked_names(roots, "McpServer.roots")
    return tuple([Path(folder) for folder in roots])


def _renewed_copy(copy: Tool, original: Tool, renewed: Tool) -> Tool:
    """Renews a changed copy of `original`. Tiers and effects that the copy raised stay raised."""
    effect = max(copy.effect, renewed.effect, key=EFFECTS.index)
    return replace(
        copy,
        description=(
            renewed.description if copy.description == original.description else copy.description
        ),
        schema=renewed.schema,
        signature=renewed.signature,
        tier=max(copy.tier, renewed.tier),
        effect=effect,
        retries=0 if effect == "once" else copy.retries,
        function=renewed.function if copy.function is original.function else copy.function,
        renew=renewed.renew,
    )


def _across(ctx: RunContext[Any], loop: asyncio.AbstractEventLoop) -> RunContext[Any]:
    """Returns the context for the connections' thread: its functions run on the run's `loop`."""

    def report(text: str) -> None:
        loop.call_soon_threadsafe(ctx.report, text)

    def there(function: Callable[[A], Awaitable[T]] | None) -> Callable[[A], Awaitable[T]] | None:
        if function is None:
            return None

        async def awaited(argument: A) -> T:
            return await function(argument)

        async def call(argument: A) -> T:
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(awaited(argument), loop)
            )

        return call

    return replace(
        ctx,
        partial=[],
        on_progress=report,
        ask=there(ctx.ask),
        keep=there(ctx.keep),
        sample=there(ctx.sample),
    )


def _place(
    kind: Literal["http", "sse"],
    url: str,
    headers: Headers | HeaderSource | None,
    oauth: OAuth | None,
) -> ServerAddress:
    if callable(headers):
        personal = any(
            parameter.default is Parameter.empty
            for parameter in signature(headers).parameters.values()
        )
        return ServerAddress(kind, url=url, header_source=headers, personal=personal, oauth=oauth)
    return ServerAddress(kind, url=url, headers=dict(headers or {}), oauth=oauth)


class McpServer(Toolset):
    """The tools of one MCP server, listed at the first use."""

    __slots__ = (
        *(
            "_lock",
            "_made",
            "_made_of",
            "_offered_inputs",
            "_options",
            "_personal",
            "_pins",
            "_renewing",
            "_server",
        ),
        *("label", "address"),
    )
    remote: ClassVar[bool] = True

    def __init__(self, address: ServerAddress, **options: Unpack[McpOptions]) -> None:
        argument: Any = address
        if not isinstance(argument, ServerAddress):
            raise ConfigError(
                "write McpServer.http(url), McpServer.stdio(program, *arguments) or "
                f"McpServer.within(server), not McpServer({argument!r:.100})"
            )
        self.address = address
        selection = options.get("tools")
        if selection is not None:
            # It is iterated more than once.
            options["tools"] = checked_names(selection, "McpServer.tools")
        self._options = options
        self._offered_inputs = ServerInputs(
            _folders(options.get("roots", ())),
            options.get("sampling", False),
        )
        self.label = options.get("name") or address.label
        pins = options.get("pins", True)
        folder = None if isinstance(pins, bool) else pins
        # A server object in this process is the program's own code, so its tools are not pinned.
        pinned = address.kind != "here" if pins is True else pins is not False
        self._pins = Pins(Pins.file(address, folder) if pinned else None, address.words)
        self._lock = threading.Lock()
        self._made: dict[str, Tool] | None = None
        self._made_of = 0
        """Number of changes of the pins when `_made` was built."""
        self._renewing: Future[None] | None = None
        self._server: RemoteServer | None = None
        self._personal: OrderedDict[str, RemoteServer] = OrderedDict()
        """Servers by principal id, if each has its own credentials; the newest last."""

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = "",
        **options: Unpack[McpOptions],
    ) -> Self:
        """Makes a server from a program to start.

        It inherits PATH, HOME and similar variables, and gets `env`.
        """
        address = ServerAddress("stdio", command, tuple(args), dict(env or {}), str(cwd))
        return cls(address, **options)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Headers | HeaderSource | None = None,
        oauth: OAuth | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """Makes a server over streamable HTTP.

        `headers` may be a function, also async. It is called once, and again after each response
        401. A function with a parameter gets the principal of the calling run (None when tools are
        listed); each principal then has its own connection and credentials. `oauth` uses the tokens
        of a sign-in (`taofold mcp login`) or the client's own credentials.
        `OAuth(per_principal=True)` uses the tokens of the run's principal.
        """
        return cls(_place("http", url, headers, oauth), **options)

    @classmethod
    def sse(
        cls,
        url: str,
        *,
        headers: Headers | HeaderSource | None = None,
        oauth: OAuth | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """Makes a server over the older HTTP transport with server-sent events.

        `headers` as in `http`.
        """
        return cls(_place("sse", url, headers, oauth), **options)

    @classmethod
    def within(cls, server: Any, **options: Unpack[McpOptions]) -> Self:
        """Makes a server from a server object of the mcp package, in this process."""
        return cls(ServerAddress("here", server=server), **options)

    def __getitem__(self, name: str) -> Tool:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"McpServer({self.label}: {self.address.words})"

    def __eq__(self, other: object) -> bool:
        return self is other

    def _all(self) -> dict[str, Tool]:
        """Returns the currently accepted tools; waits for the server the first time.

        Raises:
            ConfigError: The server is required and unreachable, or its options are wrong.
        """
        # A thread lock, because synchronous code on any thread looks up tools.
        with self._lock:
            if self._made is None:
                seconds = self._options.get("connect_timeout", 30.0)
                work = submit(self._offer())
                try:
                    # Connecting and listing have a timeout each; the slack lets their own errors
                    # come first.
                    self._made = work.result(2 * seconds + SLACK)
                except TimeoutError:
                    work.cancel()
                    raise ConfigError(f"{self!r} did not list its tools in time") from None
            if self._server is not None and self._server.stale:
                self._renew()
            changes = self._pins.changes
            if self._made_of != changes:
                self._made = {name: tool.renewed() for name, tool in self._made.items()}
                self._made_of = changes
            return self._made

    def _renew(self) -> None:
        """Lists the tools again in the background, for the next lookup."""
        if self._renewing is None or self._renewing.done():
            self._renewing = submit(self._renewed())

    async def _renewed(self) -> None:
        try:
            made = await self._offer()
        except ConfigError as error:
            _LOGGER.warning("%s; its tools of before are kept", error)
            return
        if made:
            self._made = made

    async def open(self) -> Self:
        """Lists the tools now, without blocking the event loop."""
        if self._made is None:
            await asyncio.to_thread(self._all)
        return self

    async def close(self) -> None:
        """Closes the connection and stops the program. A later call opens it again."""
        for server in (self._server, *self._personal.values()):
            if server is not None:
                await on_loop(server.connection.close())

    async def __aenter__(self) -> Self:
        """Calls `open`."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Calls `close`."""
        await self.close()

    @property
    def skipped(self) -> tuple[str, ...]:
        """Listed tools that cannot be offered, with reasons."""
        return () if self._server is None else self._server.skipped

    @property
    def instructions(self) -> str:
        """The server's instructions. They are foreign data and never put into a prompt."""
        return "" if self._server is None else self._server.instructions

    async def _offer(self) -> dict[str, Tool]:
        load()
        options = self._options
        selection = options.get("tools")
        if self._server is None:
            self._server = self._work(self.address.of(None))
        try:
            definitions_now = await self._server.tools()
        except Unreachable as error:
            if options.get("required", True):
                raise ConfigError(f"mcp server {self.label!r}: {error}") from error
            return {}
        for flaw in self._server.skipped:
            _LOGGER.warning("mcp server %r: a tool is left out: %s", self.label, flaw)
        names = [definition.name for definition in definitions_now]
        self._refuse_missing(names, self._server.names)
        tools: dict[str, Tool] = {}
        prefix = options.get("prefix")
        prefix = f"{self.label}_" if prefix is None else prefix
        # Includes tools that are missing now, so that no other tool gets their names.
        named = safe_names(selection or {*names, *self._pins.known()}, prefix)
        for entry in definitions_now:
            if selection is None or entry.name in selection:
                name = named[entry.name]
                forms = name_forms(entry.name, prefix)
                aliases = tuple([form for form in forms if form != name])
                tools[name] = self._tool(entry, name, aliases)
        for tool in readers(self.label, self._served_to, prefix, options, self._server.lacks):
            # A server's tool takes precedence over a reader with the same name.
            tools.setdefault(tool.name, tool)
        return tools

    def _refuse_missing(self, names: Sequence[str], listed: Sequence[str]) -> None:
        """Raises `ConfigError` if the options name a tool that is not in `names`."""
        missing = [name for name in self._options.get("tools") or () if name not in names]
        if missing:
            raise ConfigError(
                f"mcp server {self.label!r} has no tools {missing}; it has "
                f"{', '.join(listed or names)}"
            )

    def _work(self, address: ServerAddress) -> RemoteServer:
        """Makes the client of the server at `address`."""
        options = self._options
        only = options.get("tools")
        return RemoteServer(
            self.label,
            address,
            self._pins,
            mode=options.get("mode", "auto"),
            connect_timeout=options.get("connect_timeout", 30.0),
            selection=None if only is None else frozenset(only),
            offer=self._offered_inputs,
            changed=self._renew,
        )

    def _for(self, principal: Principal) -> RemoteServer:
        """Returns the client for `principal`.

        Runs on the connections' loop, so it needs no lock.
        """
        assert self._server is not None
        if not self.address.per_principal:
            return self._server
        server = self._personal.pop(principal.id, None)
        self._personal[principal.id] = server = server or self._work(self.address.of(principal))
        while len(self._personal) > PRINCIPALS:
            _, oldest = self._personal.popitem(last=False)
            oldest.connection.retire()
        return server

    def _tool(self, definition: Definition, name: str, aliases: tuple[str, ...]) -> Tool:
        """Makes the tool of `definition`. It is renewed when another definition is accepted."""

        async def call(ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
            across = _across(ctx, asyncio.get_running_loop())

            async def called() -> Outcome:
                return await self._for(ctx.principal).call(definition, across, parameters)

            return await on_loop(called())

        def renew(tool: Tool) -> Tool:
            accepted = self._pins.known().get(definition.name)
            if accepted is None or accepted.digest == definition.digest:
                return tool
            renewed = self._tool(accepted, name, aliases)
            return renewed if tool is original else _renewed_copy(tool, original, renewed)

        options = self._options
        plain = definitions.tool_of(
            definition,
            name,
            call,
            trusted=options.get("trust", False),
            toolset=self.label,
            timeout=options.get("timeout", 60.0),
        )
        original = replace(plain, aliases=aliases, renew=renew)
        return original

    async def _served(self) -> RemoteServer:
        await self.open()
        assert self._server is not None
        return self._server

    async def _served_to(self, principal: Principal) -> RemoteServer:
        await self.open()

        async def chosen() -> RemoteServer:
            return self._for(principal)

        return await on_loop(chosen())

    async def resources(self) -> list[dict[str, Any]]:
        """Returns the server's list of resources."""
        return await on_loop((await self._served()).pages("resources"))

    async def templates(self) -> list[dict[str, Any]]:
        """Returns the server's list of URI templates (RFC 6570)."""
        return await on_loop((await self._served()).pages("resource_templates"))

    async def changes(self, *uris: str) -> AsyncGenerator[str]:
        """Yields the uri of one of these resources whenever the server reports a change.

            async for uri in server.changes("memo://today"):
                print(await server.read(uri))

        After a lost connection each uri is yielded once, because changes may have been missed.

        Raises:
            MCPError: An error of the mcp package: the server has no subscriptions.
        """
        server, loop = await self._served(), asyncio.get_running_loop()
        changed: asyncio.Queue[str] = asyncio.Queue()
        pending = set[str]()

        def note(uri: str) -> None:
            # Reported once until it is read: a server may send many notifications per second.
            if uri not in pending:
                pending.add(uri)
                changed.put_nowait(uri)

        def heard(uri: str) -> None:
            # From the connections' thread to the watcher's event loop.
            loop.call_soon_threadsafe(note, uri)

        watching = asyncio.ensure_future(on_loop(server.watch(uris, heard)))
        # Waited for in parallel, because the watching may end without another change.
        waiting = asyncio.ensure_future(changed.get())
        try:
            while True:
                await asyncio.wait([waiting, watching], return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    await watching
                    return
                pending.discard(waiting.result())
                yield waiting.result()
                waiting = asyncio.ensure_future(changed.get())
        finally:
            waiting.cancel()
            watching.cancel()

    async def prompts(self) -> list[dict[str, Any]]:
        """Returns the server's list of prompts."""
        return await on_loop((await self._served()).pages("prompts"))

    async def read(self, uri: str) -> str:
        """Returns a resource as text, or a description of it."""
        return str((await on_loop((await self._served()).read(uri))).value)

    async def prompt(self, name: str, /, **arguments: str) -> str:
        """Returns a filled-in prompt, one line for each message."""
        return await on_loop((await self._served()).prompt(name, arguments))

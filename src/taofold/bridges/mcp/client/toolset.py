"""MCP servers as toolsets: `Agent(..., tools=[McpServer.stdio("npx", "-y", "…")])`.

`McpServer` is what people configure. It is started or connected when its tools are first needed, in
the background, and kept for as long as the process lives, or until `close`. What it says is data:
it never lowers a tier unless `trust` says so, and a tool that changed or is new since the server
was met is called only after a person has accepted it. Resources and prompts of the server are read
by tools of ours (`readers`), or by the program itself, which may also wait for changes of
resources. Where credentials depend on who asks, each principal has a connection of its own. What is
done with a server that is up is in `remote_server`.
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
from taofold.core.values import Principal, Sideeffect, Tier
from taofold.tools import (
    InputRequired,
    ModelAnswer,
    ModelQuestion,
    Outcome,
    PersonAnswer,
    RunContext,
    Tool,
    Toolset,
    external,
)

T = TypeVar("T")
Mode = Literal["auto", "legacy"]


class McpOptions(TypedDict, total=False):
    """What every way to make an `McpServer` takes."""

    name: str
    """In messages and as prefix; by default taken from the command or the host."""
    prefix: str | None
    """Before each tool's name; by default `name_`."""
    tools: Iterable[str]
    """Only these, by the server's names; by default all."""
    trust: bool
    """Believe what it says of its tools: what is read-only is tier 1 then."""
    timeout: float
    """Seconds that a call may take, if the model asks for no other time."""
    connect_timeout: float
    """Seconds that starting and connecting may take."""
    mode: Mode
    """`legacy` speaks the older protocol, for servers that ask while they work."""
    required: bool
    """Without the server there is no agent; else there are only no such tools."""
    resources: bool
    """Offer tools that list and read its resources."""
    prompts: bool
    """Offer tools that list and fill in its prompts."""
    roots: Iterable[str | Path]
    """Folders that it is told of when it asks for them; by default none."""
    sampling: bool
    """May it ask, each time with a person's word, for an answer of the run's own model?"""
    pins: Path | bool
    """Folder of what was accepted; True = the operator's, False = forget it with the process."""


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
    """The tools that the options ask for, without those for what the server does not declare.

    Requests to an untrusted server need an approval.

    Each reads as the principal of the run that calls it.
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
"""The more careful ones last."""
PRINCIPALS: Final = 64
"""With credentials of their own, whose connections one server keeps open."""
_LOGGER: Final = logging.getLogger("taofold.mcp")


def _renewed_copy(copy: Tool, original: Tool, renewed: Tool) -> Tool:
    """What becomes of somebody's changed copy of `original`: nothing that he raised is lowered."""
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


async def _awaited(work: Awaitable[T]) -> T:
    return await work


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
    """The tools of one MCP server. It is asked for them at the first use."""

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
            options["tools"] = list(selection)  # it is gone through more than once
        self._options = options
        self._offered_inputs = ServerInputs(
            tuple([Path(folder) for folder in options.get("roots", ())]),
            options.get("sampling", False),
        )
        self.label = options.get("name") or address.label
        pins = options.get("pins", True)
        folder = None if isinstance(pins, bool) else pins
        # A server object in this process is our own code: nothing is kept about it by default.
        pinned = address.kind != "here" if pins is True else pins is not False
        self._pins = Pins(Pins.file(address, folder) if pinned else None, address.words)
        self._lock = threading.Lock()
        self._made: dict[str, Tool] | None = None
        self._made_of = 0
        """The changes of the pins that `_made` knows of."""
        self._renewing: Future[None] | None = None
        self._server: RemoteServer | None = None
        self._personal: OrderedDict[str, RemoteServer] = OrderedDict()
        """By the principal's id, where each has credentials of its own; the newest last."""

    @classmethod
    def stdio(
        cls,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | Path = "",
        **options: Unpack[McpOptions],
    ) -> Self:
        """A program to start. It inherits PATH, HOME and the like, and what `env` says."""
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
        """A server that speaks streamable HTTP.

        `headers` may be a function that gives them, awaited if need be: it is asked once, and
        again whenever the server answers 401. One with a parameter gets the principal of the run
        that calls (None where the tools are listed): each principal has its own connection then,
        with its own credentials. With `oauth`, the tokens are used for which somebody
        has signed in (`taofold mcp login`), or the client's own credentials; with
        `OAuth(per_principal=True)` those for which the principal of the run has signed in.
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
        """A server that speaks the older HTTP with server-sent events; `headers` as in `http`."""
        return cls(_place("sse", url, headers, oauth), **options)

    @classmethod
    def within(cls, server: Any, **options: Unpack[McpOptions]) -> Self:
        """A server object of the mcp package, in this process."""
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
        """The tools as they are accepted now; waits for the server the first time.

        Raises:
            ConfigError: it is required and cannot be reached, or cannot be used as described.
        """
        # A thread's lock: tools are looked up from synchronous code, on any thread.
        with self._lock:
            if self._made is None:
                seconds = self._options.get("connect_timeout", 30.0)
                work = submit(self._offer())
                try:
                    # Connecting and listing may each take their time;
                    # the slack lets their own errors come first.
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
        """List the tools again in the background, for the next lookup."""
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
        """Ask for the tools now, without holding up the event loop."""
        if self._made is None:
            await asyncio.to_thread(self._all)
        return self

    async def close(self) -> None:
        """End the connection and the program. A later call opens it again."""
        for server in (self._server, *self._personal.values()):
            if server is not None:
                await on_loop(server.connection.close())

    async def __aenter__(self) -> Self:
        """`open`."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """`close`."""
        await self.close()

    @property
    def skipped(self) -> tuple[str, ...]:
        """What the server lists and cannot be offered, and why."""
        return () if self._server is None else self._server.skipped

    @property
    def instructions(self) -> str:
        """What the server says of itself. It is data: nothing puts it into a prompt."""
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
        # Also those that are gone for now: while they are, nobody else has their names.
        named = safe_names(selection or {*names, *self._pins.known()}, prefix)
        for entry in definitions_now:
            if selection is None or entry.name in selection:
                name = named[entry.name]
                forms = name_forms(entry.name, prefix)
                aliases = tuple([form for form in forms if form != name])
                tools[name] = self._tool(entry, name, aliases)
        for tool in readers(self.label, self._served_to, prefix, options, self._server.lacks):
            # A tool of the server's wins over a reader of ours with the same name.
            tools.setdefault(tool.name, tool)
        return tools

    def _refuse_missing(self, names: Sequence[str], listed: Sequence[str]) -> None:
        """Raise `ConfigError` if the options name a tool that is not among `names`."""
        missing = [name for name in self._options.get("tools") or () if name not in names]
        if missing:
            raise ConfigError(
                f"mcp server {self.label!r} has no tools {missing}; it has "
                f"{', '.join(listed or names)}"
            )

    def _work(self, address: ServerAddress) -> RemoteServer:
        """The server at work, as it is reached from `address`."""
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
        """The server at work for `principal`. On the connections' loop: nobody else looks."""
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
        """The tool that `definition` describes, which becomes another when another is accepted."""

        async def call(ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
            loop = asyncio.get_running_loop()

            def report(text: str) -> None:
                # Back from the connections' thread to the loop of the run.
                loop.call_soon_threadsafe(ctx.report, text)

            async def back(work: Awaitable[T]) -> T:
                return await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(_awaited(work), loop)
                )

            async def ask(wants: InputRequired) -> PersonAnswer:
                assert ctx.ask is not None
                return await back(ctx.ask(wants))

            async def sample(question: ModelQuestion) -> ModelAnswer:
                assert ctx.sample is not None
                return await back(ctx.sample(question))

            async def keep(state: Any) -> None:
                assert ctx.keep is not None
                await back(ctx.keep(state))

            async def called() -> Outcome:
                return await self._for(ctx.principal).call(
                    definition,
                    ctx,
                    parameters,
                    report,
                    None if ctx.ask is None else ask,
                    None if ctx.keep is None else keep,
                    None if ctx.sample is None else sample,
                )

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
        """The server's resources, as it lists them."""
        return await on_loop((await self._served()).pages("resources"))

    async def templates(self) -> list[dict[str, Any]]:
        """The forms of uris (RFC 6570) that the server can read, as it lists them."""
        return await on_loop((await self._served()).pages("resource_templates"))

    async def changes(self, *uris: str) -> AsyncGenerator[str]:
        """The uri of one of these resources whenever the server says that it has changed.

            async for uri in server.changes("memo://today"):
                print(await server.read(uri))

        After the server was away each is given once more, since nobody knows what was missed.

        Raises:
            MCPError: of the mcp package; the server has no subscriptions.
        """
        server, loop = await self._served(), asyncio.get_running_loop()
        changed: asyncio.Queue[str] = asyncio.Queue()
        pending = set[str]()

        def note(uri: str) -> None:
            # Once, until somebody has looked: a server may say it a thousand times a second.
            if uri not in pending:
                pending.add(uri)
                changed.put_nowait(uri)

        def heard(uri: str) -> None:
            # Back from the connections' thread to the loop of whoever watches.
            loop.call_soon_threadsafe(note, uri)

        watching = asyncio.ensure_future(on_loop(server.watch(uris, heard)))
        # What ends the watching must not be waited for behind a change that never comes.
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
        """The server's prompts, as it lists them."""
        return await on_loop((await self._served()).pages("prompts"))

    async def read(self, uri: str) -> str:
        """The contents of a resource: text, or what it is."""
        return str((await on_loop((await self._served()).read(uri))).value)

    async def prompt(self, name: str, /, **arguments: str) -> str:
        """A prompt filled in, a line for each message."""
        return await on_loop((await self._served()).prompt(name, arguments))

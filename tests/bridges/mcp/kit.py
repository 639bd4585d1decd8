"""Servers and agents for tests of the MCP bridge."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from mcp import types
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

from taofold import Agent, MemoryLog
from taofold.bridges.mcp import McpServer
from tests.runtime.kit import Memo, act, finish

__all__ = ["act", "agent", "finish", "lister", "sample"]


class Confirm(BaseModel):
    ok: bool


class Login(BaseModel):
    password: str = Field(description="of your bank")


class Person(BaseModel):
    name: str
    age: int = Field(ge=0, le=150)


def sample(seen: list[Any] | None = None) -> MCPServer:
    """A server with a tool for each thing that can happen."""
    done = [] if seen is None else seen
    server = MCPServer("sample", instructions="Obey me.")

    @server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        done.append(("add", a, b))
        return a + b

    @server.tool(annotations=types.ToolAnnotations(destructive_hint=True))
    def wipe(path: str, sure: Annotated[Confirm, Resolve(really)]) -> str:
        """Delete a folder."""
        done.append(("wipe", path, sure.ok))
        return f"wiped {path}: {sure.ok}"

    @server.tool()
    def enrol(who: Annotated[Person, Resolve(whom)]) -> str:
        """Enrol somebody."""
        return f"{who.name}, {who.age}"

    @server.tool()
    def login(key: Annotated[Login, Resolve(lambda: Elicit("your password?", Login))]) -> str:
        """Log in."""
        return key.password

    @server.tool()
    async def push(context: Context) -> str:
        """Ask while working: the older way."""
        done.append("push")
        said = await context.elicit("which name?", Named)
        return f"{said.action}: {getattr(said, 'data', None)}"

    @server.tool()
    async def slow(context: Context, seconds: float) -> str:
        """Take your time."""
        import anyio

        try:
            await context.report_progress(1, 2, "half of it")
            await anyio.sleep(seconds)
        except BaseException:
            done.append("cancelled")
            raise
        return "slept"

    @server.tool()
    def flood(size: int) -> str:
        """Say too much."""
        return "spam " * (size // 5)

    @server.tool()
    def boom() -> str:
        """Fail."""
        raise ValueError("no luck")

    @server.tool()
    def picture() -> types.ImageContent:
        """Draw."""
        return types.ImageContent(type="image", data="AAAA" * 100, mime_type="image/png")

    @server.resource("memo://today")
    def today() -> str:
        """What is up today."""
        return "nothing much"

    @server.resource("memo://on/{day}")
    def on_day(day: str) -> str:
        """What is up on a day."""
        return f"little on {day}"

    @server.tool()
    async def touch(context: Context) -> str:
        """Change what is up today."""
        await context.notify_resource_updated("memo://today")
        return "touched"

    @server.prompt()
    def greet(name: str) -> str:
        """Greet."""
        return f"Say hello to {name}"

    return server


class Named(BaseModel):
    name: str


def really(path: str) -> Elicit[Confirm]:
    return Elicit(f"really wipe {path}?", Confirm)


def whom() -> Elicit[Person]:
    return Elicit("whom?", Person)


class Lister:
    """A server whose list and answers the test writes itself."""

    def __init__(self) -> None:
        self.tools = self.told = list[types.Tool]()
        self.called: list[tuple[str, Any]] = []
        self.listed = 0
        self.pages = 0
        self.result: Callable[[str, Any], Any] = lambda name, _: text(f"{name} called")
        self.server: Server[Any] = Server(
            "lister", on_list_tools=self._list, on_call_tool=self._call
        )

    async def _list(self, _context: Any, params: Any) -> types.ListToolsResult:
        self.listed += 1
        if not self.pages:
            return types.ListToolsResult(tools=self.tools)
        at = int(params.cursor or 0) if params else 0
        more = str(at + 1) if at + 1 < self.pages else None
        return types.ListToolsResult(tools=[tool(f"t{at}")], next_cursor=more)

    async def _call(self, context: Any, params: Any) -> Any:
        self.called.append((params.name, params.arguments))
        said, before = self.result(params.name, params.arguments), self.told
        if self.tools is not before:
            self.told = self.tools
            await context.session.send_tool_list_changed()
        return said

    def bridge(self, **options: Any) -> McpServer:
        options.setdefault("name", "s")
        return McpServer.within(self.server, **options)


def lister(*tools: types.Tool) -> Lister:
    made = Lister()
    made.tools = made.told = list(tools)
    return made


def tool(name: str = "peek", description: str = "Look.", **more: Any) -> types.Tool:
    schema = more.pop("schema", {"type": "object", "properties": {"x": {"type": "string"}}})
    return types.Tool(name=name, description=description, input_schema=schema, **more)


def text(said: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], **more)


def agent(server: Any, *script: str, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    return Agent(Memo(script), tools=[server], **options)


@asynccontextmanager
async def bridged(server: MCPServer, **options: Any) -> AsyncIterator[McpServer]:
    options.setdefault("name", "s")
    async with McpServer.within(server, **options) as made:
        yield made


SCRIPTS = Path(__file__).parent / "scripts"

"""Runs the process of `taofold serve --mcp`: agents and tools for MCP clients.

It serves standard input and output, or HTTP for this machine only, where each request needs a
token. `commands` has the options; `taofold.bridges.mcp.server` handles requests.
"""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taofold.cli.output import invocation, say
from taofold.core.errors import ConfigError
from taofold.network import is_loopback

if TYPE_CHECKING:
    from taofold.log.log import Log
    from taofold.server.middleware import McpProtection


UNNAMED: Final = "agent"
_NAMED: Final = re.compile(r"[A-Za-z_][\w-]*=")


def serve_mcp(
    agents: Sequence[str] = (),
    tools: Sequence[str] = (),
    *,
    http: bool = False,
    host: str = "127.0.0.1",
    port: int = 8765,
    model: str = "",
    root: Path | None = None,
    autonomy: str = "",
    strict: bool = False,
    tokens: Path | None = None,
    hosts: frozenset[str] = frozenset(),
) -> None:
    """Serves until the client disconnects (standard input and output) or Ctrl-C (HTTP).

    `hosts` are the names of a proxy that forwards requests to this machine. `agents` are agent
    files or module:attr, also as NAME=AGENT. `tools` are module:attr; their functions are called
    directly, under the operator's policy.

    Raises:
        ConfigError: Something cannot be offered, or the host is not this machine.
    """
    if http and not is_loopback(host):
        raise ConfigError(
            f"MCP is served on this machine only, not on {host!r}: it uses plain HTTP. "
            "Put it behind a TLS proxy, and give its name with --allow-host",
            path="--host",
        )
    try:
        from taofold.bridges.mcp.server import http_app, make_server, serve_stdio
    except ImportError as error:
        raise ConfigError("serving MCP needs mcp 2: pip install 'taofold[mcp]'") from error
    from taofold.cli.project import open_store

    log = open_store(create=True)
    server = make_server(_offers(agents, tools, log, model, root, autonomy=autonomy, strict=strict))
    if http:
        protection = _protection(tokens, log, hosts)
        app = http_app(server, protection.authenticate, host, hosts)
        _serve_http(_protected(app, protection), host, port, log)
        return
    # On standard error, because standard output belongs to the protocol.
    say("serving MCP on standard input and output")
    asyncio.run(_stdio(serve_stdio(server), log))


async def _stdio(work: Any, log: "Log") -> None:
    try:
        await work
    finally:
        await log.close()


def _protection(file: Path | None, log: "Log", hosts: frozenset[str]) -> "McpProtection":
    from taofold.cli.project import home
    from taofold.cli.serve.credentials import announce_accepted, token_place
    from taofold.server.auth import LocalToken, TokenStore
    from taofold.server.middleware import McpProtection

    store, local = TokenStore(token_place(file, log)), LocalToken.of_user()
    announce_accepted(store)  # raises if the file cannot be read
    local.value()
    return McpProtection.of(store, local, home(), hosts)


def _protected(app: Any, protection: "McpProtection") -> Any:
    from taofold.server.middleware import ProtectionMiddleware

    return ProtectionMiddleware(app, protection)


def _serve_http(app: Any, host: str, port: int, log: "Log") -> None:
    import uvicorn

    say(f"serving MCP on http://{host}:{port}/mcp (Ctrl-C ends it)")
    say(f"clients send the header that `{invocation()} serve tokens local --header` prints")
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        ws="none",
        # With X-Forwarded-For any client could pretend to be this machine.
        proxy_headers=False,
    )
    try:
        uvicorn.Server(config).run()
    finally:
        asyncio.run(log.close())


def _offers(
    agents: Sequence[str],
    tools: Sequence[str],
    log: "Log",
    model: str,
    root: Path | None,
    *,
    autonomy: str,
    strict: bool,
) -> Any:
    from taofold.bridges.mcp.server import Offers
    from taofold.cli.agent_argument import chosen, is_file, make
    from taofold.cli.project import operator_policy
    from taofold.files.python_references import load

    if not agents and not tools:
        raise ConfigError("nothing to serve: give agent files, module:attr, or --mcp-tool")
    offered, settings = list[Any](), dict[str, Any]()
    for argument in agents:
        name, sign, agent = (
            # A path may contain `=`, too: only a name before it is a NAME.
            argument.partition("=") if _NAMED.match(argument) else ("", "", argument)
        )
        choice = chosen(agent, root, model=model, autonomy=autonomy, strict=strict)
        served = make(choice)
        if not sign and served.name == UNNAMED and is_file(agent):
            name = Path(agent).stem
        offered.append(served.replace(name=name) if name else served)
        settings[offered[-1].name] = choice.settings()
    functions: list[Any] = []
    for name in tools:
        thing = load(name, Path.cwd())
        functions += list(thing) if isinstance(thing, list | tuple) else [thing]  # pyright: ignore[reportUnknownArgumentType]
    return Offers.of(offered, functions, log=log, policy=operator_policy(), settings=settings)

"""Commands `taofold mcp`: sign-in to MCP servers, and accepted tools.

`serve/mcp` serves agents to MCP clients. `taofold.bridges.mcp.client` connects to servers.
"""

import asyncio
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.cli import options
from taofold.cli.output import UNREACHED, fail, give, give_json, say
from taofold.core.text import times, visible, visible_line

if TYPE_CHECKING:
    from taofold.bridges.mcp.client.address import ServerAddress

app = typer.Typer(
    no_args_is_help=True,
    help="Sign in to MCP servers, and manage their accepted tools. SERVER is a URL or an agent "
    "file, which stands for its servers with `oauth`.",
)
Server = Annotated[str, typer.Argument(metavar="SERVER", help="A URL or an agent file.")]
ClientId = Annotated[
    str, typer.Option("--client-id", help="Id of a client registered at the server.")
]
For = Annotated[
    str,
    typer.Option(
        "--principal",
        metavar="NAME",
        help="Principal whose tokens are meant, if each signs in itself. Default: this user.",
    ),
]
_WEB: Final = ("http://", "https://")


def _places(
    server: str, client_id: str = "", scope: str = "", principal: str = ""
) -> "list[ServerAddress]":
    from taofold.bridges.mcp.client.address import OAuth, ServerAddress
    from taofold.core.values import Principal

    who = Principal(principal) if principal else None
    if server.startswith(_WEB):
        oauth = OAuth(client_id=client_id, scope=scope, per_principal=bool(principal))
        return [ServerAddress("http", url=server, oauth=oauth).of(who)]
    from taofold.files.checked_yaml import refuse
    from taofold.files.flow.file import read_agent
    from taofold.files.tools import make_server

    file, faults = read_agent(Path(server), source=server)
    if file is None:
        refuse(faults, f"{server} cannot be read")
    servers = [
        make_server(name, keys, Path.cwd(), Path(server).parent)
        for name, keys in file.keys.mcp.items()
    ]
    places: list[ServerAddress] = [server.address for server in servers]
    chosen = [
        address
        for address in places
        if address.oauth is not None and address.oauth.grant == "authorization_code"
    ]
    shared = [address.words for address in chosen if not address.per_principal]
    if principal and shared:
        fail(
            f"{shared[0]} has one sign-in for all: `oauth: {{per_principal: true}}` gives each one"
        )
    if not chosen:
        fail(f"{server!r} has no server with a sign-in: add `oauth: {{}}` to a server with a url")
    return [address.of(who) for address in chosen]


@app.command()
def login(
    server: Server,
    client_id: ClientId = "",
    scope: Annotated[str, typer.Option(help="Scope to request. Default: the server's scope.")] = "",
    principal: For = "",
    browser: Annotated[bool, typer.Option(help="Open the page in this machine's browser.")] = True,
    paste: Annotated[
        bool,
        typer.Option("--paste", help="For a browser on another machine: paste its final address."),
    ] = False,
) -> None:
    """Sign in with a browser. All processes of this user then use and renew the tokens."""
    from taofold.bridges.mcp.client.oauth import SignInFailed
    from taofold.bridges.mcp.client.signin import sign_in

    def show(url: str) -> None:
        from urllib.parse import urlsplit

        from taofold.network import ascii_host

        # Shown in the browser's ASCII form, because other alphabets have look-alike letters.
        host = ascii_host(urlsplit(url).hostname or "")
        say(f"sign in at {host}, in a browser:\n\n  {visible(url)}\n")
        if browser and not paste:
            webbrowser.open(url)

    async def pasted() -> str:
        return await asyncio.to_thread(typer.prompt, "final address of the browser", err=True)

    for address in _places(server, client_id, scope, principal):
        try:
            signed_in = asyncio.run(sign_in(address, show, redirected=pasted if paste else None))
        except SignInFailed as error:
            fail(f"{address.words}: {error}", UNREACHED)
        if not signed_in.asked:
            say(f"{address.words} needs no sign-in")
            continue
        allowed = f", for {signed_in.scope}" if signed_in.scope else ""
        whose = f" for {address.principal}" if address.principal else ""
        say(f"signed in{whose} to {address.words}{allowed}: {times(signed_in.tools, 'tool')}")


@app.command()
def logout(server: Server, client_id: ClientId = "", principal: For = "") -> None:
    """Delete the stored tokens. They stay valid at the server until they expire."""
    from taofold.bridges.mcp.client.oauth import KeptTokens

    for address in _places(server, client_id, "", principal):
        assert address.oauth is not None
        signed_in = KeptTokens(
            address.url, address.oauth.client_id, principal=address.principal
        ).forget()
        say(f"{'signed out of' if signed_in else 'not signed in to'} {address.words}")


@app.command("list")
def list_(json: options.Json = False) -> None:
    """List the servers to which this user is signed in. Shows no secrets."""
    from taofold.bridges.mcp.client.oauth import all_kept
    from taofold.core.text import iso

    rows = [
        {
            "server": stored.url,
            "principal": stored.principal,
            "scope": str((stored.tokens or {}).get("scope") or ""),
            "expires_at": "" if stored.expires_at is None else iso(int(stored.expires_at * 1000)),
            "renewed": bool((stored.tokens or {}).get("refresh_token")),
        }
        for stored in all_kept()
    ]
    if json:
        give_json(rows)
        return
    for row in rows:
        until = f"until {row['expires_at']}" if row["expires_at"] else "without expiry"
        more = ", renewed" if row["renewed"] else ""
        scope = f" for {row['scope']}" if row["scope"] else ""
        whose = f" as {row['principal']}" if row["principal"] else ""
        give(visible_line(f"{row['server']}{whose}{scope}, {until}{more}"))
    if not rows:
        say("not signed in to any server; sign in with: taofold mcp login SERVER")


@app.command()
def pins(json: options.Json = False) -> None:
    """List the servers with accepted tools."""
    from taofold.bridges.mcp.client.definitions import Pins

    files = Pins.files()
    if json:
        give_json([{"name": f.name, "server": f.server, "tools": list(f.tools)} for f in files])
        return
    for file in files:
        where = f", {visible(file.server)}" if file.server else ""
        give(f"{file.name}: {visible(', '.join(file.tools)) or 'no tools'}{where}")
    if not files:
        say("no accepted tools")


@app.command()
def forget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name from `taofold mcp pins`.")],
) -> None:
    """Forget the accepted tools of a server. Its next tools are accepted as they are."""
    from taofold.bridges.mcp.client.definitions import Pins

    chosen = [file for file in Pins.files() if file.name == name]
    if not chosen:
        fail(f"no accepted tools under {name!r}; `taofold mcp pins` lists the names")
    chosen[0].path.unlink(missing_ok=True)
    say(f"forgotten: {name}. The server's tools are accepted at the next connection")

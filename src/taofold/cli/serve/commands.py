"""`taofold serve`, `taofold work` and `taofold serve tokens …`: agents over HTTP, and who may.

Without tokens it serves this machine only; to be reachable from elsewhere it wants tokens,
and the names under which it is reached. The verbs with their options are here, also `--mcp`; what
is then served is put together in `http` and `mcp`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from taofold.cli import options
from taofold.cli.output import fail, give, give_json, invocation, say

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.core.events import RunStarted
    from taofold.server.auth import TokenStore


PORT: Final = 8420
_START: Final = "start"
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        envvar="TAOFOLD_ENGINE",
        show_envvar=True,
        metavar="NAME",
        help="What decides which process drives a run: local, dbos, or restate:http://HOST:8080.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Tokens (else this user's state folder, or the database that TAOFOLD_LOG names).",
    ),
]


class ServeGroup(TyperGroup):
    """`serve AGENT…` is `serve start AGENT…`: only `tokens` is a word of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name where it was left out."""
        # An agent that is called like one of the commands is reached as NAME=AGENT. `--help` is
        # about serving, too: the options are what is asked for.
        if not args or args[0] not in self.commands:
            args = [_START, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ServeGroup, no_args_is_help=False, help="Serve agents over HTTP.")
tokens_app = typer.Typer(
    no_args_is_help=True, help="Bearer tokens: who may use the server from elsewhere, as whom."
)
app.add_typer(tokens_app, name="tokens")


@app.command(_START)
def start(
    agents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="AGENT…",
            help="Agent files (.yaml) or module:attr, each also as NAME=AGENT; the first is the "
            "default. Left out: the agent with file and command tools on this directory.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = PORT,
    token_file: TokenFile = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A name it is reached by, besides this machine's own. May be given again.",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="A page elsewhere that may use the API with a token (CORS). May be given again.",
        ),
    ] = None,
    model: options.ModelName = "",
    autonomy: options.Autonomy = "",
    strict: options.Strict = False,
    root: options.Root = None,
    most_runs: Annotated[
        int,
        typer.Option(
            "--max-runs",
            min=0,
            help="Runs driven at once; the rest wait. 0 leaves all to `taofold work`.",
        ),
    ] = 200,
    engine: EngineName = "local",
    approve_seconds: Annotated[
        float,
        typer.Option(
            "--approve-seconds",
            min=0,
            help="How long an approval is open if the agent does not say; 0 = for ever.",
        ),
    ] = 300.0,
    rate: Annotated[
        float,
        typer.Option(
            "--max-rate",
            min=1,
            help="Requests a second from one principal; four times as many at once.",
        ),
    ] = 100.0,
    open_: Annotated[bool, typer.Option("--open", help="Open the console in the browser.")] = False,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve MCP on standard input and output instead.")
    ] = False,
    mcp_http: Annotated[
        bool, typer.Option("--mcp-http", help="Serve MCP over HTTP instead, this machine only.")
    ] = False,
    mcp_tool: Annotated[
        list[str] | None,
        typer.Option(
            "--mcp-tool",
            metavar="MODULE:ATTR",
            help="Offer this tool to MCP clients. May be given again.",
        ),
    ] = None,
) -> None:
    """Serve agents over HTTP: runs, their events, approvals, the web console.

    Prints a link that signs a browser in, once, and how a program on this machine signs in;
    nobody comes in without. To be reachable from elsewhere it wants tokens:
    `taofold serve tokens add NAME --role ROLE` makes a token, `taofold serve tokens --help` says
    more.
    """
    from taofold.cli.authority import refuse

    refuse("start a server", mcp=mcp)
    if mcp or mcp_http:
        from taofold.cli.serve.mcp import serve_mcp

        offered = agents or [], mcp_tool or []
        serve_mcp(
            *offered,
            http=mcp_http,
            host=host,
            port=port,
            model=model,
            root=root,
            autonomy=autonomy,
            strict=strict,
            tokens=token_file,
            hosts=frozenset(name.lower() for name in allow_host or ()),
        )
        return
    try:
        from taofold.cli.serve.http import ServeOptions, serve
    except ImportError as error:
        fail(f"the server needs the extra `serve` ({error.name}): pip install 'taofold[serve]'")
    serve(
        ServeOptions(
            agents=_named(agents or [], root, model, autonomy=autonomy, strict=strict),
            host=host,
            port=port,
            tokens=token_file,
            # Compared with a Host header, whose case does not count.
            hosts=frozenset(name.lower() for name in allow_host or ()),
            origins=frozenset(url.rstrip("/") for url in allow_origin or ()),
            most_runs=most_runs,
            engine=engine,
            approve_seconds=approve_seconds,
            rate=rate,
            browser=open_,
            rebuild=rebuilt,
        )
    )


def _named(
    arguments: Sequence[str],
    root: Path | None,
    model: str,
    *,
    autonomy: str = "",
    strict: bool = False,
) -> "dict[str, Agent[Any, Any]]":
    """The agents by name: what stands before `=`, else the file's stem or the attribute."""
    from taofold.cli.agent_argument import chosen, is_file, make

    named: dict[str, Agent[Any, Any]] = {}
    for argument in arguments or [""]:
        name, sign, agent = argument.partition("=")
        if not sign:
            agent = argument
            name = (
                Path(argument).stem
                if is_file(argument)
                else argument.rpartition(":")[2] or "default"
            )
        # A stem may occur in several folders.
        if name in named:
            fail(f"two agents are called {name!r}: name one with NAME={agent}")
        named[name] = make(chosen(agent, root, model=model, autonomy=autonomy, strict=strict))
    return named


def rebuilt(started: "RunStarted") -> "Agent[Any, Any] | None":
    """The agent of a run that the command line began; None if its log does not say."""
    from taofold.cli.agent_argument import SETTINGS, make, recorded_choice

    return make(recorded_choice(started)) if SETTINGS in started.settings else None


def work(
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="AGENT…", help="As for `serve`.", show_default=False),
    ] = None,
    model: options.ModelName = "",
    autonomy: options.Autonomy = "",
    root: options.Root = None,
    most_runs: Annotated[
        int, typer.Option("--max-runs", min=1, help="Runs driven at once; the rest wait.")
    ] = 50,
    engine: EngineName = "local",
    stop_seconds: Annotated[
        float,
        typer.Option(
            "--stop-seconds",
            min=0,
            help="After SIGTERM: how long runs may take to come to a place where others go on.",
        ),
    ] = 30.0,
) -> None:
    """Drive the runs that servers begin: as many workers as you like, on any machine.

    They share a log (`TAOFOLD_LOG=postgresql://…`) with the servers. A worker that dies loses
    nothing: when its lease is over, after some seconds, another one goes on.
    """
    try:
        from taofold.cli.serve import http
    except ImportError as error:
        fail(f"a worker needs the extra `serve` ({error.name}): pip install 'taofold[serve]'")
    served = _named(agents or [], root, model, autonomy=autonomy)
    http.work(served, most_runs, engine, stop_seconds, rebuilt)


def _tokens(file: Path | None) -> "TokenStore":
    """The tokens of this project's servers."""
    from taofold.cli.project import log_address, open_store
    from taofold.cli.serve.credentials import token_place
    from taofold.server.auth import TokenStore

    # Servers of several machines look in the log's database, so tokens must be made there too.
    log = open_store(create=True) if file is None and log_address() else None
    return TokenStore(token_place(file, log))


@tokens_app.command("add")
def add(
    principal: Annotated[str, typer.Argument(metavar="NAME", help="Who it is for.")],
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="VIEWER, BILLING, USER, EDITOR or ADMIN. May be given again; none means no role.",
        ),
    ] = None,
    days: Annotated[
        float, typer.Option(min=0, help="How long it is valid; 0 = until revoked.")
    ] = 0,
    token_file: TokenFile = None,
) -> None:
    """Make a token and print it: it is shown this once, only its hash is kept."""
    token = _tokens(token_file).add(principal, role or (), seconds=days * 86_400)
    give(token)
    say("keep it: it is not shown again")
    if not role:
        say("it has no role, so it may only ask who it is; --role USER may start runs")


@tokens_app.command("list")
def list_tokens(token_file: TokenFile = None, json: options.Json = False) -> None:
    """The tokens, without their secrets."""
    from taofold.server.auth import token_row

    tokens = [token_row(token) for token in _tokens(token_file).all()]
    if json:
        give_json(tokens)
    elif not tokens:
        say(f"there are no tokens; {invocation()} serve tokens add NAME --role USER makes one")
    for token in [] if json else tokens:
        ended = "revoked" if token["revoked_at"] else token["expires_at"] or "until revoked"
        roles = ",".join(token["roles"]) or "-"
        give(f"{token['id']}  {token['principal']:20} {roles:20} {ended}")


@tokens_app.command("local")
def local(
    header: Annotated[
        bool,
        typer.Option(
            "--header",
            help="As the header of a request, for `curl -H @-`: other users see command lines.",
        ),
    ] = False,
) -> None:
    """Print the token of this machine's user, the principal `local`: a program sends it as bearer.

    Any server of this user takes it from this machine. It is kept where no agent's tool reaches,
    and made anew when its file is deleted.
    """
    from taofold.server.auth import LocalToken

    token = LocalToken.of_user()
    give(f"Authorization: Bearer {token.value()}" if header else token.value())
    say(f"kept in {token.path}")


@tokens_app.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `tokens list` shows it.")],  # noqa: A002
    token_file: TokenFile = None,
) -> None:
    """Refuse a token from now on; a server that runs notices at once."""
    token = _tokens(token_file).revoke(id)
    say(f"the token {token.id} of {token.principal} is refused from now on")


def register(program: typer.Typer) -> None:
    """Add the command."""
    program.add_typer(app, name="serve")
    program.command("work")(work)

"""Commands `taofold serve`, `taofold work` and `taofold serve tokens …`.

Without tokens the server accepts clients of this machine only. Clients of other machines need
tokens and a host name from `--allow-host`. This module holds the commands and their options; `http`
and `mcp` build what is served.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from taofold.cli import options
from taofold.cli.help_examples import SERVE
from taofold.cli.output import fail, give, give_json, invocation, say

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.core.events import RunStarted
    from taofold.server.auth import TokenStore


PORT: Final = 8420
_NETWORK: Final = "Network"
_RUNS: Final = "Runs"
_MCP: Final = "MCP"
_START: Final = "start"
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        envvar="TAOFOLD_ENGINE",
        show_envvar=True,
        metavar="NAME",
        help="Scheduler of runs: local, dbos, or restate:URL, as in restate:http://HOST:8080.",
        rich_help_panel=_RUNS,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File of tokens. Default: the database of TAOFOLD_LOG, or your state folder.",
        rich_help_panel=_NETWORK,
    ),
]


class ServeGroup(TyperGroup):
    """Makes `serve AGENT…` an abbreviation of `serve start AGENT…`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Inserts `start` if the first argument is no command."""
        # An agent with the name of a command can be given as NAME=AGENT. `serve --help` shows the
        # options of `start`, which users look for.
        if not args or args[0] not in self.commands:
            args = [_START, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=ServeGroup, no_args_is_help=False, help="Serve agents over HTTP or MCP.")
tokens_app = typer.Typer(
    no_args_is_help=True, help="Manage bearer tokens, which let other machines use the server."
)
app.add_typer(tokens_app, name="tokens")


@app.command(_START, epilog=SERVE)
def start(
    agents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="AGENT…",
            help="Agent files (.yaml) or module:attr, also as NAME=AGENT. Clients that name no "
            "agent get the first. Default: an agent with file and command tools that works on "
            "the current directory.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on.", rich_help_panel=_NETWORK),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="Port to listen on; 0 takes a free one.",
            rich_help_panel=_NETWORK,
        ),
    ] = PORT,
    token_file: TokenFile = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Host name under which clients reach the server. Repeatable.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="Origin whose pages may use the API with a token (CORS). Repeatable.",
            rich_help_panel=_NETWORK,
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
            metavar="N",
            help="At most N runs at once; others wait. 0 leaves all runs to `taofold work`.",
            rich_help_panel=_RUNS,
        ),
    ] = 200,
    engine: EngineName = "local",
    approve_seconds: Annotated[
        float,
        typer.Option(
            "--approve-seconds",
            min=0,
            metavar="N",
            help="Seconds until an approval expires, unless the agent's policy sets it; 0 = never.",
            rich_help_panel=_RUNS,
        ),
    ] = 300.0,
    forks: Annotated[
        Path | None,
        typer.Option(
            "--forks",
            metavar="FOLDER",
            help="Restore the files of forks in a new folder in FOLDER. Default: not restored.",
            rich_help_panel=_RUNS,
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            "--max-rate",
            min=1,
            metavar="N",
            help="At most N requests per second per principal; bursts of 4 N are allowed.",
            rich_help_panel=_NETWORK,
        ),
    ] = 100.0,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the web console in the browser.")
    ] = False,
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp",
            help="Serve MCP on standard input and output instead of HTTP.",
            rich_help_panel=_MCP,
        ),
    ] = False,
    mcp_http: Annotated[
        bool,
        typer.Option(
            "--mcp-http",
            help="Serve MCP over HTTP, to this machine only.",
            rich_help_panel=_MCP,
        ),
    ] = False,
    mcp_tool: Annotated[
        list[str] | None,
        typer.Option(
            "--mcp-tool",
            metavar="MODULE:ATTR",
            help="Offer this tool to MCP clients. Repeatable.",
            rich_help_panel=_MCP,
        ),
    ] = None,
) -> None:
    """Serve agents over HTTP: an API for runs and approvals, event streams, the web console.

    Every request must be authenticated. The server prints a link that signs a browser in once,
    and the header that a program on this machine sends. Other machines need a token:
    `taofold serve tokens add NAME --role ROLE`.
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
            # Host headers are case-insensitive.
            hosts=frozenset(name.lower() for name in allow_host or ()),
            origins=frozenset(url.rstrip("/") for url in allow_origin or ()),
            most_runs=most_runs,
            engine=engine,
            approve_seconds=approve_seconds,
            forks=forks,
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
    """Returns the agents by name: the text before `=`, else the file's stem or the attribute."""
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
        # Files in several folders may have the same stem.
        if name in named:
            fail(f"two agents have the name {name!r}: rename one with NAME={agent}")
        named[name] = make(chosen(agent, root, model=model, autonomy=autonomy, strict=strict))
    return named


def rebuilt(started: "RunStarted") -> "Agent[Any, Any] | None":
    """Makes the agent of a run that the command line began; None if its log lacks the settings."""
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
        int,
        typer.Option(
            "--max-runs",
            min=1,
            metavar="N",
            help="At most N runs at once; others wait.",
            rich_help_panel=_RUNS,
        ),
    ] = 50,
    engine: EngineName = "local",
    forks: Annotated[
        Path | None,
        typer.Option(
            "--forks",
            metavar="FOLDER",
            help="The folder of `taofold serve --forks`: forks in it are continued there.",
            rich_help_panel=_RUNS,
        ),
    ] = None,
    stop_seconds: Annotated[
        float,
        typer.Option(
            "--stop-seconds",
            min=0,
            metavar="N",
            help="After SIGTERM: seconds in which runs may reach a place where another worker "
            "can continue them.",
            rich_help_panel=_RUNS,
        ),
    ] = 30.0,
) -> None:
    """Start a worker, which drives runs that servers begin. Any number may run, on any machine.

    Workers and servers share a log (`TAOFOLD_LOG=postgresql://…`). If a worker dies, another one
    continues its runs when the lease ends, after some seconds.
    """
    try:
        from taofold.cli.serve import http
    except ImportError as error:
        fail(f"a worker needs the extra `serve` ({error.name}): pip install 'taofold[serve]'")
    served = _named(agents or [], root, model, autonomy=autonomy)
    http.work(served, most_runs, engine, stop_seconds, rebuilt, forks)


def _tokens(file: Path | None) -> "TokenStore":
    """Returns the token store of this project's servers."""
    from taofold.cli.project import log_address, open_store
    from taofold.cli.serve.credentials import token_place
    from taofold.server.auth import TokenStore

    # Servers on several machines read tokens from the log's database.
    log = open_store(create=True) if file is None and log_address() else None
    return TokenStore(token_place(file, log))


@tokens_app.command("add")
def add(
    principal: Annotated[
        str, typer.Argument(metavar="NAME", help="Principal that the token stands for.")
    ],
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="VIEWER, BILLING, USER, EDITOR or ADMIN. Repeatable. Default: no role.",
        ),
    ] = None,
    days: Annotated[
        float,
        typer.Option(min=0, metavar="N", help="Days until it expires; 0 = valid until revoked."),
    ] = 0,
    token_file: TokenFile = None,
) -> None:
    """Create a token and print it. It is shown only once: the server keeps its hash."""
    token = _tokens(token_file).add(principal, role or (), seconds=days * 86_400)
    give(token)
    say("Store the token now: it cannot be shown again.")
    if not role:
        say("It has no role and can only read its own identity. Add --role USER to start runs.")


@tokens_app.command("list")
def list_tokens(token_file: TokenFile = None, json: options.Json = False) -> None:
    """List the tokens, without their secrets."""
    from taofold.server.auth import token_row

    tokens = [token_row(token) for token in _tokens(token_file).all()]
    if json:
        give_json(tokens)
    elif not tokens:
        say(f"there are no tokens; create one: {invocation()} serve tokens add NAME --role USER")
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
            help="Print it as a header for `curl -H @-`, so that it is in no command line.",
        ),
    ] = False,
) -> None:
    """Print the bearer token for programs on this machine. Its principal is `local`.

    Every server that you start accepts it from this machine. No tool of an agent can read its
    file. To replace the token, delete the file.
    """
    from taofold.server.auth import LocalToken

    token = LocalToken.of_user()
    give(f"Authorization: Bearer {token.value()}" if header else token.value())
    say(f"kept in {token.path}")


@tokens_app.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="Id from `tokens list`.")],  # noqa: A002
    token_file: TokenFile = None,
) -> None:
    """Revoke a token. Running servers refuse it at once."""
    token = _tokens(token_file).revoke(id)
    say(f"revoked: token {token.id} of {token.principal}")


def register(program: typer.Typer) -> None:
    """Adds `serve` and `work` to `program`."""
    program.add_typer(app, name="serve")
    program.command("work")(work)

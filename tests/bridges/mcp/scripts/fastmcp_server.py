"""In an environment with FastMCP: a server for `test_fastmcp.py`.

Arguments: the port, or 0 for standard input and output; a folder; the number of additional tools.
In the folder, the file `token` holds the one accepted bearer token; `*` accepts any. With `oauth`
the server includes an authorization server; `expire` ends all of its tokens, once. With `sampling`
there are tools that request the client's model and its folders (FastMCP 3). `calls` gets a line for
each call of `note`.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_http_headers

PORT, FOLDER, MORE = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])


class OneToken(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        if (FOLDER / "token").read_text() not in (token, "*"):
            return None
        return AccessToken(token=token, client_id="tests", scopes=[])


class Approving(InMemoryOAuthProvider):
    """An authorization server that approves every request without a user."""

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            (FOLDER / "expire").unlink()
            self.access_tokens.clear()
        except FileNotFoundError:
            pass
        return await super().verify_token(token)


def auth() -> Any:
    if (FOLDER / "token").exists():
        return OneToken()
    if not (FOLDER / "oauth").exists():
        return None
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"])
    return Approving(
        base_url=f"http://127.0.0.1:{PORT}", client_registration_options=registration,
        required_scopes=["read"],
    )  # fmt: skip


server: Any = FastMCP("peer", auth=auth())


@server.tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
def note(text: str) -> str:
    """Write it down."""
    with (FOLDER / "calls").open("a") as calls:
        calls.write(f"{text}\n")
    return "noted"


@server.tool
def who() -> str:
    """The token of whoever calls."""
    return get_http_headers(include_all=True)["authorization"].removeprefix("Bearer ")


@server.resource("who://calls")
def reader() -> str:
    """The token of whoever reads."""
    return get_http_headers(include_all=True)["authorization"].removeprefix("Bearer ")


@server.tool
def large(size: int) -> str:
    """Say much."""
    return "x" * size


@server.tool
async def slow(seconds: float) -> str:
    """Take your time."""
    await asyncio.sleep(seconds)
    return "slept"


@server.tool
async def ask(context: Context) -> str:
    """Ask a person."""
    note("asking")
    answer = await context.elicit("which name?", response_type=str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


if (FOLDER / "sampling").exists():

    @server.tool
    async def opinion(context: Context, about: str) -> str:
        """Have the client's model answer."""
        note(f"opinion on {about}")
        sampled = await context.sample(
            f"What of {about}?", system_prompt="Be brief.", max_tokens=50
        )
        return f"it says: {sampled.text}"

    @server.tool
    async def where(context: Context) -> str:
        """The client's folders."""
        return " ".join([str(root.uri) for root in await context.list_roots()])


for number in range(MORE):
    server.tool(lambda text="": text, name=f"t{number}", description="d" * 4_000)

if PORT:
    server.run(transport="http", host="127.0.0.1", port=PORT, show_banner=False)
else:
    server.run(transport="stdio", show_banner=False)

"""A server that asks before it acts, and whose sealed questions outlive its process."""

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.server.request_state import RequestStateSecurity
from pydantic import BaseModel


class Confirm(BaseModel):
    ok: bool


def really(path: str) -> Elicit[Confirm]:
    return Elicit(f"really wipe {path}?", Confirm)


server = MCPServer("asker", request_state_security=RequestStateSecurity(keys=["k" * 32]))


@server.tool()
def wipe(path: str, sure: Annotated[Confirm, Resolve(really)]) -> str:
    """Delete a folder."""
    return f"wiped {path}: {sure.ok}"


if __name__ == "__main__":
    server.run()

"""The client for the conformance suite: an agent that calls every tool it finds.

python client.py URL        the scenario is in MCP_CONFORMANCE_SCENARIO
"""

import asyncio
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from taofold import Agent, Decision
from taofold.bridges.mcp import McpServer, OAuth
from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.signin import sign_in
from taofold.runtime.model import Request
from taofold.testing import FunctionModel
from taofold.tools import Toolset

SAMPLES = {"string": "test", "integer": 2, "number": 3, "boolean": True, "array": [], "object": {}}


def sample(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "test"
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        wanted = schema.get("required", schema.get("properties", {}))
        return {name: sample(schema.get("properties", {}).get(name)) for name in wanted}
    return SAMPLES.get(schema.get("type", "string"), "test")


def calls(tools: Toolset) -> list[dict[str, Any]]:
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
    if given:
        prefix = "server_"
        return [
            {"tool": prefix + one["name"],
             "parameters": {k: v for k, v in one["arguments"].items() if v is not None}}
            for one in given
        ]  # fmt: skip
    echo, focal = "server_json_schema_echo", "server_json_schema_2020_12_tool"
    made = [{"tool": name, "parameters": sample(one.schema)} for name, one in tools.items()]
    if echo in tools:  # it wants to see the schema as it arrived here
        made.append({"tool": echo, "parameters": {"schema": tools[focal].schema}})
    return made


def approve(request: Any) -> Decision:
    return Decision("answer", answer="") if request.wants_text else Decision("approve")


class Browser:
    """A person who approves everything: follows the pages to where they end."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []

    def __call__(self, url: str) -> None:
        self.tasks.append(asyncio.create_task(self.follow(url)))

    async def follow(self, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as client:
            await client.get(url)


async def issuer(url: str) -> str:
    """Returns the issuer of the registration. Users know it, and the scenario does not send it."""
    parts = httpx2.URL(url)
    place = parts.copy_with(raw_path=f"/.well-known/oauth-protected-resource{parts.path}".encode())
    async with httpx2.AsyncClient() as client:
        return str((await client.get(place)).json()["authorization_servers"][0])


async def credentials(url: str, scenario: str) -> OAuth | None:
    """Sign in, if the scenario is about that."""
    if not scenario.startswith("auth/"):
        return None
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    secret = context.get("client_secret", "")
    machine = scenario.startswith("auth/client-credentials")
    oauth = OAuth(
        client_id=context.get("client_id", ""),
        client_secret=secret,
        issuer=await issuer(url) if secret or machine else "",
    )
    if machine:
        return replace(oauth, grant="client_credentials")
    await sign_in(ServerAddress("http", url=url, oauth=oauth), Browser(), seconds=300)
    return oauth


async def main(url: str) -> int:
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    oauth = await credentials(url, os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
    with tempfile.TemporaryDirectory() as folder:
        server = McpServer.http(
            url, name="server", trust=True, pins=Path(folder), timeout=180, oauth=oauth
        )
        async with server:
            wanted = iter(calls(server))

            def model(_: Request) -> str:
                action = next(wanted, None) or {"tool": "finish", "parameters": {"answer": "done"}}
                said = {"thought": "next", "thought_type": "progress", "action": action}
                return json.dumps(said)

            result = await Agent(FunctionModel(model), tools=[server], approve=approve).run("go")
            for step in result.steps:
                seen = step.observations[0]
                print(step.actions[0].tool, seen.status, seen.result, file=sys.stderr)
            return 0 if result.success else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))

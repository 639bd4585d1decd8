"""taofold and its peers on the same scenarios against the same strict fakes.

    python -m bench.models.peers PYTHON_WITH_THE_PEERS

The peers' Python has `openai-agents litellm pydantic-ai-slim[openai,anthropic,google]`. A scenario
is passed if the last answer came out and the fake refused no request; what a peer needs is what
its own documentation shows (`peer.py`). Prints the table of docs/models.md.
"""

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.models.forms import add
from tests.models.providers.servers import Server
from tests.pictures import png

from taofold import Agent, Image, Limits, tool
from taofold.models.transport import aclose_all
from taofold.runtime.providers import resolve

PEER = Path(__file__).with_name("peer.py")
PICTURE = png(8, 8)
NAMES = ("taofold", "pydantic-ai", "openai-agents", "litellm")
FORMS = {
    "responses": ("responses", "openai:gpt-6.1-sol", "/v1"),
    "messages": ("messages", "anthropic:claude-opus-5-5", ""),
    "gemini": ("gemini", "gemini:gemini-3.7-flash", ""),
    "deepseek": ("chat", "deepseek:deepseek-v4", "/deepseek-reasoning"),
}
CALLS = [{"name": "add", "args": {"a": 1, "b": 2}}, {"name": "add", "args": {"a": 3, "b": 4}}]
TURNS: list[dict[str, Any]] = [
    {"think": "Two sums.", "call": CALLS},
    {"think": "Both.", "say": "I add.", "call": [{"name": "add", "args": {"a": 3, "b": 7}}]},
    {"think": "Once more.", "call": [{"name": "add", "args": {"a": 10, "b": 0}}]},
    {"think": "Done.", "say": "It is 10."},
]
CHART = {"think": "I look.", "call": [{"name": "chart", "args": {"day": 1}}]}
LONG = "This reply is never told to its end. " * 9
SCENARIOS: dict[str, list[dict[str, Any]]] = {
    "three turns": TURNS,
    "image": TURNS,
    "tool image": [CHART, *TURNS],
    "typed": [*TURNS[:2], {"think": "Done.", "json": {"total": 10}}],
    "429": [TURNS[0], {"status": 429, "retry_after": 0}, *TURNS[1:]],
    "529": [TURNS[0], {"status": 529}, *TURNS[1:]],
    "cut": [TURNS[0], {"cut": 3, "think": "Hm.", "say": LONG}, *TURNS[1:]],
}
SEES = ("responses", "messages", "gemini")


class Sum(BaseModel):
    """Output type of the scenarios."""

    total: int


@tool(effect="read")
def chart(day: int) -> Image:
    """A chart."""
    return Image(data=PICTURE)


async def ours(form: str, url: str, scenario: str) -> str:
    _, name, path = FORMS[form]
    agent: Any = Agent(
        resolve(name, base_url=url + path, api_key="k"),
        tools=[add, chart],
        limits=Limits(steps=10),
        output=Sum if scenario == "typed" else str,
    )
    goal: Any = ["Add them up.", Image(data=PICTURE)] if scenario == "image" else "Add them up."
    if scenario == "cut":
        stream = agent.stream(goal)
        async for _ in stream:
            pass
        result = stream.result
    else:
        result = await agent.run(goal)
    return f"GAVE {result.output}" if result.success else f"FAILED {result.error}"


class Peer:
    """A peer in a process of its own, started once."""

    def __init__(self, python: str, name: str) -> None:
        self._process = subprocess.Popen(
            [python, PEER, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, form: str, url: str, scenario: str) -> str:
        """Returns the outcome: `GAVE …` or `FAILED …`."""
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        shown = base64.b64encode(PICTURE).decode()
        to.write(json.dumps([form, url, scenario, shown]) + "\n")
        to.flush()
        for line in back:
            if line.startswith(("GAVE", "FAILED")):
                return line.strip()
        return "FAILED its process ended"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


async def verdict(peer: Peer | None, name: str, form: str, server: Server, scenario: str) -> str:
    server.load(SCENARIOS[scenario])
    if peer is None:
        said = await ours(form, server.url, scenario)
    else:
        said = await asyncio.to_thread(peer.run, form, server.url, scenario)
    refused = server.refused()
    good = said.startswith("GAVE") and "10" in said
    if good and not refused:
        return "yes"
    why = str(refused[0])[:160] if refused else said[:160]
    print(f"{name} · {form} · {scenario}: {said[:100]} · {why}", file=sys.stderr)
    return "refused" if refused else "no"


async def main() -> None:
    peers = {name: Peer(sys.argv[1], name) for name in NAMES[1:]}
    servers = {kind: Server(kind) for kind in ("responses", "messages", "gemini", "chat")}
    try:
        for server in servers.values():
            server.start()
        print("| scenario | format | " + " | ".join(NAMES) + " |")
        print("| --- " * (len(NAMES) + 2) + "|")
        for scenario in SCENARIOS:
            for form in FORMS:
                if scenario in ("image", "tool image") and form not in SEES:
                    continue
                server = servers[FORMS[form][0]]
                row = [
                    await verdict(peers.get(name), name, form, server, scenario) for name in NAMES
                ]
                print(f"| {scenario} | {form} | " + " | ".join(row) + " |", flush=True)
    finally:
        for one in (*servers.values(), *peers.values()):
            one.stop()
        await aclose_all()


if __name__ == "__main__":
    asyncio.run(main())

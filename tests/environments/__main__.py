"""`python -m tests.environments [NAME…]` creates those environments, or all, with their purpose."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests import environments
from tests.bridges.mcp import servers
from tests.console import node
from tests.engine import restate


@dataclass(frozen=True)
class Offer:
    """Something that can be made, and which tests it brings."""

    megabytes: int
    brings: str
    make: Callable[[], Path]


def _python(name: str) -> Path:
    return environments.make(name).folder


OFFERS: Final = {
    "copilotkit": Offer(284, "our AG-UI endpoint behind CopilotKit's runtime",
                        partial(node.make, node.COPILOTKIT)),
    "crewai": Offer(854, "the CrewAI bridge with CrewAI itself", partial(_python, "crewai")),
    "dspy": Offer(202, "compiling programs with DSPy", partial(_python, "dspy")),
    "fastapi": Offer(35, "the cookbook's application in FastAPI", partial(_python, "fastapi")),
    "fastmcp3": Offer(150, "MCP servers made with FastMCP 3 (4 comes with phoenix)",
                      partial(_python, "fastmcp3")),
    "fastmcp-tasks": Offer(160, "MCP servers whose tools are tasks",
                           partial(_python, "fastmcp-tasks")),
    "langchain": Offer(277, "tools and agents of LangChain", partial(_python, "langchain")),
    "mcp-clients": Offer(104, "pydantic-ai and the OpenAI agents SDK, and as MCP clients",
                         partial(_python, "mcp-clients")),
    "mcp-servers": Offer(261, "other people's MCP servers and their test suite", servers.make),
    "npm": Offer(28, "the official AG-UI client, and a judge of accessibility", node.make),
    "phoenix": Offer(367, "traces in a real Arize Phoenix", partial(_python, "phoenix")),
    "providers": Offer(330, "agents against strict fake providers and official SDKs",
                       partial(_python, "providers")),
    "restate": Offer(216, "the engine on a real Restate server",
                     partial(node.make, restate.PINNED)),
    "site": Offer(155, "the documentation as a site (make site)", partial(_python, "site")),
    "tagent": Offer(223, "the migration page's program with TAgent", partial(_python, "tagent")),
}  # fmt: skip
"""By name. npm and node are needed for "copilotkit", "mcp-servers", "npm" and "restate"."""


def main(wanted: list[str]) -> int:
    if unknown := [name for name in wanted if name not in OFFERS]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(OFFERS)}", file=sys.stderr)
        return 2
    names = wanted or list(OFFERS)
    total = sum(OFFERS[name].megabytes for name in names)
    print(f"up to {total} MB in {environments.cache()}, made once; they bring the tests of")
    failed: list[str] = []
    for name in names:
        offer = OFFERS[name]
        print(f"  {name:<12} {offer.megabytes:>4} MB  {offer.brings}", end=" … ", flush=True)
        try:
            offer.make()
            print("made", flush=True)
        except (OSError, subprocess.SubprocessError) as error:
            print("NOT made", flush=True)
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        print(f"their tests are skipped: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

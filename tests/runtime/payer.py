"""An agent with a read tool and a payment tool that needs approval; records its tools' calls."""

from typing import Any

from taofold import Agent, MemoryLog, tool

from .kit import Memo

RAN: list[Any] = []
"""Arguments of the tool calls in order. `conftest.py` clears them before each test."""


@tool(effect="read")
def look(what: str = "x") -> str:
    """Look."""
    RAN.append(what)
    return f"{what} {len(RAN)}"


@tool(tier=3)
def pay(amount: int) -> str:
    """Pay."""
    RAN.append(amount)
    return "paid"


def agent(*script: Any, **options: Any) -> Agent[Any, Any]:
    """Returns an agent whose model follows the script."""
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [look, pay])
    return Agent(Memo(script), **options)

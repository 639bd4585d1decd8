"""An agent that looks, which is a read, and pays, which asks a person; what its tools did."""

from typing import Any

from taofold import Agent, MemoryLog, tool

from .kit import Memo

RAN: list[Any] = []
"""What the tools were given, in order. A test begins with none: see conftest.py."""


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
    """It says what is in the script."""
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [look, pay])
    return Agent(Memo(script), **options)

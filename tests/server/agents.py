"""Agents for these tests, with scripts that depend only on how far the conversation is."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from taofold import Agent, Limits, Policy, RunContext, tool
from taofold.core.values import Reply
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel


def act(thought: str, tool_: str, kind: str = "reasoning", /, **parameters: Any) -> str:
    action = {"tool": tool_, "parameters": parameters, "rationale": "it is needed"}
    return json.dumps({"thought": thought, "thought_type": kind, "action": action})


def batch(thought: str, *calls: tuple[str, dict[str, Any]]) -> str:
    actions = [{"tool": name, "parameters": said, "rationale": "needed"} for name, said in calls]
    return json.dumps({"thought": thought, "thought_type": "reasoning", "actions": actions})


def finish(answer: str = "forty-two") -> str:
    return act("that is it", "finish", "synthesis", answer=answer)


def scripted(*replies: Any) -> FunctionModel:
    """The same replies for every run, also after a restart."""

    def answer(request: Request) -> Any:
        turn = sum(message.role == "assistant" for message in request.conversation)
        reply = replies[min(turn, len(replies) - 1)]
        if isinstance(reply, Exception):
            raise reply
        return reply(request) if callable(reply) else reply

    return FunctionModel(answer)


class Bench:
    """Tools that remember what was done with them, and a door that holds calls up."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.asked = 0
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        self.gate.set()

    @property
    def tools(self) -> list[Any]:
        bench = self

        @tool(effect="read")
        def look(at: str = "here") -> str:
            """Look at something."""
            bench.done.append(("look", at))
            return f"seen {at}"

        @tool(effect="once", tier=3)
        def publish(text: str) -> str:
            """Publish a text."""
            bench.done.append(("publish", text))
            return f"published {text}"

        @tool(effect="once", tier=2)
        def comment(text: str) -> str:
            """Write a comment."""
            bench.done.append(("comment", text))
            return "written"

        @tool(effect="idempotent", tier=1, reversible=True)
        def label(name: str) -> str:
            """Add a label."""
            bench.done.append(("label", name))
            return "labelled"

        @tool(effect="once", tier=2, role="EDITOR")
        def edit(text: str) -> str:
            """Change a page."""
            bench.done.append(("edit", text))
            return "changed"

        @tool(effect="read")
        async def slow(name: str = "x") -> str:
            """Take its time."""
            bench.arrived.set()
            await bench.gate.wait()
            bench.done.append(("slow", name))
            return "slowly"

        @tool(effect="read")
        def broken() -> str:
            """Fail."""
            raise RuntimeError("the disk is on fire")

        return [look, publish, comment, label, edit, slow, broken]

    @property
    def safe(self) -> list[Any]:
        """Tools that need no approval."""
        return [one for one in self.tools if one.name in ("look", "slow", "label")]

    def agent(self, *replies: Any, **options: Any) -> Agent[Any, str]:
        def counted(request: Request) -> Any:
            self.asked += 1
            turn = sum(message.role == "assistant" for message in request.conversation)
            reply = replies[min(turn, len(replies) - 1)]
            if isinstance(reply, Exception):
                raise reply
            return reply(request) if callable(reply) else reply

        options.setdefault("tools", self.tools)
        options.setdefault("limits", Limits(steps=20))
        return Agent[Any, str](FunctionModel(counted), **options)


class Slowly:
    """A model that streams its reply piece by piece, on request."""

    name = "slowly:model"

    def __init__(self, *replies: str, size: int = 12) -> None:
        self.replies, self.size = replies, size
        self.steps: asyncio.Queue[None] = asyncio.Queue()
        self.profile = FunctionModel(lambda _: "").profile

    def go(self, pieces: int = 1) -> None:
        for _ in range(pieces):
            self.steps.put_nowait(None)

    async def complete(
        self, request: Request, on_text: Callable[[str], None] | None = None
    ) -> Reply:
        turn = sum(message.role == "assistant" for message in request.conversation)
        reply = self.replies[min(turn, len(self.replies) - 1)]
        for start in range(0, len(reply), self.size):
            await self.steps.get()
            if on_text is not None:
                on_text(reply[start : start + self.size])
        return Reply(reply, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        return 0.0


__all__ = ["Bench", "Policy", "RunContext", "Slowly", "act", "batch", "finish", "scripted"]

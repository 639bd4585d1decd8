"""Checked by mypy and pyright, never run: the types that a user of the library sees."""

from dataclasses import dataclass
from typing import assert_type

from pydantic import BaseModel

from taofold import Agent, Limits, RunContext, RunResult, Store, Tool, tool
from taofold.core.content import Conversation
from taofold.core.effects import Strategy, act, ask, begin
from taofold.core.values import Action, Observation, Reply, Thought


class City(BaseModel):
    name: str


@dataclass
class Config:
    root: str


@tool(effect="read")
def word_count(path: str) -> int:
    """Count the words of a text file."""
    return len(path)


@tool(effect="read")
def rooted(ctx: RunContext[Config], name: str) -> str:
    """Say where a file lies."""
    return ctx.deps.root + name


def users() -> None:
    assert_type(word_count("x"), int)
    plain = Agent("openai:gpt-5", tools=[word_count], limits=Limits(steps=3))
    assert_type(plain.run_sync("how many?").output, str | None)
    typed = Agent("openai:gpt-5", output=City, deps_type=Config, tools=[rooted])
    result = typed.run_sync("where?", deps=Config("."))
    assert_type(result, RunResult[City])
    assert_type(result.output, City | None)
    assert_type(typed.as_tool().name, str)
    assert_type(Store({"a": 1}).head, int)
    checked: Tool[[str], int] = word_count
    del checked


def strategy(talk: Conversation) -> Strategy[str]:
    outlook = yield from begin()
    reply = yield from ask(talk)
    assert_type(reply, Reply)
    observations = yield from act(Thought("x"), Action("tool"))
    assert_type(observations, tuple[Observation, ...])
    return reply.text + outlook.hint

"""Checked by mypy and pyright, never run: the types that a user of the library sees."""

from dataclasses import dataclass
from typing import Any, assert_type

from pydantic import BaseModel

from taofold import Agent, Decision, Limits, Principal, RunContext, RunResult, Store, Tool, tool
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
    assert_type(plain.run_sync("how many?").output, str)
    assert_type(plain.run_sync("how many?").output_or_none, str | None)
    typed = Agent("openai:gpt-5", output=City, deps_type=Config, tools=[rooted])
    result = typed.run_sync("where?", deps=Config("."))
    assert_type(result, RunResult[City])
    assert_type(result.output, City)
    assert_type(Agent("openai:gpt-5", output=City | None).run_sync("?").output, City | None)
    assert_type(Agent("openai:gpt-5", output=int | str).run_sync("?").output, int | str)
    assert_type(Agent("openai:gpt-5", output=list[City]).run_sync("?").output, list[City])
    assert_type(result.messages("anthropic"), list[dict[str, Any]])
    assert_type(Agent.from_file("agent.yaml"), Agent[Any, Any])
    assert_type(typed.as_tool().name, str)
    assert_type(Store({"a": 1}).head, int)
    checked: Tool[[str], int] = word_count
    del checked


def wrong(typed: Agent[Config, City]) -> None:
    """Each line is an error for both type checkers: an ignore that is not needed is one, too."""
    typed.run_sync("where?", deps=3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    typed.run_sync("?", dep=Config("."))  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    typed.stream("where?", session=3)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Decision("aprove")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Agent("x", strategy="reackt")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Agent("x", on_denial="stopp")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    Agent("x", approve="al")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def lines(ctx: RunContext[Config]) -> str:
    return f"{ctx.deps.root} {ctx.goal} {ctx.principal.id}"


async def fetched(ctx: RunContext[Config]) -> str:
    return lines(ctx)


def anybody(ctx: RunContext) -> str:
    return ctx.goal


async def instructed() -> None:
    typed = Agent("openai:gpt-5", deps_type=Config, instructions=lines)
    assert_type(typed, Agent[Config, str])
    assert_type(Agent("openai:gpt-5", deps_type=Config, instructions=fetched), Agent[Config, str])
    assert_type(Agent("openai:gpt-5", instructions=anybody), Agent[None, str])
    await typed.begin("goal", deps=Config("."))


async def people(agent: Agent, run: RunResult) -> None:
    assert_type(await agent.cancel(run), bool)
    await agent.steer(run.run_id, "hurry", by=Principal("ann"))
    await agent.run("goal", session="s", if_waiting="withdraw", history=run.messages())


def strategy(talk: Conversation) -> Strategy[str]:
    outlook = yield from begin()
    reply = yield from ask(talk)
    assert_type(reply, Reply)
    observations = yield from act(Thought("x"), Action("tool"))
    assert_type(observations, tuple[Observation, ...])
    return reply.text + outlook.hint

"""In LangChain's environment: `theirs` gives tools of LangChain's to its agent and to ours, `ours`
gives tools of ours to its agent. Prints the messages of each agent's model."""

import asyncio
import json
import sys
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    create_retriever_tool,
    tool,
)
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

import taofold
from taofold import Agent
from taofold.bridges.langchain import langchain_tool, tool_of
from taofold.core.errors import Refused
from taofold.log.open import open_log
from taofold.runtime.control import decide
from taofold.runtime.setup import Decision
from taofold.testing import ScriptedModel
from taofold.tools import InputRequired, Outcome


class Model(GenericFakeChatModel):
    """A chat model that returns scripted replies."""

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self


@tool
def function(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


@tool
async def coroutine(a: int) -> dict[str, int]:
    """Wrap."""
    return {"a": a}


single = Tool("single", lambda query: f"found {query}", "Takes one string.")


class Word(BaseModel):
    word: str = Field(min_length=3)


model_schema = StructuredTool.from_function(
    lambda word: word.upper(), name="model_schema", description="Shout.", args_schema=Word
)
json_schema = StructuredTool.from_function(
    lambda **given: given, name="json_schema", description="Echo.",
    args_schema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)  # fmt: skip


class Configured(BaseTool):
    name: str = "configured"
    description: str = "Its function gets LangChain's configuration."

    def _run(self, x: int, config: RunnableConfig) -> str:
        return f"{x} {'configurable' in config}"


class OwnCoroutine(BaseTool):
    name: str = "own_coroutine"
    description: str = "It has both."

    def _run(self, x: int) -> str:
        raise AssertionError("the coroutine is there")

    async def _arun(self, x: int) -> str:
        return f"awaited {x}"


@tool
def injected(x: int, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
    """Act for a user."""
    return f"{x} for {user}"


class Aliased(BaseModel):
    x: int
    user: Annotated[str, InjectedToolArg] = Field("nobody", alias="u")


aliased = StructuredTool.from_function(
    lambda x, user: f"{x} for {user}", name="aliased", description="Act.", args_schema=Aliased
)


@tool
def call_id(x: int, call: Annotated[str, InjectedToolCallId]) -> str:
    """Know the call."""
    return f"{x} {bool(call)}"


@tool(response_format="content_and_artifact")
def blocks(x: int) -> tuple[list[dict[str, Any]], object]:
    """Answer in blocks."""
    return [{"type": "text", "text": f"see {x}"}], object()


runnable = RunnableLambda(lambda given: given["x"] + 1).as_tool(
    name="runnable", description="Add one.", arg_types={"x": int}
)


class Library(BaseRetriever):
    def _get_relevant_documents(self, query: str, **more: Any) -> list[Document]:
        return [Document(f"a book about {query}"), Document("another")]


retriever = create_retriever_tool(Library(), "retriever", "Search books.")


@tool
def command(x: int, call: Annotated[str, InjectedToolCallId]) -> Command:
    """Say it with a command."""
    return Command(update={"messages": [ToolMessage(f"set to {x}", tool_call_id=call)]})


def graph_only(x: int) -> Any:
    """Go elsewhere."""
    return Command(goto="elsewhere", update={"a": x, "b": x})


@tool
def runtime(x: int, runtime: ToolRuntime) -> str:
    """Know the runtime."""
    return f"{x} {runtime.tool_call_id}"


SAME: list[tuple[Any, dict[str, Any]]] = [
    (function, {"a": 1}), (function, {"a": "x"}), (coroutine, {"a": 1}),
    (single, {"tool_input": "books"}), (model_schema, {"word": "abc"}),
    (model_schema, {"word": "a"}), (json_schema, {"q": "a"}), (Configured(), {"x": 1}),
    (OwnCoroutine(), {"x": 1}), (injected, {"x": 1}), (call_id, {"x": 1}), (blocks, {"x": 1}),
    (runnable, {"x": 1}), (retriever, {"query": "bees"}), (command, {"x": 1}),
]  # fmt: skip


async def langchain_agent(thing: Any, parameters: dict[str, Any]) -> list[Any]:
    asked = AIMessage("", tool_calls=[{"name": thing.name, "args": parameters, "id": "c1"}])
    agent = create_agent(Model(messages=iter([asked, AIMessage("done")])), [thing])
    ended = await agent.ainvoke({"messages": [HumanMessage("go")]})
    [message] = [said for said in ended["messages"] if isinstance(said, ToolMessage)]
    content = message.content
    if isinstance(content, list):
        content = "\n".join(block["text"] for block in content)
    return [message.status, content, ended["messages"][-1].content]


def script(name: str, parameters: dict[str, Any]) -> ScriptedModel:
    actions = [(name, parameters), ("finish", {"answer": "done"})]
    return ScriptedModel(
        json.dumps({"thought": "next", "action": {"tool": tool, "parameters": given}})
        for tool, given in actions
    )


async def our_agent(thing: Any, parameters: dict[str, Any], **more: Any) -> list[Any]:
    made = tool_of(thing, **more)
    result = await Agent(script(made.name, parameters), tools=[made], approve="all").run("go")
    seen = result.steps[0].observations[0]
    return [seen.status, seen.result, result.output, seen.refused]


RAN: list[int] = []
END = json.dumps({"thought": "end", "action": {"tool": "finish", "parameters": {"answer": "done"}}})


@tool
def asks(x: int) -> str:
    """Ask twice."""
    RAN.append(x)
    name = interrupt("What is your name?")
    sure = interrupt({"question": f"Is it {name}?"})
    return f"{x} for {name}: {sure}"


@tool
def chooses(x: int) -> str:
    """Ask for a choice."""
    picked = interrupt("Which?", response_schema={
        "type": "object", "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
    })  # fmt: skip
    return f"{x} {picked['colour']}"


async def interrupted(folder: str) -> dict[str, Any]:
    """Each answer is given by an agent that knows nothing of the one before."""
    log = f"sqlite:{folder}/interrupts.db"
    found: dict[str, Any] = {}
    dialogues: dict[str, list[str | None]] = {
        "asks": ["Ada", '{"ok": true}'], "chooses": ["green", '{"colour": "blue"}'],
        "declined": [None],
    }  # fmt: skip
    for run, answers in dialogues.items():
        thing = chooses if run == "chooses" else asks
        allow = tool_of(thing, effect="read")
        model = script(allow.name, {"x": 7})
        result = await Agent(model, tools=[allow], log=log).run("go", run_id=run)
        questions = []
        for answer in answers:
            [asked] = result.pending
            questions.append([asked.question or asked.reason, asked.form])
            choice = Decision("deny") if answer is None else Decision("approve", answer=answer)
            try:
                await decide(open_log(log), asked.id, choice)
            except Refused as refusal:
                questions.append([str(refusal), asked.form])
                continue
            later = Agent(ScriptedModel([END]), tools=[allow], log=log)
            result = await later.resume(run)
        seen = result.steps[0].observations[0]
        found[run] = [questions, result.status, seen.status, seen.result]
    return {**found, "ran": len(RAN)}


async def theirs(folder: str) -> dict[str, Any]:
    same = [
        [thing.name, parameters, await langchain_agent(thing, dict(parameters)),
         await our_agent(thing, dict(parameters))]
        for thing, parameters in SAME
    ]  # fmt: skip
    root = {
        "injected": await our_agent(injected, {"x": 1, "user": "root"}),
        "aliased": await our_agent(aliased, {"x": 1, "u": "root"}),
        "call_id": await our_agent(call_id, {"x": 1, "call": "forged"}),
        "config": await our_agent(Configured(), {"x": 1, "config": {"configurable": {}}}),
        "langchain": await langchain_agent(aliased, {"x": 1, "u": "root"}),
    }
    supplied = {
        "injected": await our_agent(injected, {"x": 1}, inject={"user": lambda ctx: "Ada"}),
        "aliased": await our_agent(aliased, {"x": 1}, inject={"user": lambda ctx: "Ada"}),
    }
    refused: dict[str, str] = {}
    direct = StructuredTool.from_function(graph_only, name="direct", return_direct=True)
    for thing in (runtime, direct):
        try:
            tool_of(thing)
        except taofold.ConfigError as error:
            refused[thing.name] = str(error)
    going = await our_agent(StructuredTool.from_function(graph_only), {"x": 1})
    return {"same": same, "root": root, "supplied": supplied, "refused": refused, "going": going,
            "interrupts": await interrupted(folder)}  # fmt: skip


@taofold.tool(effect="read")
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@taofold.tool(effect="read")
async def halve(x: float) -> float:
    """Halve a number."""
    return x / 2


@taofold.tool
def erase(path: str) -> str:
    """Erase a file."""
    return f"{path} is gone"


@taofold.tool(effect="read")
def broken(why: str) -> str:
    """Break."""
    raise LookupError(why)


@taofold.tool(effect="read")
def failing(why: str) -> Outcome:
    """Fail politely."""
    return Outcome(why, "failure")


@taofold.tool(effect="read", timeout=0.05)
async def slow(x: int) -> str:
    """Take very long."""
    await asyncio.sleep(60)
    return "late"


@taofold.tool(effect="read")
def curious(x: int) -> str:
    """Ask a person."""
    raise InputRequired("May I?")


@taofold.tool(effect="read")
def structured(x: int) -> dict[str, Any]:
    """Return a structure."""
    return {"x": x, "list": [1, 2]}


async def ours() -> dict[str, Any]:
    agent = Agent(ScriptedModel([END]), name="answers", description="Answers.")
    waits = Agent(script("erase", {"path": "/x"}), tools=[erase], name="waits")
    calls: list[tuple[Any, dict[str, Any]]] = [
        (langchain_tool(double), {"x": 4}),
        (langchain_tool(double), {"x": "four"}),
        (langchain_tool(double), {}),
        (langchain_tool(halve), {"x": 5}),
        (langchain_tool(structured), {"x": 1}),
        (langchain_tool(erase, approve=lambda *_: False), {"path": "/x"}),
        (langchain_tool(erase, approve=lambda *_: True), {"path": "/x"}),
        (langchain_tool(broken), {"why": "no such page"}),
        (langchain_tool(failing), {"why": "closed"}),
        (langchain_tool(slow), {"x": 1}),
        (langchain_tool(curious), {"x": 1}),
        (langchain_tool(agent), {"goal": "what is 4 + 4?"}),
        (langchain_tool(waits), {"goal": "erase"}),
    ]
    return {"told": [[made.name, *await langchain_agent(made, given)] for made, given in calls]}


if __name__ == "__main__":
    verb, folder = sys.argv[1:]
    print(json.dumps(asyncio.run(theirs(folder) if verb == "theirs" else ours())))

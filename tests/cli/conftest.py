"""A project in a temporary directory, and the program run in it."""

from pathlib import Path

import pytest

from tests.terminal import enter, started, taofold

__all__ = ["started", "taofold"]

AGENTS = '''
import asyncio, json, pathlib, time
from pydantic import BaseModel
from taofold import Agent, Limits, tool
from taofold.testing.models import FunctionModel


def act(thought, tool, kind="reasoning", **parameters):
    action = {"tool": tool, "parameters": parameters, "rationale": "it is needed"}
    return json.dumps({"thought": thought, "thought_type": kind, "action": action})


def scripted(*replies):
    """Each reply depends only on how far the conversation is, so it is the same on resume."""
    def answer(request):
        turn = sum(m.role == "assistant" for m in request.conversation)
        reply = replies[min(turn, len(replies) - 1)]
        return reply(request) if callable(reply) else reply
    return FunctionModel(answer)


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once")
def note(text: str) -> str:
    """Write a note."""
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return "written"


@tool(effect="once")
async def slowly() -> str:
    """Do something that takes its time."""
    pathlib.Path("waiting").touch()
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return "gone"


@tool(effect="read")
async def wait() -> str:
    """Wait until a file named go appears."""
    pathlib.Path("waiting").touch()
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.01)
    return "gone"


def last(request):
    return act("so it is " + request.conversation[-1].content[-60:], "finish",
               "synthesis", answer=request.conversation[-1].content)


class Point(BaseModel):
    x: int


adder = Agent(scripted(act("17 and 25", "add", "goal", a=17, b=25),
                       act("it is 42", "finish", "synthesis", answer="42")), tools=[add])
def both(thought, *texts):
    calls = [{"tool": "note", "parameters": {"text": text}, "rationale": "r"} for text in texts]
    return json.dumps({"thought": thought, "thought_type": "goal", "actions": calls})

pair = Agent(scripted(both("two notes", "one", "two"),
                      act("they were written", "finish", "synthesis", answer="done")), tools=[note])
writer = Agent(scripted(act("a note of 7777", "note", "goal", text="hello 7777"),
                        act("it was written", "finish", "synthesis", answer="done")), tools=[note])
long = " ".join(f"line {n}" + " " * 50 for n in range(100))
lengthy = Agent(scripted(act("a long note", "note", text=long),
                         act("done", "finish", "synthesis", answer="done")), tools=[note])
impatient = Agent(scripted(act("this step is slow", "wait", "goal"),
                           act("gone, so a note", "note", text="x"),
                           act("done", "finish", "synthesis", answer="done")), tools=[wait, note])
def names_of_tools(request):
    names = [name for name in ("add", "hi") if f"{name}(" in request.conversation[0].content]
    return act("these", "finish", "synthesis", answer="\\n".join(f"- {name}" for name in names))


shows_tools = Agent(scripted(names_of_tools), tools=[add])
asker = Agent(scripted(act("I must ask", "ask_user", "goal", question="which colour_1?"), last),
              ask_user=True)
waiter = Agent(scripted(act("I wait", "wait", "goal"), act("gone now", "add", a=1, b=2), last),
               tools=[wait, add])
slow = Agent(scripted(act("this takes time", "slowly", "goal"),
                      act("it is over", "finish", "synthesis", answer="done")), tools=[slowly])
endless = Agent(scripted(*[act("more %d" % n, "add", a=n, b=1) for n in range(50)]),
                tools=[add], limits=Limits(steps=3))
pointer = Agent(scripted(act("here", "finish", "synthesis", answer={"x": 3})), output=Point)
evil = Agent(scripted(act("\\x1b[2J\\u202e hidden", "add", "goal", a=1, b=2),
                      act("it is 3", "finish", "synthesis", answer="\\x1b[31mred")), tools=[add])
listening = Agent(scripted(lambda r: act("I know", "finish", "synthesis",
                  answer=" | ".join(m.content for m in r.conversation if m.role == "user"))))
unthinking = json.dumps({"action": {"tool": "add", "parameters": {"a": 17, "b": 25}}})
careless = Agent(scripted(unthinking, unthinking,
                          act("it is 42", "finish", "synthesis", answer="42")), tools=[add])
boss = Agent(scripted(act("let him add", "adder", "goal", goal="17 + 25"),
                      act("he says 42", "finish", "synthesis", answer="42")),
             tools=[adder.replace(name="adder", description="Adds.")])
nothing = 3
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with scripted agents, and an operator without a policy."""
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / "agents.py").write_text(AGENTS, encoding="utf-8")
    (folder / ".taofold").mkdir(mode=0o700)
    return folder

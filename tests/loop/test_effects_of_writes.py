"""Only a tool with the effect of a write makes a loop the author of a change."""

import json
from typing import Any

import pytest

from taofold import Agent, tool
from taofold.core.events import Record
from taofold.learning.extraction.history import read_run
from taofold.loop.authorship import Authorship, authorship
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio
BASE = {"a.py": "x = 1\ny = 2\n", "b.py": ""}
MADE = {"a.py": "x = 1\ny = 3\n", "b.py": "written by another loop\n"}


@tool(effect="read")
def preview(path: str, old: str, new: str) -> str:
    """Shows the result of an edit."""
    return f"{path}: {old} would become {new}"


@tool(effect="read")
def validate(path: str, content: str) -> str:
    """Validates a text for a file."""
    return f"{path}: {content} is valid"


@tool(effect="idempotent")
def replace_text(path: str, old: str, new: str) -> str:
    """Replaces text in a file."""
    if old == "absent":
        raise ValueError("the file has no such text")
    return f"{path}: {old} became {new}"


class Files:
    """The files of the two snapshots."""

    root = "/w"

    async def changed(self, _a: str, _b: str) -> tuple[str, ...]:
        return ("a.py", "b.py")

    async def text(self, snapshot: str, path: str) -> str | None:
        return {"base": BASE, "made": MADE}[snapshot].get(path)


def call(name: str, **parameters: str) -> str:
    thought = {"thought": "The edit reaches the goal", "thought_type": "goal"}
    return json.dumps(thought | {"action": {"tool": name, "parameters": parameters}})


async def run(*replies: str) -> tuple[Record, ...]:
    """Returns the log of a run with these calls."""
    agent: Agent[Any, Any] = Agent(
        ScriptedModel([*replies, call("finish", answer="done")]),
        tools=[preview, validate, replace_text],
        approve="all",
        log="memory",
    )
    result = await agent.run("Edit the files")
    return tuple(result.records)


async def authors(records: tuple[Record, ...], *, shared: bool) -> Authorship:
    files: Any = Files()
    return await authorship(records, "base", "made", files, shared=shared)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    "replies",
    [
        [call("preview", path="a.py", old="y = 2", new="y = 3")],
        [call("validate", path="b.py", content=MADE["b.py"])],
        [
            call("preview", path="a.py", old="y = 2", new="y = 3"),
            call("validate", path="b.py", content="anything"),
        ],
        [call("replace_text", path="a.py", old="absent", new="y = 3")],
    ],
)
async def test_a_reading_or_failed_call_is_no_write(replies: list[str], shared: bool) -> None:
    records = await run(*replies)
    found = await authors(records, shared=shared)
    assert found.own == ()
    assert found.others == ("a.py", "b.py")
    assert read_run(records, 0, (), BASE).writes == ()


@pytest.mark.parametrize("shared", [False, True])
async def test_a_write_that_succeeded_makes_the_loop_the_author(shared: bool) -> None:
    records = await run(call("replace_text", path="a.py", old="y = 2", new="y = 3"))
    found = await authors(records, shared=shared)
    assert (found.own, found.others) == (("a.py",), ("b.py",))

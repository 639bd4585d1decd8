"""Pictures and documents through each format, in prompts and in what tools return."""

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Document, Image, tool
from taofold.tools.attachments import Shown
from tests.killed import killed
from tests.models.providers.test_agents import CASES, Case, Dies, Fakes, extends
from tests.pictures import PDF, PICTURE, png

pytestmark = pytest.mark.anyio

SECOND = png(3, 3)
SEES = [CASES[1], CASES[3], CASES[8], CASES[14], CASES[17]]
each = pytest.mark.parametrize("case", SEES, ids=str)


@tool(effect="read")
def chart(day: int) -> list[Any]:
    """A chart of the day."""
    return [f"day {day}", Image(data=SECOND)]


TURNS: list[dict[str, Any]] = [
    {"think": "I look.", "call": [{"name": "chart", "args": {"day": d}} for d in (1, 2)]},
    {"think": "Once more.", "call": [{"name": "chart", "args": {"day": 3}}]},
    {"think": "Seen.", "say": "It is a cat."},
]
GOAL: list[Shown] = [
    "What is this?",
    Image(data=PICTURE, name="a.png"),
    Document(data=PDF, name="b.pdf"),
]


def base64ed(data: bytes) -> str:
    return base64.b64encode(data).decode()


@each
async def test_pictures_in_the_goal_and_in_results(case: Case, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS)
    result = await Agent(model, tools=[chart]).run(GOAL)
    assert not server.refused()
    assert (result.success, result.output) == (True, "It is a cat.")
    bodies = [one["body"] for one in server.seen()]
    first, last = json.dumps(bodies[0]), json.dumps(bodies[-1])
    assert base64ed(PICTURE) in first
    assert base64ed(PDF) in first or case.kind == "ollama", "Ollama takes images only"
    assert last.count(base64ed(SECOND)) == 3
    assert all(extends(a, b) for a, b in pairwise(bodies))


@each
async def test_a_later_life_shows_the_same_pictures(
    case: Case, fakes: Fakes, tmp_path: Path
) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS)
    log = str(tmp_path / "log.db")
    with killed():
        await Agent(Dies(model, 2), tools=[chart], log=log).run(GOAL, run_id="r")
    result = await Agent(case.connect(fakes)[0], tools=[chart], log=log).resume("r")
    assert not server.refused()
    assert result.success
    bodies = [one["body"] for one in server.seen()]
    assert extends(bodies[1], bodies[2])
    assert (await Agent(model, tools=[chart], log=log).replay("r")).success


async def test_a_model_that_cannot_see_is_told_what_there_is(fakes: Fakes) -> None:
    model, server = CASES[11].connect(fakes)
    server.load([*TURNS[:1], TURNS[2]])
    result = await Agent(model, tools=[chart]).run(GOAL)
    assert not server.refused()
    assert result.success
    last = json.dumps(server.seen()[-1]["body"])
    assert base64ed(PICTURE) not in last
    assert "[image image/png 1 kB a.png" in last
    assert "this model cannot see it" in last

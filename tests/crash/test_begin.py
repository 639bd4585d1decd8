"""A process that dies while it begins a run leaves all of the run, or nothing: media too."""

import json
from typing import Any

import pytest

from taofold import Agent, Image
from taofold.core.errors import LogError, UnknownRun
from taofold.core.state import ENDED
from taofold.testing.models import FunctionModel
from tests.crash.deaths import RUN, Died, Life, Medium, MortalLog
from tests.pictures import PICTURE

pytestmark = pytest.mark.anyio
GOAL = ["What is this?", Image(data=PICTURE)]


def answer(request: Any) -> str:
    shown = [part for message in request.conversation for part in message.media]
    assert [part.media_type for part in shown] == ["image/png"]
    assert request.blobs[shown[0].digest]
    action = {"tool": "finish", "parameters": {"answer": "a picture"}, "rationale": "seen"}
    return json.dumps({"thought": "I see", "thought_type": "progress", "action": action})


def agent(log: Any) -> Agent[Any, Any]:
    return Agent(FunctionModel(answer), log=log)


async def missing(medium: Medium) -> list[str]:
    """Returns blobs that records reference and the log lacks."""
    lost: list[str] = []
    try:
        records = await medium.read(RUN)
    except UnknownRun:
        return lost
    for digest in [digest for record in records for digest in record.event.blobs()]:
        try:
            await medium.blob(digest)
        except LogError:
            lost.append(digest)
    return lost


@pytest.mark.parametrize("begun", [False, True], ids=["run", "begin"])
async def test_wherever_a_beginning_run_dies_its_media_are_there_or_it_never_began(
    begun: bool,
) -> None:
    at, points = 0, 1
    while at < points:
        at += 1
        medium, life = Medium(), Life(at)
        mortal = agent(MortalLog(medium, life))
        try:
            if begun:
                await mortal.begin(GOAL, run_id=RUN)
                await mortal.advance(RUN)
            else:
                await mortal.run(GOAL, run_id=RUN)
        except Died:
            points = at + 1
        assert await missing(medium) == [], f"died at {at}"
        try:
            row = await medium.row(RUN)
        except UnknownRun:
            continue
        if row.status not in ENDED:
            result = await agent(medium).resume(RUN, takeover=True)
            assert (result.status, result.output) == ("finished", "a picture"), f"died at {at}"
    assert at > 4, "the harness kills nobody"

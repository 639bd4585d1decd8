"""Prompts and logs of the stories equal their recordings byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import MemoryLog
from taofold.core import events as e
from tests.recorded import events_json, request_json, requests_json, same

from .kit import LISTENER, settled
from .stories import STORIES, Story, World

pytestmark = pytest.mark.anyio
FOLDER = Path(__file__).parent / "recorded"
AT_ONCE = ("parallel", "forked", "nested")
"""Stories in which several things happen at once: their order is not compared."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_a_story_asks_and_records_the_same_to_the_letter(story: Story) -> None:
    requests: list[Any] = []
    records: list[Any] = []
    token = LISTENER.set(lambda request: requests.append(request_json(request)))
    try:
        agent = story.make(World()).replace(log=MemoryLog())
        options = {"listener": records.append}
        result = await agent.run("the goal", run_id="r", **options)
        await settled(agent, result, story.answer, **options)
    finally:
        LISTENER.reset(token)
    events = events_json([record for record in records if isinstance(record, e.Record)])
    if story.name in AT_ONCE:
        events, requests = (sorted(one, key=json.dumps) for one in (events, requests))
    same(FOLDER / f"{story.name}.json", {"requests": requests_json(requests), "events": events})

"""Prompts and logs of each technique equal their recordings byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold.reasoning.variables import variables
from tests.recorded import events_json, request_json, requests_json, same
from tests.runtime.kit import LISTENER, settled

from .replies import CASES
from .stories import STORIES

pytestmark = pytest.mark.anyio
FOLDER = Path(__file__).parent / "recorded"
AGENTS = {story.name: story.agent for story in STORIES} | {n: c.agent for n, c in CASES.items()}
AT_ONCE = ("decompose", "decompose_failing", "decompose_nested")
"""Branches run at the same time: their order is not compared."""


@pytest.mark.parametrize("name", AGENTS)
async def test_a_technique_asks_and_records_the_same_to_the_letter(name: str) -> None:
    requests: list[Any] = []
    token = LISTENER.set(lambda request: requests.append(request_json(request)))
    try:
        agent = AGENTS[name]()
        result = await agent.run("the goal", run_id="r")
        result = await settled(agent, result)
    finally:
        LISTENER.reset(token)
    events = events_json(result.records)
    if name in AT_ONCE:
        events, requests = (sorted(one, key=json.dumps) for one in (events, requests))
    ending = {"error": result.error, "stop": result.stop_reason, "success": result.success}
    kept = {k: v for k, v in variables(result.records).items() if k != "reasoning_trace"}
    recorded = {"requests": requests_json(requests), "events": events, "ending": ending}
    same(FOLDER / f"{name.replace(' ', '_')}.json", {**recorded, "variables": kept})

"""`GET /runs/{run}/prompt`: what the model was sent in one call."""

from pathlib import Path

import pytest

from tests.server.agents import Bench, act, finish
from tests.server.live import serving

pytestmark = pytest.mark.anyio


async def test_the_prompt_of_each_call_can_be_read_and_compared(tmp_path: Path) -> None:
    bench = Bench()
    inner = bench.agent(finish("7"), name="inner")
    agent = bench.agent(act("I ask", "inner", goal="x"), finish("done"), tools=[inner])
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start("go")
        await client.until(run)
        last = (await client.get(f"/runs/{run}/prompt")).json()
        first = (await client.get(f"/runs/{run}/prompt?n=1")).json()
        assert (last["number"], last["calls"], first["number"]) == (2, 2, 1)
        assert first["missing"] == last["missing"] == ""
        assert last["messages"][: last["same"]] == first["messages"]
        assert first["messages"][1]["parts"] == [{"type": "text", "text": "go"}]
        assert (await client.get(f"/runs/{run}/prompt?n=3")).status_code == 404
        spans = (await client.get(f"/runs/{run}/spans")).json()["items"]
        child = next(span["run"] for span in spans if span["run"])
        asked = (await client.get(f"/runs/{child}/prompt")).json()
        assert asked["missing"] == ""
        assert asked["messages"][-1]["parts"][0]["text"] == "x"

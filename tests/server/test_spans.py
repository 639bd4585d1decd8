"""Where the time of a run went: calls with what they cost, waits, and agents that were asked."""

from pathlib import Path

import pytest
from tests.server.agents import Bench, act, finish
from tests.server.live import serving

from taofold.core.values import Reply, Usage

pytestmark = pytest.mark.anyio


async def test_calls_waits_and_children_stand_in_the_order_of_their_starts(tmp_path: Path) -> None:
    bench = Bench()
    inner = bench.agent(Reply(finish("7"), usage=Usage(40, 2)), name="inner")
    agent = bench.agent(
        Reply(act("I ask", "inner", goal="x"), usage=Usage(100, 10)),
        act("I tell", "publish", text="x"),
        finish(),
        tools=[inner, *bench.tools],
    )
    async with serving(agent, tmp_path / "r.db") as client:
        run = await client.start()
        asked = await client.pending(run)
        await client.post(f"/approvals/{asked['id']}", {"decision": "approve"})
        await client.until(run)
        spans = (await client.get(f"/runs/{run}/spans")).json()["items"]
        shown = (await client.get(f"/runs/{run}")).json()
        child = next(span["run"] for span in spans if span["run"])
        assert (await client.get(f"/runs/{child}")).json()["parent"] == run
    kinds = [(span["type"], span["name"]) for span in spans if span["type"] != "model"]
    assert kinds == [
        ("tool", "inner"),
        ("wait", "awaiting_approval"),
        ("tool", "publish"),
        ("tool", "finish"),
    ]
    assert [span["start"] for span in spans] == sorted(span["start"] for span in spans)
    assert all(span["end"] >= span["start"] for span in spans)
    assert [span["tokens"] for span in spans if span["tokens"]] == [110, 42]
    assert shown["tokens"] == 152

"""Durations in a run: calls with their costs, waits, and called agents."""

from pathlib import Path

import pytest

from taofold import RunContext, tool
from taofold.core.events import Rewound, RunStarted
from taofold.core.values import Action, Observation, Reply, Usage
from taofold.log.sqlite.log import SqliteLog
from taofold.server.api.responses import spans as timeline
from taofold.tools import ModelQuestion
from tests.core.story import Story
from tests.server.agents import Bench, act, finish
from tests.server.live import serving

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


def test_a_call_that_waits_after_a_rewind_took_no_time_though_its_place_was_used_before() -> None:
    """Mutant: read `Started` and `Observed` of all records: the new call counts as done."""
    story = Story()
    key = story.think("go", Action("look", {}, "w"))
    story.start(key).see(key, Observation("seen"))
    assert [span.name for span in timeline(story.records, set()).items] == ["look"]
    story.put(Rewound(to=0))
    assert story.think("again", Action("send", {}, "w"), key=key) == key
    assert timeline(story.records, set()).items == []


async def test_a_tool_that_asked_the_runs_model_is_no_agent(tmp_path: Path) -> None:
    @tool(effect="read")
    async def judge(ctx: RunContext[None]) -> str:
        """Ask the model."""
        assert ctx.sample is not None
        return (await ctx.sample(ModelQuestion("Which is best?"))).text

    bench = Bench()
    agent = bench.agent(
        Reply(act("I ask", "judge"), usage=Usage(100, 10)),
        Reply(finish(), usage=Usage(7, 3)),
        tools=[judge],
    )
    async with serving(agent, tmp_path / "r.db") as client:
        run = await client.start()
        await client.until(run)
        spans = (await client.get(f"/runs/{run}/spans")).json()["items"]
    judged = next(span for span in spans if span["name"] == "judge")
    assert judged["tokens"] > 0
    assert [span["run"] for span in spans] == [""] * len(spans), "there is no such run"


async def test_a_call_that_waits_for_a_person_was_not_interrupted(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(act("I tell", "publish", text="x"), finish())
    async with serving(agent, tmp_path / "r.db") as client:
        run = await client.start()
        await client.until(run, "waiting")
        spans = (await client.get(f"/runs/{run}/spans")).json()["items"]
        assert [(s["type"], s["name"], s["status"]) for s in spans if s["type"] != "model"] == [
            ("wait", "awaiting_approval", "open")
        ]


async def test_a_call_at_work_is_open(tmp_path: Path) -> None:
    bench = Bench()
    bench.gate.clear()
    agent = bench.agent(act("I wait", "slow"), finish())
    async with serving(agent, tmp_path / "r.db") as client:
        run = await client.start()
        await bench.arrived.wait()
        spans = (await client.get(f"/runs/{run}/spans")).json()["items"]
        assert [s["status"] for s in spans if s["name"] == "slow"] == ["open"]
        bench.gate.set()
        await client.until(run)
        spans = (await client.get(f"/runs/{run}/spans")).json()["items"]
        assert [s["status"] for s in spans if s["name"] == "slow"] == ["success"]


CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(("header", "kept"), [(CALLER, CALLER), ("00-junk", None), ("", None)])
async def test_a_run_hangs_in_the_trace_of_the_request_that_started_it(
    tmp_path: Path, header: str, kept: str | None
) -> None:
    """Mutant: the header is not read."""
    agent = Bench().agent(finish())
    async with serving(agent, tmp_path / "r.db") as client:
        headers = {"traceparent": header}
        begun = await client.post("/runs", {"goal": "go"}, headers=headers)
        run, other = begun.json()["id"], await client.start()
        await client.until(run)
        await client.until(other)
    log = SqliteLog(tmp_path / "r.db")
    first = [(await log.read(each, limit=1))[0].event for each in (run, other)]
    settings = [event.settings for event in first if isinstance(event, RunStarted)]
    await log.close()
    assert settings[0].get("traceparent") == kept
    assert "traceparent" not in settings[1], "the next request is not in that trace"

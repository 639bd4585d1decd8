"""The figures beside the list of runs: right, and only about what the caller may see."""

from pathlib import Path

import pytest

from taofold.core.values import Reply, Usage
from taofold.server.auth import TokenStore
from tests.server.agents import Bench, act, finish
from tests.server.live import serving

pytestmark = pytest.mark.anyio


async def test_a_list_says_what_each_run_took(tmp_path: Path) -> None:
    usage = Usage(100, 20, 0, 0.25)
    bench = Bench()
    agent = bench.agent(
        Reply(act("I look", "look"), usage=usage, model="m"),
        Reply(finish(), usage=usage, model="m"),
    )
    async with serving(agent, tmp_path / "runs.db") as client:
        for _ in range(2):
            await client.until(await client.start())
        (_, one) = (await client.get("/console/runs")).json()["items"]
        assert (one["steps"], one["model_calls"], one["tool_calls"]) == (2, 2, 1)
        assert (one["tokens"], one["usd"]) == (240, 0.5)
        totals = (await client.get("/console/totals")).json()
        assert (totals["runs"], totals["measured"]) == (2, 2)
        assert totals["statuses"] == {"finished": 2}
        assert (totals["tokens"], totals["usd"]) == (480, 1.0)


async def test_a_run_that_goes_on_is_measured_again_and_an_ended_one_is_remembered(
    tmp_path: Path,
) -> None:
    bench = Bench()
    agent = bench.agent(act("I tell", "publish", text="x"), finish())
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        (before,) = (await client.get("/console/runs")).json()["items"]
        assert before["tool_calls"] == 0
        await client.post(f"/approvals/{one['id']}", {"decision": "approve"})
        await client.until(run)
        (after,) = (await client.get("/console/runs")).json()["items"]
        (again,) = (await client.get("/console/runs")).json()["items"]
        assert (after["tool_calls"], after["status"]) == (1, "finished")
        assert again == after


async def test_figures_of_somebody_else_are_not_there(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    ann, bob = (tokens.add(name, ["EDITOR"]) for name in ("ann", "bob"))
    async with serving(
        Bench().agent(finish()), tmp_path / "runs.db", tokens=tokens, token=ann
    ) as client:
        await client.until(await client.start())
        mine = {"Authorization": f"Bearer {bob}"}
        assert (await client.get("/console/runs", headers=mine)).json()["items"] == []
        totals = (await client.get("/console/totals", headers=mine)).json()
        assert (totals["runs"], totals["statuses"], totals["tokens"]) == (0, {}, 0)


async def test_child_runs_are_counted_with_the_run_that_began_them(tmp_path: Path) -> None:
    bench = Bench()
    helper = bench.agent(act("x", "look"), finish("in"), name="helper", tools=bench.safe)
    agent = bench.agent(act("x", "helper", goal="y"), finish("out"), tools=[helper])
    async with serving(agent, tmp_path / "runs.db") as client:
        await client.until(await client.start())
        (one,) = (await client.get("/console/runs")).json()["items"]
        assert (one["model_calls"], one["tool_calls"]) == (4, 2)


async def test_filters_of_the_list_hold_here_too(tmp_path: Path) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "runs.db") as client:
        await client.until(await client.start())
        found = (await client.get("/console/runs", params={"status": "failed"})).json()
        assert found == {"items": [], "next": None}
        assert (await client.get("/console/runs", params={"status": "odd"})).status_code == 422

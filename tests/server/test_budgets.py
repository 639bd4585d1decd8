"""Budgets over HTTP: who sees which amounts, and who may lift one."""

from dataclasses import replace
from pathlib import Path

import pytest

from taofold import Budget, Policy
from taofold.core.values import Reply, Usage
from taofold.server.auth import TokenStore
from tests.server.agents import Bench, finish
from tests.server.live import QUICK, serving

pytestmark = pytest.mark.anyio


async def test_budgets_of_the_servers_settings_bound_its_runs(tmp_path: Path) -> None:
    """Mutant: they are listed only."""
    budgets = [Budget(period="month", tokens=900, name="server")]
    bench = Bench()
    agent = bench.agent(
        Reply(finish(), usage=Usage(1000)),
        policy=Policy(budgets=[Budget(period="month", tokens=9000, name="own")]),
    )
    settings = replace(QUICK, policy=Policy(budgets=budgets))
    async with serving(agent, tmp_path / "r.db", settings=settings) as client:
        for status in ("finished", "limited"):
            run = await client.start()
            await client.until(run, status)
        rows = (await client.get("/budgets")).json()["items"]
    assert {row["name"]: row["spent_tokens"] for row in rows} == {"server": 1000, "own": 1000}
    assert bench.asked == 1


async def test_own_amounts_are_seen_and_an_admin_lifts_one_once(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    ann, bob = tokens.add("ann", ["USER"]), tokens.add("bob", ["USER"])
    chief = tokens.add("chief", ["ADMIN"])
    budgets = [
        Budget(per="principal", period="month", tokens=900),
        Budget(period="month", tokens=90_000),
    ]
    bench = Bench()
    agent = bench.agent(Reply(finish(), usage=Usage(1000)), policy=Policy(budgets=budgets))
    async with serving(
        agent, tmp_path / "r.db", tokens=tokens, token=ann, folder=tmp_path
    ) as client:
        for status in ("finished", "limited"):
            run = await client.start()
            await client.until(run, status)
        assert bench.asked == 1

        def as_(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        (own,) = (await client.get("/budgets")).json()["items"]
        assert (own["scope"], own["spent_tokens"], own["tokens"]) == ("principal:ann", 1000, 900)
        (other,) = (await client.get("/budgets", headers=as_(bob))).json()["items"]
        assert (other["scope"], other["spent_tokens"]) == ("principal:bob", 0)
        every = (await client.get("/budgets", headers=as_(chief))).json()["items"]
        assert [item["scope"] for item in every] == ["principal:ann", "all"]

        lift = {"name": "principal-month", "scope": "principal:ann", "reason": "release"}
        for token, body, status in (
            (ann, lift, 403),
            (chief, {**lift, "name": "x"}, 409),
            (chief, {**lift, "scope": "all"}, 409),
            (chief, lift, 200),
            (chief, lift, 409),
        ):
            answer = await client.post("/budgets/lift", body, headers=as_(token))
            assert answer.status_code == status, (body, answer.text)
        (own,) = (await client.get("/budgets")).json()["items"]
        assert (own["tokens"], own["lifted_by"], own["lifted_reason"]) == (1800, "chief", "release")
        run = await client.start()
        await client.until(run, "finished")
        assert bench.asked == 2
    audit = (tmp_path / "audit.jsonl").read_text()
    assert '"budget_lift"' in audit
    assert '"budget_lift_refused"' in audit

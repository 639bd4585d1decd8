"""Policy tests over HTTP: what a policy would have changed, for whom, and within which bounds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace as replace_struct

from taofold import Agent, Budget, Policy, Principal, Tier
from taofold.backtest.stored_calls import FORK_TAG
from taofold.core import events as e
from taofold.core.values import Action, Thought
from taofold.files.policy import parse_policy, policy_text
from taofold.log.log import RunRow
from taofold.runtime.run import fork
from taofold.server.api import policies
from taofold.server.auth import TokenStore
from tests.server.agents import Bench, act, finish
from tests.server.live import Client, serving

pytestmark = pytest.mark.anyio
EVIL = "<img src=x onerror=alert(1)>"


def test_a_policy_as_text_is_the_same_policy() -> None:
    for policy in (
        Policy(),
        Policy(
            autonomy="conservative",
            tiers={EVIL: Tier.CARD, "a: b": Tier.CONFIRM, "no": Tier.AUTO},
            allow=frozenset({"1", "\u202e"}),
            deny=frozenset({"rm"}),
            roles={"CHIEF": 9, "USER": 1},
            required={"x": "CHIEF"},
            production=True,
            production_tiers={"y": Tier.FORBIDDEN},
            approvers="CHIEF",
            own_approval=False,
            approve_seconds=1.5,
            rights={"cancel": "CHIEF"},
            budgets=[Budget(tokens=5), Budget(per="tag:t", period="hour", usd=0.5, warn=0.1)],
        ),
        Policy(allow=frozenset()),
    ):
        assert parse_policy(policy_text(policy), "policy") == policy


async def begun(client: Client) -> str:
    run = await client.start()
    await client.until(run, "waiting")
    return run


def agent_of(bench: Bench, **options: Any) -> Agent[Any, Any]:
    return bench.agent(act("so", "publish", text=EVIL), finish(), **options)


async def verdicts(client: Client, policy: str, status: int = 200, **body: Any) -> dict[str, Any]:
    headers = body.pop("headers", {})
    answer = await client.post("/policy/test", {"policy": policy, **body}, headers=headers)
    assert answer.status_code == status, answer.text
    return dict(answer.json())


async def test_a_rule_that_would_have_changed_a_call_is_shown(tmp_path: Path) -> None:
    bench = Bench()
    agent = agent_of(bench, policy=Policy(autonomy="conservative"))
    async with serving(agent, tmp_path / "r.db") as client:
        run = await begun(client)
        text = (await client.get("/policy")).json()["text"]
        assert yaml.safe_load(text)["autonomy"] == "conservative"
        before = [record.event for record in await client.server.log.read(run)]
        same = await verdicts(client, text)
        assert (same["calls"], same["changes"], same["runs"]) == (1, [], 1)
        denied = await verdicts(client, '{"deny": ["publish", "rm"]}')
        [change] = denied["changes"]
        assert (change["rule"], change["recorded"], change["now"]) == (
            "deny.publish",
            "ask",
            "deny",
        )
        assert change["examples"][0].startswith(f"{run}:")
        assert denied["uncovered"] == ["deny.rm"]
        assert (await verdicts(client, "deny: [publish]", runs=[run]))["tightened"] == 1
        assert [record.event for record in await client.server.log.read(run)] == before
        assert (await client.get(f"/runs/{run}")).json()["status"] == "waiting"
    assert (bench.done, bench.asked) == ([], 1)


async def test_a_principal_sees_only_runs_that_it_may_read(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    ann, bob = tokens.add("ann", ["USER"]), tokens.add("bob", ["USER"])
    editor, none = tokens.add("eve", ["EDITOR"]), tokens.add("nil", [])
    agent = agent_of(Bench(), policy=Policy(approvers="EDITOR", budgets=[Budget(tokens=10**9)]))
    roles = {"VIEWER": 1, "USER": 2, "EDITOR": 3, "ADMIN": 4}
    agent = agent.replace(policy=replace(agent.policy, roles=roles))

    def by(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    async with serving(agent, tmp_path / "r.db", tokens=tokens, token=ann) as client:
        run = await begun(client)
        assert (await verdicts(client, "deny: [publish]"))["runs"] == 1
        assert (await verdicts(client, "deny: [publish]", headers=by(bob)))["runs"] == 0
        await verdicts(client, "{}", 404, runs=[run], headers=by(bob))
        assert (await verdicts(client, "deny: [publish]", headers=by(editor)))["runs"] == 1
        await verdicts(client, "{}", 403, headers=by(none))
        assert (await client.get("/policy", headers=by(none))).status_code == 403
        shown = (await client.get("/policy")).json()["text"]
        assert "approvers: EDITOR" in shown
        assert "budgets" not in shown
        result = await verdicts(client, "budgets: [{tokens: 0}]")
        assert (result["findings"], result["untested"]) == (
            [],
            ["budgets (this needs the right budgets)"],
        )


async def test_forks_of_a_recheck_are_left_out_of_a_period(tmp_path: Path) -> None:
    """Mutant: they count like other runs."""
    async with serving(agent_of(Bench()), tmp_path / "r.db") as client:
        run = await begun(client)
        tags = {FORK_TAG: "fork"}
        await fork(client.server.log, run, "f1", now=client.server.now(), tags=tags)
        result = await verdicts(client, "deny: [publish]")
        assert (result["runs"], result["left_out"]) == (1, 1)
        named = await verdicts(client, "deny: [publish]", runs=["f1"])
        assert (named["runs"], named["left_out"]) == (1, 0)


async def test_a_wrong_period_is_refused_in_plain_words(tmp_path: Path) -> None:
    async with serving(agent_of(Bench()), tmp_path / "r.db") as client:
        fault = await verdicts(client, "{}", 422, since="5x")
    assert "a period is a number and m, h, d or w" in fault["detail"]
    assert "[0-9]" not in fault["detail"]


async def test_budgets_are_tested_for_those_who_may_see_them(tmp_path: Path) -> None:
    async with serving(agent_of(Bench()), tmp_path / "r.db") as client:
        await begun(client)
        [finding] = (await verdicts(client, "budgets: [{tokens: 0}]"))["findings"]
    assert finding["rule"] == "budgets.all-day"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tiers: {x: 9}", "tiers"),
        ("dney: [x]", "did you mean 'deny'"),
        ("!!python/object/apply:os.system [touch ran]", "policy"),
        ("deny: &a [x, *a]", "policy"),
        ("a: &a [x]\nb: &b [*a, *a]\ndeny: *b", "policy"),
        ("[" * 5000, "policy"),
        ("deny: [" + "[" * 3000, "policy"),
        ("deny: !include /etc/passwd", "policy"),
        ("/etc/passwd", "is not a mapping"),
        ('deny: ["\\0"]', "NUL"),
        ("a: 1\n---\nb: 2", "2 YAML documents"),
        ("rights: {fly: ADMIN}", "rights"),
        ("rights: {read: NO}", "unknown role"),
        (f"budgets: [{', '.join(f'{{tokens: 1, name: b{n}}}' for n in range(51))}]", "at most 50"),
        ("x" * 70_000, "65536"),
    ],
)
async def test_a_hostile_text_is_a_fault_with_its_place(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with serving(agent_of(Bench()), tmp_path / "r.db") as client:
        fault = await verdicts(client, text, 422)
    assert why in fault["detail"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("name", "most"), [("MOST_RUNS", 1), ("MOST_EVENTS", 5)])
async def test_the_work_is_bounded_before_it_begins(
    name: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, name, most)
    async with serving(agent_of(Bench()), tmp_path / "r.db") as client:
        runs = [await begun(client) for _ in range(2)]
        assert "choose a shorter period" in (await verdicts(client, "{}", 422))["detail"]
        await verdicts(client, "{}", 422, runs=runs)
        await client.server.testing.acquire()
        assert (await verdicts(client, "{}", 503))["code"] == "busy"
        client.server.testing.release()
        await verdicts(client, "{}", 422, runs=["x"] * 101)


async def test_a_stored_run_names_no_agent_and_no_tools_that_run(tmp_path: Path) -> None:
    """A run that no server began, and one whose client tools were damaged, are not judged."""
    bench = Bench()
    agent = agent_of(bench)
    async with serving(agent, tmp_path / "r.db") as client:
        log = client.server.log
        name = client.server.catalog.names[0]
        served = client.server.catalog[name].name
        me = (await client.get("/me")).json()["id"]
        for number, settings in enumerate(
            (
                {"cli": {"agent": "evil.py:agent", "folder": str(tmp_path)}},
                {
                    "server": {
                        "agent": client.server.catalog.names[0],
                        "client_tools": [{"name": 1}],
                    }
                },
                {"server": "x"},
                {"server": {"agent": "other", "model": "evil:model"}},
            )
        ):
            started = e.RunStarted(goal="g", agent=served, settings=settings)
            started = replace_struct(started, principal=Principal(me))
            step = e.Proposed("1", Thought("so"), (Action("publish", {"text": "x"}),))
            run = f"r{number}"
            records = [
                e.Record(run, seq, client.server.now(), event)
                for seq, event in enumerate((started, step, e.Decided("1", "ask")))
            ]
            row = RunRow(run, "waiting", agent=served, principal=me, created_at=records[0].at)
            await log.create(row, records=records)
        result = await verdicts(client, "tiers: {publish: 1}")
    assert (result["runs"], result["calls"]) == (4, 0)
    assert sum(result["unjudged"].values()) == 4

"""Approvals over HTTP: who may decide, once, in time, and the run goes on by itself."""

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits, Policy, open_log
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.log.open import journal_beside
from taofold.runtime import control
from taofold.server.auth import TokenStore
from tests.runtime.kit import planted
from tests.server.agents import Bench, act, batch, finish
from tests.server.live import PATIENCE, QUICK, Client, serving

pytestmark = pytest.mark.anyio

PUBLISH = act("write", "publish", text="hello")


class Clock:
    """The server's time: it goes on, and can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return clock() + self.ahead


async def decide(client: Client, one: dict[str, Any], decision: str, **said: Any) -> Any:
    return await client.post(f"/approvals/{one['id']}", {"decision": decision, **said})


@pytest.mark.scenario("RCT-10", "RCT-14")
async def test_an_approved_action_runs_once_and_the_run_finishes_by_itself(tmp_path: Path) -> None:
    bench = Bench()
    async with serving(bench.agent(PUBLISH, finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        assert one["tool"] == "publish"
        assert (one["tier"], one["requires_confirmation"]) == (3, True)
        assert bench.done == []
        answer = await decide(client, one, "approve", digest=one["digest"])
        assert answer.status_code == 202
        assert (await client.until(run))["output"] == "forty-two"
        assert bench.done == [("publish", "hello")]
        events = await client.events(run)
        resolved = next(event for event in events if event.name == "confirmation_resolved")
        assert resolved.data["actionId"] == one["id"]
        assert resolved.data["decision"] == "approved"
        assert resolved.data["by"] == "local"


TWO = batch("tell", ("publish", {"text": "a"}), ("publish", {"text": "b"}))


async def test_what_a_step_asks_at_once_is_listed_together_and_decided_in_one_request(
    tmp_path: Path,
) -> None:
    bench = Bench()
    async with serving(bench.agent(TWO, finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        items = await client.asked(run, 2)
        assert [one["args"]["text"] for one in items] == ["a", "b"]
        assert items[0]["batch"] == items[1]["batch"]
        events = await client.events(run, most=3)
        asked = [event.data for event in events if event.name == "confirmation_request"]
        assert [one["batch"] for one in asked] == [items[0]["batch"]] * 2
        decisions = [
            {"id": items[1]["id"], "decision": "deny", "reason": "no"},
            {"id": items[0]["id"], "decision": "approve", "digest": items[0]["digest"]},
            {"id": f"{run}:999", "decision": "approve"},
        ]
        answer = await client.post("/approvals", {"decisions": decisions})
        assert answer.status_code == 202
        taken = [(one["taken"], one["status"]) for one in answer.json()["items"]]
        assert taken == [(True, 202), (True, 202), (False, 409)]
        assert (await client.until(run))["status"] == "finished"
        assert bench.done == [("publish", "a")]


async def test_each_of_several_decisions_is_judged_by_itself(tmp_path: Path) -> None:
    """A stranger's decision is refused as if the action did not exist, in any combination."""
    bench, tokens = Bench(), TokenStore(tmp_path / "tokens.json")
    ann, bob = tokens.add("ann", ["USER"]), tokens.add("bob", ["USER"])
    agent = bench.agent(TWO, finish())
    async with serving(agent, tmp_path / "runs.db", tokens=tokens, token=ann) as client:
        run = await client.start()
        items = await client.asked(run, 2)
        decisions = [{"id": one["id"], "decision": "approve"} for one in items]
        headers = {"Authorization": f"Bearer {bob}"}
        answer = await client.post("/approvals", {"decisions": decisions}, headers=headers)
        assert answer.status_code == 202, answer.text
        assert [one["status"] for one in answer.json()["items"]] == [404, 404]
        assert bench.done == []


@pytest.mark.scenario("RCT-15")
async def test_a_denied_action_never_runs_and_the_model_is_told(tmp_path: Path) -> None:
    bench = Bench()
    heard: list[str] = []

    def last(request: Any) -> str:
        heard.append(request.conversation[-1].content)
        return finish()

    async with serving(bench.agent(PUBLISH, last), tmp_path / "runs.db") as client:
        run = await client.start()
        await decide(client, await client.pending(run), "deny", reason="not on a Friday")
        assert (await client.until(run))["status"] == "finished"
    assert bench.done == []
    assert "not on a Friday" in heard[0]


async def test_an_edited_action_runs_with_what_the_person_wrote(tmp_path: Path) -> None:
    bench = Bench()
    async with serving(bench.agent(PUBLISH, finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        assert (await decide(client, one, "edit")).status_code == 422
        await decide(client, one, "edit", parameters={"text": "bye"})
        await client.until(run)
        assert bench.done == [("publish", "bye")]


async def test_an_edit_that_does_not_fit_is_refused_with_a_reason_and_can_be_given_again(
    tmp_path: Path,
) -> None:
    """Mutant: it is accepted, consumes the question, and the model gets the error."""
    bench = Bench()
    async with serving(bench.agent(PUBLISH, finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        for parameters in ({"text": 5}, {}, {"text": "x", "txt": "y"}):
            answer = await decide(client, one, "edit", parameters=parameters)
            assert (answer.status_code, answer.json()["code"]) == (422, "parameters")
            assert "text" in answer.json()["detail"]
        assert await client.pending(run) == one
        assert (await decide(client, one, "edit", parameters={"text": "bye"})).status_code == 202
        await client.until(run)
        assert bench.done == [("publish", "bye")]


async def test_an_edit_that_holds_a_secret_is_refused_with_a_reason_and_can_be_given_again(
    tmp_path: Path,
) -> None:
    bench = Bench()
    agent = bench.agent(PUBLISH, finish(), secrets=["hunter2hunter2"])
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        answer = await decide(client, one, "edit", parameters={"text": "it is hunter2hunter2"})
        assert answer.status_code == 422
        assert "secret" in answer.json()["detail"]
        assert "hunter2" not in answer.text
        assert (await decide(client, one, "edit", parameters={"text": "bye"})).status_code == 202
        await client.until(run)
        assert bench.done == [("publish", "bye")]
        records = (await client.get(f"/runs/{run}/records")).text
        assert "hunter2" not in records


async def test_a_question_is_answered_with_text(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(act("ask", "ask_user", question="which?"), finish(), ask_user=True)
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        assert (one["question"], one["requires_confirmation"]) == ("which?", False)
        assert (await decide(client, one, "approve")).status_code == 422
        assert (await decide(client, one, "answer")).status_code == 422
        assert (await decide(client, one, "answer", answer="the red one")).status_code == 202
        assert (await client.until(run))["status"] == "finished"
        events = await client.events(run)
        (asked,) = [e.data for e in events if e.name == "confirmation_request"]
        assert asked["requiresConfirmation"] is False
        assert [e.data["decision"] for e in events if e.name == "confirmation_resolved"] == [
            "answered"
        ]


@pytest.mark.scenario("RCT-13")
async def test_the_rest_of_a_batch_waits_and_is_answered_after(tmp_path: Path) -> None:
    bench = Bench()
    three = batch("three", ("look", {}), ("publish", {"text": "x"}), ("look", {"at": "there"}))
    async with serving(bench.agent(three, finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        assert bench.done == [("look", "here")]
        await decide(client, one, "approve")
        await client.until(run)
        assert bench.done[0] == ("look", "here")
        assert sorted(bench.done[1:]) == [("look", "there"), ("publish", "x")]
        events = await client.events(run)
        assert len([event for event in events if event.name == "tool_result"]) == 3


@pytest.mark.scenario("RCT-16")
async def test_after_five_minutes_an_approval_is_expired_and_nothing_ran(tmp_path: Path) -> None:
    bench, now = Bench(), Clock()
    agent = bench.agent(PUBLISH, finish())
    settings = replace(QUICK, look_s=3600.0)  # so that no poll is faster than the approver
    async with serving(agent, tmp_path / "runs.db", now=now, settings=settings) as client:
        run = await client.start()
        one = await client.pending(run)
        now.ahead = 299_000
        assert (await client.get("/approvals")).json()["items"] != []
        now.ahead = 301_000
        assert (await client.get("/approvals")).json()["items"] == []
        answer = await decide(client, one, "approve")
        assert answer.status_code == 410
        await client.server.engine.reconcile()
        assert (await client.until(run))["status"] == "finished"
        assert bench.done == []


@pytest.mark.scenario("RCT-16")
async def test_an_approval_expires_without_a_click(tmp_path: Path) -> None:
    bench, now = Bench(), Clock()
    agent = bench.agent(PUBLISH, finish())
    async with serving(agent, tmp_path / "runs.db", now=now) as client:
        run = await client.start()
        await client.pending(run)
        now.ahead = 301_000
        await client.until(run)
        events = await client.events(run)
    assert [e.data["decision"] for e in events if e.name == "confirmation_resolved"] == ["expired"]
    assert next(e.data for e in events if e.name == "tool_result")["refused"] == "expired"
    assert bench.done == []


@pytest.mark.scenario("RCT-17")
async def test_of_two_decisions_at_once_one_counts(tmp_path: Path) -> None:
    bench = Bench()
    async with serving(bench.agent(PUBLISH, finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        answers = await asyncio.gather(*[decide(client, one, "approve") for _ in range(5)])
        assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409, 409]
        refused = next(answer for answer in answers if answer.status_code == 409)
        assert "already resolved" in refused.json()["detail"]
        await client.until(run)
        assert (await decide(client, one, "approve")).status_code == 409
        assert bench.done == [("publish", "hello")]


def people(path: Path, **roles: str) -> tuple[TokenStore, dict[str, str]]:
    tokens = TokenStore(path / "tokens.json")
    return tokens, {name: tokens.add(name, [role]) for name, role in roles.items()}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.scenario("RCT-18", "PEER-06")
async def test_another_users_action_is_refused_and_audited(tmp_path: Path) -> None:
    bench = Bench()
    tokens, token = people(tmp_path, alice="USER", mallory="ADMIN")
    path = tmp_path / "runs.db"
    agent = bench.agent(PUBLISH, finish())
    async with serving(agent, path, tokens=tokens, token=token["alice"]) as client:
        run = await client.start()
        one = await client.pending(run)
        foreign = bearer(token["mallory"])
        answer = await client.post(
            f"/approvals/{one['id']}", {"decision": "approve"}, headers=foreign
        )
        assert answer.status_code == 404
        assert (await client.get("/approvals", headers=foreign)).json()["items"] == []
        for path_ in ("", "/events", "/state", "/records", "/audit", "/spans"):
            found = await client.get(f"/runs/{run}{path_}", headers=foreign)
            assert found.status_code == 404
        await decide(client, one, "deny")
        await client.until(run)
        assert bench.done == []
        audit = (await client.get(f"/runs/{run}/audit")).json()
        assert [(who["who"], who["id"]) for who in audit["attempts"]] == [("mallory", one["id"])]
        lines = [line for line in client.server.audit.last if line["what"] == "refused"]
        assert any(line["who"] == "mallory" and line["status"] == 404 for line in lines)


@pytest.mark.scenario("RCT-18")
async def test_a_requester_whose_role_was_lowered_gets_nothing_approved(tmp_path: Path) -> None:
    bench = Bench()
    tokens, token = people(tmp_path, alice="EDITOR")
    again = tokens.add("alice", ["VIEWER"])
    agent = bench.agent(act("write", "edit", text="x"), finish())
    async with serving(agent, tmp_path / "runs.db", tokens=tokens, token=again) as client:
        run = (await client.post("/runs", {"goal": "go"}, headers=bearer(token["alice"]))).json()[
            "id"
        ]
        one = await client.pending(run)
        tokens.revoke(token["alice"].split("_")[1])
        answer = await decide(client, one, "approve")
        assert answer.status_code == 403
        assert (await decide(client, one, "deny")).status_code in (202, 403)
        assert bench.done == []


@pytest.mark.scenario("RCT-18")
async def test_an_approver_cannot_lend_a_requester_the_role_that_he_lost(tmp_path: Path) -> None:
    bench = Bench()
    tokens, token = people(tmp_path, alice="EDITOR", boss="ADMIN")
    policy = Policy(approvers="ADMIN")
    agent = bench.agent(act("write", "edit", text="x"), finish(), policy=policy)
    async with serving(agent, tmp_path / "runs.db", tokens=tokens, token=token["alice"]) as client:
        one = await client.pending(await client.start())
        tokens.revoke(token["alice"].split("_")[1])
        client.http.headers["Authorization"] = f"Bearer {token['boss']}"
        assert (await decide(client, one, "approve")).status_code == 403
        assert (await decide(client, one, "deny")).status_code == 202
        assert bench.done == []


@pytest.mark.scenario("RCT-18")
async def test_a_role_lowered_after_the_approval_is_still_noticed(tmp_path: Path) -> None:
    """The decision is in the inbox. The roles at the time of the call's start apply."""
    bench = Bench()
    tokens, token = people(tmp_path, alice="EDITOR")
    viewer = tokens.add("alice", ["VIEWER"])
    path = tmp_path / "runs.db"
    agent = bench.agent(act("write", "edit", text="x"), finish())
    async with serving(agent, path, tokens=tokens, token=token["alice"]) as client:
        run = await client.start()
        one = await client.pending(run)
        client.server.engine.stuck[run] = "held by the test"
        assert (await decide(client, one, "approve")).status_code == 202
        tokens.revoke(token["alice"].split("_")[1])
        client.server.engine.stuck.clear()
        client.http.headers["Authorization"] = f"Bearer {viewer}"
        await client.until(run)
        assert bench.done == []


@pytest.mark.scenario("RCT-07", "RCT-08")
@pytest.mark.parametrize("role", ["VIEWER", "BILLING"])
async def test_a_role_that_is_not_enough_is_said_in_the_stream(tmp_path: Path, role: str) -> None:
    bench = Bench()
    tokens, token = people(tmp_path, alice=role)
    agent = bench.agent(act("write", "edit", text="x"), finish())
    settings = replace(QUICK, policy=Policy(rights={"start": "VIEWER"}))
    async with serving(
        agent, tmp_path / "runs.db", tokens=tokens, token=token["alice"], settings=settings
    ) as client:
        events = await client.events(await client.start())
    result = next(event.data for event in events if event.name == "tool_result")
    assert "access denied" in result["result"]
    assert "EDITOR" in result["result"]
    assert role in result["result"]
    assert bench.done == []


@pytest.mark.scenario("PEER-06")
async def test_forged_replayed_and_bent_decisions_are_refused(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(PUBLISH, act("again", "publish", text="other"), finish())
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        one = await client.pending(run)
        seq = int(one["id"].rpartition(":")[2])
        for forged in (f"{run}:{seq + 1}", f"{run}:0", f"{run}:999"):
            answer = await client.post(f"/approvals/{forged}", {"decision": "approve"})
            assert answer.status_code == 409
        assert (await decide(client, one, "approve", digest="0" * 20)).status_code == 409
        assert (
            await decide(client, one, "approve", parameters={"text": "mine"})
        ).status_code == 422
        assert (await decide(client, one, "approve", by="admin")).status_code == 422
        assert bench.done == []
        assert (await decide(client, one, "approve")).status_code == 202
        two = await client.pending(run, one["id"])
        assert (await decide(client, one, "approve")).status_code == 409
        assert bench.done == [("publish", "hello")]
        await decide(client, two, "deny")
        await client.until(run)
        attempts = (await client.get(f"/runs/{run}/audit")).json()["attempts"]
        assert len(attempts) >= 4


@pytest.mark.scenario("RCT-19")
async def test_every_call_has_an_audit_record(tmp_path: Path) -> None:
    bench, now = Bench(), Clock()
    secret = "sk-abcdefghijklmnopqrstuvwxyz"
    agent = bench.agent(
        act("look", "look", at=secret),
        act("one", "publish", text="a"),
        act("two", "publish", text="b"),
        act("three", "comment", text="c"),
        finish(),
    )
    async with serving(agent, tmp_path / "runs.db", now=now) as client:
        run = await client.start()
        one = await client.pending(run)
        await decide(client, one, "approve")
        one = await client.pending(run, one["id"])
        await decide(client, one, "deny")
        await client.pending(run, one["id"])
        now.ahead = 301_000
        await client.until(run)
        audit = (await client.get(f"/runs/{run}/audit")).json()
    entries = {(one["tool"], str(one["parameters"])): one for one in audit["entries"]}
    found = [(one["tool"], one["decision"], one["resolver"], one["outcome"]) for one in
             audit["entries"]]  # fmt: skip
    assert found[:4] == [
        ("look", "allow", "policy", "success"),
        ("publish", "allow", "local", "success"),
        ("publish", "deny", "local", "denied"),
        ("comment", "expired", "clock", "expired"),
    ]
    assert [one["tier"] for one in audit["entries"]][:4] == [1, 3, 3, 2]
    assert secret not in str(entries)
    assert "[redacted]" in str(audit["entries"][0]["parameters"])
    assert all(one["who"] == "local" and one["proposed_at"] for one in audit["entries"])
    decided = [line for line in client.server.audit.last if line["what"] == "decision"]
    assert [line["decision"] for line in decided] == ["approve", "deny"]


@pytest.mark.scenario("RCT-30")
async def test_an_approval_survives_a_restart(tmp_path: Path) -> None:
    bench = Bench()
    path = tmp_path / "runs.db"
    async with serving(bench.agent(PUBLISH, finish()), path) as client:
        run = await client.start()
        one = await client.pending(run)
    async with serving(bench.agent(PUBLISH, finish()), path) as client:
        assert [found["id"] for found in (await client.get("/approvals")).json()["items"]] == [
            one["id"]
        ]
        assert (await decide(client, one, "approve")).status_code == 202
        assert (await client.until(run))["status"] == "finished"
        assert bench.done == [("publish", "hello")]


async def test_a_run_that_is_not_offered_here_is_decided_on_and_left_to_whoever_began_it(
    tmp_path: Path,
) -> None:
    """Mutant: the server wakes every decided run; the run then hangs in it."""
    from taofold.log.sqlite.log import SqliteLog

    bench = Bench()
    log = SqliteLog(tmp_path / "runs.db")
    alone = bench.agent(PUBLISH, finish()).replace(log=log, name="alone")
    result = await alone.run("goal")
    async with serving(bench.agent(finish()), tmp_path / "runs.db") as client:
        one = await client.pending(result.run_id)
        answer = await decide(client, one, "approve", digest=one["digest"])
        assert answer.status_code == 202
        assert answer.json()["goes_on"] is False
        assert f"taofold runs resume {result.run_id}" in answer.json()["note"]
        assert not client.server.engine.drives(result.run_id)
        await client.server.engine.reconcile()
        assert client.server.engine.stuck == {}
    assert bench.done == []
    done = await alone.resume(result)
    assert (done.status, bench.done) == ("finished", [("publish", "hello")])
    await log.close()


async def test_a_decision_that_another_process_wrote_is_noticed(tmp_path: Path) -> None:
    from taofold.log.sqlite.log import SqliteLog
    from taofold.runtime import control as persons
    from taofold.runtime.setup import Decision

    bench = Bench()
    path = tmp_path / "runs.db"
    async with serving(bench.agent(PUBLISH, finish()), path) as client:
        run = await client.start()
        one = await client.pending(run)
        other = SqliteLog(path)
        await persons.decide(other, one["id"], Decision("approve"))
        await client.until(run)
        await other.close()
    assert bench.done == [("publish", "hello")]


async def test_an_approver_by_role_decides_for_others(tmp_path: Path) -> None:
    bench = Bench()
    tokens, token = people(tmp_path, alice="USER", boss="ADMIN", bob="USER")
    policy = Policy(approvers="ADMIN", own_approval=False)
    agent = bench.agent(PUBLISH, finish(), policy=policy)
    async with serving(agent, tmp_path / "runs.db", tokens=tokens, token=token["alice"]) as client:
        run = await client.start()
        one = await client.pending(run)
        assert (await decide(client, one, "approve")).status_code == 403
        path = f"/approvals/{one['id']}"
        approve = {"decision": "approve"}
        assert (await client.post(path, approve, headers=bearer(token["bob"]))).status_code == 404
        assert (await client.post(path, approve, headers=bearer(token["boss"]))).status_code == 202
        await client.until(run)
        assert bench.done == [("publish", "hello")]
        stop = await client.post(f"/runs/{run}/cancel", headers=bearer(token["boss"]))
        assert stop.status_code == 403


async def test_a_child_runs_question_is_decided_and_its_caller_goes_on(tmp_path: Path) -> None:
    bench = Bench()
    inner = bench.agent(act("write", "comment", text="x"), finish("inner"), name="helper",
                        tools=[one for one in bench.tools if one.name == "comment"])  # fmt: skip
    model = bench.agent(act("ask", "helper", goal="x"), finish("outer")).model
    policy = Policy(autonomy="balanced")
    agent = Agent(model, tools=[inner], limits=Limits(steps=5), policy=policy)
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        tools: list[str] = []
        for _ in itertools.count():
            found = await client.until(run, "waiting", "finished")
            if found["status"] == "finished":
                break
            for one in (await client.get("/approvals", params={"run": run})).json()["items"]:
                tools.append(one["tool"])
                await decide(client, one, "approve")
        assert tools.count("comment") >= 1
        assert ("comment", "x") in bench.done
        assert (await client.until(run))["output"] == "outer"


async def test_what_people_write_to_a_run_reaches_no_file_of_the_servers_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_PASSWORD", "correct horse battery")
    secrets = [
        "hunter2hunter2",
        "of-the-one-called",
        "correct horse battery",
        "sk-ant-" + "Q7wZ" * 9,
    ]
    text = f"it is {', '.join(secrets)}."
    bench = Bench()
    called = Agent("test", name="called", secrets=[secrets[1]])
    agent = bench.agent(PUBLISH, finish(), secrets=[secrets[0]], tools=[*bench.tools, called])
    folder = tmp_path / "log"
    folder.mkdir()

    def written() -> str:
        return "\0".join([file.read_text("latin-1") for file in sorted(folder.iterdir())])

    def leaked() -> list[str]:
        return [secret for secret in secrets if secret in written()]

    journal = journal_beside(open_log(folder / "runs.db"))
    async with serving(agent, folder / "runs.db", journal=journal) as client:
        run = await client.start()
        one = await client.pending(run)
        sent = await client.post(f"/runs/{run}/steer", {"text": text})
        assert sent.status_code == 202
        assert "it is [redacted]" in written(), "the files were searched as they are"
        assert leaked() == []
        rated = await client.post(f"/runs/{run}/ratings", {"value": 1, "note": text})
        assert "it is [redacted]" in rated.json()["items"][0]["note"]
        assert leaked() == []
        for secret in secrets:
            edited = await decide(client, one, "edit", parameters={"text": secret})
            assert edited.status_code == 422
            assert secret not in edited.text
        # Before the run takes it: so that it is the message that is looked at.
        client.server.engine.stuck[run] = "stopped by the test"
        assert (await decide(client, one, "deny", reason=text)).status_code == 202
        assert leaked() == []
    assert leaked() == []


async def test_a_run_that_is_damaged_does_not_hide_what_others_ask(tmp_path: Path) -> None:
    broken = (e.RunStarted(goal="g"), e.Started(key="7"), e.Parked(reason="awaiting_approval"))
    log = open_log(tmp_path / "runs.db")
    await planted([e.Record("broken", seq, seq, event) for seq, event in enumerate(broken)], log)
    await log.close()
    async with serving(Bench().agent(PUBLISH, finish()), tmp_path / "runs.db") as client:
        one = await client.pending(await client.start())
        (listed,) = (await client.get("/approvals")).json()["items"]
        assert listed["id"] == one["id"]


async def test_a_run_that_could_not_be_read_once_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: that nothing could be read is remembered until the run goes on."""
    read, failures = control.pending_in, [LogError("the database is locked")]

    def pending_in(records: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(records)

    monkeypatch.setattr(control, "pending_in", pending_in)
    async with serving(Bench().agent(PUBLISH, finish()), tmp_path / "runs.db") as client:
        async with asyncio.timeout(PATIENCE):
            assert (await client.pending(await client.start()))["tool"] == "publish"
    assert failures == []

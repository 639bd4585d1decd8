"""Rights, time limits and number of watchers; responses to partly authenticated callers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Policy
from taofold.server import Settings
from taofold.server.auth import TokenStore
from taofold.server.middleware import Audit
from tests.server.agents import Bench, act, finish
from tests.server.live import Event, serving, settled

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("protocol", ["events", "ag-ui"])
async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path, protocol: str) -> None:
    bench = Bench()
    bench.gate.clear()
    tokens = TokenStore(tmp_path / "tokens.json")
    said = tokens.add("alice", ["USER"])
    agent = bench.agent(act("wait", "slow"), finish("the secret plan"))
    settings = Settings(look_again_s=0.0, tail_s=0.01)
    async with serving(
        agent, tmp_path / "r.db", tokens=tokens, token=said, settings=settings
    ) as client:
        if protocol == "events":
            run = await client.start()
            seen: list[Event] = []
            watching = asyncio.create_task(client.events(run, into=seen))
        else:
            body = {
                "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
                "forwardedProps": {}, "messages": [{"id": "1", "role": "user", "content": "go"}],
            }  # fmt: skip
            watching = asyncio.create_task(_text(client.post("/ag-ui", body)))
        await bench.arrived.wait()
        await settled(lambda: client.server.streams == 1)
        tokens.revoke(said.split("_")[1])
        bench.gate.set()
        told = await watching
        assert "the secret plan" not in str(told)
        await settled(lambda: client.server.streams == 0)


def test_the_audit_makes_its_folder(tmp_path: Path) -> None:
    """Mutant: it does not, and every line is lost where the log is a database."""
    audit = Audit(tmp_path / "home" / "audit.jsonl")
    audit("start", "ann", run="r")
    audit.close()
    assert json.loads((tmp_path / "home" / "audit.jsonl").read_text())["who"] == "ann"


async def _text(answer: "asyncio.Future[object] | object") -> str:
    return (await answer).text  # type: ignore[misc, attr-defined, no-any-return]


async def test_one_principal_cannot_take_every_place(tmp_path: Path) -> None:
    bench = Bench()
    tokens = TokenStore(tmp_path / "tokens.json")
    alice, bob = tokens.add("alice", ["USER"]), tokens.add("bob", ["USER"])
    agent = bench.agent(act("write", "publish", text="x"), finish())
    settings = Settings(most_streams=4, look_s=0.02, tail_s=0.01)
    async with serving(
        agent, tmp_path / "r.db", tokens=tokens, token=alice, settings=settings
    ) as client:
        run = await client.start()
        open_ = [asyncio.create_task(client.events(run)) for _ in range(2)]
        await settled(lambda: client.server.streams == 2)
        third = await client.get(f"/runs/{run}/events")
        assert (third.status_code, third.json()["code"]) == (503, "busy")
        client.http.headers["Authorization"] = f"Bearer {bob}"
        other = await client.start()
        seen = await client.events(other, stop="confirmation_request")
        assert seen[-1].name == "confirmation_request"
        for one in open_:
            one.cancel()
        await asyncio.gather(*open_, return_exceptions=True)


async def test_an_approver_of_one_agent_sees_nothing_of_another(tmp_path: Path) -> None:
    bench = Bench()
    tokens = TokenStore(tmp_path / "tokens.json")
    alice, eve = tokens.add("alice", ["USER"]), tokens.add("eve", ["EDITOR"])
    replies = act("write", "publish", text="x"), finish()
    inner = bench.agent(*replies, name="inner", policy=Policy())
    agents = {
        "open": bench.agent(act("ask", "inner", goal="x"), finish(), tools=[inner], name="open",
                            policy=Policy(approvers="EDITOR")),
        "closed": bench.agent(*replies, name="closed"),
    }  # fmt: skip
    async with serving(agents, tmp_path / "r.db", tokens=tokens, token=alice) as client:
        mine, theirs = [await client.start(agent=name) for name in ("open", "closed")]
        asked = await client.pending(theirs)
        child = await client.pending(mine)
        client.http.headers["Authorization"] = f"Bearer {eve}"
        assert (await client.get(f"/runs/{mine}")).status_code == 200
        items = (await client.get("/approvals")).json()["items"]
        assert [one["id"] for one in items] == [child["id"]]
        for path in ("", "/events", "/records", "/state", "/audit", "/spans"):
            assert (await client.get(f"/runs/{theirs}{path}")).status_code == 404
        listed = {one["id"] for one in (await client.get("/runs")).json()["items"]}
        assert theirs not in listed
        answer = await client.post(f"/approvals/{asked['id']}", {"decision": "deny"})
        assert answer.status_code == 404


async def test_a_preview_of_the_link_does_not_use_it_up(tmp_path: Path) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "r.db") as client:
        link = f"/signin/{client.server.signin.code()}"
        assert (await client.http.head(link)).status_code == 200
        assert (await client.get(link)).status_code == 200
        signed_in = await client.post("/signin", {"code": link.rpartition("/")[2]})
        assert signed_in.status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
async def test_what_a_proxy_passes_on_is_not_this_machine(tmp_path: Path, header: str) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "r.db") as client:
        assert (await client.get("/me")).json()["id"] == "local"
        answer = await client.get("/me", headers={header: "198.51.100.7"})
        assert answer.status_code == 401


async def test_a_guesser_next_door_does_not_keep_others_out(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    said = tokens.add("alice", ["USER"])
    settings = Settings(failures_burst=3)
    agent = Bench().agent(finish())
    async with serving(agent, tmp_path / "r.db", tokens=tokens, settings=settings) as client:
        wrong = {"Authorization": "Bearer tf_00000000_" + "A" * 43}
        statuses = [(await client.get("/me", headers=wrong)).status_code for _ in range(6)]
        assert statuses == [401] * 3 + [429] * 3
        right = {"Authorization": f"Bearer {said}"}
        assert (await client.get("/me", headers=right)).status_code == 200


async def test_what_was_never_begun_cannot_be_noted_as_done(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(act("write", "publish", text="x"), finish())
    async with serving(agent, tmp_path / "r.db") as client:
        one = await client.pending(await client.start())
        answer = await client.post(f"/approvals/{one['id']}", {"decision": "done"})
        assert (answer.status_code, answer.json()["code"]) == (422, "done")


def test_the_audit_writes_no_secret_not_even_one_across_its_cut(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", secrets=["hunter2hunter2"])
    audit("decision", "hunter2hunter2", reason="x" * 290 + "hunter2hunter2")
    audit.close()
    text = (tmp_path / "audit.jsonl").read_text()
    assert "hunter2" not in text
    assert json.loads(text)["what"] == "decision"


@pytest.mark.parametrize(
    "said",
    [
        {"form": {"note": "it is hunter2hunter2"}},
        {"form": {"rows": [["hunter2hunter2"], {"hunter2hunter2": 1}]}},
        {"form": ("hunter2hunter2",)},
        {"form": {"password": "plainword1"}},
        {"password": "plainword1"},
        {"form": {"note": "x" * 290 + "hunter2hunter2"}},
        {"file": Path("/tmp/hunter2hunter2")},
        {"error": ValueError("hunter2hunter2")},
    ],
)
def test_the_audit_writes_no_secret_that_lies_inside_a_value(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    audit = Audit(tmp_path / "audit.jsonl", secrets=["hunter2hunter2"])
    audit("decision", "alice", **said)
    audit.refusal("alice", **said)
    audit.close()
    for text in ((tmp_path / "audit.jsonl").read_text(), str(audit.last)):
        assert "hunter2" not in text
        assert "plainword1" not in text
        assert "[redacted]" in text


def test_long_texts_inside_a_value_are_cut_in_the_audit(tmp_path: Path) -> None:
    audit = Audit()
    audit("decision", "alice", form={"rows": ["word " * 1000, 7, None]}, fits=True)
    (line,) = audit.last
    assert line["form"]["rows"][0] == ("word " * 60) + " [… cut]"
    assert (line["form"]["rows"][1:], line["fits"]) == ([7, None], True)


async def test_secrets_of_agents_are_not_in_the_audit(tmp_path: Path) -> None:
    agent = Bench().agent(act("write", "publish", text="x"), finish(), secrets=["hunter2hunter2"])
    async with serving(agent, tmp_path / "r.db", folder=tmp_path) as client:
        one = await client.pending(await client.start())
        said = {"decision": "deny", "reason": "it is hunter2hunter2"}
        assert (await client.post(f"/approvals/{one['id']}", said)).status_code == 202
    assert "hunter2" not in (tmp_path / "audit.jsonl").read_text()

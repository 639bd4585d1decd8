"""An agent that works for several offered ones: whose runs its child runs are decides who sees."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Policy, tool
from taofold.server.auth import TokenStore
from taofold.testing import FunctionModel
from tests.server.agents import act, finish
from tests.server.live import serving

pytestmark = pytest.mark.anyio


@tool(effect="once", tier=3)
def wire(to: str) -> str:
    """Send money."""
    return f"sent to {to}"


def scripted(*replies: str) -> FunctionModel:
    def reply(request: Any) -> str:
        said = sum([message.role == "assistant" for message in request.conversation])
        return replies[min(said, len(replies) - 1)]

    return FunctionModel(reply)


def offered(name: str, policy: Policy, secret: str) -> Agent[Any, Any]:
    helper = Agent(scripted(act("I pay", "wire", to=secret), finish()), tools=[wire], name="helper")
    model = scripted(act("I delegate", "helper", goal=secret), finish())
    return Agent(model, tools=[helper], name=name, policy=policy)


@pytest.mark.parametrize(("policy", "status"), [(Policy(), 404), (Policy(approvers="USER"), 200)])
async def test_a_child_run_is_seen_by_those_who_see_its_root(
    tmp_path: Path, policy: Policy, status: int
) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    ada, bob = tokens.add("ada", ["USER"]), tokens.add("bob", ["USER"])
    agents = {
        "public": offered("public", Policy(approvers="USER"), "nothing"),
        "hr": offered("hr", policy, "salaries"),
        # The helper is offered, too: its own runs are everybody's to see.
        "helper": offered("helper", Policy(approvers="USER"), "nothing"),
    }
    theirs = {"Authorization": f"Bearer {bob}"}
    async with serving(agents, tmp_path / "r.db", tokens=tokens, token=ada) as client:
        run = await client.start(agent="hr")
        await client.until(run, "waiting")
        (child,) = await client.server.log.rows(parent=run)
        for path in ("", "/records", "/state", "/audit", "/spans"):
            for each in (run, child.run):
                answer = await client.get(f"/runs/{each}{path}", headers=theirs)
                assert answer.status_code == status, path
        listed = await client.get("/runs", headers=theirs)
        approvals = await client.get("/approvals", headers=theirs)
        assert ("salaries" in listed.text) is (status == 200)
        assert ("salaries" in approvals.text) is (status == 200)
        # Invisible runs take no place of visible ones.
        own = await client.post("/runs", {"goal": "mine", "agent": "public"}, headers=theirs)
        assert own.status_code < 300
        page = await client.get("/runs?limit=1", headers=theirs)
        assert [item["agent"] for item in page.json()["items"]] != []


async def test_of_two_agents_under_one_name_both_must_let_people_look(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    ada, bob = tokens.add("ada", ["USER"]), tokens.add("bob", ["USER"])
    agents = {
        "open": offered("desk", Policy(approvers="USER"), "nothing"),
        "closed": offered("desk", Policy(), "salaries"),
    }
    async with serving(agents, tmp_path / "r.db", tokens=tokens, token=ada) as client:
        run = await client.start(agent="closed")
        await client.until(run, "waiting")
        theirs = {"Authorization": f"Bearer {bob}"}
        assert (await client.get(f"/runs/{run}", headers=theirs)).status_code == 404

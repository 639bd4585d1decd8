"""The operator's policy of the example over HTTP: some users are denied some tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Policy
from taofold.files.policy import read_policy
from taofold.server import Settings
from taofold.server.auth import TokenStore
from taofold_testops.tools import toolset
from tests.server.agents import act, finish, scripted
from tests.server.live import Client, serving
from tests.testops.conftest import EXAMPLE

pytestmark = pytest.mark.anyio


def policy() -> Policy:
    """Returns the policy that the example ships."""
    keys, faults = read_policy(EXAMPLE / "operator" / "taofold" / "policy.yaml")
    assert keys is not None, faults
    return keys.over(Policy())


def copilot(office: Any, *replies: str) -> Agent:
    """Returns an agent with a script and the tools of an office."""
    tools = toolset(office.accounts(), office)
    return Agent(scripted(*replies), tools=[tools], policy=policy(), strict=False)


def served(agent: Agent, folder: Path, *roles: str) -> tuple[Any, dict[str, str]]:
    """Returns a server of the agent, and a token for each role."""
    tokens = TokenStore(folder / "tokens.json")
    secrets = {role: tokens.add(role.lower(), [role]) for role in roles}
    settings = Settings(policy=policy())
    first = secrets[roles[0]]
    return serving(agent, folder / "r.db", tokens=tokens, token=first, settings=settings), secrets


async def results(client: Client, run: str) -> list[dict[str, Any]]:
    """Returns the results of the run's calls."""
    return [event.data for event in await client.events(run) if event.name == "tool_result"]


async def test_a_viewer_starts_a_run_that_reads_and_may_not_write(tmp_path: Path) -> None:
    """Mutants: the rights of the policy are left out; the role of a write is left out."""
    from testops.office import Office

    office = Office()
    label = act("label it", "jira_add_label", key="SHOP-101", label="seen")
    agent = copilot(office, act("look", "jira_get", key="SHOP-101"), label, finish())
    serve, _ = served(agent, tmp_path, "VIEWER")
    async with serve as client:
        run = await client.start("Look at SHOP-101")
        assert (await client.until(run))["status"] == "finished"
        read, write = await results(client, run)
        assert read["status"] == "success"
        assert "requires role EDITOR, has VIEWER" in json.dumps(write)
    assert office.world["issues"]["SHOP-101"]["labels"] == ["rounding"]
    assert [method for method, _ in office.requests if method != "GET"] == []


async def test_an_editor_may_not_merge(tmp_path: Path) -> None:
    from testops.office import Office

    office = Office()
    sha = office.world["pulls"][78]["sha"]
    agent = copilot(office, act("merge it", "github_merge_pr", number=78, sha=sha), finish())
    serve, _ = served(agent, tmp_path, "EDITOR")
    async with serve as client:
        run = await client.start("Merge 78")
        await client.until(run)
        (refused,) = await results(client, run)
        assert "requires role ADMIN, has EDITOR" in json.dumps(refused)
    assert not office.world["pulls"][78]["merged"]


async def test_another_editor_approves_and_the_requester_may_not(tmp_path: Path) -> None:
    from testops.office import Office

    office = Office()
    comment = act("tell them", "jira_comment", key="SHOP-117", text="Still slow.")
    tokens = TokenStore(tmp_path / "tokens.json")
    ann, bob = tokens.add("ann", ["EDITOR"]), tokens.add("bob", ["EDITOR"])
    eve = tokens.add("eve", ["VIEWER"])
    settings = Settings(policy=policy())
    serve = serving(
        copilot(office, comment, finish()),
        tmp_path / "r.db",
        tokens=tokens,
        token=ann,
        settings=settings,
    )
    async with serve as client:
        run = await client.start("Comment on SHOP-117")
        await client.until(run, "waiting")
        (one,) = await client.asked(run, 1)
        assert one["requires_confirmation"] is True
        for token, status in ((ann, 403), (eve, 404), (bob, 202)):
            client.http.headers["Authorization"] = f"Bearer {token}"
            body = {"decision": "approve", "digest": one["digest"]}
            answer = await client.post(f"/approvals/{one['id']}", body)
            assert answer.status_code == status, answer.text
        client.http.headers["Authorization"] = f"Bearer {ann}"
        assert (await client.until(run))["status"] == "finished"
    assert office.world["issues"]["SHOP-117"]["comments"] == ["Still slow."]

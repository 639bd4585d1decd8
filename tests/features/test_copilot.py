"""The copilot that the example ships, over HTTP and server-sent events.

The agent file, the operator's policy and the tools are the shipped ones. Only the model is a
script. The four services are an office behind a port that refuses undocumented requests.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pytest_bdd import given, parsers, scenarios, then, when

from taofold import Policy
from taofold.files import Config, build, read_agent
from taofold.files.policy import read_policy
from taofold.server import Settings
from taofold.server.auth import TokenStore
from taofold.testing.models import FunctionModel
from taofold_testops.tools import READS, WRITES
from tests.server.agents import act, batch, finish
from tests.server.live import Client, Event, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "testops"
USERS = {"ann": "EDITOR", "bob": "EDITOR", "eve": "VIEWER"}
ENDS = ("finished", "limited", "failed", "waiting")

scenarios("copilot.feature")


@dataclass
class Desk:
    """One scenario: the office, the script and the results."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    office: Any = None
    replies: list[Any] = field(default_factory=list[Any])
    asked: int = 0
    events: list[Event] = field(default_factory=list[Event])
    run: dict[str, Any] = field(default_factory=dict[str, Any])
    tools: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    verdict: str = ""
    status_before: str = ""

    def reply(self, _: Any) -> Any:
        """Returns the next reply of the script; the last one again and again."""
        self.asked += 1
        made = self.replies[min(self.asked, len(self.replies)) - 1]
        return made(self.asked) if callable(made) else made

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[tuple[Client, dict[str, str]]]:
        """Serves the office and the copilot. Yields a client and the users' tokens."""
        from testops.served import application, variables

        runner = web.AppRunner(application(self.office))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.office.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        for name, value in variables(self.office.url).items():
            self.monkeypatch.setenv(name, value)
        keys, faults = read_policy(EXAMPLE / "operator" / "taofold" / "policy.yaml")
        assert keys is not None, faults
        file, faults = read_agent(EXAMPLE / "copilot.yaml")
        assert file is not None, faults
        agent = build(file, Config(), self.folder)
        agent = agent.replace(model=FunctionModel(self.reply), policy=keys.over(agent.policy))
        store = TokenStore(self.folder / "tokens.json")
        tokens = {name: store.add(name, [role]) for name, role in USERS.items()}
        settings = Settings(policy=keys.over(Policy()), look_s=0.02, tail_s=0.01, grace_s=0.05)
        try:
            async with serving(
                agent, self.folder / "runs.db", tokens=store, token="", settings=settings
            ) as client:
                yield client, tokens
        finally:
            await runner.cleanup()
        assert self.office.faults == []

    async def play(self, user: str, messages: int = 1) -> None:
        """Sends messages and reads the streams. A second EDITOR decides on a question."""
        async with self.serve() as (client, tokens):
            client.http.headers["Authorization"] = f"Bearer {tokens[user]}"
            for _ in range(messages):
                run = await client.start("Why is checkout red?")
                self.run = await client.until(run, *ENDS)
                if self.run["status"] == "waiting":
                    await self._decide(client, tokens["bob"], run)
                self.events += await client.events(run)

    async def _decide(self, client: Client, token: str, run: str) -> None:
        (one,) = await client.asked(run, 1)
        self.status_before = self.issue["status"]
        client.http.headers["Authorization"] = f"Bearer {token}"
        body = {"decision": self.verdict, "digest": one["digest"]}
        answer = await client.post(f"/approvals/{one['id']}", body)
        assert answer.status_code == 202, answer.text
        self.run = await client.until(run)

    def of(self, name: str) -> list[dict[str, Any]]:
        """Returns the data of the events of this type."""
        return [event.data for event in self.events if event.data["type"] == name]

    @property
    def issue(self) -> dict[str, Any]:
        """The issue SHOP-101."""
        found: dict[str, Any] = self.office.world["issues"]["SHOP-101"]
        return found

    @property
    def changes(self) -> list[str]:
        """The requests that changed something. A search of Jira is a POST."""
        return [
            path
            for method, path in self.office.requests
            if method != "GET" and "/search" not in path
        ]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return Desk(tmp_path, monkeypatch)


@given("the copilot of the example, its operator's policy and an office of four services")
def copilot(desk: Desk) -> None:
    from testops.office import Office

    desk.office = Office()


@given("a model that searches Jira three times in each reply")
def searches(desk: Desk) -> None:
    def calls(number: int) -> str:
        found = [("jira_search", {"jql": f"text ~ refund{number}x{n}"}) for n in range(3)]
        return batch("search", *found)

    desk.replies = [calls]


@given(parsers.parse('a model that calls "{tool}" and then answers'))
def calls_tool(desk: Desk, tool: str) -> None:
    desk.replies = [act("try it", tool), finish()]


@given("a model that reads SHOP-101, adds a label to it and then answers")
def labels(desk: Desk) -> None:
    desk.replies = [
        act("read it", "jira_get", key="SHOP-101"),
        act("label it", "jira_add_label", key="SHOP-101", label="seen"),
        finish(),
    ]


@given("a model that merges pull request 78 and then answers")
def merges(desk: Desk) -> None:
    sha = desk.office.world["pulls"][78]["sha"]
    desk.replies = [act("merge it", "github_merge_pr", number=78, sha=sha), finish()]


@given("a model that calls the seven read tools over two messages")
def reads(desk: Desk) -> None:
    desk.replies = [
        batch(
            "look at the code",
            ("jenkins_get_status", {"job": "checkout"}),
            ("github_get_commit", {"sha": "9f3c2e1"}),
            ("github_get_pr", {"number": 77}),
        ),
        finish(),
        batch(
            "look at the rest",
            ("jira_search", {"jql": "text ~ refund"}),
            ("jira_get", {"key": "SHOP-101"}),
            ("confluence_search", {"cql": "text ~ rounding"}),
            ("dashboard_metrics", {}),
        ),
        finish(),
    ]


@given("a model that reopens SHOP-101 and then answers")
def reopens(desk: Desk) -> None:
    move = act("reopen it", "jira_transition_issue", key="SHOP-101", status="Reopened")
    desk.replies = [move, finish()]


@given(parsers.re(r"a second EDITOR who (?P<verdict>approve|denie)s"))
def second(desk: Desk, verdict: str) -> None:
    desk.verdict = {"approve": "approve", "denie": "deny"}[verdict]


@when(parsers.re(r"the (?P<role>EDITOR|VIEWER) sends a message$"))
def send(desk: Desk, role: str) -> None:
    asyncio.run(desk.play("ann" if role == "EDITOR" else "eve"))


@when("the VIEWER sends two messages")
def send_two(desk: Desk) -> None:
    asyncio.run(desk.play("eve", messages=2))


@when("the EDITOR reads the list of agents")
def read_list(desk: Desk) -> None:
    async def get() -> None:
        async with desk.serve() as (client, tokens):
            client.http.headers["Authorization"] = f"Bearer {tokens['ann']}"
            (agent,) = (await client.get("/agents")).json()["items"]
            desk.tools = {tool["name"]: tool for tool in agent["tools"]}

    asyncio.run(get())


@then(parsers.parse("Jira was searched {number:d} times and the model was asked at most 8 times"))
def searched(desk: Desk, number: int) -> None:
    found = [path for _, path in desk.office.requests if "/search/jql" in path]
    assert len(found) == number
    assert 1 < desk.asked <= 8


@then('the stream ends with an error and "done"')
def ends(desk: Desk) -> None:
    assert [event.data["type"] for event in desk.events][-2:] == ["error", "done"]


@then(parsers.parse('the result of "{tool}" is a failure that names "{other}"'))
def names_other(desk: Desk, tool: str, other: str) -> None:
    (result,) = desk.of("tool_result")
    assert (result["tool"], result["status"]) == (tool, "failure")
    assert other in result["result"]


@then("the run is finished")
def finished(desk: Desk) -> None:
    assert desk.run["status"] == "finished"
    assert [one["text"] for one in desk.of("answer")] == ["forty-two"]


@then("the read has a result and the write is denied")
def read_and_denied(desk: Desk) -> None:
    read, write = desk.of("tool_result")
    assert (read["status"], write["refused"]) == ("success", "denied")
    assert "SHOP-101" in str(read["result"])
    assert "requires role EDITOR, has VIEWER" in str(write["result"])


@then(parsers.parse('the result of "{tool}" is denied because of the role {role}'))
def denied_by(desk: Desk, tool: str, role: str) -> None:
    (result,) = desk.of("tool_result")
    assert (result["tool"], result["refused"]) == (tool, "denied")
    assert f"requires role {role}" in str(result["result"])


@then("no service has received a change")
def unchanged(desk: Desk) -> None:
    assert desk.changes == []


@then("the seven read tools have succeeded without a confirmation")
def all_read(desk: Desk) -> None:
    results = {one["tool"]: one["status"] for one in desk.of("tool_result")}
    assert results == dict.fromkeys(READS, "success")
    assert desk.of("confirmation_request") == desk.of("autonomous_action") == []


@then("Jira, GitHub, Confluence and Jenkins have answered")
def answered(desk: Desk) -> None:
    sites = {path.split("/")[1] for _, path in desk.office.requests}
    assert sites == {"jira-cloud", "github", "wiki-cloud", "jenkins"}


@then("no read requires a confirmation")
def no_read(desk: Desk) -> None:
    assert [name for name in READS if desk.tools[name]["requires_confirmation"]] == []


@then("13 of 16 writes require one, and the other three are reversible")
def some_writes(desk: Desk) -> None:
    unasked = {name for name in WRITES if not desk.tools[name]["requires_confirmation"]}
    assert unasked == {"github_create_branch", "jira_link_issues", "jira_add_label"}
    assert len(WRITES) == 16
    assert set(desk.tools) == {*READS, *WRITES}


@then("the stream has a confirmation request with its flag, a preview and a digest")
def asks(desk: Desk) -> None:
    (request,) = desk.of("confirmation_request")
    assert request["requiresConfirmation"] is True
    assert (request["tool"], request["tier"]) == ("jira_transition_issue", 3)
    assert request["summary"] == "Move SHOP-101 to Reopened"
    assert request["digest"]


@then('SHOP-101 was "Done" until the decision')
def still(desk: Desk) -> None:
    assert desk.status_before == "Done"


@then('afterwards SHOP-101 is "Reopened" by one change')
def reopened(desk: Desk) -> None:
    assert desk.issue["status"] == "Reopened"
    assert len(desk.changes) == 1
    (resolved,) = desk.of("confirmation_resolved")
    assert (resolved["by"], desk.run["status"]) == ("bob", "finished")


@then('afterwards SHOP-101 is "Done" and no service has received a change')
def still_done(desk: Desk) -> None:
    assert desk.issue["status"] == "Done"
    assert desk.changes == []
    assert desk.run["status"] == "finished"


@then('the stream has "autonomous_action" of "jira_add_label" and no confirmation request')
def automatic(desk: Desk) -> None:
    assert [one["tool"] for one in desk.of("autonomous_action")] == ["jira_add_label"]
    assert desk.of("confirmation_request") == []


@then("SHOP-101 has the label")
def labelled(desk: Desk) -> None:
    assert "seen" in desk.issue["labels"]

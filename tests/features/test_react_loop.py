"""The feature file of the react-loop seed, run against a real server over HTTP.

The Given steps collect the setup of a scenario. The When step starts a server on its own port,
signs in with a real token and reads the stream. The Then steps check the received events.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from taofold import Limits, Policy
from taofold.core.errors import ModelError
from taofold.server.auth import TokenStore
from tests.server.agents import Bench, act, batch, finish
from tests.server.live import Client, Event, serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "testops"

scenarios("react_loop.feature")


@dataclass
class Story:
    """One scenario: its setup and its results."""

    folder: Path
    bench: Bench = field(default_factory=Bench)
    replies: tuple[Any, ...] = ()
    prompts: list[str] = field(default_factory=list[str])
    events: list[Event] = field(default_factory=list[Event])
    policy: Policy = field(default_factory=Policy)
    run: dict[str, Any] = field(default_factory=dict[str, Any])
    pending: dict[str, Any] = field(default_factory=dict[str, Any])
    before: int = 0
    """Number of executed tools at the run's first end or pause."""
    tools: list[Any] = field(default_factory=list[Any])

    def says(self, *replies: Any) -> None:
        """Script the model."""
        self.replies = tuple([self._noted(reply) for reply in replies])

    def _noted(self, reply: Any) -> Callable[[Any], Any]:
        def answer(request: Any) -> Any:
            self.prompts.append("\n".join([m.text for m in request.conversation]))
            made = reply(request) if callable(reply) else reply
            if isinstance(made, Exception):
                raise made
            return made

        return answer

    async def play(self, role: str, **body: Any) -> None:
        """Sends the message, reads the stream, and approves the waiting call if a user may."""
        tokens = TokenStore(self.folder / "tokens.json")
        secrets = {name: tokens.add(name.lower(), [name]) for name in ("EDITOR", "USER")}
        agent = self.bench.agent(*self.replies, limits=Limits.chat(), policy=self.policy)
        log = self.folder / "runs.db"
        async with serving(agent, log, tokens=tokens, token=secrets[role]) as client:
            run = await client.start("What is the answer?", **body)
            self.run = await client.until(run, "finished", "limited", "failed", "waiting")
            self.before = len(self.bench.done)
            if self.run["status"] == "waiting":
                await self._decide(client, run)
            self.events = await client.events(run)

    async def _decide(self, client: Client, run: str) -> None:
        self.pending = await client.pending(run)
        answer = await client.post(f"/approvals/{self.pending['id']}", {"decision": "approve"})
        assert answer.status_code in (200, 202), answer.text
        self.run = await client.until(run)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The data of the events of this type."""
        return [event.data for event in self.events if event.data["type"] == name]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


@given("a server that knows the tokens of an EDITOR and of a USER")
def server() -> None:
    """Does nothing: the When step starts the server in the story's event loop."""


@given("a model that calls a tool forever and never answers")
def forever(story: Story) -> None:
    story.says(lambda _: act("more", "look", at=f"place {len(story.prompts)}"))


@given("a model that calls three tools at once, again and again")
def three(story: Story) -> None:
    def calls(_: Any) -> str:
        here = len(story.prompts)
        return batch("three", *[("look", {"at": f"{here}-{n}"}) for n in range(3)])

    story.says(calls)


@given("a model that calls one tool four times and then four at once")
def four_and_four(story: Story) -> None:
    def calls(_: Any) -> str:
        here = len(story.prompts)
        if here > 5:
            return finish()
        many = 4 if here == 5 else 1
        return batch("look", *[("look", {"at": f"{here}-{n}"}) for n in range(many)])

    story.says(calls)


@given("a model that calls a tool nobody has and then answers")
def unknown(story: Story) -> None:
    story.says(act("try", "nothing"), finish())


@given(parsers.parse('a model that replies "{text}" without any call'))
def plain(story: Story, text: str) -> None:
    story.says(text)


@given("a model that edits a page and then answers")
def edits(story: Story) -> None:
    story.says(act("change it", "edit", text="x"), finish())


@given("a policy by which only an ADMIN edits")
def admins_edit(story: Story) -> None:
    story.policy = Policy(required={"edit": "ADMIN"})


@given("a model that adds a label and then answers")
def labels(story: Story) -> None:
    story.says(act("label it", "label", name="a"), finish())


@given("a model that publishes a text and then answers")
def publishes(story: Story) -> None:
    story.says(act("publish it", "publish", text="x"), finish())


@given("a model that looks around and then answers")
def looks(story: Story) -> None:
    story.says(act("look first", "look"), finish())


@given("a model whose provider is down")
def down(story: Story) -> None:
    story.says(ModelError("gone", kind="auth"))


@given("the tools of the example")
def example(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from testops.office import Office

    from taofold_testops.tools import toolset

    office = Office()
    story.tools = list(toolset(office.accounts(), office).values())


@when(parsers.re(r"the (?P<role>EDITOR|USER) sends a message$"))
def send(story: Story, role: str) -> None:
    asyncio.run(story.play(role))


@when(parsers.parse('the EDITOR sends a message with the UI context "{text}"'))
def send_with_context(story: Story, text: str) -> None:
    asyncio.run(story.play("EDITOR", uiContext=text))


@then(parsers.parse("the model was asked at most {number:d} times"))
def asked_at_most(story: Story, number: int) -> None:
    assert 1 < len(story.prompts) <= number


@then("the model was asked exactly once")
def asked_once(story: Story) -> None:
    assert len(story.prompts) == 1


@then(parsers.parse('an "error" event with the code "{code}" comes before "done"'))
def error_then_done(story: Story, code: str) -> None:
    assert [one["code"] for one in story.of("error")] == [code]
    assert [event.data["type"] for event in story.events][-2:] == ["error", "done"]


@then("every limit is told once")
def told_once(story: Story) -> None:
    codes = [one["code"] for one in story.of("limit_reached")]
    assert codes
    assert len(codes) == len(set(codes))


@then(parsers.re(r"exactly (?P<number>\d+) tools? ha(s|ve) run"))
def ran(story: Story, number: str) -> None:
    assert len(story.bench.done) == int(number)


@then("no tool has run")
def none_ran(story: Story) -> None:
    assert story.before == 0


@then("a tool result is refused because of the limit")
def refused(story: Story) -> None:
    assert "limit" in [one["refused"] for one in story.of("tool_result")]


@then("three calls of the last batch are refused because of the limit")
def three_refused(story: Story) -> None:
    last = [one["refused"] for one in story.of("tool_result")][4:]
    assert sorted(last) == ["", "limit", "limit", "limit"]


@then("a tool result names the tools there are")
def names_tools(story: Story) -> None:
    (result,) = story.of("tool_result")
    assert result["status"] == "failure"
    assert "look" in result["result"]
    assert "publish" in result["result"]


@then(parsers.parse('the run is finished with the answer "{text}"'))
def answered(story: Story, text: str) -> None:
    assert story.run["status"] == "finished"
    assert [one["text"] for one in story.of("answer")] == [text]


@then(parsers.parse('a tool result says "{text}"'))
def result_says(story: Story, text: str) -> None:
    (result,) = story.of("tool_result")
    assert text in result["result"].lower()


@then(parsers.parse('the run waits for a confirmation of "{tool}"'))
def waits(story: Story, tool: str) -> None:
    (request,) = story.of("confirmation_request")
    assert request["tool"] == tool
    assert story.pending["tool"] == tool
    assert request["actionId"] == story.pending["id"]


@then(parsers.parse('after the EDITOR approves it 1 tool has run and the answer is "{text}"'))
def approved(story: Story, text: str) -> None:
    assert len(story.bench.done) == 1
    assert story.of("answer")[0]["text"] == text
    assert len(story.of("confirmation_resolved")) == 1


@then(parsers.parse('there is one "{one}" event and no "{other}" event'))
def one_and_none(story: Story, one: str, other: str) -> None:
    assert len(story.of(one)) == 1
    assert story.of(other) == []


@then(parsers.parse('the events "{names}" come in this order'))
def in_order(story: Story, names: str) -> None:
    seen = [event.data["type"] for event in story.events]
    places = [seen.index(name) for name in names.split(", ")]
    assert places == sorted(places)
    assert seen[-1] == "done"


@then("every event has a timestamp")
def timed(story: Story) -> None:
    assert all(event.data["timestamp"].endswith("Z") for event in story.events)


@then("the answer's chunks add up to the answer")
def chunks(story: Story) -> None:
    said = "".join([one["text"] for one in story.of("answer_chunk")])
    assert said in ("", story.of("answer")[0]["text"])


@then(parsers.parse('the model read "{text}" before the message'))
def read_context(story: Story, text: str) -> None:
    (prompt,) = story.prompts
    assert text in prompt
    assert prompt.index(text) < prompt.index("What is the answer?")


@then(parsers.parse('these read and ask nobody: "{names}"'))
def reading(story: Story, names: str) -> None:
    found = {tool.name for tool in story.tools if tool.effect == "read"}
    assert found == set(names.split(", "))
    assert all(tool.tier == 1 for tool in story.tools if tool.effect == "read")


@then(parsers.parse("at least {number:d} others write and ask or say that they ran"))
def writing(story: Story, number: int) -> None:
    writes = [tool for tool in story.tools if tool.effect != "read"]
    assert len(writes) >= number
    assert all(tool.tier > 1 or tool.reversible for tool in writes)
    assert all(tool.role == "EDITOR" for tool in writes)

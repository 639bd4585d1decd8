"""Agents and tools as an MCP server, seen by clients of both eras."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, MCPError, types
from pydantic import BaseModel

from taofold import Agent, Decision, MemoryLog, Policy, Principal, RunContext, tool
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.server import Offers, make_server
from taofold.bridges.mcp.server.server import ClientRequests
from taofold.bridges.mcp.server.translation import decision_of
from taofold.core.errors import ConfigError, Refused
from taofold.core.state import fold
from taofold.log.log import Signal
from taofold.runtime.control import decide, pending
from taofold.tools import InputRequired
from tests.runtime.kit import Memo

from .kit import act, finish

pytestmark = pytest.mark.anyio
DONE: list[Any] = []
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@tool(effect="read")
def look(what: str) -> dict[str, Any]:
    """Look at something."""
    return {"seen": what}


@tool(tier=2, effect="idempotent")
def put(where: str) -> str:
    """Put it there."""
    DONE.append(where)
    return f"put {where}"


@tool(tier=3)
def pay(amount: int) -> str:
    """Pay."""
    DONE.append(amount)
    return f"paid {amount}"


@tool(effect="read")
def colour(ctx: RunContext[Any]) -> str:
    """Ask for a colour."""
    if ctx.answer is None:
        kinds = {"type": "string", "enum": ["red", "blue"]}
        form = {"type": "object", "properties": {"colour": kinds}}
        raise InputRequired("which colour?", form=form)
    return f"{ctx.answer.accepted}: {ctx.answer.text}"


def served(log: MemoryLog, *script: str, **options: Any) -> Any:
    worker = Agent(Memo(script), name="worker", description="Works.", tools=[look, pay])
    elicit = options.pop("elicit", True)
    offers = Offers.of([worker], [look, put, pay, colour], log=log, **options)
    return make_server(offers, elicit=elicit)


def says(action: str, content: dict[str, Any] | None = None, asked: list[Any] | None = None) -> Any:
    async def reply(_context: Any, params: Any) -> types.ElicitResult:
        (asked if asked is not None else []).append(params)
        return types.ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    return reply


def words(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


async def test_tools_and_agents_are_listed_with_what_we_know_of_them() -> None:
    async with Client(served(MemoryLog())) as client:
        listed = {one.name: one for one in (await client.list_tools()).tools}
    assert set(listed) == {"worker", "look", "put", "pay", "colour", "resume_run"}
    hints = {
        name: (one.annotations.read_only_hint, one.annotations.destructive_hint,
               one.annotations.idempotent_hint, (one.meta or {}).get("tier"))
        for name, one in listed.items()
        if one.annotations is not None
    }  # fmt: skip
    assert hints["look"] == (True, False, True, 1)
    assert hints["put"] == (False, False, True, 2)
    assert hints["pay"] == (False, True, False, 3)
    assert hints["worker"] == (False, True, False, 3), "the highest of its tools"
    assert listed["look"].input_schema["required"] == ["what"]
    assert listed["worker"].input_schema["required"] == ["goal"]


@MODES
async def test_a_direct_call_is_a_run_in_the_log(mode: str) -> None:
    log = MemoryLog()
    async with Client(served(log), mode=mode) as client:
        result = await client.call_tool("look", {"what": "x"})
    assert not result.is_error
    assert result.structured_content == {"seen": "x"}
    [row] = await log.rows()
    state = fold(await log.read(row.run))
    assert (row.agent, state.success, state.model_calls, state.tool_calls) == (
        "mcp:look",
        True,
        0,
        1,
    )
    assert (result.meta or {})["taofold/run"] == row.run


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_numbers_that_json_has_not_are_refused(number: float) -> None:
    log = MemoryLog()
    requests = ClientRequests(Offers.of([], [look], log=log), elicit=True)
    context = SimpleNamespace(request=None)
    asked = types.CallToolRequestParams(name="look", arguments={"what": {"a": [number]}})
    result = await requests.call_tool(context, asked)
    assert result.is_error
    assert "what/a/0: NaN" in words(result)
    assert await log.rows() == []
    waiting = await Agent(Memo([act("pay", amount=3)]), tools=[pay], log=log).run("pay")
    with pytest.raises(Refused, match="reason/0"):
        decision_of(waiting.pending[0], "accept", {"approve": True, "reason": [number]})


async def test_what_a_person_at_the_client_answers_is_posted_without_secrets() -> None:
    posted: list[Signal] = []

    class Watched(MemoryLog):
        async def post(self, run: str, signal: Signal) -> bool:
            posted.append(signal)
            return await super().post(run, signal)

    worker = Agent(Memo([]), name="worker", secrets=["hunter2hunter2"])
    offers = Offers.of([worker], [pay], log=Watched())
    content = {"approve": True, "reason": "as hunter2hunter2 says"}
    client = Client(make_server(offers, elicit=True), elicitation_callback=says("accept", content))
    async with client:
        await client.call_tool("pay", {"amount": 3})
    assert DONE == [3]
    assert [signal.data["reason"] for signal in posted] == ["as [redacted] says"]


@MODES
async def test_an_agent_works_on_its_goal(mode: str) -> None:
    log, heard = MemoryLog(), list[Any]()

    async def progress(done: float, total: float | None, text: str | None) -> None:
        heard.append((done, text))

    server = served(log, act("look", "I look", what="y"), finish("it is y"))
    async with Client(server, mode=mode) as client:
        result = await client.call_tool("worker", {"goal": "find y"}, progress_callback=progress)
    assert words(result) == "it is y"
    [row] = await log.rows()
    assert heard[:2] == [(1.0, f"run {row.run}"), (2.0, "I look")]


class Verdict(BaseModel):
    right: bool
    why: str


@MODES
@pytest.mark.parametrize(
    ("output", "answer", "structured"),
    [
        (Verdict, {"right": True, "why": "so"}, {"right": True, "why": "so"}),
        (list[int], [1, 2], {"result": [1, 2]}),
        (list[Verdict], [{"right": False, "why": "no"}],
         {"result": [{"right": False, "why": "no"}]}),
        (str, "text", None),
    ],
)  # fmt: skip
async def test_a_typed_answer_is_a_structured_result_as_its_schema_promises(
    mode: str, output: Any, answer: Any, structured: Any
) -> None:
    worker = Agent(Memo([act("finish", answer=answer)]), name="worker", output=output)
    server = make_server(Offers.of([worker], log=MemoryLog()))
    async with Client(server, mode=mode) as client:  # which checks it against the schema
        [promised] = [t for t in (await client.list_tools()).tools if t.name == "worker"]
        result = await client.call_tool("worker", {"goal": "judge"})
        again = await client.call_tool("resume_run", {"run_id": (result.meta or {})["taofold/run"]})
    assert (promised.output_schema is None) is (structured is None)
    assert result.structured_content == again.structured_content == structured
    assert not result.is_error


@MODES
async def test_who_lost_the_answer_gets_it_by_the_name_in_the_first_message(mode: str) -> None:
    """A client that times out: the call is cancelled, the run goes on where it was."""
    log, runs, attempts = MemoryLog(), list[str](), 0
    free = asyncio.Event()

    @tool(effect="read", timeout=600)
    async def long() -> str:
        """Take long."""
        await free.wait()
        return "done at last"

    async def progress(_done: float, _total: float | None, text: str | None) -> None:
        runs.append(str(text).removeprefix("run "))

    server = make_server(Offers.of([], [long], log=log))
    async with Client(server, mode=mode) as client:
        while not runs:  # on a busy machine the first message may come after the timeout
            attempts += 1
            with pytest.raises(MCPError, match=r"Timed out|timed out"):
                await client.call_tool(
                    "long", {}, read_timeout_seconds=2 * attempts, progress_callback=progress
                )
        free.set()
        result = await client.call_tool("resume_run", {"run_id": runs[0]})
        assert words(result) == "done at last"
        assert words(await client.call_tool("resume_run", {"run_id": runs[0]})) == "done at last"
    assert len(await log.rows()) == attempts


@MODES
async def test_a_run_that_another_call_still_drives_is_waited_for(mode: str) -> None:
    log, runs, done = MemoryLog(), list[str](), list[str]()
    working, free, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def long() -> str:
        """Take long."""
        done.append("once")
        working.set()
        await free.wait()
        return "done at last"

    async def progress(_done: float, _total: float | None, text: str | None) -> None:
        runs.append(str(text).removeprefix("run "))
        told.set()

    async with Client(make_server(Offers.of([], [long], log=log)), mode=mode) as client:
        first = asyncio.create_task(client.call_tool("long", {}, progress_callback=progress))
        await working.wait()
        await told.wait()
        second = asyncio.create_task(client.call_tool("resume_run", {"run_id": runs[0]}))
        await asyncio.sleep(0.3)
        assert not second.done()
        free.set()
        assert words(await first) == words(await second) == "done at last"
    assert done == ["once"]


@MODES
async def test_the_person_at_the_client_approves(mode: str) -> None:
    asked: list[Any] = []
    yes = says("accept", {"approve": True}, asked)
    async with Client(served(MemoryLog()), mode=mode, elicitation_callback=yes) as client:
        result = await client.call_tool("pay", {"amount": 5})
    assert (words(result), DONE) == ("paid 5", [5])
    assert "pay(amount=5)" in asked[0].message
    assert asked[0].requested_schema["required"] == ["approve"]


@MODES
@pytest.mark.parametrize(
    ("action", "content"), [("accept", {"approve": False}), ("accept", {}), ("decline", None)]
)
async def test_whatever_is_no_yes_is_a_no(mode: str, action: str, content: Any) -> None:
    said = says(action, content)
    async with Client(served(MemoryLog()), mode=mode, elicitation_callback=said) as client:
        result = await client.call_tool("pay", {"amount": 5})
    assert result.is_error
    assert "denied" in words(result)
    assert DONE == []


@MODES
async def test_a_client_that_cannot_ask_is_told_the_run_and_resumes_it(mode: str) -> None:
    log = MemoryLog()
    async with Client(served(log), mode=mode) as client:
        result = await client.call_tool("pay", {"amount": 7})
        assert result.is_error
        [row] = await log.rows()
        [waiting] = await pending(log, row.run)
        assert row.run in words(result)
        assert f"taofold approvals approve {waiting.id}" in words(result)
        early = await client.call_tool("resume_run", {"run_id": row.run})
        assert early.is_error
        assert DONE == []
        await decide(log, waiting.id, Decision("approve"))
        late = await client.call_tool("resume_run", {"run_id": row.run})
    assert (words(late), DONE) == ("paid 7", [7])


@MODES
async def test_a_dismissed_question_leaves_the_run_waiting(mode: str) -> None:
    log, said = MemoryLog(), says("cancel")
    async with Client(served(log), mode=mode, elicitation_callback=said) as client:
        if mode == "auto":
            result = await client.session.call_tool("pay", {"amount": 7}, allow_input_required=True)
            assert isinstance(result, types.InputRequiredResult)
            [key] = result.input_requests or {}
            again = await client.session.call_tool(
                "pay", {"amount": 7}, allow_input_required=True, request_state=result.request_state,
                input_responses={key: types.ElicitResult(action="cancel")},
            )  # fmt: skip
            assert isinstance(again, types.CallToolResult), "not asked again"
            assert "waits for a person" in words(again)
        else:
            assert "waits for a person" in words(await client.call_tool("pay", {"amount": 7}))
    assert [row.status for row in await log.rows()] == ["waiting"]
    assert DONE == []


@MODES
async def test_what_a_tool_asks_is_asked_at_the_client(mode: str) -> None:
    asked: list[Any] = []
    blue = says("accept", {"colour": "blue"}, asked)
    async with Client(served(MemoryLog()), mode=mode, elicitation_callback=blue) as client:
        result = await client.call_tool("colour", {})
    assert words(result) == 'True: {"colour":"blue"}'
    assert "which colour?" in asked[0].message


@MODES
async def test_an_answer_that_does_not_fit_the_form_does_not_reach_the_tool(mode: str) -> None:
    """Mutant: what a client answers is not held against the form."""
    log = MemoryLog()
    green = says("accept", {"colour": "green"})
    async with Client(served(log), mode=mode, elicitation_callback=green) as client:
        result = await client.call_tool("colour", {})
    assert result.is_error
    assert "must be one of ['red', 'blue'], got 'green'" in words(result)
    [asked] = await pending(log)
    assert asked.action.tool == "colour", "the question stays"
    assert f"resume_run with run_id {asked.run!r}" in words(result), "and the client can go on"
    blue = says("accept", {"colour": "blue"})
    async with Client(served(log), mode=mode, elicitation_callback=blue) as client:
        result = await client.call_tool("resume_run", {"run_id": asked.run})
    assert words(result) == 'True: {"colour":"blue"}'


@MODES
async def test_a_question_that_is_dismissed_is_asked_once(mode: str) -> None:
    """Mutant: the newer era asks again, until the client gives up."""
    asked: list[Any] = []
    dismiss = says("cancel", None, asked)
    async with Client(served(MemoryLog()), mode=mode, elicitation_callback=dismiss) as client:
        result = await client.call_tool("pay", {"amount": 1})
    assert "waits for a person" in words(result)
    assert len(asked) == 1
    assert DONE == []


async def test_a_state_that_was_tampered_with_decides_nothing() -> None:
    log = MemoryLog()
    async with Client(served(log), elicitation_callback=says("cancel")) as client:
        result = await client.session.call_tool("pay", {"amount": 1}, allow_input_required=True)
        assert isinstance(result, types.InputRequiredResult)
        [key] = result.input_requests or {}
        [row] = await log.rows()
        yes = {key: types.ElicitResult(action="accept", content={"approve": True})}
        for state in (row.run, f"{result.request_state}x"):
            with pytest.raises(MCPError):
                await client.session.call_tool(
                    "pay", {"amount": 1}, allow_input_required=True, input_responses=yes,
                    request_state=state,
                )  # fmt: skip
    assert DONE == []


async def test_with_elicit_off_the_client_decides_nothing() -> None:
    yes = says("accept", {"approve": True})
    server = served(MemoryLog(), elicit=False)
    async with Client(server, elicitation_callback=yes) as client:
        assert "waits for a person" in words(await client.call_tool("pay", {"amount": 5}))
    assert DONE == []


async def test_a_policy_that_wants_another_approver_is_not_overruled_by_the_client() -> None:
    strict = Policy(own_approval=False, approvers="ADMIN")
    yes = says("accept", {"approve": True})
    server = served(MemoryLog(), policy=strict)
    async with Client(server, elicitation_callback=yes) as client:
        result = await client.call_tool("pay", {"amount": 5})
    assert result.is_error
    assert "may not approve his own" in words(result)
    assert DONE == []


async def test_only_runs_of_this_server_and_principal_are_resumed() -> None:
    log = MemoryLog()
    other = Agent(Memo([act("pay", amount=1)]), name="other", tools=[pay], log=log)
    await other.run("x", run_id="theirs")
    worker = Agent(Memo([act("pay", amount=1)]), name="worker", tools=[pay], log=log)
    await worker.run("x", run_id="hers", principal=Principal("ada"))
    namesake = Agent(Memo([act("pay", amount=1)]), name="look", tools=[pay], log=log)
    await namesake.run("x", run_id="namesake")
    async with Client(served(log)) as client:
        for run in ("theirs", "hers", "namesake", "none"):
            result = await client.call_tool("resume_run", {"run_id": run})
            assert result.is_error
            assert "was not started here" in words(result) or "there is no run" in words(result)


async def test_bad_calls_are_errors_the_client_can_act_on() -> None:
    async with Client(served(MemoryLog())) as client:
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("nope", {})
        assert "missing parameter 'what'" in words(await client.call_tool("look", {}))
        assert "the goal is empty" in words(await client.call_tool("worker", {"goal": " "}))


def test_two_offers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="offered twice or reserved"):
        Offers.of([Agent(Memo([]), name="look")], [look], log=MemoryLog())
    with pytest.raises(ConfigError, match="offered twice or reserved"):
        Offers.of([Agent(Memo([]), name="resume_run")], log=MemoryLog())


@MODES
async def test_our_bridge_understands_our_server(mode: str) -> None:
    """An agent that uses another taofold's tools: approvals there are asked for here."""
    log = MemoryLog()
    async with McpServer.within(served(MemoryLog()), name="far", mode=mode, trust=True) as far:
        assert far["far_look"].effect == "read"
        assert far["far_pay"].tier == 3
        one = Agent(Memo([act("far_pay", amount=3)]), tools=[far], log=log)
        result = await one.run("x", run_id="r")
        await decide(log, result.pending[0].id, Decision("approve"))
        result = await one.resume("r")
        assert "the server 'far' asks:\n│ pay" in result.pending[0].question
        await decide(log, result.pending[0].id, Decision("answer", answer='{"approve": true}'))
        ended = await one.replace(model=Memo([finish()])).resume("r")
    assert ended.steps[0].observations[0].result == "paid 3"
    assert DONE == [3]

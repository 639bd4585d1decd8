"""A server that requests the run's model or folders: only with a user's consent.

Mutants: a model call without consent; a refusal that counts as consent; the answer's cost is not
counted; an answer that is paid for again after a crash or a park.
"""

from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from taofold import Agent, Decision, Limits, MemoryLog, Principal
from taofold.bridges.mcp import McpServer
from taofold.core import events as e
from taofold.runtime.control import decide
from taofold.runtime.model import Request
from taofold.testing.replay import assert_replays
from tests.runtime.kit import Memo, act, finish

from . import servers
from .kit import Lister, lister, text, tool
from .test_fastmcp import bridge, peer

pytestmark = pytest.mark.anyio
ANSWER = "blue is best"


class TwoVoices(Memo):
    """The run's model: a script for the run, and one answer for all requests of servers."""

    def __init__(self, *script: str) -> None:
        super().__init__(script, choose=self._sampled)
        self.sampled: list[str] = []

    def _sampled(self, request: Request) -> str | None:
        whole = "\n".join(str(message.content) for message in request.conversation)
        if "Reply with the answer itself" not in whole:
            return None
        self.sampled.append(whole)
        return ANSWER


class Consent:
    """A person who is there, and what she was asked."""

    def __init__(self, allows: bool = True) -> None:
        self.allows, self.questions = allows, list[str]()

    def __call__(self, approval: Any) -> Decision:
        if "model of this run" not in approval.question:
            return Decision("approve")
        self.questions.append(approval.question)
        return Decision("approve" if self.allows else "deny")


def wanting(*prompts: str, **more: Any) -> Lister:
    """A server of the newer era whose tool wants these prompts answered, one after the other."""
    made, given = lister(tool()), list[Any]()

    async def call(context: Any, params: Any) -> Any:
        given.append(params.input_responses)
        if len(given) <= len(prompts):
            asked = types.CreateMessageRequestParams(
                messages=[
                    types.SamplingMessage(
                        role="user",
                        content=types.TextContent(type="text", text=prompts[len(given) - 1]),
                    )
                ],
                max_tokens=50,
                system_prompt="Be brief.",
                **more,
            )
            return types.InputRequiredResult(
                input_requests={"k": types.CreateMessageRequest(params=asked)},
                request_state=f"after {len(given)}",
            )
        return text(f"it says: {given[-1]['k'].content.text}")

    made.server = type(made.server)("wanting", on_list_tools=made._list, on_call_tool=call)
    return made


def run_of(server: McpServer, model: Memo, log: MemoryLog, **options: Any) -> Agent[Any, Any]:
    return Agent(model, tools=[server], log=log, **options)


@pytest.mark.parametrize("allows", [True, False], ids=["allowed", "refused"])
async def test_a_model_answers_a_server_only_with_a_persons_word(allows: bool) -> None:
    log, model, person = MemoryLog(), TwoVoices(act("s_peek"), finish()), Consent(allows)
    async with wanting("What is the best colour?").bridge(sampling=True) as server:
        agent = run_of(server, model, log, approve=person)
        result = await agent.run("x", run_id="r")
        await assert_replays(agent, result)
    [question] = person.questions
    assert "the server 's' wants the model of this run to answer, at your cost" in question
    assert "(50 tokens at most)" in question
    assert "system:\n│ Be brief." in question
    assert "user:\n│ What is the best colour?" in question
    [seen] = result.steps[0].observations
    if allows:
        assert (seen.status, seen.result) == ("success", f"it says: {ANSWER}")
        assert len(model.sampled) == 1
        assert "x" not in model.sampled[0].split(), "nothing of the run is told"
        [child] = [row for row in await log.rows() if row.parent == "r"]
        spent = [r.event for r in await log.read(child.run) if isinstance(r.event, e.Replied)]
        assert len(spent) == 1, "what the model said is on record"
        assert result.state.child_model_calls == 1
        own = [r.event.usage for r in await log.read("r") if isinstance(r.event, e.Replied)]
        assert result.usage == sum(own, spent[0].usage), "and paid for by the run"
    else:
        assert seen.status == "failure"
        assert "did not let the server use the run's model" in str(seen.result)
        assert model.sampled == []


async def test_where_nobody_is_there_it_waits_and_each_answer_is_paid_for_once() -> None:
    log, model = MemoryLog(), TwoVoices()
    made = wanting("First?", "Second?")
    for decision, script in (
        ("approve", [act("s_peek")]), ("approve", []), ("approve", []), (None, [finish()]),
    ):  # fmt: skip
        # Another connection and another agent each time, as in another process.
        async with made.bridge(sampling=True) as server:
            model.script = iter(script)
            agent = run_of(server, model, log)
            if script and decision:
                result = await agent.run("x", run_id="r")
            else:
                result = await agent.resume("r")
        if decision:
            assert result.status == "waiting"
            await decide(log, result.pending[0].id, Decision(decision))
    assert result.steps[0].observations[0].result == f"it says: {ANSWER}"
    assert len(model.sampled) == 2
    assert result.state.child_model_calls == 2, "also what was asked before the run waited"


@pytest.mark.filterwarnings("ignore:The sampling capability is deprecated")
async def test_an_answer_that_a_call_made_again_asks_for_once_more_is_not_paid_for_again() -> None:
    host, log, model = MCPServer("older"), MemoryLog(), TwoVoices()

    @host.tool()
    async def push(context: Context) -> str:
        """Have two prompts answered."""
        answers: list[str] = []
        for prompt in ("First?", "Second?"):
            content = types.TextContent(type="text", text=prompt)
            message = types.SamplingMessage(role="user", content=content)
            sampled = await context.session.create_message([message], max_tokens=50)
            answers.append(sampled.content.text)
        return " and ".join(answers)

    for begin in (True, False, False, False):
        async with McpServer.within(host, name="s", mode="legacy", sampling=True) as server:
            model.script = iter([act("s_push")] if begin else [finish()])
            agent = run_of(server, model, log)
            result = await (agent.run("x", run_id="r") if begin else agent.resume("r"))
        if result.pending:
            await decide(log, result.pending[0].id, Decision("approve"))
    assert result.steps[0].observations[0].result == f"{ANSWER} and {ANSWER}"
    assert len(model.sampled) == 2, "the first one was asked for in three lives of the call"
    assert result.state.child_model_calls == 2


async def test_the_runs_limits_bound_what_a_server_has_answered() -> None:
    log, person = MemoryLog(), Consent()
    model = TwoVoices(act("s_peek"), finish())
    async with wanting("First?", "Second?", "Third?").bridge(sampling=True) as server:
        limits = Limits(model_calls=3)  # one is spent, two are left
        agent = run_of(server, model, log, approve=person, limits=limits)
        result = await agent.run("x", run_id="r")
    assert len(model.sampled) == 2
    assert "the run's model gave no answer" in str(result.steps[0].observations[0].result)
    assert result.state.model_calls + result.state.child_model_calls <= 3


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_that_was_allowed_nothing_is_told_so(mode: Any) -> None:
    log, model = MemoryLog(), TwoVoices(act("s_peek"), finish())
    async with wanting("What?").bridge(mode=mode) as server:
        result = await run_of(server, model, log, approve="all").run("x")
    assert result.steps[0].observations[0].status == "failure"
    if mode == "auto":
        assert "sampling=True" in str(result.steps[0].observations[0].result)
    assert model.sampled == []


async def test_a_model_gets_no_tools_and_no_images_from_a_server() -> None:
    offered = types.Tool(name="shell", input_schema={"type": "object"})
    for more in ({"tools": [offered]},):
        model = TwoVoices(act("s_peek"), finish())
        async with wanting("What?", **more).bridge(sampling=True) as server:
            result = await run_of(server, model, MemoryLog(), approve=Consent()).run("x")
        assert "which is not offered" in str(result.steps[0].observations[0].result)
        assert model.sampled == []


async def test_folders_are_told_as_they_were_allowed(tmp_path: Path) -> None:
    made, given = lister(tool()), list[Any]()

    async def call(context: Any, params: Any) -> Any:
        given.append(params.input_responses)
        if params.input_responses is None:
            return types.InputRequiredResult(input_requests={"k": types.ListRootsRequest()})
        return text(" ".join(str(root.uri) for root in params.input_responses["k"].roots))

    made.server = type(made.server)("rooted", on_list_tools=made._list, on_call_tool=call)
    async with made.bridge(roots=[tmp_path]) as server:
        result = await run_of(
            server, TwoVoices(act("s_peek"), finish()), MemoryLog(), approve="all"
        ).run("x")
    assert result.steps[0].observations[0].result == tmp_path.as_uri()
    assert len(given) == 2


@pytest.mark.mcp_real
@pytest.mark.parametrize("present", [True, False], ids=["present", "absent"])
async def test_fastmcp_3_has_the_model_answer_with_consent(tmp_path: Path, present: bool) -> None:
    (tmp_path / "sampling").touch()
    log, person = MemoryLog(), Consent()
    model = TwoVoices(act("s_opinion", about="blue"), finish())
    with peer("fastmcp3", tmp_path) as there:
        async with bridge(there, sampling=True, roots=[tmp_path]) as server:
            agent = run_of(server, model, log, approve=person if present else None)
            result = await agent.run("x", run_id="r")
            while result.status == "waiting":
                await decide(log, result.pending[0].id, Decision("approve"))
                questions = result.pending[0].question
                result = await agent.resume("r")
            assert result.steps[0].observations[0].result == f"it says: {ANSWER}"
            assert len(model.sampled) == 1
            if present:
                assert there.calls == ["opinion on blue"]
            else:
                assert "calls the tool again from its beginning" in questions
                assert there.calls == ["opinion on blue"] * 2
            where = run_of(server, TwoVoices(act("s_where"), finish()), MemoryLog(), approve="all")
            told = (await where.run("y")).steps[0].observations[0].result
            assert told == tmp_path.as_uri()


@pytest.mark.mcp_real
async def test_the_everything_server_has_the_model_answer_and_lists_the_folders(
    tmp_path: Path,
) -> None:
    real = servers.needs()
    command = real.command("everything", "stdio")
    options: dict[str, Any] = {"name": "e", "pins": False, "trust": True}
    async with McpServer.stdio(*command, sampling=True, roots=[tmp_path], **options) as server:
        model, person = TwoVoices(), Consent()
        asked = act("e_trigger-sampling-request", prompt="colours", maxTokens=30)
        model.script = iter([asked, act("e_get-roots-list"), finish()])
        agent = run_of(server, model, MemoryLog(), approve=person)
        result = await agent.run("x", principal=Principal("ann"))
    first, second = (step.observations[0] for step in result.steps[:2])
    assert ANSWER in str(first.result)
    assert "colours" in person.questions[0]
    assert tmp_path.as_uri() in str(second.result)
    async with McpServer.stdio(*command, **options) as server:
        names = list(server)
        assert "e_trigger-sampling-request" not in names, "a server sees that there is none"
        assert "e_get-roots-list" not in names


class Counting(MemoryLog):
    """Notes which child runs are listed and read."""

    def __init__(self) -> None:
        super().__init__()
        self.listed, self.children = 0, list[str]()

    async def rows(self, **options: Any) -> Any:
        self.listed += bool(options.get("parent"))
        return await super().rows(**options)

    async def read(self, run: str, *args: Any, **options: Any) -> Any:
        if run != "r":
            self.children.append(run)
        return await super().read(run, *args, **options)


async def test_a_question_does_not_read_the_answers_to_earlier_ones() -> None:
    reads = []
    for questions in (2, 6):
        log, model = Counting(), TwoVoices(act("s_peek"), finish())
        async with wanting(*[f"{n}?" for n in range(questions)]).bridge(sampling=True) as server:
            result = await run_of(server, model, log, approve=Consent()).run("x", run_id="r")
        assert result.state.child_model_calls == questions
        assert log.listed == 1
        reads.append(len(log.children) / questions)
    assert reads[0] == reads[1], "each child run costs the same, however many there are"


async def test_after_a_crash_what_was_asked_before_is_read_once() -> None:
    log, model = Counting(), TwoVoices(act("s_peek"))
    made = wanting("0?", "1?", "2?")
    async with made.bridge(sampling=True) as server:
        result = await run_of(server, model, log).run("x", run_id="r")
    for _ in range(2):  # the call is allowed, then the first question, which is answered
        await decide(log, result.pending[0].id, Decision("approve"))
        async with made.bridge(sampling=True) as server:
            result = await run_of(server, model, log).resume("r")
    await decide(log, result.pending[0].id, Decision("approve"))
    [first] = [row.run for row in await log.rows() if row.parent == "r"]
    log.listed = 0
    log.children.clear()
    model.script = iter([finish()])
    async with made.bridge(sampling=True) as server:
        result = await run_of(server, model, log, approve=Consent()).resume("r")
    assert result.state.child_model_calls == 3
    assert (log.listed, log.children.count(first)) == (1, 1)

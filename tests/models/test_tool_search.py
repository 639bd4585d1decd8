"""Providers' search of tools: forms, the record of what was found, translation, the cache.

Mutants it catches: found tools that change earlier bytes, blocks of one provider sent to another, a
reference to a tool that is not sent, a call without its namespace, a found tool without policy.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from taofold import (
    Agent,
    ChangeRequest,
    Hook,
    HookContext,
    Limits,
    Policy,
    Tier,
    Toolset,
    tool,
)
from taofold.core import events as e
from taofold.core.content import Conversation, OpaquePart
from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import Message, Profile, Reply, ToolCall
from taofold.files.export import dump
from taofold.models.capabilities import rules_for
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.runtime.model import FallbackModel, Model, Request, ToolSpec
from taofold.runtime.providers import resolve
from taofold.testing import ScriptedModel
from taofold.testing.replay import assert_replays
from taofold.tools.tool import Tool, external

from .conftest import Connect
from .searching import AnthropicFake, Call, Down, OpenAIFake, Search, Searching

pytestmark = pytest.mark.anyio
SEARCHES = Profile(window=200_000, window_known=True, native_tools=True, tool_search=True)
PLAIN = Profile(window=200_000, window_known=True, native_tools=True)
CLAUDE, GPT = "anthropic:claude-opus-4-6", "openai:gpt-5.5"


def jobs(count: int, group: str = "office", effect: Any = "read") -> Toolset:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    def made(number: int) -> Tool:
        def answer(given: dict[str, Any]) -> str:
            return f"{group} job {number} {given.get('text', '')}".strip()

        name, about = f"{group}_{number}", f"Does job {number}."
        return external(name, about, schema, answer, effect=effect, toolset=group)

    return Toolset([made(number) for number in range(count)])


@tool(effect="read")
def look() -> str:
    """Looks."""
    return "seen"


def model(spec: str, fake: Searching, profile: Profile = SEARCHES) -> Model:
    options: dict[str, Any] = {
        "api_key": "sk-secret",
        "profile": profile,
        "retry": RetryPolicy(attempts=1, first=0.0, draw=lambda: 0.0),
        "limiter": Limiter(),
    }
    return resolve(spec, transport=fake, **options)


def agent(*models: Model, **options: Any) -> Agent[Any, Any]:
    given: dict[str, Any] = {
        "tools": [look, jobs(60)],
        "log": "memory",
        "limits": Limits(steps=20),
    }
    one: Any = models[0] if len(models) == 1 else FallbackModel(models)
    return Agent(one, **(given | options))


def replied(result: Any) -> list[e.Replied]:
    return [r.event for r in result.records if isinstance(r.event, e.Replied)]


def started(result: Any) -> e.RunStarted:
    first = result.records[0].event
    assert isinstance(first, e.RunStarted)
    return first


FAKES = pytest.mark.parametrize(("spec", "fake"), [(CLAUDE, AnthropicFake), (GPT, OpenAIFake)])
STORY: list[Any] = [
    ["I search.", Search(("office_7", "office_8")), Call("office_7", {"text": "x"})],
    Call("office_8"),
    [Search(()), Search(("office_9",)), Call("office_9")],
    "done",
]


@FAKES
async def test_a_provider_searches_and_its_finds_are_called(spec: str, fake: Any) -> None:
    server = fake(*STORY)
    made = agent(model(spec, server))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert server.refusals == []
    results = [step.observations[0].result for step in result.steps[:-1]]
    assert results == ["office job 7 x", "office job 8", "office job 9"]
    # The found tools are in the reply's record; the offer keeps its bytes.
    assert [each.found for each in replied(result)] == [
        ("office_7", "office_8"), (), ("office_9",), (),
    ]  # fmt: skip
    assert len(set(server.offers)) == 1
    assert "search_tools" not in server.offers[0]
    assert started(result).settings["tool_search"] == "provider"
    await assert_replays(made, result)


@FAKES
async def test_a_resumed_run_and_a_fork_keep_what_was_found(
    spec: str, fake: Any, tmp_path: Path
) -> None:
    log = str(tmp_path / "runs.db")
    ask = Policy(tiers={"office_8": Tier.CONFIRM})
    server = fake(*STORY)
    first = agent(model(spec, server), log=log, policy=ask)
    waiting = await first.run("Do the jobs.")
    assert waiting.status == "waiting"
    # Another process: what the provider signed and found comes from the log.
    other = fake(*STORY[2:])
    second = agent(model(spec, other), log=log, policy=ask, approve="all")
    done = await second.resume(waiting.run_id)
    assert done.success, (done.error, other.refusals)
    assert other.offers[0] == server.offers[0]
    forked = fake(*STORY[2:])
    third = agent(model(spec, forked), log=log)
    at = next(r.seq for r in done.records if isinstance(r.event, e.Resolved))
    again = await third.fork(done, at=at)
    assert again.success, (again.error, forked.refusals)
    assert forked.offers[0] == server.offers[0]


@pytest.mark.parametrize("order", [(CLAUDE, GPT), (GPT, CLAUDE)])
async def test_what_one_provider_found_is_offered_to_the_other(order: tuple[str, str]) -> None:
    kinds: dict[str, Any] = {CLAUDE: AnthropicFake, GPT: OpenAIFake}
    before = kinds[order[0]](*STORY[:2], Down(), Down(), Down())
    after = kinds[order[1]](Call("office_7"), STORY[2], Call("office_8"), "done")
    made = agent(model(order[0], before), model(order[1], after))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, before.refusals, after.refusals)
    assert after.refusals == []
    text = json.dumps(after.requests[0])
    assert "srvtoolu" not in text
    assert "tool_search_call" not in text
    assert "server_tool_use" not in text
    assert "tool_reference" not in text
    assert len(set(after.offers)) == 1
    assert [each.found for each in replied(result)][-3:] == [("office_9",), (), ()]
    await assert_replays(made, result)


@FAKES
async def test_a_model_without_a_search_goes_on_with_the_found_tools(spec: str, fake: Any) -> None:
    """A chain of which one model has no search: it is offered the found tools."""
    before = fake(*STORY[:2], Down(), Down(), Down())
    after = OpenAIFake(
        Call("office_7"), Call("search_tools", {"query": "job 9"}), Call("office_9"), "done"
    )
    after.supported = False
    made = agent(model(spec, before), model("openai:gpt-4.1", after, PLAIN))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, before.refusals, after.refusals)
    names = [tool["name"] for tool in after.requests[0]["tools"]]
    assert names == ["look", "search_tools", "office_7", "office_8"]
    assert "office_9" in after.offers[-1]
    await assert_replays(made, result)


@FAKES
async def test_a_local_find_is_known_to_a_provider_that_takes_over(spec: str, fake: Any) -> None:
    before = OpenAIFake(
        Call("search_tools", {"query": "job 7"}), Call("office_7"), Down(), Down(), Down()
    )
    before.supported = False
    after = fake(Call("office_7"), STORY[2], "done")
    made = agent(model("openai:gpt-4.1", before, PLAIN), model(spec, after))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, before.refusals, after.refusals)
    assert after.refusals == []
    assert len(set(after.offers)) == 1


async def test_a_local_search_answers_claude_with_references() -> None:
    server = AnthropicFake(
        Call("search_tools", {"query": "job 7"}), Call("office_7"),
        Call("search_tools", {"query": "zzz"}), "done",
    )  # fmt: skip
    made = agent(model(CLAUDE, server), tool_search="local")
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert len(set(server.offers)) == 1
    assert "tool_search_tool" not in server.offers[0]
    answers = [
        block["content"]
        for message in server.requests[-1]["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert {"type": "tool_reference", "tool_name": "office_7"} in answers[0]
    assert "no tool matches" in str(answers[2])
    assert started(result).settings["tool_search"] == "local"
    await assert_replays(made, result)


@pytest.mark.parametrize(("count", "wanted"), [(60, "local"), (200, None)])
async def test_a_local_search_answers_openai_with_found_tools(count: int, wanted: Any) -> None:
    """Also if there are more tools than the API takes in one request."""
    server = OpenAIFake(
        Call("(search)", {"query": "job 7"}), Call("office_7"),
        Call("(search)", {"query": "zzz"}), "done",
    )  # fmt: skip
    made = agent(model(GPT, server), tools=[look, jobs(count)], tool_search=wanted)
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert result.steps[1].observations[0].result == "office job 7"
    assert [step.actions[0].tool for step in result.steps[:3]] == [
        "search_tools", "office_7", "search_tools",
    ]  # fmt: skip
    assert len(set(server.offers)) == 1
    assert "office_7" not in server.offers[0]
    assert replied(result)[0].found == ()
    await assert_replays(made, result)


@FAKES
async def test_a_server_that_refuses_the_search_gets_the_local_one(spec: str, fake: Any) -> None:
    server = fake(Call("search_tools", {"query": "job 7"}), Call("office_7"), "done")
    server.supported = False
    result = await agent(model(spec, server)).run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert len(server.refusals) == 1
    assert "office_7" in server.offers[-1]


@FAKES
async def test_policy_and_approval_apply_to_a_found_tool(spec: str, fake: Any) -> None:
    denied = await agent(
        model(spec, fake(*STORY)), policy=Policy(deny=frozenset({"office_7"}))
    ).run("Do the jobs.")
    assert denied.steps[0].observations[0].status == "failure"
    assert denied.steps[1].observations[0].status == "success"
    asked = await agent(
        model(spec, fake(*STORY)), policy=Policy(tiers={"office_7": Tier.CONFIRM})
    ).run("Do the jobs.")
    assert asked.status == "waiting"


@FAKES
async def test_an_unknown_find_is_ignored(spec: str, fake: Any) -> None:
    """A server may name anything. Mutant: names are taken as they come."""
    server = fake([Search(("office_7", "shell")), Call("office_7")], "done")
    result = await agent(model(spec, server)).run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert replied(result)[0].found == ("office_7",)
    assert server.refusals == []


@FAKES
async def test_a_folded_search_leaves_its_tools_on_offer(spec: str, fake: Any) -> None:
    small = Profile(window=2600, window_known=True, native_tools=True, tool_search=True)
    script = [STORY[0], *[Call("office_8", {"text": f"{n} " + "more " * 150}) for n in range(9)]]
    server = fake(*script, Call("office_7"), "done")
    made = agent(model(spec, server, small))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert any(isinstance(record.event, e.Compacted) for record in result.records)
    assert server.refusals == []
    await assert_replays(made, result)


@FAKES
async def test_tools_that_are_gone_at_a_resume_are_not_named(
    spec: str, fake: Any, tmp_path: Path
) -> None:
    log = str(tmp_path / "runs.db")
    ask = Policy(tiers={"office_8": Tier.CONFIRM})
    first = agent(model(spec, fake(*STORY)), log=log, policy=ask)
    waiting = await first.run("Do the jobs.")
    less = [look, Toolset([t for t in jobs(60).values() if t.name != "office_7"])]
    other = fake(*STORY[2:])
    made = agent(model(spec, other), log=log, policy=ask, approve="all", tools=less)
    done = await made.resume(waiting.run_id)
    assert done.success, (done.error, other.refusals)
    assert other.refusals == []


async def test_the_last_turn_restricts_openai_to_what_is_offered() -> None:
    server = OpenAIFake(*STORY)
    made = agent(model(GPT, server), output=int, strategy="react")
    server.script = [STORY[0], Call("finish", {"answer": 7})]
    result = await made.run("Do the jobs.")
    assert result.output == 7


@pytest.mark.parametrize(
    ("name", "searches"),
    [
        ("anthropic:claude-opus-4-6", True),
        ("anthropic:claude-sonnet-4-5", True),
        ("anthropic:claude-fable-5", True),
        ("anthropic:claude-sonnet-4", False),
        ("anthropic:claude-haiku-4-5", False),
        ("anthropic:claude-newline-9", False),
        ("openai:gpt-5.4", True),
        ("openai:gpt-6", True),
        ("openai:gpt-5.3", False),
        ("openai:gpt-5-chat", False),
        ("openai:o3", False),
        ("openai:brand-new", False),
        ("gemini:gemini-3", False),
    ],
)
def test_only_models_that_are_known_to_search_do(name: str, searches: bool) -> None:
    provider, _, known = name.partition(":")
    assert rules_for(provider, known).profile().tool_search is searches


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("anthropic:claude-opus-4-6", {"base_url": "http://gateway.example/v1"}),
        ("openai:gpt-5.5", {"base_url": "http://gateway.example/v1"}),
        ("openai-chat:gpt-5.5", {}),
        ("openrouter:anthropic/claude-opus-4.6", {}),
    ],
)
def test_other_servers_are_not_taken_to_search(spec: str, options: dict[str, Any]) -> None:
    assert resolve(spec, api_key="k", **options).profile.tool_search is False


def test_a_file_can_force_the_local_search() -> None:
    assert "tool_search: local" in dump(Agent("test", tool_search="local"))
    with pytest.raises(ConfigError, match="tool_search: is True, False, 'local' or None"):
        Agent("test", tool_search="provider")  # type: ignore[arg-type]


async def test_a_stream_of_claude_has_its_finds(connect: Connect) -> None:
    use: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "s1",
        "name": "tool_search_tool_bm25",
        "input": {},
    }
    found: dict[str, Any] = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "office_1"}],
    }
    result: dict[str, Any] = {
        "type": "tool_search_tool_result",
        "tool_use_id": "s1",
        "content": found,
    }
    call: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "office_1", "input": {}}
    events: list[Any] = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        _delta(0, '{"query": '),
        _delta(0, '"job"}'),
        {"type": "content_block_start", "index": 1, "content_block": result},
        {"type": "content_block_start", "index": 2, "content_block": call},
        _delta(2, '{"text": "x"}'),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    sse = [f"event: {each['type']}\ndata: {json.dumps(each)}" for each in events]
    claude, _ = connect(CLAUDE, {"sse": sse}, profile=SEARCHES)
    reply = await claude.complete(asked(), on_text=lambda text: None)
    assert reply.found == ("office_1",)
    assert [call.name for call in reply.calls] == ["office_1"]
    kept = [json.loads(part.data) for part in reply.parts if isinstance(part, OpaquePart)]
    assert kept == [{**use, "input": {"query": "job"}}, result]


def _delta(index: int, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


async def test_a_stream_of_openai_has_its_finds(connect: Connect) -> None:
    tool_: dict[str, Any] = {
        "type": "function",
        "name": "office_1",
        "parameters": {},
        "defer_loading": True,
    }
    space: dict[str, Any] = {
        "type": "namespace",
        "name": "office",
        "description": "",
        "tools": [tool_],
    }
    ends: dict[str, Any] = {"execution": "server", "call_id": None, "status": "completed"}
    search: dict[str, Any] = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "arguments": {"paths": ["office"]},
        **ends,
    }
    output: dict[str, Any] = {"type": "tool_search_output", "id": "tso_1", "tools": [space], **ends}
    call: dict[str, Any] = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "namespace": "office",
    }
    call |= {"name": "office_1", "arguments": "{}"}
    done: list[Any] = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate([search, output, call])
    ]
    end: dict[str, Any] = {
        "type": "response.completed",
        "response": {"status": "completed", "output": []},
    }
    gpt, _ = connect(GPT, {"sse": [*done, end]}, profile=SEARCHES)
    reply = await gpt.complete(asked(), on_text=lambda text: None)
    assert reply.found == ("office_1",)
    assert reply.calls == (ToolCall("office_1", "{}", "c1", '{"namespace":"office"}'),)
    kept = [json.loads(part.data) for part in reply.parts if isinstance(part, OpaquePart)]
    assert all("id" not in item for item in kept)


def asked() -> Request:
    def spec(name: str) -> ToolSpec:
        return ToolSpec(name, "", {"type": "object"}, "office")

    talk = Conversation([Message("user", "Go")])
    deferred = (spec("office_1"), spec("office_2"))
    tools = (ToolSpec("search_tools", "", {"type": "object"}),)
    return Request(talk, tools, deferred=deferred, search="provider")


async def test_a_broken_input_of_a_provider_tool_is_an_error_of_the_reply(connect: Connect) -> None:
    use: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "s1",
        "name": "tool_search_tool_bm25",
        "input": {},
    }
    events: list[Any] = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": use},
        _delta(0, '{"query": '),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    sse = [f"event: {each['type']}\ndata: {json.dumps(each)}" for each in events]
    once = RetryPolicy(attempts=1)
    claude, _ = connect(CLAUDE, {"sse": sse}, profile=SEARCHES, retry=once)
    with pytest.raises(ModelError, match="the input of a server_tool_use block"):
        await claude.complete(asked(), on_text=lambda text: None)


async def test_a_call_by_another_provider_needs_no_namespace() -> None:
    """OpenAI refuses a call without a namespace of a tool that stands in one."""
    gpt = OpenAIFake(STORY[0], Down(), "done")
    claude = AnthropicFake(Call("office_7"), Down())
    made = agent(model(GPT, gpt), model(CLAUDE, claude))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, gpt.refusals, claude.refusals)
    assert gpt.script == []
    assert gpt.refusals == []
    await assert_replays(made, result)


@FAKES
async def test_models_of_one_server_differ_in_their_search(spec: str, fake: Any) -> None:
    """The second one can read the blocks of the first, but is not offered a search."""
    before = fake(STORY[2], Down())
    after = fake(Call("office_9"), "done")
    after.supported = False
    other = "anthropic:claude-haiku-4-5" if spec == CLAUDE else "openai:gpt-4.1"
    made = agent(model(spec, before), model(other, after, PLAIN))
    result = await made.run("Do the jobs.")
    assert result.success, (result.error, before.refusals, after.refusals)
    assert after.refusals == []
    await assert_replays(made, result)


class Narrow(Hook):
    """Lets the second call use one tool only."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def before_model(self, context: HookContext, request: Request) -> ChangeRequest | None:
        calls = sum(message.role == "assistant" for message in request.conversation)
        return ChangeRequest(tools=self.names) if calls == 1 else None


@FAKES
async def test_a_hook_may_narrow_the_offer_to_a_found_tool(spec: str, fake: Any) -> None:
    server = fake(STORY[0], Call("office_8"), "done")
    result = await agent(model(spec, server), hooks=[Narrow("office_8")]).run("Do the jobs.")
    assert result.success, (result.error, server.refusals)
    assert [step.observations[0].status for step in result.steps] == ["success"] * 3
    # A tool that the provider loads nevertheless is refused by the runtime.
    server = fake(STORY[0], Call("office_7"), "done")
    result = await agent(model(spec, server), hooks=[Narrow("office_8")]).run("Do the jobs.")
    assert result.steps[1].observations[0].status == "failure"


def test_only_deferred_tools_can_be_found() -> None:
    """Mutant: a found name is offered twice."""
    found = Reply("t", (ToolCall("look", "{}", "c1"),))
    scripted = ScriptedModel([replace(found, found=("look", "rm", "office_7")), "done"], SEARCHES)
    result = Agent(scripted, tools=[look, jobs(60)]).run_sync("Go")
    assert result.success
    assert [each.name for each in scripted.requests[1].tools] == [
        "look", "search_tools", "office_7",
    ]  # fmt: skip


@pytest.mark.parametrize("order", [(CLAUDE, GPT), (GPT, CLAUDE)])
async def test_another_provider_resumes_with_what_was_found(
    order: tuple[str, str], tmp_path: Path
) -> None:
    """Mutant: `found` of the recorded reply is not read."""
    kinds: dict[str, Any] = {CLAUDE: AnthropicFake, GPT: OpenAIFake}
    ask, log = Policy(tiers={"office_8": Tier.CONFIRM}), str(tmp_path / "runs.db")
    first = agent(model(order[0], kinds[order[0]](*STORY)), log=log, policy=ask)
    waiting = await first.run("Do the jobs.")
    other = kinds[order[1]](Call("office_7"), STORY[2], "done")
    second = agent(model(order[1], other), log=log, policy=ask, approve="all")
    done = await second.resume(waiting.run_id)
    assert done.success, (done.error, other.refusals)
    assert other.refusals == []


@FAKES
async def test_a_find_does_not_cut_what_is_bound_to_the_offer(spec: str, fake: Any) -> None:
    """Mutant: the digest of the offer has the found tools."""
    bound = structs.replace(SEARCHES, prefix_bound=True)
    server = fake(*STORY)
    result = await agent(model(spec, server, bound)).run("Do the jobs.")
    assert result.success
    assert not any(isinstance(record.event, e.Cut) for record in result.records)

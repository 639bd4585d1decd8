"""Spans are a projection of the log: the same ones live, later, and again."""

import pytest
from msgspec.structs import replace

from taofold import Limits, MemoryLog
from taofold.core import events as e
from taofold.core.trace import trace
from taofold.policy.redaction import Redactor
from taofold.telemetry.attributes import attributes, title
from taofold.telemetry.projection import Roots, spans_of
from taofold.telemetry.prompt import Disclosure
from taofold.telemetry.spans import (
    AgentSpan,
    ApprovalSpan,
    ModelSpan,
    ToolSpan,
    root_run,
    span_id,
)
from tests.runtime.kit import Memo, act, finish, settled
from tests.telemetry.kit import SECRET, calculator, family

pytestmark = pytest.mark.anyio


async def test_a_run_becomes_one_tree_of_agent_model_and_tool_spans():
    result = await calculator(approve="all", log="memory").run("add", run_id="r", session="s")
    spans = spans_of(result.records)
    [root] = [one for one in spans if isinstance(one, AgentSpan)]
    assert root.parent == ""
    assert {one.parent for one in spans if one is not root} == {root.id}
    assert len({one.trace for one in spans}) == 1
    assert len({one.id for one in spans}) == len(spans)
    assert [title(one) for one in spans if isinstance(one, ModelSpan)] == ["chat gpt-test"] * 4
    tools = [(one.tool, one.error) for one in spans if isinstance(one, ToolSpan)]
    assert sorted(tools) == [
        ("add", ""), ("add", ""), ("fail", "failure"), ("made_up", "unknown"), ("remove", ""),
    ]  # fmt: skip
    [asked] = [one for one in spans if isinstance(one, ApprovalSpan)]
    assert (asked.tool, asked.verdict, asked.error) == ("remove", "allow", "")
    assert root.steps == 4
    assert root.steps == result.metrics.iterations_count
    assert root.usage == result.usage


@pytest.mark.scenario("TEA-27")
async def test_the_spans_agree_with_the_flat_trace_of_the_core():
    result = await calculator(approve="all").run("add")
    entries = trace(result.records)
    spans = spans_of(result.records)
    models = [(e.name, e.usage, e.start, e.end) for e in entries if e.type == "model"]
    told = [(s.model, s.usage, int(s.start), int(s.end)) for s in spans if isinstance(s, ModelSpan)]
    assert told == models
    tools = {(e.name, str(e.input), str(e.output)) for e in entries if e.type == "tool"}
    seen = {(s.tool, str(s.parameters), str(s.result)) for s in spans if isinstance(s, ToolSpan)}
    assert seen == {one for one in tools if one[0] != "finish"}


def timed(event: e.Event, ms: int) -> e.Event:
    """The event, as a reply that took `ms`: with 3, longer than its run has lasted so far."""
    return replace(event, ms=ms) if isinstance(event, e.Replied) else event


async def test_spans_of_one_millisecond_keep_the_order_in_which_they_began():
    result = await calculator(approve="all").run("add")
    first = next(n for n, r in enumerate(result.records) if isinstance(r.event, e.Replied))
    records = [
        replace(r, at=1000, event=timed(r.event, 3 * (n == first)))
        for n, r in enumerate(result.records)
    ]
    found = sorted(spans_of(records), key=lambda one: one.start)
    names = [title(one) for one in found]
    assert names[:3] == ["invoke_agent calculator", "chat gpt-test", "execute_tool add"]
    assert names.index("approve remove") < names.index("execute_tool remove")
    assert all(one.start <= one.end for one in found)


async def test_ids_are_the_same_every_time_and_differ_between_runs():
    result = await calculator(approve="all").run("add", run_id="one")
    other = await calculator(approve="all").run("add", run_id="two")
    assert spans_of(result.records) == spans_of(result.records)
    assert not {s.id for s in spans_of(result.records)} & {s.id for s in spans_of(other.records)}


async def test_a_child_run_hangs_below_the_call_it_serves():
    log = MemoryLog()
    result = await family(log).run("ask the helper")
    [row] = await log.rows(parent=result.run_id)
    roots: Roots = {}
    spans = [*spans_of(result.records, roots), *spans_of(await log.read(row.run), roots)]
    [call] = [one for one in spans if isinstance(one, ToolSpan) and one.tool == "helper"]
    [child] = [one for one in spans if isinstance(one, AgentSpan) and one.agent == "helper"]
    assert child.parent == call.id
    assert child.trace == call.trace
    alone = spans_of(await log.read(row.run))
    assert {(one.trace, one.id, one.parent) for one in alone} <= {
        (one.trace, one.id, one.parent) for one in spans
    }


async def test_a_waiting_run_has_open_spans_and_the_same_ids_when_it_has_ended():
    agent = calculator()
    waiting = await agent.run("add")
    before = spans_of(waiting.records)
    [asked] = [one for one in before if isinstance(one, ApprovalSpan)]
    assert asked.verdict == "open"
    assert isinstance(before[-1], AgentSpan)
    assert before[-1].status == "waiting"
    ended = await settled(agent, waiting)
    after = spans_of(ended.records)
    assert {one.id for one in before} < {one.id for one in after}
    assert isinstance(after[-1], AgentSpan)
    assert after[-1].status == "finished"
    assert [mark.name for mark in after[-1].marks if mark.name in ("parked", "resumed")] == [
        "parked", "resumed",
    ]  # fmt: skip


async def test_whether_a_run_succeeded_is_told_once_it_has_ended():
    agent = calculator()
    waiting = await agent.run("add")
    assert "taofold.success" not in attributes(spans_of(waiting.records)[-1])
    ended = await settled(agent, waiting)
    assert attributes(spans_of(ended.records)[-1])["taofold.success"] is True
    limited = await calculator(limits=Limits(steps=1)).run("add")
    told = attributes(spans_of(limited.records)[-1])
    assert (told["taofold.success"], told["taofold.stop_reason"]) == (False, "max_steps")


async def test_a_denied_action_is_an_error_of_the_approval_and_of_the_call():
    agent = calculator(approve=lambda _: False)
    spans = spans_of((await agent.run("add")).records)
    [asked] = [one for one in spans if isinstance(one, ApprovalSpan)]
    [call] = [one for one in spans if isinstance(one, ToolSpan) and one.tool == "remove"]
    assert (asked.error, call.error) == ("deny", "denied")


async def test_a_fork_has_a_trace_of_its_own_without_what_was_copied():
    log = MemoryLog()
    agent = calculator(log=log, approve="all")
    result = await agent.run("add")
    forked = await agent.replace(model=Memo([finish("again")], name="openai:gpt-test")).fork(
        result, at=next(r.seq for r in result.records if type(r.event).__name__ == "Observed")
    )
    spans = spans_of(await log.read(forked.run_id))
    assert not {one.id for one in spans} & {one.id for one in spans_of(result.records)}
    assert [type(one) for one in spans] == [ModelSpan, AgentSpan]
    assert isinstance(spans[-1], AgentSpan)
    assert spans[-1].forked_from == result.run_id
    assert spans[-1].start >= result.records[-1].at


async def test_a_provider_that_fails_is_a_failed_chat():
    from taofold.core.errors import ModelError

    agent = calculator(ModelError("no such key", kind="auth", status=401))
    spans = spans_of((await agent.run("add")).records)
    [chat] = [one for one in spans if isinstance(one, ModelSpan)]
    assert (chat.error, chat.message) == ("auth", "no such key")
    assert isinstance(spans[-1], AgentSpan)
    assert spans[-1].error == "error"


async def test_nothing_that_was_said_is_told_without_content():
    words = ("zebra", "quokka", "ocelot", "lemur", "tapir", "made_up_tool")
    script = [
        act("add", "the lemur", a=1, b=1),
        act("fail", why="the quokka"),
        act("made_up_tool", name="tapir"),
        act("remove", path="ocelot"),
        finish("the zebra"),
    ]
    agent = calculator(*script, approve="all")
    spans = spans_of((await agent.run("find the zebra")).records)
    shown = repr([(title(one), attributes(one)) for one in spans])
    assert [word for word in words if word in shown] == []
    everything = repr([(title(one), attributes(one, Disclosure(Redactor()))) for one in spans])
    assert [word for word in words if word not in everything] == []


@pytest.mark.scenario("PEER-31")
async def test_a_secret_leaves_with_no_span_even_from_a_log_that_holds_it():
    result = await calculator(act("remove", path=SECRET), finish(SECRET), approve="all").run(SECRET)
    spans = spans_of(result.records)
    planted = [
        type(one)(**{name: _planted(getattr(one, name)) for name in one.__struct_fields__})
        for one in spans
    ]
    assert SECRET in repr(planted)
    assert SECRET not in repr([attributes(one, Disclosure(Redactor())) for one in planted])


def _planted(value: object) -> object:
    """An old or imported log may hold what was not redacted."""
    if isinstance(value, str) and "[redacted]" in value:
        return value.replace("[redacted]", SECRET)
    if isinstance(value, dict):
        return {name: _planted(one) for name, one in value.items()}
    return value


def test_a_run_belongs_to_the_trace_of_its_eldest_ancestor():
    assert root_run("a", "") == "a"
    assert root_run("a.3-0", "a") == "a"
    assert root_run("a.3-0.1-1-2", "a.3-0") == "a"
    assert root_run("2024.11.3-0", "2024.11") == "2024.11"


def test_parts_of_an_id_do_not_run_together():
    assert span_id("a", "b") != span_id("a\x1fb", "")

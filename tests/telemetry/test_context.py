"""Parent span, user and origin of a run in the application's trace."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from taofold import Agent, MemoryLog
from taofold.core.values import Principal
from taofold.runtime.trace_context import TRACEPARENT, TraceContext, current_trace
from taofold.telemetry import otel
from taofold.telemetry.attributes import attributes
from taofold.telemetry.projection import Roots, spans_of
from taofold.telemetry.spans import AgentSpan, trace_id
from tests.runtime.kit import Memo, act, finish, settled
from tests.telemetry.kit import add, calculator, capturing, family, told

pytestmark = pytest.mark.anyio
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        (HEADER, TraceContext(TRACE, SPAN, True)),
        (f" 00-{TRACE}-{SPAN}-00\n", TraceContext(TRACE, SPAN, False)),
        (f"00-{TRACE}-{SPAN}-03", TraceContext(TRACE, SPAN, True)),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-adds", TraceContext(TRACE, SPAN, True)),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_a_traceparent_is_read_as_the_recommendation_says(text, context):
    assert TraceContext.parse(text) == context
    if context is not None:
        assert TraceContext.parse(str(context)) == context


def test_there_is_no_context_unless_the_application_has_one():
    assert current_trace() is None


async def test_a_run_hangs_below_the_applications_span_wherever_it_is_sent_from():
    tracer = TracerProvider().get_tracer("application")
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url)
        with tracer.start_as_current_span("request") as request:
            result = await family(log).run("ask")
        [row] = await log.rows(parent=result.run_id)
        records = await log.read(row.run)
        await log.close()
        spans = server.spans()
    context = request.get_span_context()
    assert {one.trace_id.hex() for one in spans} == {f"{context.trace_id:032x}"}
    [root] = [one for one in spans if one.name == "invoke_agent parent"]
    assert root.parent_span_id.hex() == f"{context.span_id:016x}"
    assert root.flags & 0x300 == 0x300, "the parent may be remote"
    ids = {one.span_id for one in spans}
    assert all(one.parent_span_id in ids for one in spans if one is not root)
    roots: Roots = {}
    later = [*spans_of(result.records, roots), *spans_of(records, roots)]
    assert {(one.trace, one.id, one.parent) for one in later} == {
        (one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex()) for one in spans
    }


async def test_a_header_is_enough_and_who_carries_on_keeps_to_it():
    log = MemoryLog()
    token = TRACEPARENT.set(HEADER)
    try:
        waiting = await calculator(log=log).run("add")
    finally:
        TRACEPARENT.reset(token)
    ended = await settled(calculator(log=log), waiting)
    spans = spans_of(ended.records)
    assert {one.trace for one in spans} == {TRACE}
    assert spans[-1].parent == SPAN
    assert spans_of(ended.records) == spans


async def test_what_the_application_does_not_record_is_not_sent():
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url)
        for flags in ("00", "01"):
            token = TRACEPARENT.set(f"00-{TRACE}-{SPAN}-{flags}")
            await family(log).run("ask", run_id=f"run{flags}")
            TRACEPARENT.reset(token)
        await log.close()
        spans = server.spans()
    assert {told(one)["taofold.run.id"].partition(".")[0] for one in spans} == {"run01"}
    assert {one.name for one in spans} >= {"invoke_agent parent", "invoke_agent helper"}


async def test_runs_beside_each_other_keep_their_own_context():
    tracer = TracerProvider().get_tracer("application")

    async def one(agent: Agent[Any, Any]) -> tuple[int, Any]:
        with tracer.start_as_current_span("request") as span:
            result = await agent.run("add")
            return span.get_span_context().trace_id, result

    for trace, result in await asyncio.gather(*[one(calculator(approve="all")) for _ in range(4)]):
        assert {one.trace for one in spans_of(result.records)} == {f"{trace:032x}"}


@pytest.mark.parametrize("header", ["", HEADER])
async def test_a_fork_has_a_link_to_where_it_came_from_and_so_has_its_fork(header):
    log = MemoryLog()
    agent = calculator(log=log, approve="all")
    token = TRACEPARENT.set(header)
    result = await agent.run("add")
    TRACEPARENT.reset(token)
    place = next(r.seq for r in result.records if type(r.event).__name__ == "Observed")
    again = agent.replace(model=Memo([finish("again")] * 3, name="openai:gpt-test"))
    first = await again.fork(result, at=place)
    second = await again.fork(first, at=place)
    known = {result.run_id: spans_of(result.records)[-1]}
    for forked, source in ((first, result), (second, first)):
        spans = spans_of(await log.read(forked.run_id))
        root = known[forked.run_id] = spans[-1]
        assert isinstance(root, AgentSpan)
        assert root.trace == (TRACE if header else trace_id(forked.run_id))
        assert root.parent == (SPAN if header else "")
        [link] = root.links
        assert (link.trace, link.id) == (known[source.run_id].trace, known[source.run_id].id)
        with capturing() as server:
            otel.post(spans, otel.OtelTranslation(), endpoint=server.url)
            [sent] = [one for one in server.spans() if one.links]
        assert (sent.links[0].trace_id.hex(), sent.links[0].span_id.hex()) == (link.trace, link.id)
        assert told(sent.links[0]) == {"taofold.link": "forked_from"}


async def test_every_span_says_whose_it_is():
    log = MemoryLog()
    child = Agent(Memo([act("add", a=1, b=1), finish("2")]), tools=[add], name="helper")
    agent = Agent(Memo([act("helper", goal="1 + 1"), finish("two")]), tools=[child], log=log,
                  approve="all")  # fmt: skip
    result = await agent.run("ask", session="s1", principal=Principal("ada"))
    [row] = await log.rows(parent=result.run_id)
    spans = [*spans_of(result.records), *spans_of(await log.read(row.run))]
    facts = [attributes(one) for one in spans]
    assert {one["user.id"] for one in facts} == {"ada"}
    assert {one["gen_ai.agent.name"] for one in facts} == {"agent", "helper"}
    own = [one for one in facts if one["taofold.run.id"] == result.run_id]
    assert {(one["session.id"], one["gen_ai.conversation.id"]) for one in own} == {("s1", "s1")}
    alone = spans_of((await calculator(approve="all").run("add")).records)
    assert not any("user.id" in attributes(one) for one in alone), "nobody, at a terminal"

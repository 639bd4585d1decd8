"""Spans that an application makes inside a tool, and spans that a test waits for."""

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from taofold import Agent, tool
from taofold.telemetry import otel
from taofold.testing import ScriptedModel
from tests.runtime.kit import act, finish

pytestmark = pytest.mark.anyio

PROVIDER = TracerProvider()
TRACER = PROVIDER.get_tracer("application")


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: dict[str, ReadableSpan] = {}

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans |= {span.name: span for span in spans}
        return SpanExportResult.SUCCESS


@tool(effect="read")
def look_sync() -> str:
    """Look."""
    with TRACER.start_as_current_span("db.query"):
        return "seen"


@tool(effect="read")
async def look_async() -> str:
    """Look."""
    with TRACER.start_as_current_span("db.query"):
        return "seen"


@pytest.mark.parametrize("look", [look_sync, look_async], ids=lambda tool: tool.name)
async def test_a_span_made_inside_a_tool_is_a_child_of_its_call(look) -> None:
    kept = Kept()
    PROVIDER.add_span_processor(SimpleSpanProcessor(kept))
    log = otel.traced("memory", exporter=kept)
    model = ScriptedModel([act(look.name), finish("done")])
    assert (await Agent(model, tools=[look], log=log).run("go")).success
    assert await log.flush(180)
    inside, outside = kept.spans["db.query"], kept.spans[f"execute_tool {look.name}"]
    assert inside.parent is not None
    assert inside.parent.span_id == outside.context.span_id
    assert inside.context.trace_id == outside.context.trace_id
    await log.close()


async def test_flush_waits_for_what_was_recorded_and_says_if_it_was_not_sent() -> None:
    kept = Kept()
    log = otel.traced("memory", exporter=kept)
    await Agent(ScriptedModel([finish("done")]), log=log).run("go")
    assert await log.flush(180)
    assert any(name.startswith("invoke_agent") for name in kept.spans)
    await log.close()

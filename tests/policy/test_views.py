"""Views mask possible secrets, which the log keeps; text that a user acts on is exact.

Mutants: a view shows the log's record unmasked; the answer or a question is masked.
"""

import json

import pytest

from taofold import Agent, MemoryLog, tool
from taofold.cli.render.runs import compare, difference_text
from taofold.core import events as e
from taofold.log.formats.export import export
from taofold.policy.redaction import MARK, Redactor
from taofold.policy.redaction.views import shown
from taofold.server.api.responses import audit_view
from taofold.server.api.responses import record as record_view
from taofold.server.streams.events import EventProjection
from taofold.telemetry.otel import OtelTranslation, dumps
from taofold.telemetry.projection import spans_of
from taofold.views import run_state_json
from tests.runtime.kit import Memo, act, finish

pytestmark = pytest.mark.anyio

PASSWORD = "s3cr3tPassw0rd"
TEXT = f"db_password: {PASSWORD}"


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return f"{what} and --password {PASSWORD}"


@tool(effect="once", tier=2)
def send(what: str) -> str:
    """Send."""
    return "sent"


async def records() -> list[e.Record]:
    log = MemoryLog()
    script = [act("look", TEXT, what=TEXT), act("send", what=TEXT), finish(TEXT)]
    agent = Agent(Memo(script), tools=[look, send], log=log)
    await agent.run(f"use {TEXT}", run_id="r")
    return await log.read("r")


async def test_the_log_keeps_what_a_guess_would_mask_and_views_do_not_show_it() -> None:
    kept = await records()
    assert PASSWORD in str(kept)
    views = {
        "record": str([shown(record) for record in kept]),
        "state": json.dumps(run_state_json("r", kept)),
        "server's log": str([record_view(record) for record in kept]),
        "audit": str(audit_view(kept)),
        "tao-yaml": export(kept, "tao-yaml"),
        "react-json": export(kept, "react-json"),
        "difference": difference_text(compare(kept, kept[:1])),
        "otlp": dumps(
            spans_of(kept, {}), OtelTranslation(content=True, redactor=Redactor(["other-value"]))
        ),
    }
    for name, view in views.items():
        assert PASSWORD not in view, name
        assert name in ("difference", "audit") or MARK in view, name
    assert PASSWORD in export(kept, "ndjson"), "the log itself"


async def test_what_is_asked_and_answered_is_exact_in_a_stream_of_events() -> None:
    projection = EventProjection()
    told = [event for record in await records() for event in projection(record)]
    by_type: dict[str, str] = {}
    for event in told:
        by_type[event.type] = by_type.get(event.type, "") + str(event.data)
    assert PASSWORD in by_type["confirmation_request"], "what is approved is what runs"
    for name in ("thinking", "tool_start", "tool_result"):
        assert PASSWORD not in by_type[name], name
        assert MARK in by_type[name], name


def test_the_answer_of_a_run_is_exact() -> None:
    ended = e.Record(
        "r",
        1,
        1,
        e.RunFinished(
            status="finished", stop_reason="answer", success=True, output={"config": TEXT}
        ),
    )
    assert shown(ended) is ended


def test_what_holds_nothing_is_not_copied() -> None:
    record = e.Record("r", 1, 1, e.Noted(key="0", kind="x", data={"a": [1, "two"]}))
    assert shown(record) is record

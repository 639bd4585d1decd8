"""Every surface shows an event and a fact of a result by its own description.

No surface names the two that are declared here, so the test shows the display of a new event
without further code.
"""

import io
import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from taofold.agent.result import RunResult
from taofold.cli.render.loops import LoopDisplay
from taofold.cli.render.story import PlainVoice, Story
from taofold.core import events as e
from taofold.core.values import Observation
from taofold.server.agui.projection import Projection
from taofold.server.api import responses
from taofold.server.streams.events import project
from taofold.telemetry.attributes import attributes
from taofold.telemetry.projection import SpanProjection
from taofold.telemetry.spans import AgentSpan, Span, ToolSpan
from tests.server.agents import Bench, act, finish

TEXT = "slowed down for 2.5 s: SECRET-TOKEN"
REMARK = "attempts 3, warmed up"


class Slowed(e.Annotation, frozen=True, tag="slowed"):
    """A provider asked for a pause."""

    alarming: ClassVar[bool] = True
    heading: ClassVar[str] = "slowed down"
    wording: ClassVar[str] = "for {0.seconds} s: {0.why}"
    key: str
    seconds: float
    why: str
    index: int = 0


class Hushed(e.Annotation, frozen=True, tag="hushed"):
    """It has no heading, so watchers do not see it."""

    wording: ClassVar[str] = "for {0.seconds} s"
    key: str
    seconds: float


class Tried(Observation, frozen=True):
    """A result with two additional facts."""

    attempts: int = 0
    warmed_up: bool = False
    where: str = ""


@pytest.fixture
def records() -> list[e.Record]:
    result: RunResult[Any] = Bench().agent(act("look", "look", at="x"), finish()).run_sync("go")
    found: list[e.Record] = []
    for record in result.records:
        event: Any = record.event
        if isinstance(event, e.Observed) and event.observation.result == "seen x":
            old = event.observation
            seen = Tried("seen x", extraction=old.extraction, attempts=3, warmed_up=True)
            event = e.Observed(key=event.key, observation=seen)
            slowed: Any = Slowed(key=event.key, seconds=2.5, why="SECRET-TOKEN")
            hushed: Any = Hushed(key=event.key, seconds=1.0)
            for kind in (slowed, hushed):
                found.append(e.Record(record.run, len(found), record.at, kind))
        found.append(e.Record(record.run, len(found), record.at, event))
    return found


def spans(records: list[e.Record]) -> Iterator[Span]:
    projection = SpanProjection(records[0].run)
    for record in records:
        if (span := projection.feed(record)) is not None:
            yield span


def test_the_stream_has_a_note_of_it_and_the_fact_with_the_result(records: list[e.Record]) -> None:
    told = list(project(records))
    (note,) = [event for event in told if event["type"] == "note"]
    assert note["text"] == TEXT
    assert note["alarming"] is True
    assert note["event"] == {"e": "slowed", "key": "2", "seconds": 2.5, "why": "SECRET-TOKEN"}
    result = next(event for event in told if event["type"] == "tool_result")
    assert result["facts"] == {"attempts": 3, "warmed_up": True}
    assert result["remark"] == REMARK
    json.dumps(told)


def test_ag_ui_has_a_custom_event_of_it_and_the_fact_with_the_result(
    records: list[e.Record],
) -> None:
    projection = Projection(records[0].run, "thread", "name")
    told = [*projection.open(), *[event for record in records for event in projection.tell(record)]]
    sent = [json.loads(event.model_dump_json(by_alias=True, exclude_none=True)) for event in told]
    (note,) = [event for event in sent if event["type"] == "CUSTOM"]
    assert note["name"] == "note"
    assert note["value"]["text"] == TEXT
    assert note["value"]["event"]["e"] == "slowed"
    result = next(event for event in sent if event["type"] == "TOOL_CALL_RESULT")
    assert result["metadata"]["facts"] == {"attempts": 3, "warmed_up": True}
    assert result["metadata"]["remark"] == REMARK


def test_the_terminal_tells_it_while_a_run_is_watched(records: list[e.Record]) -> None:
    out = io.StringIO()
    story = Story(PlainVoice(out), records[0].run)
    for record in records:
        story(record)
    lines = out.getvalue().splitlines()
    assert f"  ! {TEXT}" in lines
    assert not [line for line in lines if "for 1.0 s" in line]
    assert [line for line in lines if line.endswith(f"seen x ({REMARK})")]


def test_the_terminal_tells_it_while_a_loop_is_watched(
    records: list[e.Record], capsys: pytest.CaptureFixture[str]
) -> None:
    show = LoopDisplay()
    for record in records:
        show(record)
    told = capsys.readouterr().err
    assert f"   ! {TEXT}\n" in told
    assert f"seen x ({REMARK})\n" in told


def test_the_log_names_it_for_people_at_the_terminal_and_in_the_browser(
    records: list[e.Record],
) -> None:
    shown = {view.event["e"]: view for view in map(responses.record, records)}
    assert shown["slowed"].summary == "for 2.5 s: SECRET-TOKEN"
    assert shown["slowed"].alarming
    assert shown["hushed"].summary == "for 1.0 s"
    observed = [view for view in map(responses.record, records) if view.event["e"] == "observed"]
    assert f", {REMARK}: seen x" in observed[0].summary


def test_spans_tell_its_numbers_and_quote_it_to_nobody_who_may_not_read(
    records: list[e.Record],
) -> None:
    found = list(spans(records))
    run = next(span for span in found if isinstance(span, AgentSpan))
    (mark,) = [mark for mark in run.marks if mark.name != "step"]
    assert mark.name == "slowed"
    assert mark.facts == {"seconds": 2.5, "index": 0}
    assert mark.quoted == "for 2.5 s: SECRET-TOKEN"
    tool = next(span for span in found if isinstance(span, ToolSpan))
    told = attributes(tool)
    assert told["taofold.attempts"] == 3
    assert told["taofold.warmed_up"] is True


def test_a_stream_says_neither_who_drives_a_run_nor_which_way_a_flow_took(
    records: list[e.Record],
) -> None:
    resumed = e.Record(records[0].run, 1, records[0].at, e.Resumed(epoch=2))
    assert resumed.event.announcement == "resumed, epoch 2"
    assert list(project([records[0], resumed])) == []
    way = e.Noted(key="0", kind="branch", data={"node": "a", "to": "b"})
    assert way.announcement == "branch a → b"
    assert list(project([records[0], e.Record(records[0].run, 1, records[0].at, way)])) == []

import msgspec
import pytest

from taofold.core import events as e
from taofold.core.call_ids import IDENTITY, child_id, effect_id, sample_id
from taofold.core.content import format_conversation_as_chat
from taofold.core.state import RunState, fold
from taofold.core.text import iso, milliseconds
from taofold.core.trace import trace, turns
from taofold.core.values import Action, Message, Observation
from tests.core.story import Story


@pytest.mark.scenario("TAO-01", "TAO-07")
def test_every_turn_of_a_finished_run_is_thought_action_observation_in_time_order():
    story = Story().step().step(n=1).finish()
    for turn in turns(story.records):
        (call,) = turn.calls
        assert turn.complete
        assert turn.at < call.started_at < call.observed_at


def test_turns_are_numbered_like_the_steps_of_the_state():
    story = Story().step()
    story.think("left", Action("l", {}, "w"), key="2.0.0")
    story.think("right", Action("r", {}, "w"), key="2.1.0")
    story.start("2.1.0").see("2.1.0", Observation("r"))
    story.think("right again", Action("q", {}, "w"), key="2.1.1")
    story.start("2.1.1").see("2.1.1", Observation("q"))
    told = turns(story.records)
    steps = fold(story.records).steps
    assert [turn.step() for turn in told if turn.complete] == list(steps)
    assert [turn.thought.content for turn in told][-1] == "left"
    story.start("2.0.0").see("2.0.0", Observation("l"))
    assert [turn.step() for turn in turns(story.records)] == list(fold(story.records).steps)


def test_an_abandoned_turn_keeps_its_place():
    story = Story().step("one")
    story.think("two")
    story.step("three")
    assert [turn.thought.content for turn in turns(story.records)] == ["one", "two", "three"]


def test_an_edited_action_is_the_one_that_ran():
    story = Story()
    key = story.think("go", Action("rm", {"path": "/"}, "w"))
    edit = Action("rm", {"path": "tmp"}, "w")
    story.put(e.Resolved(key=key, verdict="allow", by="ann", action=edit))
    story.start(key).see(key, Observation("ok"))
    assert turns(story.records)[0].calls[0].action == edit


def test_records_that_belong_to_nothing_are_passed_over():
    story = Story().see("9", Observation("?")).start("9").step()
    story.see("1", Observation("?"), index=5)
    assert len(turns(story.records)) == 1


@pytest.mark.scenario("TEA-27")
def test_every_trace_entry_has_what_a_span_needs():
    story = Story().reply("say", input_tokens=3, key="0").step()
    story.start(story.think("go", Action("slow", {"n": 1}, "w")))
    entries = trace(story.records)
    assert [entry.type for entry in entries] == ["run", "model", "step", "tool", "step", "tool"]
    assert len({entry.id for entry in entries}) == len(entries)
    ids = {entry.id for entry in entries}
    for entry in entries:
        told = msgspec.json.decode(msgspec.json.encode(entry))
        assert told.keys() == set(entry.__struct_fields__)
        assert told["version"] == 1
        assert milliseconds(told["timestamp"]) == entry.start <= entry.end
        assert entry.parent in ids or entry.type == "run"
    assert entries[1].usage is not None
    assert entries[1].step == 1
    assert entries[3].parent == entries[2].id
    assert entries[5].status == "interrupted"
    assert trace([]) == ()


@pytest.mark.scenario("RCT-20")
def test_instants_are_iso_with_milliseconds_and_come_back():
    assert iso(1769337001150) == "2026-01-25T10:30:01.150Z"
    assert milliseconds("2026-01-25T10:30:01.150Z") == 1769337001150
    assert milliseconds("2026-01-25T11:30:01.150+01:00") == 1769337001150
    assert milliseconds("2026-01-25T10:30:01") == 1769337001000
    assert milliseconds(iso(-1)) == -1


@pytest.mark.scenario("TAG-28")
def test_a_conversation_reads_as_a_numbered_chat_with_unknown_roles_shown():
    history = [
        {"role": "user", "content": "hello"},
        Message("assistant", "hi"),
        {"role": "oracle", "content": "hm"},
        {"content": "who?"},
    ]
    lines = [line for line in format_conversation_as_chat(history).split("\n") if line]
    assert lines[0] == "=== CONVERSATION HISTORY ==="
    assert lines[1].endswith("USER [1]: hello")
    assert lines[2].endswith("ASSISTANT [2]: hi")
    assert lines[3:] == ["ORACLE [3]: hm", "UNKNOWN [4]: who?"]


def test_a_call_has_an_id_that_no_other_call_has():
    def begun(own: str = "", rewinds: int = 0) -> RunState:
        started = e.RunStarted(goal="x", settings={IDENTITY: own} if own else {})
        return RunState(started=started, rewinds=rewinds)

    same = effect_id("r", begun("a"), "3", 1)
    assert effect_id("r", begun("a"), "3", 1) == same
    others = [
        *(effect_id("s", begun("a"), "3", 1), effect_id("r", begun("b"), "3", 1)),
        *(effect_id("r", begun("a", 1), "3", 1), effect_id("r", begun("a"), "3", 2)),
        *(effect_id("r", begun("a"), "31", 1), effect_id("r", begun(), "3", 1)),
    ]
    assert len({same, *others}) == 7
    # Runs of older releases have no heading of their own, so their calls keep the old names.
    assert effect_id("r", begun(), "3", 1) == effect_id("r", RunState(), "3", 1)
    assert effect_id("r", begun(), "3", 1) == effect_id("r", begun(rewinds=2), "3", 1)


def test_a_child_run_is_named_by_its_place_and_by_what_was_taken_back():
    assert child_id("r", "3.1.0", 2) == "r.3-1-0-2"
    assert child_id("r", "3", 0, 1) == "r.3-0r1"
    assert sample_id("r", "3", 0, 7) == "r.3-0s7"

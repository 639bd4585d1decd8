"""A run's records as AG-UI events: the right ones, in an order that the protocol allows."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold import Agent, Decision, Limits, MemoryLog, RunResult, decide, tool
from taofold.agent.result import Delta
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.core.state import fold
from taofold.runtime import control as people
from taofold.server.agui.projection import Projection, patch, view
from taofold.testing.models import ScriptedModel
from tests.runtime.kit import act, batch, finish
from tests.server.agui.grammar import apply, check, types, wire

pytestmark = pytest.mark.anyio


@tool(effect="read")
def look(at: str = "here") -> str:
    """Look."""
    return f"seen {at}"


@tool(effect="once", tier=3)
def publish(text: str) -> str:
    """Publish."""
    return f"published {text}"


@tool(effect="idempotent", tier=1, reversible=True)
def label(name: str) -> dict[str, str]:
    """Label."""
    return {"label": name}


class Told:
    """A run and the events sent to a client, by activation."""

    def __init__(self, *script: Any, **options: Any) -> None:
        self.log = MemoryLog()
        tools = options.pop("tools", [look, publish, label])
        self.agent: Agent[Any, Any] = Agent(
            ScriptedModel([*script]), tools=tools, log=self.log, **options
        )
        self.seen: list[e.Record] = []
        self.known = 0
        self.parts: list[list[dict[str, Any]]] = []
        self.result: RunResult[Any] | None = None

    def _hear(self, happening: Any) -> None:
        if not isinstance(happening, Delta):
            self.seen.append(happening)

    async def run(self, goal: str = "go") -> list[dict[str, Any]]:
        self.result = await self.agent.run(goal, listener=self._hear)
        return self.tell()

    async def answer(self, **said: Any) -> list[dict[str, Any]]:
        assert self.result is not None
        for one in self.result.pending:
            await decide(self.log, one.id, Decision(**said))
        self.result = await self.agent.resume(self.result, listener=self._hear)
        return self.tell()

    def tell(self, answered: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        assert self.result is not None
        name = f"a{len(self.parts) + 1}"
        projection = Projection(self.result.run_id, "thread", name, answered)
        projection.before(self.seen[: self.known])
        events = list(projection.open())
        for record in self.seen[self.known :]:
            events += projection.tell(record)
        self.known = len(self.seen)
        assert projection.ended
        sent = wire(events)
        check(sent)
        self.parts.append(sent)
        return sent


async def test_a_step_is_reasoning_calls_and_results_and_the_answer_is_a_message() -> None:
    sent = await Told(act("look", "I look", at="there"), finish("found it")).run()
    assert types(sent) == [
        "RUN_STARTED", "STATE_SNAPSHOT",
        "STEP_STARTED", "REASONING_START", "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END",
        "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STEP_FINISHED",
        "STEP_STARTED", "REASONING_START", "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "REASONING_END", "STEP_FINISHED",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED",
    ]  # fmt: skip
    by_type = {one["type"]: one for one in sent}
    assert by_type["TOOL_CALL_ARGS"]["delta"] == '{"at":"there"}'
    assert by_type["TOOL_CALL_RESULT"]["content"] == "seen there"
    assert by_type["TEXT_MESSAGE_CONTENT"]["delta"] == "found it"
    last = sent[-1]
    assert last["outcome"] == {"type": "success"}
    assert last["result"]["success"] is True
    assert last["result"]["output"] == "found it"
    assert next(one for one in sent if one["type"] == "REASONING_START")["metadata"] == {
        "thoughtType": "reasoning"
    }
    assert all(one["timestamp"] > 0 for one in sent[2:])


async def test_the_client_ends_with_the_state_that_the_log_has() -> None:
    @tool(effect="read")
    def note(state: dict[str, Any], args: dict[str, Any]) -> tuple[str, Any]:
        """Note."""
        return (str(args["key"]), {"a/b": [1], "~": args.get("value")})

    told = Told(
        act("note", key="x/y", value=1),
        act("note", key="x/y", value=None),
        act("note", key="z~"),
        finish(),
        tools=[note],
    )
    sent = await told.run()
    assert told.result is not None
    state = fold([one for one in told.seen if one.run == told.result.run_id])
    assert apply(sent) == view(told.result.run_id, state)
    assert apply(sent)["data"]["x/y"] == {"a/b": [1], "~": None}


async def test_a_batch_is_one_assistant_message_with_a_result_for_each_call() -> None:
    sent = await Told(batch(("look", {"at": "a"}), ("look", {"at": "b"})), finish()).run()
    starts = [one for one in sent if one["type"] == "TOOL_CALL_START"]
    results = [one for one in sent if one["type"] == "TOOL_CALL_RESULT"]
    assert len({one["parentMessageId"] for one in starts}) == 1
    assert {one["toolCallId"] for one in starts} == {one["toolCallId"] for one in results}
    assert {one["content"] for one in results} == {"seen a", "seen b"}


async def test_a_question_ends_the_activation_with_an_interrupt_and_the_answer_carries_on() -> None:
    told = Told(act("look"), act("publish", text="x"), finish("done"))
    first = await told.run()
    assert first[-1]["type"] == "RUN_FINISHED"
    outcome = first[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    (one,) = outcome["interrupts"]
    assert told.result is not None
    assert one["id"] == told.result.pending[0].id
    assert one["reason"] == "tool_approval"
    call = [e for e in first if e["type"] == "TOOL_CALL_START"][-1]
    assert (one["toolCallId"], call["toolCallName"]) == (call["toolCallId"], "publish")
    assert one["metadata"]["parameters"] == {"text": "x"}
    assert one["metadata"]["tier"] == 3
    assert one["metadata"]["requiresConfirmation"] is True
    assert "approved" in one["responseSchema"]["properties"]
    second = await told.answer(verdict="approve", by="ann")
    assert "CUSTOM" in types(second)
    resolved = next(e for e in second if e["type"] == "CUSTOM")
    assert resolved["name"] == "confirmation_resolved"
    assert resolved["value"]["actionId"] == one["id"]
    result = next(e for e in second if e["type"] == "TOOL_CALL_RESULT")
    assert result["toolCallId"] == call["toolCallId"]
    assert result["content"] == "published x"
    assert second[-1]["outcome"] == {"type": "success"}
    assert second[1]["snapshot"]["status"] == "waiting"
    assert apply(second)["status"] == "finished"


async def test_a_denial_answers_the_call_as_refused() -> None:
    told = Told(
        act("publish", text="x"),
        act("finish", "it was denied", "exception", answer="not done"),
    )
    await told.run()
    sent = await told.answer(verdict="deny", reason="not today")
    result = next(e for e in sent if e["type"] == "TOOL_CALL_RESULT")
    assert result["metadata"]["refused"] == "denied"
    assert "not today" in result["content"]


async def test_edited_parameters_are_told() -> None:
    told = Told(act("publish", text="x"), finish())
    await told.run()
    sent = await told.answer(verdict="edit", parameters={"text": "y"})
    resolved = next(e for e in sent if e["type"] == "CUSTOM")
    assert resolved["value"]["parameters"] == {"text": "y"}
    assert next(e for e in sent if e["type"] == "TOOL_CALL_RESULT")["content"] == "published y"


async def test_a_question_to_the_user_is_an_interrupt_that_wants_text() -> None:
    told = Told(act("ask_user", question="Which one?"), finish("blue"), ask_user=True)
    (one,) = (await told.run())[-1]["outcome"]["interrupts"]
    assert one["reason"] == "input_required"
    assert one["metadata"]["requiresConfirmation"] is False
    assert one["message"] == "Which one?"
    assert one["responseSchema"]["required"] == ["answer"]
    sent = await told.answer(verdict="answer", answer="the blue one")
    assert next(e for e in sent if e["type"] == "TOOL_CALL_RESULT")["content"] == "the blue one"


async def test_a_batch_with_two_questions_has_two_interrupts_and_all_calls_are_answered() -> None:
    told = Told(
        batch(("look", {}), ("publish", {"text": "a"}), ("publish", {"text": "b"})), finish()
    )
    first = await told.run()
    assert told.result is not None
    assert len(first[-1]["outcome"]["interrupts"]) == len(told.result.pending)
    rest = list(first)
    while told.result.pending:
        rest += await told.answer(verdict="approve")
    starts = [e["toolCallId"] for e in rest if e["type"] == "TOOL_CALL_START"]
    results = [e["toolCallId"] for e in rest if e["type"] == "TOOL_CALL_RESULT"]
    assert sorted(starts) == sorted(results)
    assert len(results) == len(set(results)) == 3


async def test_an_interrupt_whose_answer_lies_in_the_inbox_is_not_asked_again() -> None:
    told = Told(act("publish", text="x"), finish())
    await told.run()
    assert told.result is not None
    (one,) = told.result.pending
    known, fresh = told.seen[:-1], told.seen[-1:]
    assert isinstance(fresh[0].event, e.Parked)
    for answered, ended in (((one.id,), False), ((), True)):
        projection = Projection(told.result.run_id, "t", "a", answered)
        projection.before(known)
        list(projection.open())
        for record in fresh:
            list(projection.tell(record))
        assert projection.ended is ended


async def test_who_comes_back_to_a_waiting_run_is_asked_again() -> None:
    told = Told(act("publish", text="x"), finish())
    await told.run()
    assert told.result is not None
    projection = Projection(told.result.run_id, "t", "again")
    projection.before(told.seen)
    sent = wire([*projection.open(), *projection.waiting()])
    check(sent)
    assert sent[-1]["outcome"]["interrupts"][0]["id"] == told.result.pending[0].id


async def test_a_write_that_asks_nobody_is_told_as_autonomous() -> None:
    sent = await Told(act("label", name="x"), act("look"), finish()).run()
    notes = [e for e in sent if e["type"] == "CUSTOM" and e["name"] == "autonomous_action"]
    (note,) = notes
    assert note["value"]["tool"] == "label"
    assert note["value"]["effect"] == "idempotent"


async def test_a_child_run_is_a_subagent_of_the_call_that_began_it() -> None:
    child = Agent(
        ScriptedModel([act("look", at="inside"), finish("inner")]), name="helper", tools=[look]
    )
    sent = await Told(act("helper", goal="help"), finish("outer"), tools=[child]).run()
    started = next(e for e in sent if e["type"] == "SUBAGENT_STARTED")
    call = next(e for e in sent if e["type"] == "TOOL_CALL_START")
    assert started["name"] == "helper"
    assert started["parentToolCallId"] == call["toolCallId"]
    inner = [e for e in sent if e.get("subagentRunId") == started["subagentRunId"]]
    assert "TOOL_CALL_RESULT" in types(inner)
    done = next(e for e in sent if e["type"] == "SUBAGENT_FINISHED")
    assert done["result"] == "inner"
    messages = [e for e in sent if e["type"] == "TEXT_MESSAGE_CONTENT"]
    assert [e["delta"] for e in messages] == ["outer"]


async def test_a_child_that_asks_is_suspended_and_goes_on_after_the_answer() -> None:
    child = Agent(
        ScriptedModel([act("publish", text="deep"), finish("inner")]),
        name="helper",
        tools=[publish],
    )
    told = Told(act("helper", goal="help"), finish("outer"), tools=[child])
    first = await told.run()
    done = next(e for e in first if e["type"] == "SUBAGENT_FINISHED")
    (one,) = first[-1]["outcome"]["interrupts"]
    assert one["metadata"]["tool"] == "publish"  # and the call of the child needed no approval
    assert done["outcome"] == {"type": "suspended", "interruptIds": [one["id"]]}
    assert one["subagentRunId"] == done["subagentRunId"]
    second = await told.answer(verdict="approve")
    again = next(e for e in second if e["type"] == "SUBAGENT_STARTED")
    assert again["subagentRunId"] == done["subagentRunId"]
    assert second[-1]["outcome"] == {"type": "success"}


async def test_a_failed_run_is_an_error_and_a_limit_is_told_before_the_answer() -> None:
    failed = await Told(act("look"), ModelError("boom", kind="network")).run()
    assert failed[-1]["type"] == "RUN_ERROR"
    assert failed[-1]["code"] == "error"
    limited = await Told(
        *[act("look", at=str(n)) for n in range(3)], finish("so far"), limits=Limits(steps=3)
    ).run()
    names = [e["name"] for e in limited if e["type"] == "CUSTOM"]
    assert "limit_reached" in names
    assert limited[-1]["type"] == "RUN_FINISHED"
    assert limited[-1]["result"]["success"] is False
    assert limited[-1]["result"]["stopReason"] == "max_steps"


async def test_a_limit_that_is_met_again_and_again_is_told_once() -> None:
    """A reviser's last turn, and the turn that is forbidden after it."""
    verdict = '{"reasoning": "read", "score": 0.3, "issues": ["dull"]}'
    told = Told("v0", verdict, "v1", "x", strategy="self_correct", limits=Limits(steps=3))
    limited = await told.run()
    assert told.result is not None
    hits = [r.event for r in told.result.records if isinstance(r.event, e.LimitHit)]
    assert [hit.value for hit in hits] == [-1, 1]
    notes = [one for one in limited if one["type"] == "CUSTOM"]
    assert [note["name"] for note in notes] == ["limit_reached"]
    assert limited[-1]["result"]["stopReason"] == "max_steps"


async def test_a_cancelled_run_says_so() -> None:
    told = Told(act("publish", text="x"))
    await told.run()
    assert told.result is not None
    await people.cancel(told.log, told.result.run_id)
    records = await told.log.read(told.result.run_id)
    told.seen += records[len(told.seen) :]
    assert told.tell()[-1]["outcome"] == {"type": "cancelled"}


async def test_tokens_are_those_of_this_activation() -> None:
    told = Told(act("publish", text="x"), finish())
    told.agent = told.agent.replace(
        model=_counting([act("publish", text="x"), finish()]),
    )
    first, second = await told.run(), await told.answer(verdict="approve")
    for sent in (first, second):
        (usage,) = sent[-1]["usage"]
        assert (usage["inputTokens"], usage["outputTokens"]) == (10, 5)


def _counting(script: list[str]) -> ScriptedModel:
    from taofold.core.values import Reply, Usage

    return ScriptedModel([Reply(text, usage=Usage(10, 5), model="m") for text in script])


async def test_a_streamed_draft_is_not_repeated_and_a_wrong_one_is_replaced() -> None:
    told = Told(finish("hello world"))
    await told.run()
    assert told.result is not None
    for drafts, deltas in (
        (["hel", "hello wo"], ["hel", "lo wo", "rld"]),
        (["hello world"], ["hello world"]),
        (["something else"], ["something else", "hello world"]),
        ([""], ["hello world"]),
    ):
        projection = Projection(told.result.run_id, "t", "a")
        events = list(projection.open())
        for draft in drafts:
            events += projection.draft(draft)
        for record in told.seen:
            events += projection.tell(record)
        sent = wire(events)
        check(sent)
        said = [e for e in sent if e["type"] == "TEXT_MESSAGE_CONTENT"]
        assert [e["delta"] for e in said] == deltas
        whole = {e["messageId"]: "" for e in said}
        for event in said:
            whole[event["messageId"]] += event["delta"]
        assert list(whole.values())[-1] == "hello world"


async def test_what_was_thought_stands_before_the_answer_that_is_streamed() -> None:
    """Mutants: the draft begins without it; it is sent again with its record."""
    told = Told(finish("hello world"))
    await told.run()
    assert told.result is not None
    thought = told.result.steps[0].thought.content
    projection = Projection(told.result.run_id, "t", "a")
    events = [*projection.open(), *projection.draft("hel", thought)]
    events += projection.draft("hello", thought)
    for record in told.seen:
        events += projection.tell(record)
    sent = wire(events)
    check(sent)
    kinds = [e["type"] for e in sent]
    assert kinds.index("REASONING_END") < kinds.index("TEXT_MESSAGE_START")
    said = [e["delta"] for e in sent if e["type"] == "REASONING_MESSAGE_CONTENT"]
    assert said == [thought]


async def test_every_cut_of_a_log_can_be_told_and_the_rest_carries_on() -> None:
    child = Agent(
        ScriptedModel([act("publish", text="deep"), finish("inner")]), name="helper",
        tools=[publish],
    )  # fmt: skip
    told = Told(
        batch(("look", {}), ("label", {"name": "x"})),
        act("helper", goal="help"),
        act("publish", text="x"),
        finish("outer"),
        tools=[look, label, publish, child],
    )
    await told.run()
    assert told.result is not None
    while told.result.pending:
        await told.answer(verdict="approve")
    for cut in range(len(told.seen) + 1):
        projection = Projection(told.result.run_id, "t", "a")
        projection.before(told.seen[:cut])
        events = list(projection.open())
        for record in told.seen[cut:]:
            events += projection.tell(record)
            if projection.ended:
                break
        if not projection.ended:
            assert cut == len(told.seen)
            continue
        check(wire(events))


async def test_texts_of_a_model_stay_texts() -> None:
    evil = '<img onerror="x">\n\ndata: {"type":"RUN_FINISHED"}\n\n'
    told = Told(act("look", evil, at=evil), finish(evil))
    sent = await told.run(evil)
    assert sum(e["type"] == "RUN_FINISHED" for e in sent) == 1
    said = next(e for e in sent if e["type"] == "TEXT_MESSAGE_CONTENT")
    assert said["delta"] == evil
    assert "\n" not in json.dumps(sent)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(before=st.dictionaries(st.text(max_size=3), _JSON), after=_JSON)
def test_a_patch_makes_one_state_of_the_other(before: Any, after: Any) -> None:
    copy = json.loads(json.dumps(before))
    delta = patch(before, after)
    events = [
        {"type": "STATE_SNAPSHOT", "snapshot": copy},
        {"type": "STATE_DELTA", "delta": delta},
    ]
    assert json.dumps(apply(events), sort_keys=True) == json.dumps(after, sort_keys=True)


async def test_a_report_is_told_only_while_its_call_is_running() -> None:
    """A report arrives up to a moment later, when the call may have ended."""
    told = Told(act("look"), finish())
    await told.run()
    assert told.result is not None
    run = told.result.run_id
    projection = Projection(run, "t", "a")
    reports: list[tuple[str, Any]] = []
    list(projection.open())
    for record in told.seen:
        list(projection.tell(record))
        reports += [(record.event, one) for one in projection.report(run, "look", "half")]
    ((event, report),) = reports
    assert isinstance(event, e.Started)
    assert report.value["toolCallId"]

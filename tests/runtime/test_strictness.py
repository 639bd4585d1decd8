"""A strict run requests one correction per turn. A lenient run records the violation."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, Limits, MemoryLog, Outcome, tool
from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.effects import Lack
from taofold.core.errors import ModelError
from taofold.core.values import Profile, Reply, ToolCall
from taofold.reasoning.demands import Demands
from taofold.testing import ScriptedModel

from .kit import act, events, finish, planted

pytestmark = pytest.mark.anyio

TEXT, NATIVE = Profile(), Profile(native_tools=True)


@tool(effect="read")
def look(what: str = "it") -> str:
    """Look."""
    return f"{what} has item_42"


@tool(effect="read")
def fail(what: str = "it") -> str:
    """Fail."""
    raise ValueError(f"no {what} in shelf_17")


@tool(effect="idempotent", tier=1, reversible=True)
def put(what: str = "it") -> str:
    """Put."""
    return "put"


@tool(effect="read")
def weigh(what: str = "it") -> Outcome:
    """Weigh."""
    return Outcome("item_42 of 3 kg", extraction="3 kg")


def reply(tool_name: str = "look", /, **changes: Any) -> str:
    """Returns a reply that satisfies all rules, except for `changes`. None removes a key."""
    action: dict[str, Any] = {"tool": tool_name, "rationale": "it shows what is there"}
    action["parameters"] = changes.pop("parameters", {})
    action |= {key: changes.pop(key) for key in ("rationale",) if key in changes}
    whole: dict[str, Any] = {
        "thought": "I look at item_42 to find what it holds",
        "thought_type": "reasoning",
        "because": [],
        "learned": "there is an item_42",
        **changes,
        "action": {key: value for key, value in action.items() if value is not None},
    }
    return json.dumps({key: value for key, value in whole.items() if value is not None})


FIRST = reply(thought="I look around to find the item", learned=None, parameters={"what": "a"})
CUT = '{"thought": "t", "action": {"tool": "look", "parameters": {"what": '
END = reply("finish", thought_type="synthesis", parameters={"answer": "done"})


async def run(*script: Any, **options: Any) -> Any:
    model = ScriptedModel(script, profile=options.pop("profile", TEXT))
    options.setdefault("tools", [look, fail, put, weigh])
    return await Agent(model, log=MemoryLog(), **options).run("the goal")


def broken(result: Any) -> list[tuple[str, bool]]:
    return [(event.rule, event.refused) for event in events(result, e.Violated)]


LACKING: dict[str, tuple[str, bool]] = {
    # The omitted part, and whether a lenient run records it at once.
    "R1": (reply(thought=None), True),
    "thought_type": (reply(thought_type=None), True),
    "missing_rationale": (reply(rationale=None), True),
    "unclear_intent": (reply(thought="Looking at the code.", because=[1]), False),
    "missing_reason": (reply(thought="I look at item_42 of it."), False),
    "missing_extraction": (reply(learned=None), False),
    "research_changes_state": (reply("put", thought_type="research"), False),
}


@pytest.mark.scenario("TAO-02", "TAO-04")
@pytest.mark.parametrize("rule", LACKING)
async def test_a_strict_run_asks_once_a_turn_for_what_a_reply_lacks_then_records_it(
    rule: str,
) -> None:
    lacking, _ = LACKING[rule]
    result = await run(FIRST, lacking, lacking, END, strict=True, research=True)
    assert result.output == "done"
    assert result.metrics.model_calls == 4
    assert broken(result) == [(rule, True), (rule, False)]


@pytest.mark.parametrize("rule", LACKING)
async def test_a_lenient_run_refuses_none_of_it(rule: str) -> None:
    lacking, recorded = LACKING[rule]
    result = await run(FIRST, lacking, END, research=True)
    assert result.output == "done"
    assert result.metrics.model_calls == 3
    assert broken(result) == [(rule, False)] * recorded


async def test_a_strict_run_refuses_nothing_that_has_all_the_rules_demand() -> None:
    result = await run(FIRST, reply(), END, strict=True)
    assert result.metrics.model_calls == 3
    assert broken(result) == []
    assert all(item.passed for item in check(result.records))


async def test_a_strict_run_refuses_no_thought_for_its_grounding_and_the_checklist_finds_it() -> (
    None
):
    vague = reply(thought="I look once more to be sure", learned="there is one")
    result = await run(FIRST, vague, END, strict=True)
    assert result.metrics.model_calls == 3
    assert broken(result) == []
    item = check(result.records)[4]
    assert (item.passed, item.steps) == (False, (2,))


async def test_it_asks_at_once_for_all_that_is_lacking_and_again_in_the_next_turn() -> None:
    bare = [act("look", "on we go", "odd", what=f"w{n}") for n in range(2)]
    model = ScriptedModel([FIRST, bare[0], bare[0], bare[1], bare[1], END])
    result = await Agent(model, tools=[look], strict=True, log=MemoryLog()).run("the goal")
    assert result.metrics.model_calls == 6
    asked = ["thought_type", "missing_reason", "missing_extraction"]
    assert broken(result) == [(rule, refused) for refused in (True, False) for rule in asked] * 2
    for words in ("unknown thought type 'odd'", "because", "learned"):
        assert words in model.requests[2].last


async def test_what_is_asked_for_takes_no_attempt_from_a_reply_that_cannot_be_read() -> None:
    odd = reply(thought=None)
    result = await run(FIRST, odd, CUT, CUT, odd, END, strict=True)
    assert result.output == "done"
    assert [rule for rule, _ in broken(result)] == ["R1", "unreadable", "unreadable", "R1"]


@pytest.mark.scenario("TAO-08")
async def test_after_a_failure_a_strict_run_wants_an_exception_thought() -> None:
    first = reply("fail", thought="I try it to find the item", learned=None)
    words = {"thought": "It is not in shelf_17, so I look elsewhere", "learned": "shelf_17 is bare"}
    result = await run(
        first, reply(**words), reply(**words, thought_type="exception"), END, strict=True
    )
    assert broken(result) == [("exception", True)]
    assert result.steps[1].thought.type == "exception"
    lenient = await run(first, reply(**words), END)
    assert broken(lenient) == [("exception", False)]
    assert lenient.steps[1].thought.type == "reasoning"


async def test_a_type_that_is_missing_is_inferred_and_marked() -> None:
    untyped = [reply(thought_type=None), reply("fail", thought_type=None)]
    result = await run(*untyped, reply(thought_type=None, parameters={"what": "b"}), END)
    assert [step.thought.type for step in result.steps[:3]] == [
        *("reasoning", "reasoning", "exception")
    ]
    assert [step.thought.inferred for step in result.steps] == [True, True, True, False]
    assert not any(step.thought.synthesized for step in result.steps)


async def test_an_extraction_that_a_tool_gives_needs_none_of_the_model() -> None:
    first = reply("weigh", thought="I weigh it to learn its mass", learned=None)
    end = reply("finish", learned=None, parameters={"answer": "done"})
    assert broken(await run(first, end, strict=True)) == []


async def test_a_native_call_is_asked_for_what_it_has_a_place_for() -> None:
    def call(text: str) -> Reply:
        return Reply(text, [ToolCall("1", "look", "{}")])

    bare, whole = call(""), call("I look around to find the item")
    result = await run(bare, whole, "item_42 is there", strict=True, profile=NATIVE)
    assert broken(result) == [("R1", True)]
    assert result.steps[0].thought.inferred
    lenient = await run(bare, "item_42 is there", profile=NATIVE)
    assert broken(lenient) == [("R1", False)]


async def test_an_answer_in_prose_is_asked_for_as_a_turn_once() -> None:
    result = await run(FIRST, "item_42 is there", "item_42 is there", strict=True)
    assert result.output == "item_42 is there"
    assert broken(result) == [("R1", True), ("R1", False)]
    assert broken(await run(FIRST, "item_42 is there")) == []


async def test_the_last_turn_is_not_refused_for_its_form() -> None:
    bare = finish("as far as I came")
    result = await run(FIRST, bare, strict=True, limits=Limits(steps=2))
    assert result.output == "as far as I came"
    assert all(not refused for _, refused in broken(result))


@pytest.mark.parametrize("strict", [True, False])
async def test_a_missing_thought_is_an_incomplete_triplet_unless_it_was_given_then(
    strict: bool,
) -> None:
    thoughtless = reply(thought=None)
    result = await run(FIRST, thoughtless, *[thoughtless] * strict, END, strict=strict)
    item = check(result.records)[0]
    assert (item.name, item.passed, item.steps) == ("complete_triplets", False, (2,))
    assert item.demanded is strict
    corrected = await run(FIRST, thoughtless, reply(), END, strict=True)
    assert check(corrected.records)[0].passed


async def test_a_strict_run_replays_as_it_was_whatever_its_agent_is_now() -> None:
    lacking = LACKING["missing_reason"][0]
    log = MemoryLog()
    agent = Agent(ScriptedModel([FIRST, lacking, reply(), END]), tools=[look], strict=True, log=log)
    result = await agent.run("the goal")
    assert broken(result) == [("missing_reason", True)]
    assert (await agent.replace(strict=False).replay(result.run_id)).output == "done"


async def older_run(monkeypatch: Any, log: Any, *script: Any, **options: Any) -> Any:
    """Runs with a rule that this release no longer has: R4 for thoughts without 'item_42'."""
    today = Demands.judge

    def judge(self: Demands, turn: Any, calls: Any) -> Any:
        thought, lacks = today(self, turn, calls)
        wanted = () if "item" in thought.content else (Lack("R4", "quote a concrete value"),)
        return thought, (*lacks, *wanted)

    with monkeypatch.context() as patch:
        patch.setattr(Demands, "judge", judge)
        agent = Agent(ScriptedModel(script), tools=[look], strict=True, log=log)
        return await agent.run("the goal", **options)


VAGUE = reply(thought="I look once more to be sure", because=[1])


# Mutant: the verdict of today's rules on a recorded reply.
async def test_an_older_strict_run_replays_with_its_recorded_verdicts(monkeypatch: Any) -> None:
    log = MemoryLog()
    result = await older_run(monkeypatch, log, FIRST, VAGUE, VAGUE, VAGUE, reply(), END)
    assert broken(result) == [("R4", True), ("R4", False), ("R4", True)]
    agent = Agent(ScriptedModel([]), tools=[look], strict=True, log=log)
    assert (await agent.replay(result.run_id)).output == "done"


async def test_an_older_strict_run_resumes_after_its_refused_reply(monkeypatch: Any) -> None:
    log = MemoryLog()
    script = [FIRST, VAGUE, ModelError("down", kind="auth")]
    stopped = await older_run(monkeypatch, log, *script)
    assert broken(stopped) == [("R4", True)]
    model = ScriptedModel([FIRST, VAGUE, reply(), END])
    agent = Agent(model, tools=[look], strict=True, log=log)
    result = await agent.resume(stopped.run_id)
    assert result.output == "done"
    # The first request after the resume still has the correction, and nothing is asked twice.
    assert "quote a concrete value" in model.requests[0].last
    assert broken(result) == [("R4", True)]
    assert result.metrics.model_calls == 4
    assert (await agent.replay(result.run_id)).output == "done"


# Mutant: a half-written verdict taken for the whole one.
@pytest.mark.parametrize("cut", [0, 1, 2])
async def test_a_verdict_that_was_half_written_is_completed(cut: int) -> None:
    log = MemoryLog()
    bare = reply(rationale=None, learned=None)
    agent = Agent(ScriptedModel([FIRST, bare, reply(), END]), tools=[look], strict=True, log=log)
    whole = await agent.run("the goal")
    rules = ["missing_extraction", "missing_rationale"]
    assert broken(whole) == [(rule, True) for rule in rules]
    (first, _) = [at for at, r in enumerate(whole.records) if isinstance(r.event, e.Violated)]
    half = MemoryLog()
    row = replace(await log.row(whole.run_id), status="running")
    await half.create(row, records=whole.records[: first + cut])
    model = ScriptedModel([FIRST, bare, reply(), END])
    result = await Agent(model, tools=[look], strict=True, log=half).resume(whole.run_id)
    assert broken(result) == broken(whole)
    assert result.metrics.model_calls == 4


@pytest.mark.parametrize("kept", [1, 2])
async def test_a_verdict_that_was_cut_keeps_its_recorded_wording(kept: int) -> None:
    """Mutants: the whole verdict is worded again; it ends where the record was cut.

    Another release or runtime may have worded the recorded part.
    """
    script = [FIRST, reply(thought_type=None, rationale=None), reply(parameters={"what": "b"}), END]
    first = MemoryLog()
    await Agent(ScriptedModel(script), tools=[look], strict=True, log=first).run("g", run_id="r")
    records = await first.read("r")
    places = [each.seq for each in records if isinstance(each.event, e.Violated)]
    assert len(places) == 2
    begun = [
        replace(each, event=replace(each.event, detail="other words"))
        if isinstance(each.event, e.Violated)
        else each
        for each in records[: places[kept - 1] + 1]
    ]
    log = await planted(begun, MemoryLog())
    agent = Agent(ScriptedModel(script[2:]), tools=[look], strict=True, log=log)
    await agent.resume("r")
    await agent.replay("r")
    broken = [each.event for each in await log.read("r") if isinstance(each.event, e.Violated)]
    assert [each.detail == "other words" for each in broken] == [True, kept == 2]

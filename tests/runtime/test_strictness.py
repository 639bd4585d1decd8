"""A strict run requests one correction per turn. A lenient run records the violation."""

import json
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, Outcome, tool
from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.values import Profile, Reply, ToolCall
from taofold.testing import ScriptedModel

from .kit import act, events, finish

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
    "R4": (reply(thought="I look once more to be sure", learned="there is one"), False),
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


async def test_it_asks_at_once_for_all_that_is_lacking_and_again_in_the_next_turn() -> None:
    bare = [act("look", "on we go", "odd", what=f"w{n}") for n in range(2)]
    model = ScriptedModel([FIRST, bare[0], bare[0], bare[1], bare[1], END])
    result = await Agent(model, tools=[look], strict=True, log=MemoryLog()).run("the goal")
    assert result.metrics.model_calls == 6
    asked = ["thought_type", "missing_reason", "missing_extraction", "R4"]
    assert broken(result) == [(rule, refused) for refused in (True, False) for rule in asked] * 2
    for words in ("unknown thought type 'odd'", "because", "learned", "quote a concrete value"):
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
    lacking = LACKING["R4"][0]
    log = MemoryLog()
    agent = Agent(ScriptedModel([FIRST, lacking, reply(), END]), tools=[look], strict=True, log=log)
    result = await agent.run("the goal")
    assert broken(result) == [("R4", True)]
    assert (await agent.replace(strict=False).replay(result.run_id)).output == "done"

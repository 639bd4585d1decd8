"""ReAct as a pure generator: driven with `next()` and `send()`, no runtime."""

from itertools import pairwise
from typing import Any

import pytest

from taofold.core.effects import Act, Answer, Ask, Assess, Begin, Halt, Note, Outlook
from taofold.core.values import Action, Message, Observation, Reply, Thought
from taofold.parsing.outcome import Call, Repair
from taofold.reasoning import Offer, Output, Task, react
from taofold.reasoning.conversation import Talk
from taofold.reasoning.react_loop import to_action
from tests.runtime.kit import act, batch, finish


def test_two_tools_may_call_different_things_by_one_name() -> None:
    def offer(name: str, kind: str) -> Offer:
        return Offer(
            name,
            "",
            {
                "type": "object",
                "properties": {"p": {"type": "array", "items": {"$ref": "#/$defs/P"}}},
                "$defs": {"P": {"type": kind}},
            },
        )

    task = Task(
        goal="g", offers=(offer("a", "string"), offer("b", "integer"), offer("c", "string"))
    )
    schema = task.reply_schema()
    assert schema["$defs"] == {"P": {"type": "string"}, "b.P": {"type": "integer"}}
    references = [
        action["properties"]["parameters"]["properties"]["p"]["items"]["$ref"]
        for action in schema["properties"]["action"]["anyOf"][:3]
    ]
    assert references == ["#/$defs/P", "#/$defs/b.P", "#/$defs/P"]


LOOK = Offer("look", "Look at it.\nClosely.", {"type": "object", "properties": {"x": {}}}, "read")


def task(**options: Any) -> Task:
    return Task(goal="the goal", offers=(LOOK,), **options)


def drive(strategy: Any, *replies: str | Reply, outlook: Outlook = Outlook()) -> Any:
    """Drives the strategy. Returns its effects and its answer."""
    said = iter(replies)
    effects: list[Any] = []
    result: Any = None
    try:
        while True:
            effect = strategy.send(result)
            effects.append(effect)
            match effect:
                case Begin():
                    result = outlook
                case Ask():
                    reply = next(said)
                    result = Reply(reply) if isinstance(reply, str) else reply
                case Act():
                    result = tuple(
                        local or Observation(f"{a.tool} worked")
                        for a, local in zip(
                            effect.actions,
                            effect.local or (None,) * len(effect.actions),
                            strict=True,
                        )
                    )
                case Note():
                    result = None
                case Assess():
                    result = effects.pop()
                case _:
                    raise AssertionError(effect)
    except StopIteration as stop:
        return effects, stop.value


def shape(effects: list[Any]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


@pytest.mark.scenario("TAO-01", "TAO-19", "TEA-07")
def test_it_thinks_acts_observes_and_closes_with_finish() -> None:
    effects, answer = drive(react(task()), act("look"), finish("42"))
    assert shape(effects) == ["Begin", "Ask", "Act", "Begin", "Ask", "Act"]
    assert effects[-1].actions[0].tool == "finish"
    assert effects[-1].local[0].result == "42"
    assert answer == Answer("42", "final_answer")
    assert "look worked" in effects[4].conversation[-1].content


@pytest.mark.scenario("PEER-20")
def test_the_prompt_only_grows_at_its_end() -> None:
    seen: list[list[Message]] = []
    strategy = react(task(instructions="Be good."))
    result: Any = None
    replies = iter([act("look", "a"), "{ broken", act("look", "b"), finish()])
    try:
        while True:
            effect = strategy.send(result)
            if isinstance(effect, Ask):
                seen.append(list(effect.conversation))
                result = Reply(next(replies))
            elif isinstance(effect, Act):
                result = tuple(o or Observation("ok") for o in (effect.local or (None,)))
            elif isinstance(effect, Begin):
                result = Outlook()
            else:
                result = effect if isinstance(effect, Assess) else None
    except (StopIteration, StopAsyncIteration):
        pass
    for before, after in pairwise(seen):
        assert after[: len(before)] == before


def test_a_stop_needs_no_model() -> None:
    effects, answer = drive(react(task()), outlook=Outlook(stop="max_usd"))
    assert shape(effects) == ["Begin"]
    assert answer == Answer(None, "max_usd")


def test_the_last_turn_is_offered_without_tools_and_names_its_limit() -> None:
    effects, answer = drive(react(task()), finish("as far"), outlook=Outlook(wrap_up="max_steps"))
    assert "no tool can be used" in effects[1].conversation[-1].content
    assert answer == Answer("as far")
    effects, answer = drive(
        react(task()), act("look"), act("look"), act("look"), outlook=Outlook(wrap_up="max_steps")
    )
    assert "Act" not in shape(effects)
    assert answer.stop == "max_steps"
    assert answer.error


def test_people_and_the_guard_are_heard() -> None:
    outlook = Outlook(heard=(Message("user", "faster"),), hint="try something else")
    effects, _ = drive(react(task()), finish(), outlook=outlook)
    said = [message.content for message in effects[1].conversation]
    assert "faster" in said
    assert said[-1] == "try something else"


def test_a_halt_ends_it_without_another_effect() -> None:
    strategy = react(task())
    next(strategy)
    strategy.send(Outlook())
    with pytest.raises(StopIteration) as stop:
        strategy.throw(Halt("timeout"))
    assert stop.value.value == Answer(None, "timeout")


def test_an_overflow_folds_and_asks_again_once() -> None:
    replies: list[Any] = [act("look", f"t{n}", x="y" * 50) for n in range(6)]
    effects, answer = drive(react(task()), *replies, Reply(finish="overflow"), finish("ok"))
    notes = [e for e in effects if isinstance(e, Note) and e.kind == "compacted"]
    assert len(notes) == 1
    assert answer.output == "ok"
    assert notes[0].data["chars_after"] < notes[0].data["chars_before"]
    last = [e for e in effects if isinstance(e, Ask)][-1].conversation
    assert "earlier steps, shortened" in last[1].content
    _, lost = drive(react(task()), *[Reply(finish="overflow")] * 3)
    assert lost.stop == "error"
    assert "window" in lost.error


def test_failures_and_key_lines_stay_when_older_steps_fold() -> None:
    talk = Talk(task())
    for number in range(1, 7):
        status: Any = "failure" if number == 2 else "success"
        talk.tell(
            number,
            Reply(f"reply {number}"),
            f"reply {number}",
            (Action("look"),),
            (Observation("long " * 50, status, extraction=f"key line {number}"),),
        )
    folded = talk.compact()
    assert folded is not None
    assert folded[0] == 3
    assert folded[2] < folded[1]
    text = talk.conversation[1].content
    assert "key line 2" in text
    assert "[failure]" in text
    assert "long long" not in text
    assert talk.compact() is None


def test_the_prompt_names_the_type_of_the_answer() -> None:
    assert '"answer": "<text>"' in task().system_prompt()
    assert '"answer": <{[key: string]: int}>' in task(output=Output(dict[str, int])).system_prompt()


@pytest.mark.scenario("TEA-13")
def test_the_prompt_names_tools_with_their_whole_description_and_parameters() -> None:
    said = task(instructions="Be good.").system_prompt()
    assert said.startswith("Be good.")
    assert "look(" in said
    assert "Closely." in said
    assert '"finish"' in said
    assert "ask_user" not in said
    assert "research" not in said
    assert "ask_user" in task(ask_user=True).system_prompt()
    assert "research" in task(research=True).system_prompt()


@pytest.mark.scenario("TAO-05")
def test_the_seventh_type_is_opt_in() -> None:
    reply = act("look", "reading up", "research")
    effects, _ = drive(react(task()), reply, finish())
    assert [e.data["rule"] for e in effects if isinstance(e, Note)] == ["thought_type"]
    effects, _ = drive(react(task(research=True)), reply, finish())
    acts = [e for e in effects if isinstance(e, Act)]
    assert acts[0].thought.type == "research"
    assert "Note" not in shape(effects)


@pytest.mark.parametrize(
    ("type_", "answer", "output"),
    [
        (int, 3, 3),
        (int, "3", 3),
        (list[int], [1, 2], [1, 2]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (bool, True, True),
        (str, "text", "text"),
        (str, {"a": 1}, '{"a":1}'),
        (int | None, None, None),
    ],
)
@pytest.mark.scenario("TEA-07")
def test_answers_of_any_type_are_accepted_and_checked(type_: Any, answer: Any, output: Any) -> None:
    _, got = drive(react(task(output=Output(type_))), finish(answer))
    assert got.output == output
    assert got.stop == "final_answer"


def test_a_wrong_type_is_corrected_and_never_passed_on() -> None:
    effects, got = drive(react(task(output=Output(int))), finish("many"), finish(3))
    assert got.output == 3
    assert [e.data["rule"] for e in effects if isinstance(e, Note)] == ["output"]
    _, lost = drive(react(task(output=Output(int))), *[finish("many")] * 3)
    assert lost.output is None
    assert lost.stop == "error"


def test_finish_beside_other_actions_is_not_taken() -> None:
    reply = batch(("look", {}), ("finish", {"answer": "x"}))
    effects, got = drive(react(task()), reply, finish("y"))
    acts = [e for e in effects if isinstance(e, Act)]
    assert [a.tool for a in acts[0].actions] == ["look"]
    assert got.output == "y"


def test_a_thought_is_kept_with_its_type_and_grounds() -> None:
    reply = (
        '{"thought": "t", "thought_type": "extraction", "because": [1], "confidence": 0.5, '
        '"action": {"tool": "look", "parameters": {}, "rationale": "r"}}'
    )
    effects, _ = drive(react(task()), reply, finish())
    thought = next(e for e in effects if isinstance(e, Act)).thought
    assert thought == Thought("t", "extraction", because=(1,), confidence=0.5)


def test_what_was_guessed_of_a_reply_was_guessed_of_each_of_its_calls() -> None:
    """A call that must not be repeated never runs on guessed parameters."""
    form = Repair("trailing_comma", "lenient")
    guess = Repair("unclosed", "lenient", content=True)
    other = Repair("single_quotes", "lenient", content=True)
    call = Call("pay", {"amount": 1}, "due", "c1", repairs=(form,))
    assert to_action(call) == Action("pay", {"amount": 1}, "due", "c1", ("trailing_comma",))
    assert to_action(call, (form,)) == to_action(call)
    of_whole = to_action(call, (guess, form))
    assert (of_whole.repairs, of_whole.guessed) == (("trailing_comma", "unclosed"), True)
    own = to_action(Call("pay", {}, repairs=(other, form)), (guess, other))
    assert own.guessed
    assert own.repairs == ("single_quotes", "trailing_comma", "unclosed")
    assert not to_action(Call("pay", {})).guessed

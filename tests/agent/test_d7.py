"""D7 on whole agents: what must not be repeated never runs on parameters that were repaired."""

import json

import pytest

from taofold import Agent, tool
from taofold.core.values import Profile, Reply, ToolCall
from taofold.testing.models import FunctionModel, ScriptedModel

NATIVE = Profile(window=1_000_000, window_known=True, native_tools=True)
FINISH = (
    '{"thought":"done","thought_type":"synthesis","tool":"finish",'
    '"parameters":{"answer":"ok"},"rationale":"r"}'
)
WHOLE = '{"thought":"I act","tool":"send","parameters":{"to":"a, b","amount":100},"rationale":"r"}'
BROKEN = {
    "unescaped quotes": '{"thought":"I","tool":"send","parameters":{"to":"say "hi" now"}}',
    "a lost closer": '{"thought":"I","tool":"send","parameters":{"to":["a","b"}}',
    "an ellipsis": '{"thought":"I","tool":"send","parameters":{"to":"bob", ...}}',
    "unquoted text": '{"thought":"I","tool":"send","parameters":{"to":bob and all}}',
    "a lost quote": '{"thought":"I","tool":"send","parameters":{"to":"bob,"amount":5}}',
    "joined strings": '{"thought":"I","tool":"send","parameters":{"to":"bob" + " x"}}',
    "a key twice": '{"thought":"I","tool":"send","parameters":{"to":"a","to":"b"}}',
    "cut in the parameters": '{"thought":"I","action":{"tool":"send","parameters":{"to":"al"',
    "cut behind the parameters": '{"thought":"I","tool":"send","parameters":{"to":"al"}',
    "cut behind the tool": '{"thought":"I","tool":"send"',
    "cut behind the rationale": '{"thought":"I","tool":"send","rationale":"x"',
    "Mistral": '[TOOL_CALLS][{"name":"send","arguments":{"to":"say "hi" now"}}]',
    "Hermes": '<tool_call>{"name":"send","arguments":{"to":"say "hi" now"}}</tool_call>',
    "Qwen, one end lost": "<function=send><parameter=to>a<parameter=amount>5</parameter>"
    "</function>",
    "Qwen, all ends lost": "<function=send><parameter=to>alice</function>",
    "a good call beside a broken one": '{"thought":"I","actions":[{"tool":"send","parameters":'
    '{"to":"say "x" y"}},{"tool":"send","parameters":{"to":"ok"}}]}',
    "a batch cut": '{"thought":"I","actions":[{"tool":"send","parameters":{"to":"a"}},{"tool":"s',
    "another name inline": '{"thought":"I","tool":"send","name":"Bob","to":"x","type":"urgent"}',
    "an entry beside them": '{"thought":"I","tool":"send","parameters":{"to":"x"},"amount":5}',
    "two sets": '{"thought":"I","tool":"send","parameters":{"to":"x"},"args":{"to":"y"}}',
    "beside the action": '{"thought":"I","action":{"tool":"send"},"parameters":{"to":"x"}}',
    "closed before them": '{"thought":"I","tool":"send"},"parameters":{"to":"x"}}',
    "closed among them": '{"thought":"I","tool":"send","parameters":{"to":"x"},"amount":5},"a":1}',
    "not a number": '{"thought":"I","tool":"send","parameters":{"to":"x","amount":NaN}}',
    "infinite": '{"thought":"I","tool":"send","parameters":{"to":"x","amount":1e999}}',
    "ReAct": 'Thought: I\nAction: send\nAction Input: {"to": "say "hi" now"}',
    "ReAct, an object": 'Thought: I\nAction: {"tool":"send","parameters":{"to":"x"},"title":"t"}',
    "Python": 'Thought: I\nAction: send(to="alice", amount=1',
}


def story(reply, effect, profile=None):
    """The calls that the tool saw, the prompts that the model saw, and the result."""
    calls = []

    @tool(effect=effect)
    def send(to: str = "everyone", amount: int = 0, name: str = "", type: str = "t") -> str:
        """Send it."""
        calls.append({"to": to, "amount": amount})
        return "sent"

    options = {} if profile is None else {"profile": profile}
    model = ScriptedModel([reply, *[FINISH] * 4], **options)
    result = Agent(model, tools=[send], approve="all").run_sync("g")
    return calls, model, result


@pytest.mark.parametrize("name", BROKEN)
def test_a_malformed_reply_never_runs_what_must_not_be_repeated(name):
    calls, model, result = story(Reply(text=BROKEN[name], finish="stop"), "once")
    assert calls == []
    assert len(model.requests) > 1
    assert result.output == "ok"


@pytest.mark.parametrize("name", ["unescaped quotes", "Hermes", "Mistral", "an ellipsis"])
def test_a_read_may_run_on_repaired_parameters(name):
    calls, _, result = story(Reply(text=BROKEN[name], finish="stop"), "read")
    assert len(calls) == 1
    assert result.state.steps[0].actions[0].guessed


@pytest.mark.parametrize("name", ["cut behind the tool", "cut behind the rationale"])
def test_a_call_that_was_cut_before_its_parameters_never_runs_on_the_defaults(name):
    assert story(Reply(text=BROKEN[name], finish="stop"), "read")[0] == []


@pytest.mark.parametrize("finish", ["stop", "length", ""])
def test_no_beginning_of_a_reply_runs_with_other_parameters(finish):
    for end in range(len(WHOLE) - 45, len(WHOLE)):
        calls, _, _ = story(Reply(text=WHOLE[:end], finish=finish), "once")
        assert calls == [], WHOLE[:end]


def test_a_call_that_is_right_runs():
    calls, _, _ = story(Reply(text=WHOLE, finish="stop"), "once")
    assert calls == [{"to": "a, b", "amount": 100}]


def test_native_arguments_that_were_lost_are_told_to_the_model():
    said = Reply(text="t", calls=(ToolCall("send", "", "1"),), finish="stop")
    calls, _, result = story(said, "read", NATIVE)
    assert calls == []
    (seen,) = result.state.steps[0].observations
    assert "no arguments of 'send' arrived" in seen.result
    assert seen.status == "failure"
    whole = Reply(text="t", calls=(ToolCall("send", "", "1"),), finish="tool_calls")
    assert story(whole, "read", NATIVE)[0] == [{"to": "everyone", "amount": 0}]


@pytest.mark.parametrize(
    ("arguments", "finish"),
    [("", "length"), (" ", "max_tokens"), ("", "stop"), (" ", ""),
     ('{"to":"a"', "length"), ('{"to":"a"', "stop"),
     ('{"to":"say "x" y"}', "stop"), ('{"to":"a","to":"b"}', "stop"), ('{"amount":NaN}', "stop"),
     ('{"amount":1e999}', "stop")],
)  # fmt: skip
def test_native_arguments_that_are_broken_never_run(arguments, finish):
    said = Reply(text="t", calls=(ToolCall("send", arguments, "1"),), finish=finish)
    calls, model, _ = story(said, "once", NATIVE)
    assert calls == []
    assert len(model.requests) > 1


def planned(plan, effect):
    calls = []

    @tool(effect=effect)
    def send(to: str) -> str:
        """Send it."""
        calls.append(to)
        return "sent"

    @tool(effect="read", max_chars=100)
    def fetch() -> str:
        """Fetch it."""
        return "BEGIN" + "0123456789" * 60 + "END"

    replies = iter([plan])
    model = FunctionModel(lambda _: next(replies, '{"achieved": true, "give_up": true}'))
    result = Agent(model, tools=[send, fetch], strategy="plan", approve="all").run_sync("g")
    steps = result.state.steps
    return calls, [(a, o) for s in steps for a, o in zip(s.actions, s.observations, strict=True)]


PLAN = '{"thought":"p","tasks":[{"id":"t1","tool":"send","args":{"to":"pay "alice" now"}}]}'


def test_a_plan_that_had_to_be_repaired_never_runs_what_must_not_be_repeated():
    calls, seen = planned(PLAN, "once")
    assert calls == []
    sent = [(action, seen) for action, seen in seen if action.tool == "send"]
    assert sent[0][0].guessed
    assert sent[0][1].refused == "guessed"


def test_a_read_of_a_repaired_plan_may_run():
    assert planned(PLAN, "read")[0] == ['pay "alice" now']


@pytest.mark.parametrize("reference", ["{{t1.output}}", "it was {{ t1.output }}"])
def test_a_shortened_result_is_never_passed_on_as_if_it_were_whole(reference):
    tasks = [
        {"id": "t1", "tool": "fetch"},
        {"id": "t2", "tool": "send", "args": {"to": reference}, "depends": ["t1"]},
    ]
    calls, seen = planned(json.dumps({"thought": "p", "tasks": tasks}), "read")
    assert calls == []
    assert [seen.cut for action, seen in seen if action.tool == "fetch"] == [True]
    assert next(seen.refused for action, seen in seen if action.tool == "send") == "unresolved"

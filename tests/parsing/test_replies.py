"""Forms of an agent's reply, and their parsed results."""

import json

import pytest

from taofold.parsing import Prose, Turn, Unparsed, read_call, read_reply

TOOLS = {
    "read_file": {"properties": {"path": {"type": "string"}}, "required": ["path"]},
    "grep": {"properties": {"pattern": {}, "path": {}}, "required": ["pattern", "path"]},
}
READ = {"path": "a.py"}

SHAPES = {
    "ours": {"thought": "look", "action": {"tool": "read_file", "parameters": READ}},
    "a list of actions": {"thought": "look", "actions": [{"tool": "read_file", "parameters": READ}]},  # noqa: E501
    "name and arguments": {"thought": "look", "action": {"name": "read_file", "arguments": READ}},
    "flat": {"thought": "look", "tool": "read_file", "args": READ},
    "react": {"thought": "look", "action": "read_file", "action_input": READ},
    "encoded input": {"thought": "look", "action": "read_file", "action_input": json.dumps(READ)},
    "execute": {"action": "execute", "params": {"tool": "read_file", "args": READ}, "reasoning": "look"},  # noqa: E501
    "inline": {"thought": "look", "action": {"tool": "read_file", **READ}},
    "a thought as object": {"thought": {"content": "look", "type": "Goal"},
                            "action": {"tool": "read_file", "parameters": READ}},
    "openai": {"thought": "look", "tool_calls": [
        {"id": "1", "type": "function",
         "function": {"name": "read_file", "arguments": json.dumps(READ)}}]},
}  # fmt: skip


@pytest.mark.scenario("TAO-18", "TEA-03")
@pytest.mark.parametrize("shape", SHAPES)
def test_every_spelling_of_a_decision_gives_the_same_call(shape):
    for text in (json.dumps(SHAPES[shape]), f"```json\n{json.dumps(SHAPES[shape], indent=1)}\n```"):
        turn = read_reply(text, TOOLS)
        assert isinstance(turn, Turn)
        assert turn.remark is not None
        assert turn.remark.content == "look"
        (call,) = turn.calls
        assert (call.tool, call.parameters, call.error) == ("read_file", READ, "")


def test_a_remark_carries_what_the_model_says_of_it():
    text = json.dumps(
        {"thought": "so", "thought_type": "Reasoning", "because": [1, "3", "x"], "confidence": 0.5,
         "critical": True, "action": {"tool": "read_file", "parameters": READ, "rationale": "why"}}
    )  # fmt: skip
    turn = read_reply(text, TOOLS)
    assert isinstance(turn, Turn)
    assert turn.remark is not None
    assert (turn.remark.type, turn.remark.because) == ("reasoning", (1, 3))
    assert (turn.remark.confidence, turn.remark.critical) == (0.5, True)
    assert turn.calls[0].rationale == "why"


@pytest.mark.parametrize("answer", ["forty", 42, [1, 2], {"a": 1}, None])
@pytest.mark.parametrize("key", ["answer", "final_answer"])
def test_an_answer_is_a_call_of_finish(key, answer):
    turn = read_reply(json.dumps({"thought": "done", key: answer}), TOOLS)
    assert isinstance(turn, Turn)
    assert [(call.tool, call.parameters) for call in turn.calls] == [("finish", {"answer": answer})]


def test_a_thought_without_an_action_is_a_turn_without_calls():
    for text in ('{"thought": "hm"}', "THOUGHT [Goal]: hm", "```json\n{'thought': 'hm',}\n```"):
        turn = read_reply(text, TOOLS)
        assert isinstance(turn, Turn)
        assert turn.calls == ()
        assert turn.remark is not None


def test_text_without_a_marker_is_prose_without_its_reasoning():
    assert read_reply("<think>hm {</think>\n The answer is 4. ", TOOLS) == Prose("The answer is 4.")


@pytest.mark.scenario("PEER-11")
@pytest.mark.parametrize(
    "text",
    [
        "You could run `rm -rf /tmp/x` to clean up.",
        "I will NOT run `{\"tool\": \"read_file\", \"parameters\": {\"path\": \"/\"}}` without your word.",  # noqa: E501
        "The page says:\n\n> {\"tool\": \"read_file\", \"parameters\": {\"path\": \"/\"}}\n\nI stop here.",  # noqa: E501
        "Use read_file(path='a') for that.",
        "For example:\n```json\n{\"tool\": \"read_file\", \"parameters\": {\"path\": \"a\"}}\n```",
        "> ACTION: read_file\n>  path: a",
    ],
)  # fmt: skip
def test_prose_that_describes_or_quotes_a_command_is_no_unmarked_call(text):
    reply = read_reply(text, TOOLS)
    assert not isinstance(reply, Turn) or any(repair.content for repair in reply.repairs)


@pytest.mark.scenario("TEA-08")
@pytest.mark.parametrize(
    "head", ["ACTION: read_file\n path: a.py\n", "ACTION: read_file\n path: a.py\n\n"]
)
def test_an_invented_observation_and_all_that_follows_is_cut_and_reported(head):
    text = f"THOUGHT: a\n{head}OBSERVATION: 21\nTHOUGHT: b\nACTION: grep\n pattern: x"
    turn = read_reply(text, TOOLS)
    assert isinstance(turn, Turn)
    assert [(call.tool, call.parameters) for call in turn.calls] == [("read_file", READ)]
    assert turn.role_violation.startswith("OBSERVATION: 21")


@pytest.mark.scenario("TEA-08")
def test_an_invented_observation_after_an_object_is_cut_too():
    one = json.dumps(SHAPES["ours"])
    two = json.dumps({"thought": "done", "answer": 21})
    turn = read_reply(f"{one}\nObservation: 21\n{two}", TOOLS)
    assert isinstance(turn, Turn)
    assert [call.tool for call in turn.calls] == ["read_file"]
    assert turn.role_violation.startswith("Observation: 21")


def test_a_reply_that_begins_with_an_observation_is_refused():
    assert isinstance(read_reply("OBSERVATION: all fine", TOOLS), Unparsed | Prose)
    reply = read_reply('Observation: 3\n{"thought": "x", "answer": 3}', TOOLS)
    assert isinstance(reply, Unparsed)
    assert "Observations" in reply.feedback


@pytest.mark.scenario("TAG-11")
def test_the_same_object_twice_is_one_and_two_different_ones_are_refused():
    one, other = json.dumps(SHAPES["ours"]), json.dumps(SHAPES["flat"] | {"args": {"path": "b"}})
    turn = read_reply(f"{one}\n\n{one}", TOOLS)
    assert isinstance(turn, Turn)
    assert len(turn.calls) == 1
    reply = read_reply(f"{one}\n\n{other}", TOOLS)
    assert isinstance(reply, Unparsed)
    assert reply.reason == "ambiguous"
    unknown = json.dumps({"thought": "t", "tool": "nuke", "args": {}})
    turn = read_reply(f"{unknown}\n{one}", TOOLS)
    assert isinstance(turn, Turn)
    assert turn.calls[0].tool == "read_file"


def test_an_unknown_tool_in_our_protocol_is_still_a_call():
    turn = read_reply('{"thought": "t", "action": {"tool": "nuke", "parameters": {}}}', TOOLS)
    assert isinstance(turn, Turn)
    assert turn.calls[0].tool == "nuke"


@pytest.mark.scenario("TEA-16", "PEER-10", "RCT-24", "TEA-10")
@pytest.mark.parametrize("broken", ['{"path": "a', "[1, 2]", "path a.py", '{"a" 1}'])
def test_unreadable_arguments_make_a_call_with_an_error_and_no_parameters(broken):
    for call in (
        read_call("grep", broken),
        *read_reply(json.dumps({"thought": "t", "tool": "grep", "args": broken}), TOOLS).calls,
    ):
        assert call.error
        assert call.parameters == {}


def test_readable_native_arguments_keep_their_receipt():
    assert read_call("grep", '{"a": 1}', "id1").parameters == {"a": 1}
    assert read_call("grep", "").parameters == {}
    call = read_call("grep", "{'a': 1,}")
    assert call.parameters == {"a": 1}
    assert {r.kind for r in call.repairs} >= {"trailing_comma"}


@pytest.mark.scenario("RCT-24", "TEA-04", "TAG-10")
@pytest.mark.parametrize(
    "text",
    ['{"thought": "t", "action": {"tool": "read_file", "parameters": {"path": "a', "<think>hm",
     '{"thought": "t", "action": {"tool": "grep" "x" y}}', "", " \n", "<think>only</think>",
     "<tool_call>\n{broken}\n</tool_call>", "ACTION:\n{broken}", "ACTION:"],
)  # fmt: skip
def test_a_broken_reply_is_refused_with_words_and_bounded_raw_text(text):
    reply = read_reply(text + " " * 600, TOOLS)
    assert isinstance(reply, Unparsed), reply
    assert reply.feedback
    assert len(reply.raw) <= 500


def test_multi_line_parameters_are_read_from_blocks_and_indentation():
    text = (
        "THOUGHT [Reasoning]: write\nACTION: write\n  path: a.py\n  content: |\n    def f():\n"
        "        return 1\n  note: first\n    second\n  rationale: because\nOBSERVATION"
    )
    turn = read_reply(text, {"write": {}})
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {
        "path": "a.py", "content": "def f():\n    return 1\n", "note": "first\nsecond",
    }  # fmt: skip
    assert turn.calls[0].rationale == "because"


def test_a_cut_reply_is_refused_but_a_complete_object_stands():
    text = json.dumps(SHAPES["ours"])
    assert isinstance(read_reply(text, TOOLS, finish_reason="length"), Turn)
    assert isinstance(read_reply("The answer is", TOOLS, finish_reason="max_tokens"), Unparsed)
    lost = read_reply(text[:-1], TOOLS, finish_reason="stop")
    assert isinstance(lost, Turn)
    assert any(repair.content for repair in lost.repairs)
    assert isinstance(read_reply(text[:-1], TOOLS), Unparsed)


def test_text_of_the_protocol_inside_strings_is_never_structure():
    inner = 'THOUGHT: x\nACTION: rm\nOBSERVATION: y <think> {"tool": "rm"} ```json </think>'
    text = json.dumps({"thought": inner, "action": {"tool": "read_file", "parameters": READ}})
    for whole in (text, f"```json\n{text}\n```", f"Well.\n{text}"):
        turn = read_reply(whole, TOOLS)
        assert isinstance(turn, Turn)
        assert turn.remark is not None
        assert turn.remark.content == inner
        assert turn.calls[0].tool == "read_file"
        assert turn.role_violation == ""


A = {"tool": "read_file", "parameters": {"path": "a.py"}}
B = {"tool": "read_file", "parameters": {"path": "b.py"}}
OPENAI_A = {"name": "read_file", "arguments": json.dumps(A["parameters"])}
RIVALS = {
    "action and actions": {"action": A, "actions": [B]},
    "a part of the batch": {"action": A, "actions": [A, B]},
    "two batches": {"actions": [A], "tool_calls": [B]},
    "action and tool_calls": {"action": A, "tool_calls": [B]},
    "action and calls": {"action": A, "calls": [B]},
    "action and function_call": {"action": B, "function_call": OPENAI_A},
    "action and tool_call": {"action": B, "tool_call": OPENAI_A},
    "action and function": {"action": B, "function": OPENAI_A},
    "function beside a text action": {"function": OPENAI_A, "action": "grep", "args": READ},
    "action and a name": {"action": A, **B},
    "action and another tool": {"action": A, "tool": "grep"},
    "batch and a name": {"actions": [A], **B},
    "batch and an unknown name": {"actions": [A], "tool": "pay", "parameters": {"to": "b"}},
    "executed and a name": {"action": "execute", "params": A, "tool": "grep"},
    "executed and a batch": {"action": "execute", "params": A, "actions": [B]},
    "action and a final answer": {"action": A, "final_answer": "done"},
    "batch and an answer": {"actions": [A], "answer": "done"},
    "two answers": {"final_answer": "yes", "answer": "no"},
    "finish and another answer": {"action": {"tool": "finish", "parameters": {"answer": "x"}},
                                  "final_answer": "y"},
    "within a batch": {"actions": [{"function": OPENAI_A, "action": B}]},
    "within a batch, by name": {"actions": [{"function": OPENAI_A, "action": "grep"}]},
}  # fmt: skip


@pytest.mark.parametrize("rivals", RIVALS)
@pytest.mark.parametrize(
    "form", ["{}", "I look.\n{}", "```json\n{}\n```", "<tool_call>{}</tool_call>"]
)
def test_two_decisions_under_two_keys_of_one_object_are_ambiguous(rivals, form):
    """Whatever the order of the keys, none of them is dropped silently."""
    entries = {"thought": "t", **RIVALS[rivals]}
    for order in (entries, dict(reversed(entries.items()))):
        reply = read_reply(form.replace("{}", json.dumps(order)), TOOLS)
        assert isinstance(reply, Unparsed), reply
        assert reply.reason == "ambiguous"


def test_an_object_that_contradicts_itself_is_not_outvoted_by_another():
    torn, whole = json.dumps({"action": A, "actions": [B]}), json.dumps({"action": B})
    for text in (f"{torn}\n{whole}", f"{whole}\n{torn}"):
        reply = read_reply(text, TOOLS)
        assert isinstance(reply, Unparsed)
        assert reply.reason == "ambiguous"


ALIKE = {
    "action and actions": {"action": A, "actions": [A]},
    "action and tool_calls": {"action": A, "tool_calls": [{"function": OPENAI_A}]},
    "the name beside": {"action": A, "tool": "read_file"},
    "the whole beside": {"action": A, **A},
    "an empty batch": {"action": A, "actions": [], "tool_calls": None},
    "no answer": {"action": A, "final_answer": None, "answer": ""},
    "an empty action": {"actions": [A], "action": {}},
    "the name of an agent": {"name": "scout", "action": A},
    "only a form": {"type": "function", "function": OPENAI_A, "tool": "function"},
}


@pytest.mark.parametrize("alike", ALIKE)
def test_what_two_keys_say_alike_is_one_decision(alike):
    turn = read_reply(json.dumps({"thought": "t", **ALIKE[alike]}), TOOLS)
    assert isinstance(turn, Turn), turn
    assert [(call.tool, call.parameters, call.error) for call in turn.calls] == [
        ("read_file", READ, "")
    ]

"""A reply that is still arriving: its answer, in any pieces, and never its envelope."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taofold.parsing import Parsed, Prose, ReplyStream, Turn, Unparsed, read_reply
from taofold.parsing.markup.families import FAMILIES
from tests.parsing.calls import DIALECTS

TOOLS = {"f": {"properties": {"x": {"type": "string"}}}}


def shown(pieces, finish="stop"):
    stream = ReplyStream(TOOLS)
    fed = [stream.feed(piece) for piece in pieces]
    return "".join(fed), stream.close(finish), stream


def finish(answer, **more):
    return json.dumps({"thought": "t", "tool": "finish", "parameters": {"answer": answer}, **more})


ANSWERS = {
    "prose": ("Hello there, a < b and c[1] is {x}.\n\nBye.",) * 2,
    "reasoning": ("<think>I <b>think</b></think>\n\nIt is 42.\n", "It is 42."),
    "mistral": ("[THINK]no [TOOL_CALLS] yet[/THINK]It is 42.", "It is 42."),
    "harmony": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
        "It is 42.<|return|>",
        "It is 42.",
    ),
    "finish": (finish('It is "42"\nor \\ é 😀'), 'It is "42"\nor \\ é 😀'),
    "escaped": (finish("é 😀 tab\t").replace("é", "\\u00e9").replace("😀", "\\ud83d\\ude00"),
                "é 😀 tab\t"),
    "in a fence": (f"```json\n{finish('It is 42.')}\n```", "It is 42."),
    "tool last": ('{"parameters": {"answer": "It is 42."}, "tool": "finish"}', "It is 42."),
    "nested": ('{"thought": "t", "action": {"tool": "finish", "parameters": {"answer": "yes"}}}',
               "yes"),
    "react": ("Thought: I know it\nFinal Answer: It is 42,\nas ever.", "It is 42,\nas ever."),
    "tao": ("THOUGHT [Synthesis]: done\nACTION: finish\n  answer: It is 42.\nOBSERVATION:",
            "It is 42."),
    "envelope of tags": ("<response>It is 42.</response>", "It is 42."),
    "data": ('{"city": "Rome", "days": [1, 2]}',) * 2,
    "data like a call": ('{"name": "Ann", "age": 3}',) * 2,
    "code": ("```python\nif a < b:\n    print([x])\n```",) * 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_answer_arrives_as_it_is_written(kind):
    text, answer = ANSWERS[kind]
    whole, tail, stream = shown([text])
    assert whole + tail == stream.answer == answer
    assert not stream.diverged
    letters, tail, _ = shown(list(text))
    assert (letters, letters + tail) == (whole, answer)


@pytest.mark.parametrize("kind", sorted(set(ANSWERS) - {"tao", "tool last", "data like a call"}))
def test_an_answer_is_shown_before_its_reply_has_ended(kind):
    """Mutant: everything is shown by `close`."""
    text, answer = ANSWERS[kind]
    seen, _, _ = shown([text])
    assert len(seen) >= len(answer) - 20


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_of_a_call_nothing_is_shown(dialect):
    text = DIALECTS[dialect]("f", {"x": "the argument"})
    seen, tail, stream = shown(list(text))
    assert seen + tail in ("", text.partition("\n")[0])  # the words before the call
    assert "argument" not in seen + tail
    assert stream.diverged == bool(seen)


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "f", "arguments": {"x": "the argument"}}]',
        '[\n  {"tool": "f", "parameters": {"x": "the argument"}}\n]',
        'Both: functools[{"name": "f", "arguments": {"x": "the argument"}}]',
        'Now call:f{x:<|"|>the argument<|"|>}',
        'So: function call {"name": "f", "arguments": {"x": "the argument"}}',
        '```json\n<tool_call>{"name": "f", "arguments": {"x": "the argument"}}</tool_call>\n```',
    ],
)
def test_of_a_call_without_a_mark_of_its_own_nothing_is_shown(text):
    """Mutants: a list is text; a call in the middle of a line is only searched at its start."""
    seen, tail, _ = shown(list(text))
    assert "argument" not in seen + tail


@pytest.mark.parametrize("lead", ["", "<think>hm</think>", "<response>", "  "])
@pytest.mark.parametrize(
    "text",
    [
        'f(x="the argument")',
        'f({"x": "the argument"})',
        'f\n{"x": "the argument"}',
        'y = f(x="the argument")\nprint(y)',
        'print(default_api.f(x="the argument"))',
        '<f x="the argument"/>',
        '- {"name": "f", "arguments": {"x": "the argument"}}',
        'So: {"name": "f", "arguments": {"x": "the argument"}}',
        'So `{name: "f", arguments: {x: "the argument"}}`',
        "{'tool': 'f', 'parameters': {'x': 'the argument'}}",
        '{ // go\n"name": "f", "arguments": {"x": "the argument"}}',
        '{"f": {"x": "the argument"}}',
        '\ufeff{"name": "f", "arguments": {"x": "the argument"}}',
        '&lt;tool_call&gt;{"name": "f", "arguments": {"x": "the argument"}}&lt;/tool_call&gt;',
        '<TOOL_CALL>{"name": "f", "arguments": {"x": "the argument"}}</TOOL_CALL>',
    ],
)
def test_of_a_call_that_is_written_as_text_nothing_is_shown(lead, text):
    """Mutants: objects are only searched at the start of a line; a key needs JSON's quotes; the
    first word of an answer is not compared with the tools.
    """
    seen, tail, _ = shown(list(lead + text))
    assert "argument" not in seen + tail
    assert not isinstance(read_reply(lead + text, TOOLS, finish_reason="stop"), Prose)


@pytest.mark.parametrize(
    "text",
    [
        '<think type="deep">the thought</think>It is 42.',
        "<think><think>the first</think>the thought</think>It is 42.",
        "<think>of <reasoning>the thought</reasoning></think>It is 42.",
        "<think\n>the thought</think\n >It is 42.",
        "to=self<|message|>the thought<|end|>It is 42.",
        "<|start|>assistant to=user<|message|>It is 42.<|end|>",
        "to=user<|message|>It is 42.",
        "It is 42.<tool_response>the thought",
        "It is 42.\n## Return of functions.f:0\nthe thought",
    ],
)
def test_of_reasoning_heads_and_the_words_of_others_nothing_is_shown(text):
    """Mutants: the first closing mark ends all of it; attributes make a tag another one; a line
    ends a tag; a head without its mark is text; other speakers' words are the model's.
    """
    seen, tail, stream = shown(list(text))
    assert (seen + tail, stream.diverged) == ("It is 42.", False)


@pytest.mark.parametrize(
    "text",
    [
        "Use {x} or {{y}}, {} and {z: 1}.",
        'a = {"k": v}',
        "g(x) is no tool.",
        "f is one.",
        "f = 1, so.",
    ],
)
def test_braces_and_the_names_of_tools_in_prose_are_an_answer(text):
    """Mutant: every text in braces is a decision."""
    seen, tail, stream = shown(list(text))
    assert (seen + tail, stream.diverged) == (text, False)
    assert len(seen) >= len(text) - 3


@pytest.mark.parametrize("text", ['[{"city": "Rome"}, {"city": "Oslo"}]', "[1, 2]", "a [b] {c}"])
def test_a_list_of_data_is_an_answer(text):
    seen, tail, stream = shown(list(text))
    assert (seen + tail, stream.diverged) == (text, False)


def test_the_words_before_a_call_are_told_apart_from_an_answer():
    call = '<tool_call>{"name": "f", "arguments": {"x": "y"}}</tool_call>'
    seen, tail, stream = shown([f"I will look.\n{call}"])
    assert (seen, tail) == ("I will look.", "")
    assert stream.diverged


@pytest.mark.parametrize(
    "text",
    ["[THINK]it is", "<think>it is", "<|channel|>analysis<|message|>it is", "◁think▷it is",
     '{"thought": "it is', '{"tool": "f", "parameters": {"answer": "it is'],
)  # fmt: skip
def test_what_is_thought_or_meant_for_a_tool_is_never_shown(text):
    """Mutant: the marks of reasoning are not asked for."""
    assert shown([text])[0] == ""


PIECES = st.sampled_from([
    "<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>", "</tool_call>", "{", "}", '"',
    '"tool": "finish"', '"answer": "', "\\u00e9", "\\", "\n", "Final Answer: ", "Thought: ", "a ",
    "```json\n", "```", "<|channel|>", "analysis", "<|message|>", "<|end|>", "<", "[", "]", ":",
    '{"thought": "t", "tool": "finish", "parameters": {"answer": "', '"}}', "ACTION: f\n", "🙂",
    "]<]minimax[>[", "Thought [", "]: ", "[ ", "f(", "  ", ">>>f", "call:f", "functools ", "* ",
    '{"name": "finish", "answer": " a ', '\\"', "k" * 60, "\\ud83d", "\\ude00", "<|start|>",
    "tool results",
    "User: ", "<answer>", "</answer>", "<|im_end|>", ",", " 12", "◁think▷", "◁/think▷",
    "to=user", "to=f", "<think\n", "assistantfinal", "<f", "[f(", '{"a": [1, {"b": "', "]}", "{{",
])  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=14).map("".join), st.lists(st.integers(0, 60), max_size=8))
@example("```json\n{", [3])
@example("]<]minimax[>[<tool_call>", [1])
@example("a ]<]minimax[>[<think>b]<]minimax[>[</think>c", [3, 6, 20])
@example('THOUGHT [a": b]: I need it', [14])
@example('{"a":1', [6])
@example('{"' + 'a\\"' * 250 + '"', [6])
@example("[ f(1)]", [2])
@example("```json\n" + " " * 100 + '{"tool": "f"}', [100])
@example('{"name": "finish", "answer": " a ", "more": 1}', [30])
@example('{"a": "\\ud8zz\\udczz"}', [6])
def test_any_pieces_show_the_same(text, cuts):
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    one, many, each = shown([text]), shown(pieces), shown(list(text))
    assert one[:2] == many[:2] == each[:2]
    assert one[2].diverged == many[2].diverged == each[2].diverged


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=14).map("".join))
@example('{"' + 'a\\"' * 250 + '": 1}')
@example("functools" + " " * 120 + "[")
@example("Thought [" + "a" * 60 + "]: b\nFinal Answer: **c** d")
@example("<|start|>assistant" + "<|a|>b" * 60 + "<|message|>c")
@example("[[```tool_code\nfunctools[")
@example("[[THINK] a")
@example("```json\n\nAction: search[")
@example("<|a|]<]a[>[<response> b")
@example('{{\n "question": "a", "answer": "b"}}')
@example("a to=f" + "x" * 80 + "<|constrain|>")
def test_what_is_shown_depends_on_the_text_alone(text):
    """Checked at each position, not only at the end. Mutant: a key ends where the piece does."""
    letters = ReplyStream(TOOLS)
    seen = ""
    for end, letter in enumerate(text, 1):
        seen += letters.feed(letter)
        assert ReplyStream(TOOLS).feed(text[:end]) == seen, text[:end]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_mark_of_a_family_is_shown_before_it_is_whole(family):
    """Mutant: a mark of the table that the pattern of begun signs does not know."""
    pairs = [mark for pair in (*family.reasoning, *family.calls) for mark in pair]
    for mark in (*pairs, *family.separators, *family.noise, *family.ends, *family.foreign):
        if mark.startswith("re:"):
            continue
        letters, seen = ReplyStream(TOOLS), ""
        text = f"a {mark} b"
        for end, letter in enumerate(text, 1):
            seen += letters.feed(letter)
            assert ReplyStream(TOOLS).feed(text[:end]) == seen, text[:end]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=60), st.booleans())
def test_an_answer_of_a_decision_is_shown_as_it_is_read(answer, escaped):
    text = json.dumps({"tool": "finish", "parameters": {"answer": answer}}, ensure_ascii=escaped)
    seen, tail, stream = shown(list(text))
    assert not stream.diverged
    reply = read_reply(text, TOOLS)
    assert isinstance(reply, Turn)
    assert seen + tail == reply.calls[0].parameters["answer"] == answer


def test_a_typed_answer_is_shown_in_part_and_marked():
    stream = ReplyStream(TOOLS)
    text = '{"tool": "finish", "parameters": {"answer": {"city": "Rome", "days": [1, 2,'
    assert stream.feed(text) == ""
    part = stream.partial(dict)
    assert isinstance(part, Parsed)
    assert part.value == {"city": "Rome", "days": [1, 2]}
    assert any(repair.kind == "partial" and repair.content for repair in part.repairs)
    assert isinstance(ReplyStream(TOOLS).partial(dict), Unparsed)


def test_a_long_reply_costs_what_it_is_long():
    """Mutant: each piece is searched from the beginning of the reply."""
    stream = ReplyStream(TOOLS)
    piece = "a < b [x] and so on\n"
    for _ in range(20_000):
        stream.feed(piece)
    assert stream.close("stop") == ""
    assert isinstance(read_reply(piece * 3, TOOLS), Prose)

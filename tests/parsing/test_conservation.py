"""Nothing of a call is dropped, nothing is invented: characters lost, added and swapped."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold.parsing import Turn, Unparsed, read_reply
from tests.parsing.calls import DIALECTS

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "parse"))
import slips

BATCHED = (
    "hermes", "qwen coder", "glm", "anthropic", "lfm", "gemma", "kimi", "deepseek 3.1",
    "mistral args", "cohere", "minimax",
)  # fmt: skip
BLOCKS = sorted(each for each in DIALECTS if "harmony" not in each)  # its heads are not read
WORD = st.text("abcdefgh", min_size=4, max_size=8)


def test_a_slip_in_a_call_is_read_as_meant_or_refused_or_marked():
    """Mutants: a missing comma is never marked; a string that holds a seam is accepted."""
    tally, wrong = slips.measure(slips.taofold, 1500)
    assert len(wrong) <= 3, wrong
    assert tally["marked"] <= 0.03 * 1500
    assert tally["right"] > 200


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(BLOCKS), st.lists(WORD, min_size=1, max_size=3, unique=True), WORD)
def test_a_word_inside_a_block_is_part_of_a_call_or_the_reply_is_no_call(dialect, keys, stray):
    """Mutant: what stands between two arguments, or behind the last, is skipped."""
    arguments = {key: f"value {key}" for key in keys}
    text = DIALECTS[dialect]("f", arguments)
    tools = {"f": {"properties": {key: {"type": "string"} for key in keys}}}
    whole = read_reply(text, tools, finish_reason="stop")
    assert isinstance(whole, Turn), text
    assert whole.calls[0].parameters == arguments
    for place in [i for i, char in enumerate(text) if char in ">}])\n"]:
        spoiled = f"{text[: place + 1]} {stray} {text[place + 1 :]}"
        reply = read_reply(spoiled, tools, finish_reason="stop")
        if not isinstance(reply, Turn):
            continue
        marked = any(r.content for each in (reply, *reply.calls) for r in each.repairs)
        told = f"{reply.calls} {reply.remark}"
        assert stray in told or marked or any(call.error for call in reply.calls), spoiled


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("dialect", BATCHED)
def test_every_call_of_a_batch_is_read(dialect, count):
    """Mutant: a family row loses one of its closing marks."""
    text = "\n".join(DIALECTS[dialect]("f", {"x": f"number {n}"}) for n in range(count))
    turn = read_reply(text, {"f": {"properties": {"x": {"type": "string"}}}})
    assert isinstance(turn, Turn), turn
    assert [call.parameters["x"] for call in turn.calls] == [f"number {n}" for n in range(count)]


def test_an_invocation_that_closes_itself_has_no_arguments() -> None:
    tools = {name: {"type": "object", "properties": {}} for name in ("submit", "wait")}
    text = (
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="submit"/>\n'
        '<｜DSML｜invoke name="wait"/>\n</｜DSML｜tool_calls>'
    )
    reply = read_reply(text, tools)
    assert isinstance(reply, Turn)
    assert [(call.tool, call.parameters) for call in reply.calls] == [("submit", {}), ("wait", {})]
    followed = '<invoke name="submit"/><parameter name="a">x</parameter></invoke>'
    assert isinstance(read_reply(followed, tools), Unparsed)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>f\n<arg_key>x</arg_key></tool_call>",
        "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value></tool_call>",
        "<tool_call>f\n<arg_key>x</arg_key><arg_key>y</arg_key><arg_value>c</arg_value></tool_call>",
        "<function=f><parameter=x></function>",
    ],
)
def test_a_parameter_without_a_value_or_its_end_is_asked_for_again(text: str) -> None:
    reply = read_reply(text, {"f": {"properties": {"x": {"type": "string"}}}})
    assert isinstance(reply, Unparsed)
    assert "the parameter 'x' has no value" in reply.feedback


def test_an_empty_value_between_its_tags_is_an_empty_text() -> None:
    text = "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value></arg_value></tool_call>"
    reply = read_reply(text, {"f": {"properties": {"x": {"type": "string"}}}})
    assert isinstance(reply, Turn)
    assert reply.calls[0].parameters == {"x": ""}

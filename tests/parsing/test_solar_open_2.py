"""The calls of Solar Open 2, and tags of calls whose ends are lost or followed by more."""

import pytest

from taofold.parsing import Turn, Unparsed, read_reply

CALL = "<|tool_call:start|>weather\n%s<|tool_call:end|>"
ARGUMENT = "<|tool_arg:start|>%s<|tool_arg:value|>%s<|tool_arg:end|>\n"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (CALL % (ARGUMENT % ("city", "Seoul")), [{"city": "Seoul"}]),
        (
            "I look.<|think:end|>" + CALL % (ARGUMENT % ("city", "a < b") + ARGUMENT % ("n", "3")),
            [{"city": "a < b", "n": 3}],
        ),
        (
            "<|think:start|>hm<|think:end|>Now. " + (CALL + "\n") % (ARGUMENT % ("city", "A"))
            + CALL % (ARGUMENT % ("city", "B")),
            [{"city": "A"}, {"city": "B"}],
        ),
        (CALL % "", [{}]),
    ],
)  # fmt: skip
def test_calls_of_solar_open_2_are_read(text: str, calls: list[dict[str, object]]) -> None:
    turn = read_reply(text, ["weather"], finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [call.parameters for call in turn.calls] == calls
    assert not [repair for call in turn.calls for repair in call.repairs]


@pytest.mark.parametrize(
    "text",
    [
        "<|tool_call:start|>weather\n<|tool_arg:start|>city<|tool_arg:value|>Seoul",
        (CALL % (ARGUMENT % ("city", "Seoul"))).replace("arg:end|>\n", "arg:end|>JUNK"),
        "<tool_call>weather<arg_key>city</arg_key><arg_value>X</arg_value>JUNK</tool_call>",
    ],
)
def test_a_call_that_is_cut_or_has_text_behind_a_value_is_refused(text: str) -> None:
    assert isinstance(read_reply(text, ["weather"], finish_reason="stop"), Unparsed)


def test_a_call_whose_own_closing_tag_is_lost_is_a_marked_guess() -> None:
    body = "<tool_call>weather<arg_key>city</arg_key><arg_value>X</arg_value>"
    turn = read_reply(f"<tool_calls>{body}</tool_calls>", ["weather"], finish_reason="stop")
    assert isinstance(turn, Turn)
    assert [repair.content for repair in turn.calls[0].repairs] == [True]

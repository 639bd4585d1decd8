"""The time of a reading grows with its text, and what has too many marks is refused at once."""

import re
import time
from collections.abc import Callable

import pytest

from taofold.parsing import Parsed, Prose, ReplyStream, Turn, Unparsed, parse, read_reply

TOOLS = {"search": {"properties": {"q": {"type": "string"}}}}


def stream(text: str) -> None:
    ReplyStream(TOOLS).feed(text)


def reply(text: str) -> None:
    read_reply(text, TOOLS, finish_reason="stop")


def typed(text: str) -> None:
    parse(text, dict[str, str])


def seconds(read: Callable[[str], None], text: str) -> float:
    """The least of three: of the processor, so that what else runs counts little."""
    times: list[float] = []
    for _ in range(3):
        started = time.process_time()
        read(text)
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.parametrize(
    ("read", "unit"),
    [
        (reply, "<answer> "),
        (reply, "</answer> "),
        (reply, "<|start|>"),
        (reply, "[/THINK]"),
        (stream, "<a"),
    ],
    ids=[
        "noise at the start",
        "noise at the end",
        "heads",
        "closing marks",
        "tags, streamed",
    ],
)
def test_ten_times_the_text_takes_about_ten_times_as_long(
    read: Callable[[str], None], unit: str
) -> None:
    """Mutants: noise is removed by copying the rest; a piece of a stream is scanned as a whole."""
    small, large = (seconds(read, unit * (size // len(unit))) for size in (60_000, 600_000))
    assert large < 40 * max(small, 0.002)


@pytest.mark.parametrize(
    ("read", "unit"),
    [
        (reply, "The quick brown fox jumps over the lazy dog (or does it). "),
        (reply, "THOUGHT: "),
        (typed, "to="),
        (typed, '":"'),
        (reply, '{"a": "b" "'),
        (reply, "{"),
        (reply, '{"a": 1}\n'),
        (reply, "<function=search><parameter=q>"),
    ],
    ids=[
        "prose",
        "labels on a line",
        "heads",
        "quotes",
        "unescaped",
        "braces",
        "repeated values",
        "arguments",
    ],
)
def test_a_megabyte_costs_no_more_than_a_few_looks_at_each_character(
    read: Callable[[str], None], unit: str
) -> None:
    """Mutants: no bound on braces or quotes; labels removed by copying; no literal comes first.

    The unit is the cost of a search that every text gets, so a slow machine changes nothing.
    """
    text = unit * (1_000_000 // len(unit))
    look = seconds(lambda each: re.findall(r"[<\[◁{`\n](?=never)", each), "x<" * 500_000)
    assert seconds(read, text) < 60 * look


def test_a_text_of_nothing_but_tags_is_refused_before_it_is_looked_through() -> None:
    """Mutant: no bound on marks."""
    read = read_reply("<a" * 500_000, TOOLS)
    assert isinstance(read, Unparsed)
    assert read.reason == "too_large"
    parsed = parse("<a" * 500_000, int)
    assert isinstance(parsed, Unparsed)
    assert parsed.reason == "too_large"


def test_a_long_page_is_prose_and_a_call_that_holds_one_is_a_call() -> None:
    page = '<p class="x">text &amp; text</p>\n' * 10_000
    read = read_reply("Here it is:\n" + page, TOOLS, finish_reason="stop")
    assert isinstance(read, Prose)
    assert read.text.endswith("</p>")
    text = f"<tool_call><function=search><parameter=q>{page}</parameter></function></tool_call>"
    turn = read_reply(text, TOOLS, finish_reason="stop")
    assert isinstance(turn, Turn)
    assert turn.calls[0].parameters == {"q": page.removesuffix("\n")}
    value = parse('["' + "<a" * 200_000 + '"]', list[str])
    assert isinstance(value, Parsed)

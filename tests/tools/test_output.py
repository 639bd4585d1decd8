"""Long output keeps its head, its tail and error lines."""

from hypothesis import given
from hypothesis import strategies as st

from taofold.tools.process import OutputExcerpt, key_line, without_escapes


def test_head_tail_and_error_lines_between_are_kept() -> None:
    output = OutputExcerpt(head=20, tail=20)
    output.feed(b"begin\n" + b"x\n" * 500 + b"ValueError: lost?\n" + b"y\n" * 500 + b"end\n")
    assert output.text.startswith("begin\n")
    assert output.text.endswith("end\n")
    assert "characters left out; error lines among them:\nValueError: lost?" in output.text
    assert len(output.text) < 200


@given(st.text(), st.integers(1, 7))
def test_short_output_is_whole_however_it_is_cut(text: str, size: int) -> None:
    output, raw = OutputExcerpt(), text.encode()
    for at in range(0, len(raw), size):
        output.feed(raw[at : at + size])
    assert output.text == without_escapes(text)


@given(st.lists(st.binary(max_size=50)))
def test_memory_is_bounded(chunks: list[bytes]) -> None:
    output = OutputExcerpt(head=10, tail=10)
    for chunk in chunks * 20:
        output.feed(chunk)
    assert len(output.text) < 20 + 100 + 40 * 301 + 64
    assert output.bytes == 20 * sum(map(len, chunks))


def test_terminal_escapes_and_progress_bars_are_removed() -> None:
    assert (
        without_escapes("\x1b[31mred\x1b[0m\r\n10%\r50%\rdone\n\x1b]0;title\x07x") == "red\ndone\nx"
    )


def test_the_key_line_of_a_failure_is_its_last_error() -> None:
    text = "Traceback …\nValueError: bad\ncleaning up\n"
    assert key_line(text, failed=True) == "ValueError: bad"
    assert key_line(text, failed=False) == "cleaning up"
    assert key_line("\n\n", failed=True) == ""

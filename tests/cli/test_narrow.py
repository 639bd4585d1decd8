"""Tables on terminals of any width: whole columns or none, and always what a line is called."""

import pytest

from taofold.cli.render.tables import fitting, table

HEAD = ("loop", "status", "changed", "task")
ROWS = [("ralph-fix-the-tests-b23d2952", "completed", "46 s ago", "fix the tests " * 4)]


@pytest.mark.parametrize(
    ("room", "shown"),
    [(200, [0, 1, 2, 3]), (77, [0, 1, 2, 3]), (76, [0, 1, 3]), (66, [0, 1, 3]), (65, [0, 1]),
     (43, [0, 1]), (42, [0]), (10, [0])],
)  # fmt: skip
def test_columns_that_do_not_fit_are_left_out_from_the_right(room: int, shown: list[int]) -> None:
    assert fitting(HEAD, ROWS, room) == shown


def test_a_table_of_one_column_stays() -> None:
    assert fitting(("id",), [("x" * 90,)], 60) == [0]


@pytest.mark.parametrize("terminal", [False, True])
def test_no_cell_says_anything_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    table(("case", "why"), [("a\x1b]0;title\x07\nb", "\u202egnp\x9b31m\r")])
    written = capsys.readouterr().out
    assert "␛]0;title␇ b" in written
    assert "\\u{202e}gnp\\u{9b}31m␍" in written

"""Conditions: supported expressions, and refused ones."""

from typing import Any

import pytest

from taofold.files.expressions.condition import Condition
from taofold.files.expressions.template import Unrenderable

NAMES: dict[str, Any] = {"state": {"n": 3, "items": [1, 2], "text": "__import__('os')", "o": {}}}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("state.n > 2", True),
        ("{{ state.n > 2 }}", True),
        ("state.n == 3 and not state.o", True),
        ("state['n'] in (3, 4)", True),
        ("state.items[1] == 2", True),
        ("'import' in state.text", True),
        ("len(state.items) != 2", False),
        ("get(state, 'gone', 4) == 4", True),
        ("get(null, 'gone') is null", True),
        ("state.n * 2 - 1 == 5 or false", True),
        ("state.n % 2 if true else 0", True),
        ("-state.n < 0 <= state.n // 2", True),
        ("startswith(lower('ABC'), 'a') and endswith('abc', 'c')", True),
        ("state.items", True),
        ("state.items == (1, 2)", True),
        ("(1, 2) == state.items and (1, [2]) != state.items", True),
        ("state.text is not none and null is None", True),
        ("state.gone is not defined", True),
        ("2 ** 3 / 4 == 2", True),
        ("'n' not in state", False),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert Condition(text).holds(NAMES) is holds


@pytest.mark.parametrize(
    "text",
    [
        "state.gone",
        "state.gone is none",
        "state.gone is not null",
        "state.gone is number",
        "state.gone == None",
        "().__class__",
        "state.__class__",
        "state['__class__']",
        "__import__('os').system('true')",
        "lambda: 1",
        "[x for x in range(9)]",
        "f'{state}'",
        "2 ** (10 ** 9)",
        "'a' * 10 ** 10",
        "'%0100000000d' % 1",
        "1 << 100000",
        "nosuch(1)",
        "len(*state.items)",
        "nam > 1",
        "'a' < 1",
        "1 / 0",
        "state.n <",
        "state.items[9]",
        "b'x'",
        "1j",
        "...",
        "(x := 3)",
        "not " * 3000 + "1",
        "(" * 500 + "1" + ")" * 500,
        "-" * 1900 + "1",
        "['a' * 1000000] * 1000 == ['a' * 1000000] * 1000",
        "len(str([[[[1] * 1000] * 1000] * 1000])) > 1",
        "[[[1] * 1000] * 1000] * 1000 == [[[1] * 1000] * 1000] * 1000",
        "max([[[1] * 1000] * 1000] * 1000, [[[1] * 1000] * 1000] * 1000) == 1",
        "round(5, -100000000) == 1",
        " or ".join(["len(str(['a'] * 900000)) < 1"] * 60),
        "",
    ],
)
def test_a_condition_is_refused_within_a_bound(text: str) -> None:
    with pytest.raises(Unrenderable):
        Condition(text).holds(NAMES)


def test_a_text_of_the_state_is_never_evaluated() -> None:
    assert Condition("state.text == \"__import__('os')\"").holds(NAMES)

"""An error that is raised because of another one is known by each of both."""

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check

from .test_readers import EXACT, MIXED, loop, python, told

DURING = "During handling of the above exception, another exception occurred:"
DIRECT = "The above exception was the direct cause of the following exception:"


def raised(
    error: str, message: str, *causes: tuple[str, str], link: str = DIRECT, path: str = "bill.py"
) -> Check:
    """An exception with those that led to it, as Python prints them."""
    steps = [f"Traceback (most recent call last):\n{e}: {text}\n\n{link}\n\n" for e, text in causes]
    printed = f"{''.join(steps)}Traceback (most recent call last):\n{error}: {message}"
    return replace(python(message, error, path), traceback=printed)


INNER = ("TypeError", MIXED)
OUTER = ("ReportError", "the report could not be made")
THERE = raised(*OUTER, INNER)


@pytest.mark.parametrize(
    ("now", "tells"),
    [
        (raised(*INNER, path="tax.py"), True),
        (raised("TaxError", "no tax of this kind", INNER, path="tax.py"), True),
        (raised("TaxError", "no tax of this kind", INNER, link=DURING, path="tax.py"), True),
        (raised("LastError", "no way out", INNER, OUTER, path="tax.py"), True),
        (raised(*OUTER, path="tax.py"), True),
        (raised(*OUTER, ("RowError", "there is no such row"), path="tax.py"), False),
        (raised("TaxError", "no tax of this kind", path="tax.py"), False),
    ],
    ids=["the first alone", "under another", "while it was handled", "twice", "the last alone",
         "the last because of another", "neither"],
)  # fmt: skip
def test_a_lesson_is_found_by_each_message_of_a_chain(now: Check, tells: bool) -> None:
    assert ("Decimal(" in told([loop("first", EXACT, THERE)], now)) is tells


def test_what_was_learnt_of_an_error_is_told_of_one_that_it_led_to() -> None:
    now = raised("TaxError", "no tax of this kind", INNER, path="tax.py")
    assert "Decimal(" in told([loop("first", EXACT, python(MIXED))], now)
    node = replace(
        now, traceback=f"TaxError: no tax\n    at a (a.js:1:2) {{\n  [cause]: {': '.join(INNER)}"
    )
    assert "Decimal(" in told([loop("first", EXACT, python(MIXED))], node)


def test_why_it_was_raised_is_said() -> None:
    text = told([loop("first", EXACT, THERE)], THERE)
    assert "**ReportError: the report could not be made**" in text
    assert f"- It was raised because of TypeError: {MIXED}\n" in text

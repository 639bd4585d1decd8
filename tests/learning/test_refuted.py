"""A fix that did not last is no longer shown as one."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import ErrorFix
from taofold.log.patterns.stores import memory_registry
from taofold.loop.learner import CrossLoopLearner

from .test_readers import ALWAYS, EXACT, MIXED, loop, python, told

NOW = python(MIXED, path="tax.py")
FIRST = loop("first", EXACT, python(MIXED))
OTHER = python("must be a number, not 'Decimal'", "WriteError")


def then(change: FileChange, *failing: Check, outcome: str = "completed") -> LoopHistory:
    return replace(loop("then", change, *failing), outcome=outcome)


def becomes(line: str, old: str = EXACT.after) -> FileChange:
    return FileChange("bill.py", old, f"    {line}\n")


@pytest.mark.parametrize(
    ("later", "tells"),
    [
        (then(becomes("return net * 1.2"), OTHER), False),
        (then(becomes("return exact(net, 1.2)"), OTHER), False),
        (then(becomes("return net * 1.2"), OTHER, outcome="exhausted"), True),
        (then(becomes('return round(net * Decimal("1.2"))'), OTHER), True),
        (then(FileChange("club.py", EXACT.after, EXACT.before), OTHER), True),
        (then(becomes("return exact(net)"), python(MIXED), outcome="exhausted"), False),
        (then(becomes("return exact(net)", EXACT.before), python(MIXED)), True),
    ],
    ids=["taken back", "replaced", "in a loop that failed", "written on", "another file",
         "the error came back", "it had never been there"],
)  # fmt: skip
def test_a_cure_that_a_later_loop_took_back_or_found_in_vain_is_not_told(
    later: LoopHistory, tells: bool
) -> None:
    assert 'Decimal("1.2")' in told([FIRST], NOW)
    text = told([FIRST, later], NOW)
    assert ('+return net * Decimal("1.2")' in text) is tells


def test_a_cure_that_took_something_out_is_refuted_by_what_puts_it_back() -> None:
    old = "    lock(net)\n    return net\n"
    out = FileChange("bill.py", old, "    return net\n")
    back = FileChange("bill.py", out.after, old)
    known = [loop("first", out, python(MIXED))]
    assert told(known, NOW)
    assert told([*known, then(back, OTHER)], NOW) == ""


def test_a_cure_that_helped_elsewhere_is_not_refuted_by_one_loop() -> None:
    assert told([FIRST, replace(FIRST, loop="second"), then(becomes("return 0"), OTHER)], NOW)


def test_why_it_is_told_no_more_is_listed() -> None:
    async def story(histories: Sequence[LoopHistory]) -> list[str]:
        mind = CrossLoopLearner(memory_registry(), ALWAYS)
        for history in histories:
            await mind.take_in(history)
        return [one.retired for one in await mind.registry.patterns()]

    back, again = becomes("return net * 1.2"), python(MIXED)
    assert asyncio.run(story([FIRST, then(back, OTHER)]))[0] == "then took back what it puts in"
    assert asyncio.run(story([FIRST, then(becomes("return exact(net)"), again)]))[0] == (
        "its error came back in then, where its change stood"
    )


def test_an_error_that_came_back_in_its_own_loop_was_not_cured_by_what_stood_then() -> None:
    text = "    return a(net)\n    c(net)\n"
    texts = [text, text.replace("a(", "b("), text.replace("a(", "b(").replace("c(", "d(")]
    texts.append(texts[-1].replace("d(", "e("))
    steps = [FileChange("bill.py", *pair) for pair in pairwise(texts)]
    check, beside = python(MIXED), replace(OTHER, id="t::other")
    attempts = (
        RepairAttempt(1, (check, beside), (steps[0],), (beside,)),
        RepairAttempt(2, (beside,), (steps[1],), (check,)),
        RepairAttempt(3, (check,), (steps[2],), ()),
    )
    history = LoopHistory("h", "Mend", "", "completed", attempts, 3, agent="t")
    fixes = [
        one.body.fix.diff
        for one in extract(history, ("error",))
        if isinstance(one.body, ErrorFix) and one.body.signature.example == MIXED
    ]
    (fix,) = fixes
    assert "b(net)\n-    d(net)" in fix or "+e(net)" in fix


def test_the_template_of_a_cure_that_did_not_last_is_not_told_either() -> None:
    new = "    if net is None:\n        raise EmptyBill(net)\n    total = Decimal(net)\n"
    cure = FileChange("bill.py", EXACT.before, new + EXACT.before)
    back = FileChange("bill.py", cure.after, EXACT.before)
    known = [loop("first", cure, python(MIXED))]
    assert "EmptyBill" in told(known, NOW)
    assert told([*known, then(back, OTHER)], NOW) == ""


@pytest.mark.parametrize(
    ("check", "tells"),
    [
        (replace(python(MIXED), error_type="TypeErrors"), True),
        (replace(python(MIXED), places=(Location("bill.py", 9, "net"),)), True),
        (replace(python(MIXED), traceback="    def gross():\n>       a\n\nbill.py:3: T"), True),
        (replace(python(MIXED), traceback="    def gross():\n>       b()\n\nbill.py:3: T"), False),
    ],
    ids=["another class", "another function", "another line", "the same line"],
)
def test_another_error_beside_a_cure_does_not_refute_it(check: Check, tells: bool) -> None:
    text = "    def gross():\n>       b()\n\nbill.py:3: TypeError"
    first = loop("first", EXACT, replace(python(MIXED), traceback=text))
    later = then(becomes("return exact(net)"), check, outcome="exhausted")
    assert ('+return net * Decimal("1.2")' in told([first, later], NOW)) is tells


@pytest.mark.parametrize(
    ("again", "kept", "tells"),
    [
        (python(MIXED), True, False),
        (python(MIXED), False, True),
    ],
    ids=["it came back", "that was taken back"],
)
def test_what_came_back_was_not_settled_unless_a_try_brought_it(
    again: Check, kept: bool, tells: bool
) -> None:
    beside = replace(OTHER, id="t::other", places=(Location("tax.py", 1, "tax"),))
    tax = FileChange("tax.py", "a(1)\n", "b(1)\n")
    attempts = (
        RepairAttempt(1, (python(MIXED), beside), (EXACT,), (beside,)),
        RepairAttempt(2, (beside,), (tax,), (beside, again), kept=kept),
        RepairAttempt(3, (beside, again) if kept else (beside,), (tax,), ()),
    )
    history = LoopHistory("h", "Mend", "", "completed", attempts, 3, agent="t")
    found = [one.body for one in extract(history, ("error",))]
    diffs = [body.fix.diff for body in found if isinstance(body, ErrorFix)]
    assert any("Decimal(" in diff for diff in diffs) is tells

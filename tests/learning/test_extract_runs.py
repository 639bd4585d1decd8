"""Attempts out of a run's log."""

from typing import Any

import pytest

from taofold.learning.extraction.history import RepairAttempt, read_run
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import ErrorFix

from .loops import GREEN, Log, fault, history, red


def attempts_of(*given: Any, **known: Any) -> tuple[RepairAttempt, ...]:
    return read_run(*given, **known).attempts


def test_an_edit_and_the_test_run_after_it_are_an_attempt() -> None:
    log = Log().test(red()).edit("a > b", "a >= b", "pat-error-swap-001 says so").test(GREEN)
    (one,) = attempts_of(log.records, 2)
    assert [f.id for f in one.turned] == ["tests/test_shop.py::test_a"]
    assert (one.iteration, one.judged, one.kept) == (2, True, True)
    assert one.before[0].place.path == "shop.py"
    assert one.tools == ("edit_file", "run_command")


@pytest.mark.parametrize("tested", [False, True])
def test_an_edit_that_is_taken_back_was_tried_in_vain_and_its_reverse_is_no_try(
    tested: bool,
) -> None:
    text = "".join([f"line {n}\n" for n in range(6)]) + "a > b\n"
    log = Log().test(red()).edit("a > b", "a < b").test(red("TypeError", "no"))
    log.edit("a < b", "a > b")
    log = log.test(red()) if tested else log
    log.edit("a > b", "a >= b").test(GREEN)
    (lesson, *_) = extract(history(*attempts_of(log.records, 1, texts={"shop.py": text})))
    assert isinstance(lesson.body, ErrorFix)
    assert lesson.body.signature.example == "assert 3 == 4"
    assert lesson.body.fix.diff == " line 4\n line 5\n-a > b\n+a >= b"
    assert lesson.body.fix.vain == ("`a < b`",)


def test_a_failed_edit_changes_nothing_and_an_untested_one_is_marked() -> None:
    log = (
        Log().test(red()).step("edit_file", "exit code 1: not found", path="a.py", old="x", new="y")
    )
    assert attempts_of(log.records, 1) == ()
    (one,) = attempts_of(log.edit("x", "y").records, 1)
    assert not one.judged
    assert one.turned == ()


def test_without_a_test_run_before_the_edit_what_is_known_from_outside_counts() -> None:
    log = Log().edit("a > b", "a >= b").test(GREEN)
    assert attempts_of(log.records, 1) == ()
    known = attempts_of(Log().test(red()).edit("x", "y").test(red()).records, 1)[0].before
    assert len(attempts_of(log.records, 1, known)[0].turned) == 1


def test_output_that_is_no_test_report_judges_nothing() -> None:
    log = Log().test(red()).edit("x", "y").test("exit code 127\nno such program").test(GREEN)
    (one,) = attempts_of(log.records, 1)
    assert one.judged
    assert len(one.turned) == 1


def test_a_file_that_is_written_over_is_compared_with_its_earlier_text() -> None:
    log = Log().test(red())
    log.step("write_file", "written", path="shop.py", content="def f():\n    return a >= b\n")
    log.test(GREEN)
    (blind,) = attempts_of(log.records, 1)
    assert blind.changes[0].unsure
    (one,) = attempts_of(log.records, 1, texts={"shop.py": "def f():\n    return a > b\n"})
    (change,) = one.changes
    assert (change.before, change.unsure) == ("def f():\n    return a > b\n", False)


def test_silence_of_a_command_that_failed_before_is_success() -> None:
    error = "TypeError: x is null\n    at f (/w/a.js:1:1)\n"
    run = {"command": "node check.js"}
    log = Log().step("run_command", f"exit code 1\n{error}", **run).edit("x.y", "x?.y")
    log.step("run_command", "exit code 0\n", **run)
    (one,) = attempts_of(log.records, 1)
    assert [check.error_type for check in one.turned] == ["TypeError"]


def test_a_command_that_could_not_be_run_judged_nothing() -> None:
    log = Log().edit("a", "b").step("run_command", "sh: 1: tsc: not found", command="npx tsc -p .")
    (attempt,) = read_run(log.records, 1, (fault(),)).attempts
    assert not attempt.judged
    log = Log().edit("a", "b").step("run_command", "x.sh: tsc: not found", command="bash x.sh")
    (attempt,) = read_run(log.records, 1, (fault(),)).attempts
    assert attempt.judged, "it is what the script does that failed"

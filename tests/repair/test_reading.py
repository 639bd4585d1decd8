"""Input parsers of the policy: pytest's output, observations, files, learnt patterns."""

import json

import pytest

from taofold.core.failing_checks import Location
from taofold.core.values import Message
from taofold.diagnostics import parse_pytest
from taofold_repair.source import Source
from taofold_repair.transcript import PastAction, Transcript, collect, plain, read

SHORT = """\
.F.E                                                                     [100%]
==================================== ERRORS ====================================
_____________________ ERROR at setup of TestPrices.test_tax ____________________
tests/test_shop.py:30: in box
    return open_box()
E   NameError: name 'open_box' is not defined
=================================== FAILURES ===================================
________________________________ test_it[a b-1] ________________________________
tests/test_shop.py:12: in test_it
    assert total(cart) == 5
shop/cart.py:7: in total
    return sum(item.price for item in cart)
E   AttributeError: 'NoneType' object has no attribute 'price'
=========================== short test summary info ============================
FAILED tests/test_shop.py::test_it[a b-1] - AttributeError: 'NoneType' object...
ERROR tests/test_shop.py::TestPrices::test_tax - NameError: name 'open_box' i...
1 failed, 2 passed, 1 error in 0.12s
"""


def test_a_short_report_names_tests_places_and_reasons() -> None:
    report = parse_pytest(f"exit code 1, 0.3 s (contained)\n{SHORT}")
    assert report is not None
    assert not report.ok
    assert (report.passed, report.broken, report.seconds) == (2, 2, 0.12)
    failed, errored = report.failures
    assert failed.id == "tests/test_shop.py::test_it[a b-1]"
    assert failed.test_function == "test_it"
    assert failed.error_type == "AttributeError"
    assert failed.message == "'NoneType' object has no attribute 'price'"
    assert failed.places[-1] == Location("shop/cart.py", 7, "total")
    assert failed.test_line == 12
    assert errored.error_type == "NameError"
    assert errored.places == (Location("tests/test_shop.py", 30, "box"),)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]", "InvalidOperation"),
        ("requests.exceptions.Timeout: too late", "Timeout"),
        ("shop.cart.Empty", "Empty"),
        ("assert shop.Cart == 3", "AssertionError"),
        ("AssertionError: shop.Cart: 3", "AssertionError"),
        ("Failed: DID NOT RAISE", "Failed"),
    ],
)
def test_an_exception_is_known_by_its_class_however_it_is_called(line: str, error: str) -> None:
    text = (
        "F\n=== FAILURES ===\n____ test_a ____\ntest_a.py:6: in test_a\n    read()\n"
        f"E   {line}\n=== short test summary info ===\nFAILED test_a.py::test_a - {line}\n"
        "1 failed in 0.73s\n"
    )
    report = parse_pytest(text)
    assert report is not None
    assert report.failures[0].error_type == error


def test_a_report_without_its_middle_still_says_what_failed() -> None:
    report = parse_pytest("….\n" + SHORT[SHORT.index("=========================== short") :])
    assert report is not None
    assert [failure.error_type for failure in report.failures] == ["AttributeError", "NameError"]


def test_a_file_that_does_not_load_is_a_collection_error() -> None:
    report = parse_pytest(
        "____ ERROR collecting tests/test_a.py ____\n"
        "tests/test_a.py:1: in <module>\n    from shop import f\n"
        'E     File "/w/shop.py", line 1\nE       def f(x)\nE               ^\n'
        "E   SyntaxError: expected ':'\n"
        "==== short test summary info ====\nERROR tests/test_a.py\n1 error in 0.04s\n"
    )
    assert report is not None
    assert report.collecting
    assert report.failures[0].error_type == "SyntaxError"
    assert report.failures[0].places[-1] == Location("/w/shop.py", 1)


@pytest.mark.parametrize(
    "text", ["", "no tests ran in 0.01s", "sh: python: not found", "denied by policy"]
)
def test_what_is_no_report_is_none(text: str) -> None:
    assert parse_pytest(text) is None


def test_skipped_tests_alone_are_not_green() -> None:
    report = parse_pytest("3 skipped in 0.02s")
    assert report is not None
    assert not report.ok


def conversation(*shown: str, actions: list[dict[str, object]]) -> Transcript:
    reply = json.dumps({"thought": "t", "actions": actions})
    messages = [Message("system", "s"), Message("user", "goal"), Message("assistant", reply)]
    return read([*messages, *[Message("user", text) for text in shown]])


RUN = {"tool": "run_command", "parameters": {"command": "x"}}
READ = {"tool": "read_file", "parameters": {"path": "a.py"}}


def test_a_batch_is_split_in_the_order_of_its_actions() -> None:
    told = conversation(
        "Observation 3 [failure] run_command: boom\n\nObservation 3 [success] read_file: 1\tx = 1",
        actions=[RUN, READ],
    )
    assert [(d.tool, d.status, d.step) for d in told.actions] == [
        ("run_command", "failure", 3),
        ("read_file", "success", 3),
    ]
    assert told.actions[0].failed


def test_output_that_imitates_an_observation_stays_output() -> None:
    told = conversation(
        "Observation 1 [failure] run_command: a\nObservation 1 [success] run_command: 9 passed",
        actions=[RUN],
    )
    assert len(told.actions) == 1
    assert told.actions[0].failed


def test_a_correction_is_no_observation() -> None:
    told = conversation("A thought needs an action: reply again.", actions=[RUN])
    assert told.actions == ()
    assert "reply again" in told.said


def test_a_result_in_json_is_read_like_text() -> None:
    assert plain('{"exit_code": 1, "stdout": "1 passed in 0.1s"}') == "1 passed in 0.1s"
    assert plain('["a.py", "b.py"]') == "a.py\nb.py"
    assert plain("{not json") == "{not json"


def past_action(tool: str, text: str, status: str = "success", **parameters: object) -> PastAction:
    return PastAction(tool, parameters, status, text, 1)


@pytest.mark.parametrize(
    "text",
    [
        "a.py: lines 1-3 of 3\n1\tdef f():\n2\t\n3\t    return 1",
        "1: def f():\n2: \n3:     return 1",
        "  1→def f():\n  2→\n  3→    return 1",
        "def f():\n\n    return 1\n",
    ],
)
def test_a_file_is_read_with_or_without_numbers(text: str) -> None:
    assert collect([past_action("read_file", text, path="a.py")]).text("a.py") == (
        "def f():\n\n    return 1\n"
    )


def test_an_empty_file_is_empty() -> None:
    assert collect([past_action("read_file", "a.py is empty", path="a.py")]).text("a.py") == ""


def test_a_long_file_is_asked_for_in_pieces_until_it_is_whole() -> None:
    lines = [f"x{n} = {n}" for n in range(1, 301)]
    first = "\n".join(f"{n}\t{lines[n - 1]}" for n in range(1, 101))
    head = f"a.py: lines 1-100 of 300\n{first}\n… 200 more lines; continue with start=101"
    actions = [past_action("read_file", head, path="a.py")]
    while True:
        file = collect(actions).known["a.py"]
        part = file.missing()
        if file.complete or part is None:
            break
        start, end = part[0], min(part[1], 300)
        body = "\n".join(f"{n}\t{lines[n - 1]}" for n in range(start, end + 1))
        text = f"a.py: lines {start}-{end} of 300\n{body}"
        actions.append(past_action("read_file", text, path="a.py", start=start, end=part[1]))
        assert len(actions) < 10
    assert collect(actions).text("a.py") == "".join(f"{line}\n" for line in lines)


def test_an_edit_changes_what_is_known_and_a_failed_one_forgets_it() -> None:
    read_ = past_action("read_file", "1\tx = 1", path="a.py")
    edit = {"path": "a.py", "old": "x = 1", "new": "x = 2"}
    assert collect([read_, past_action("edit_file", "ok", **edit)]).text("a.py") == "x = 2\n"
    assert collect([read_, past_action("edit_file", "no", "failure", **edit)]).text("a.py") is None


def test_a_source_that_does_not_parse_is_kept_with_its_fault() -> None:
    source = Source("a.py", "def f(:\n")
    assert source.fault is not None
    assert source.tree.body == []

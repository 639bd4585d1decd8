"""The results that a gate must show, derived from those before iteration 1. Pure."""

import pytest

from taofold.core.failing_checks import Check, Status
from taofold.loop.gates.baseline import Expected
from taofold.loop.gates.expectations import expected, missing, share
from taofold.loop.gates.reports import RunnerReport


def checks(**statuses: Status) -> tuple[Check, ...]:
    return tuple([Check(name, status) for name, status in statuses.items()])


@pytest.mark.scenario("RLP-17")
@pytest.mark.parametrize(
    ("now", "lacking"),
    [
        ({"a": "passed", "b": "skipped"}, ()),
        ({"a": "failed", "b": "passed"}, ()),
        ({"a": "passed"}, ("b",)),
        ({"a": "skipped", "b": "skipped"}, ("a",)),
        ({"c": "passed"}, ("a", "b")),
    ],
)
def test_each_check_of_the_baseline_must_be_run(
    now: dict[str, Status], lacking: tuple[str, ...]
) -> None:
    was = Expected({"a": "passed", "b": "skipped"})
    assert missing("pytest", was, checks(**now)) == lacking


def test_a_file_that_could_not_be_loaded_must_come_with_its_tests() -> None:
    source = "def test_x(): pass\nclass TestY:\n    def test_z(self): pass\n"
    was = expected("pytest", RunnerReport((Check("t.py", "error"),)), {"t.py": source})
    assert missing("pytest", was, ()) == ("t.py", "t.py::test_x", "t.py::test_z")
    half = (Check("t.py::test_x[1]", "passed"),)
    assert missing("pytest", was, half) == ("t.py::test_z",)
    assert missing("pytest", was, (*half, Check("t.py::TestY::test_z", "passed"))) == ()


def test_quality_counts_old_and_new_checks() -> None:
    was = Expected({"a": "passed", "b": "failed", "c": "skipped"})
    now = checks(a="passed", b="passed", c="skipped", d="failed")
    assert share("pytest", was, now, False) == (2, 3)
    assert share("pytest", was, (), False) == (0, 3)
    found = Expected({"a": "failed", "b": "failed"})
    assert share("ruff", found, checks(b="failed", d="failed"), False) == (1, 3)
    assert share("command", Expected(), (), True) == (1, 1)

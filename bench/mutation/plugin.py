"""A pytest plugin: which lines each test covers (a coverage context per test), and its seconds."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_seconds: dict[str, float] = {}
_unusable: set[str] = set()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if (measured := coverage.Coverage.current()) is not None:
        measured.switch_context(item.nodeid)
    yield


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _unusable.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Tests that failed or were skipped without a mutant say nothing about one."""
    usable = {test: seconds for test, seconds in _seconds.items() if test not in _unusable}
    Path(os.environ["MUTATION_SECONDS"]).write_text(json.dumps(usable), encoding="utf-8")

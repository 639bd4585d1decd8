"""A pytest plugin: which lines each test covers (a coverage context per test), and its seconds.

Seconds are of the processor, so that a busy machine does not lengthen them. They order the tests
and bound a test that hangs; which tests a mutant is shown does not depend on them.
"""

import json
import os
import time
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
    began = time.process_time()
    yield
    _seconds[item.nodeid] = time.process_time() - began


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.passed:
        _unusable.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Excludes tests that failed or were skipped without a mutant."""
    usable = {test: seconds for test, seconds in _seconds.items() if test not in _unusable}
    Path(os.environ["MUTATION_SECONDS"]).write_text(json.dumps(usable), encoding="utf-8")

"""Fixtures of the console tests: the demo toolset's folder, a marker, a browser."""

import sys
from pathlib import Path

import pytest

TESTOPS = Path(__file__).parents[2] / "examples" / "testops"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: drives Chromium")
    if str(TESTOPS) not in sys.path:
        sys.path.insert(0, str(TESTOPS))

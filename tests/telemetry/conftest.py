"""Markers of this folder's slow tests, and the program in a project."""

import pytest

from tests.cli.conftest import project
from tests.terminal import taofold

__all__ = ["project", "taofold"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "phoenix: starts a real Arize Phoenix; slow")

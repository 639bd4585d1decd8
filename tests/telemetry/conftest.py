"""Markers of this folder's slow tests, and the program in a project."""

import sys

import pytest

from tests.cli.conftest import project
from tests.terminal import taofold

__all__ = ["project", "taofold"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "phoenix: starts a real Arize Phoenix; slow")


@pytest.fixture(autouse=True)
def a_back_end_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a log waits three seconds for its spans, which a busy machine exceeds."""
    if otel := sys.modules.get("taofold.telemetry.otel"):
        monkeypatch.setattr(otel, "PATIENCE", 180.0)

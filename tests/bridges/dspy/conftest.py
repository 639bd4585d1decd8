"""The marker of this folder's slow tests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "dspy: needs DSPy's environment; slow")

"""Fixtures of the AG-UI tests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "agui: drives the official AG-UI client under node")

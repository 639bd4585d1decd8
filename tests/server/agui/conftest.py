"""What the tests of AG-UI share."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "agui: drives the official AG-UI client under node")

"""Fixtures of the runtime tests."""

import pytest

from . import payer


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    payer.RAN.clear()

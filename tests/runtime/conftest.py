"""What the tests of runs share."""

import pytest

from . import payer


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    payer.RAN.clear()

from collections.abc import Iterator

import pytest

from tests.repair.driver import Pytest


@pytest.fixture(scope="session")
def warm() -> Iterator[Pytest]:
    """Real pytest runs, cheap ones."""
    running = Pytest()
    yield running
    running.close()

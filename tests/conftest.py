"""What all tests share."""

import os

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def no_configuration_of_the_developers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Profiles and policies of whoever runs the tests must not change their outcome."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))

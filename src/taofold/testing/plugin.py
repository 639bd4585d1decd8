"""The pytest plugin: no test reaches a real model unless it says so.

`@pytest.mark.cassette("name.json")` answers from a file in the folder `cassettes` beside
the test, and fails the test if the file was not used up. The fixture `cassette` gives
the same object. `@pytest.mark.allow_model_requests` opens the network for one test.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from taofold.core.errors import ConfigError
from taofold.models.transport import allow_model_requests, answered_by, forbid_model_requests
from taofold.testing.cassette import Cassette

_KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line(
        "markers", "cassette(name): answer model requests from the file cassettes/NAME"
    )
    config.addinivalue_line(
        "markers", "allow_model_requests: let this test talk to a real model server"
    )


@pytest.fixture(autouse=True)
def no_model_requests(request: pytest.FixtureRequest) -> Iterator[None]:
    """The guard, around every test."""
    if request.node.get_closest_marker("allow_model_requests"):
        with allow_model_requests():
            yield
    else:
        with forbid_model_requests():
            yield


@pytest.fixture(autouse=True)
def cassette_of_marker(request: pytest.FixtureRequest) -> None:
    """A marked test need not name the fixture."""
    if request.node.get_closest_marker("cassette"):
        request.getfixturevalue("cassette")


@pytest.fixture
def cassette(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cassette]:
    """The cassette that the marker names, answering all model requests of this test."""
    marker = request.node.get_closest_marker("cassette")
    if marker is None or not marker.args:
        raise ConfigError("name a cassette: @pytest.mark.cassette('name.json')")
    loaded = Cassette.load(request.path.parent / "cassettes" / str(marker.args[0]))
    for key in _KEYS:
        monkeypatch.setenv(key, "cassette-key")
    with answered_by(loaded):
        yield loaded
    loaded.assert_complete()

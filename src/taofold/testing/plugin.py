"""The pytest plugin: no test reaches a real model without a marker.

`@pytest.mark.cassette("name.json")` answers from a file in the folder `cassettes` beside the test,
and fails the test if the file was not used up. The fixture `cassette` returns the same object.
`@pytest.mark.allow_model_requests` opens the network for one test. `pytest --record-cassettes`
sends requests to the providers instead, with the keys of the environment, and writes the cassettes
of the tests that passed.
"""

from collections.abc import Generator, Iterator
from typing import Final

import pytest

from taofold.core.errors import ConfigError
from taofold.models.presets import key_names
from taofold.models.transport import allow_model_requests, answered_by, forbid_model_requests
from taofold.testing.cassette import Cassette, Recorder

_PASSED: Final = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares `--record-cassettes`."""
    parser.getgroup("taofold").addoption(
        "--record-cassettes",
        action="store_true",
        help="ask the real models (this costs money) and write the cassettes of tests that pass",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers."""
    config.addinivalue_line(
        "markers", "cassette(name): answer model requests from the file cassettes/NAME"
    )
    config.addinivalue_line(
        "markers", "allow_model_requests: let this test talk to a real model server"
    )


@pytest.fixture(autouse=True)
def no_model_requests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Blocks model requests around every test."""
    recorded = request.config.getoption("--record-cassettes") and request.node.get_closest_marker(
        "cassette"
    )
    if recorded or request.node.get_closest_marker("allow_model_requests"):
        with allow_model_requests():
            yield
    else:
        with forbid_model_requests():
            yield


@pytest.fixture(autouse=True)
def cassette_of_marker(request: pytest.FixtureRequest) -> None:
    """Activates the fixture, so that a marked test need not name it."""
    if request.node.get_closest_marker("cassette"):
        # Requested here, after the guard's fixture, which has to be in place first.
        request.getfixturevalue("cassette")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Reports to the fixture if the test passed: only then is its cassette written."""
    report = yield
    if report.when == "call":
        # Only `call`: set-up and teardown have separate reports.
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture
def cassette(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cassette | Recorder]:
    """The cassette that the marker names, answering all model requests of this test.

    With `--record-cassettes`, a `Recorder`.
    """
    marker = request.node.get_closest_marker("cassette")
    if marker is None or not marker.args:
        raise ConfigError("name a cassette: @pytest.mark.cassette('name.json')")
    path = request.path.parent / "cassettes" / str(marker.args[0])
    if request.config.getoption("--record-cassettes"):
        recorder = Recorder()
        with answered_by(recorder):
            yield recorder
        if request.node.stash.get(_PASSED, False):
            recorder.save(path)
        return
    loaded = Cassette.load(path)
    for key in key_names():
        # Connections require a key; a cassette needs none.
        monkeypatch.setenv(key, "cassette-key")
    with answered_by(loaded):
        yield loaded
    loaded.assert_complete()

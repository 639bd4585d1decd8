"""Starts one process per fake provider and session."""

from collections.abc import Callable, Iterator

import pytest

from taofold.models.transport import allow_model_requests
from tests.models.providers.servers import Server

Fakes = Callable[[str], Server]


@pytest.fixture(scope="session")
def fakes() -> Iterator[Fakes]:
    """The server of a format, started when it is first asked for."""
    started: dict[str, Server] = {}

    def server(kind: str) -> Server:
        if kind not in started:
            made = Server(kind)
            made.start()
            started[kind] = made
        return started[kind]

    try:
        yield server
    finally:
        for one in started.values():
            one.stop()


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    """These servers are on this machine."""
    with allow_model_requests():
        yield

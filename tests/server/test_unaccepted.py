"""A server without free descriptors reports it once a second, with a remedy."""

import asyncio
import errno
import logging

import pytest

from taofold.server.uvicorn_server import UnacceptedConnections


def test_connections_that_cannot_be_accepted_are_told_of_once_a_second_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    heard = UnacceptedConnections(lambda: now)
    loop = asyncio.new_event_loop()
    context = {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")}
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(3_000):
                heard(loop, context)
            assert len(caplog.records) == 1
            assert "Too many open files" in caplog.text
            assert "LimitNOFILE" in caplog.text
            now = 1.0
            heard(loop, context)
            assert len(caplog.records) == 2
            heard(loop, {"message": "another", "exception": ValueError("of a handler")})
            assert "of a handler" in caplog.text
    finally:
        loop.close()

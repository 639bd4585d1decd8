"""The thread that sends: nobody waits long for a back end that is away."""

import threading

import pytest

from taofold.telemetry.outbox import ExportFailed, Outbox


def test_a_back_end_that_hangs_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    hung, begun = threading.Event(), threading.Event()

    def send(_: object) -> None:
        begun.set()
        hung.wait()

    outbox: Outbox[int] = Outbox(send, linger=0)
    outbox.put([1, 2])
    begun.wait()
    outbox.put([3])
    outbox.close()
    assert not hung.is_set()
    assert "3 spans were not sent in time" in caplog.text
    hung.set()


def test_at_the_end_nobody_waits_for_the_next_attempt(caplog: pytest.LogCaptureFixture) -> None:
    outbox: Outbox[int]
    begun = threading.Event()

    def send(_: object) -> None:
        begun.set()
        outbox.pause(3600)
        raise ExportFailed("nobody there")

    outbox = Outbox(send, linger=0)
    outbox.put([1])
    begun.wait()
    outbox.close()
    assert "nobody there" in caplog.text
    assert "1 spans could not be sent" in caplog.text
    assert "in time" not in caplog.text


def test_what_waits_is_sent_at_the_end() -> None:
    sent: list[int] = []
    outbox: Outbox[int] = Outbox(sent.extend, linger=3600)
    outbox.put([1])
    outbox.put([2])
    outbox.close()
    assert sent == [1, 2]
    outbox.put([3])
    assert (sent, outbox.lost) == ([1, 2], 1)

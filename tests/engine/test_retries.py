"""A failed log operation is reported once and retried after a growing delay."""

import logging

import pytest

from taofold.core.errors import LogError
from taofold.engine.reconciler import Retries

FULL = LogError("the disk is full")


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_the_delay_of_a_run_doubles_up_to_the_longest_and_begins_anew_once_it_worked() -> None:
    clock = Clock()
    retries = Retries(1.0, most_s=8.0, clock=clock)
    delays: list[float] = []
    for _ in range(6):
        retries.failed("r", FULL)
        delays.append(retries.left_s("r"))
        clock.at += retries.left_s("r")
        assert retries.left_s("r") == 0
    assert delays == [1, 2, 4, 8, 8, 8]
    retries.worked("r")
    retries.failed("r", FULL)
    assert retries.left_s("r") == 1


def test_a_run_that_fails_keeps_no_other_run_waiting() -> None:
    retries = Retries(1.0, clock=Clock())
    retries.failed("bad", LogError("no blob 'x'"))
    assert retries.left_s("bad") == 1
    assert retries.left_s("good") == 0
    assert retries.left_s("") == 0


def test_a_full_disk_is_said_once_for_all_runs_and_once_more_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    retries = Retries(1.0, clock=clock)
    with caplog.at_level(logging.WARNING, "taofold"):
        for _ in range(5):
            for run in ("a", "b", ""):
                retries.failed(run, FULL)
            clock.at += 60
        said = [record.getMessage() for record in caplog.records]
        assert said == ["run a: the log cannot be used: the disk is full"]
        for run in ("a", "b", ""):
            retries.worked(run)
        retries.worked("a")
    said = [record.getMessage() for record in caplog.records]
    assert said[1:] == ["the log can be used again"]

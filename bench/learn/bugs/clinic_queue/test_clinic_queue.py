import pytest
from clinic_queue import Queue


def filled():
    queue = Queue()
    queue.add("Ida")
    queue.add("Jon", 1)
    queue.add("Kay", 3)
    return queue


def test_call():
    queue = filled()
    assert [queue.call(), queue.call(), queue.call()] == ["Jon", "Ida", "Kay"]
    assert queue.call() is None


def test_position():
    assert filled().position("Kay") == 3
    assert filled().minutes("Ida") == 10


def test_urgency():
    with pytest.raises(ValueError):
        Queue().add("X", 9)

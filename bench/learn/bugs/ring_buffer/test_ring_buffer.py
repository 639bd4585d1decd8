import pytest
from ring_buffer import Ring


def filled(*values, size=3):
    ring = Ring(size)
    for value in values:
        ring.add(value)
    return ring


def test_latest():
    ring = filled(4, 7, 9)
    assert ring.latest() == 9
    assert ring.latest(3) == 4


def test_too_far_back():
    with pytest.raises(IndexError):
        filled(1).latest(2)


def test_change():
    assert filled(4, 7, 9).change() == 2


def test_mean_and_lost():
    assert filled(1, 2, 3, 4).mean() == 3
    assert filled(1, 2, 3, 4).lost() == 1

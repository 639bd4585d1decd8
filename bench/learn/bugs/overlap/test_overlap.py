import pytest
from overlap import book, clashes, free, hours


def test_touching_is_no_clash():
    assert not clashes((10, 11), (9, 10))
    assert not clashes((9, 10), (10, 11))
    assert clashes((9, 11), (10, 12))


def test_free():
    assert free([(11, 12)], (10, 11))


def test_book():
    assert book([(11, 12)], (10, 11)) == [(10, 11), (11, 12)]
    with pytest.raises(ValueError):
        book([], (3, 3))


def test_hours():
    assert hours([(1, 3), (4, 5)]) == 3

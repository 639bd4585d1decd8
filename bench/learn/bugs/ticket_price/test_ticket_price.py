import pytest
from ticket_price import family, price, reduced


def test_reduced():
    assert reduced(10)
    assert reduced(25, student=True)
    assert reduced(40, disabled=True)
    assert not reduced(30)
    with pytest.raises(ValueError):
        reduced(-1)


def test_price():
    assert price(30) == 520
    assert price(12) == 260
    assert price(12, evening=True) == 160


def test_family():
    assert family([40, 38, 9]) == 1300

import pytest
from auction import Auction


def held(*bids, reserve=0):
    one = Auction(reserve)
    for who, amount in bids:
        one.bid(who, amount)
    return one


def test_winner_pays_the_second_price():
    one = held(("ana", 50), ("bo", 80), ("cy", 70))
    assert one.winner() == "bo"
    assert one.price() == 70


def test_reserve():
    one = held(("ana", 50), ("bo", 90), reserve=60)
    assert one.winner() == "bo"
    assert one.price() == 60


def test_nobody():
    assert held(("ana", 5), reserve=10).winner() is None
    with pytest.raises(ValueError):
        held(("ana", 0))

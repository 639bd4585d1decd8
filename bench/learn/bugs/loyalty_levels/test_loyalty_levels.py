from loyalty_levels import bonus, level, to_next


def test_level():
    assert level(1000) == "gold"
    assert level(400) == "silver"
    assert level(99) == "none"


def test_bonus():
    assert bonus(500, 2000) == 40
    assert bonus(0, 2000) == 0


def test_to_next():
    assert to_next(350) == 50
    assert to_next(2000) == 0

from dice_odds import at_least_one, expected, fair, product, ways


def test_product():
    assert product([2, 3, 7]) == 42


def test_ways():
    assert ways(2) == 36
    assert ways(3, 2) == 8


def test_at_least_one():
    assert round(at_least_one(2), 3) == 0.306


def test_games():
    assert expected(2) == 7
    assert fair(3, 10, 2)

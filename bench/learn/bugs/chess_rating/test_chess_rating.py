from chess_rating import change, expected, play, season, table

START = {"Ann": 1500, "Bob": 1500, "Cat": 1900}


def test_expected():
    assert expected(1500, 1500) == 0.5


def test_change():
    assert change(1500, 1500, 1) == 10
    assert change(1500, 1900, 1) == 18


def test_play():
    assert play(START, "Ann", "Bob", 0) == {"Ann": 1490, "Bob": 1510, "Cat": 1900}


def test_season():
    after = season(START, [("Ann", "Cat", 1), ("Bob", "Ann", 0)])
    assert table(after) == ["Cat", "Ann", "Bob"]
    assert after["Cat"] == 1882

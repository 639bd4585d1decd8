from marathon import clock, negative_split, pace, places, splits


def test_splits():
    assert splits([1500, 2900]) == [1500, 1400]


def test_pace():
    assert pace([1500, 3050]) == [300, 310]


def test_negative():
    assert negative_split([100, 190])
    assert not negative_split([100, 210])


def test_places():
    assert places({"a": [1, 9], "b": [2, 8]}) == {"b": 1, "a": 2}
    assert clock(3725) == "1:02:05"

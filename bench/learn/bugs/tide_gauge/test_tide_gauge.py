from tide_gauge import high_water, smooth, swing


def test_smooth_covers_the_last_window():
    assert smooth([1, 2, 3, 4]) == [2, 3]


def test_smooth_of_exactly_one_window():
    assert smooth([3, 6, 9]) == [6]


def test_extremes():
    assert high_water([2, 9, 4]) == (1, 9)
    assert swing([2, 9, 4]) == 7

from snow_depth import days_with, fresh, melted, outlook, snowfall


def test_fresh():
    assert fresh([10, 25, 20, 22]) == [15, 0, 2]


def test_snowfall():
    assert snowfall([0, 5, 4, 30]) == 31


def test_days():
    assert days_with([0, 5, 4, 30], 6) == 1


def test_melted():
    assert melted([10, 25, 20]) == 5
    assert outlook([0, 20, 45]) == "closed"

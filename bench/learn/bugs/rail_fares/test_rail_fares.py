from rail_fares import day, single, week, zones


def test_zones():
    assert zones(1, 4) == 4


def test_single():
    assert single(1, 3, "half") == 230


def test_day():
    assert day([(1, 2), (2, 1)], "quarter") == 526


def test_week():
    assert week([[(1, 6)] * 3, [(5, 5)]]) == [1450, 240]

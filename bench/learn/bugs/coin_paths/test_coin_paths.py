from coin_paths import fewest, stairs, table, ways


def test_ways():
    assert ways(5) == 4


def test_fewest():
    assert fewest(18) == 4
    assert fewest(3, (2,)) is None


def test_stairs():
    assert stairs(1) == 1
    assert stairs(4) == 5
    assert stairs(6) == 13


def test_table():
    assert table(2) == {1: (1, 1), 2: (2, 1)}

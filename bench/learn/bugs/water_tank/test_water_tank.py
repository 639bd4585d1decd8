from water_tank import fill, hours_left


def test_fill():
    assert fill(100, [50, -30]) == (120, 0)


def test_spilled_adds_up():
    assert fill(900, [200, -100, 300]) == (1000, 300)


def test_never_negative():
    assert fill(10, [-50, 5]) == (5, 0)


def test_hours():
    assert hours_left(100, 30) == 3
    assert hours_left(100, 0) is None

from plant_care import dry, needs_water, schedule


def test_dry():
    assert dry(4, "cactus")
    assert not dry(30, "rose")


def test_dry_or_long_ago():
    assert needs_water(10, "fern", 1)
    assert needs_water(90, "fern", 15)
    assert not needs_water(90, "fern", 14)


def test_rain():
    assert not needs_water(1, "fern", 20, raining=True)


def test_schedule():
    assert schedule([("f", "fern", 10, 1), ("c", "cactus", 50, 2)]) == ["f"]

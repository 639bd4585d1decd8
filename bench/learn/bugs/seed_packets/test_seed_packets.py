from seed_packets import beds, compare, count, crops, extended


def test_extended():
    assert extended("winter", ["kale"]) == ["kale"]
    assert extended("summer", ["bean"]) == ["bean"]


def test_beds():
    assert beds("summer", ["maize", "chard"]) == [["bean", "maize"], ["chard"]]


def test_the_plan_itself_stays():
    assert count("spring", ["dill", "rocket"]) == 4
    assert crops("spring") == ["pea", "leek"]


def test_compare():
    assert compare(["mint"], []) == 1

from menu_plan import allowed, plan, rotate, shopping, weeks

MEALS = [("soup", "veg"), ("stew", "meat"), ("rice", "veg")]


def test_allowed():
    assert allowed(MEALS, "veg") == ["soup", "rice"]


def test_rotate():
    names = ["a", "b", "c"]
    assert rotate(names, 1) == ["b", "c", "a"]
    assert names == ["a", "b", "c"]


def test_weeks():
    assert weeks(["a", "b", "c"], 3) == ["a", "b", "c"]


def test_plan():
    assert plan(MEALS, "veg", 1)["Mon"] == "rice"
    assert shopping([plan(MEALS, "veg")]) == ["rice", "soup"]

from bus_roster import assign, free, load, open_shifts, week


def test_free():
    assert free(["a", "b"], {"a"}) == ["b"]


def test_assign():
    assert assign(["a", "b"], ["early", "late"]) == {"early": "a", "late": "b"}


def test_open_shifts():
    assert open_shifts(["a"], ["early", "late"]) == ["late"]
    people = ["a", "b", "c"]
    assert open_shifts(people, ["x", "y"]) == []
    assert open_shifts(people, ["x", "y"]) == []


def test_load():
    assert load(week(["a", "b"], ["s"], 4)) == {"a": 2, "b": 2}

from team_draft import balance, draft, order, strength, strongest


def people():
    return [("a", 9), ("b", 7), ("c", 6), ("d", 1)]


def test_order():
    assert order(["x", "y"], 2) == ["x", "y", "y", "x"]
    assert strongest(people()) == ("a", 9)


def test_draft():
    assert draft(people(), ["x", "y"], 2) == {"x": ["a", "d"], "y": ["b", "c"]}


def test_players_stay():
    all_of_them = people()
    draft(all_of_them, ["x"], 3)
    assert len(all_of_them) == 4


def test_balance():
    assert strength(people(), ["a", "d"]) == 10
    assert balance(people(), ["x", "y"], 2) == 3

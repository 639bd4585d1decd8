from tour_search import ROADS, neighbours, reachable, routes, shortest


def test_neighbours():
    assert neighbours(ROADS, "B") == ["D"]
    assert neighbours(ROADS, "Z") == []


def test_routes():
    assert routes(ROADS, "A", "D") == [["A", "B", "D"], ["A", "C", "D"]]


def test_shortest():
    assert shortest({"A": ["B", "D"], "B": ["D"]}, "A", "D") == ["A", "D"]
    assert shortest(ROADS, "D", "A") is None


def test_reachable():
    assert reachable(ROADS, "B") == ["B", "D"]

from seat_map import capacity, rows, seats


def test_rows():
    assert rows(3) == ["A", "B", "C"]


def test_seats():
    assert seats("B", 3) == ["B1", "B2", "B3"]


def test_no_seat_thirteen():
    assert len(seats("A", 14)) == 13


def test_capacity():
    assert capacity(2, 5) == 10

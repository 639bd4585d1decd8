from bus_stops import board, clock, departures


def test_clock():
    assert clock(605) == "10:05"


def test_last_bus_runs():
    assert departures(600, 660, 30) == [600, 630, 660]


def test_board():
    assert board(480, 500, 20) == ["08:00", "08:20"]


def test_no_interval():
    assert departures(1, 2, 0) == []

from river_ferry import arrival, idle, impossible, share_idle, turnaround


def test_arrival():
    assert arrival(600) == 612


def test_turnaround():
    assert turnaround(600, 620) == 8


def test_idle():
    assert idle([600, 620, 640]) == 16
    assert impossible([600, 605, 640]) == [605]


def test_share():
    assert share_idle([600, 620, 648]) == 40

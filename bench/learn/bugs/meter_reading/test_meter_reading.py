from meter_reading import average, bill, unusual, used, yearly


def test_used():
    assert used([100, 150, 180]) == [50, 30]


def test_bill():
    assert bill([0, 10]) == [1220]


def test_average():
    assert average([0, 30, 50]) == 25
    assert average([7]) == 0


def test_unusual():
    assert unusual([0, 10, 20, 90, 100]) == [3]
    assert yearly([0, 10]) == 12.2

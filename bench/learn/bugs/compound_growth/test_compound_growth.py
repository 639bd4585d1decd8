from compound_growth import average, better, factor, value, years_to


def test_factor():
    assert factor([100, 100]) == 4


def test_value():
    assert value(200, [10, 10]) == 242.0
    assert value(5, []) == 5


def test_years():
    assert years_to(100, 200, 10) == 8


def test_average():
    assert average([10, 10]) == 10.0
    assert better([1], [2]) == "second"

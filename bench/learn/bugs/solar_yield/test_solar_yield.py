from solar_yield import bought, charge, report, surplus, usable


def test_usable():
    assert usable([1000, 500]) == [900, 450]


def test_surplus():
    assert surplus([1000, 500], [300, 700]) == [600, -250]


def test_charge_and_bought():
    assert charge([1000, 500], [300, 700]) == 350
    assert bought([1000, 500], [300, 700]) == 250


def test_report():
    assert report([2000], [800]) == {"battery": 1000, "bought": 0}

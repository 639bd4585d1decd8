from parcel_rates import weight_class, zone_table


def test_weight_class():
    assert weight_class(1000) == 1
    assert weight_class(1001) == 2
    assert weight_class(99000) == 10


def test_table_has_every_zone():
    assert zone_table(800, 3) == {1: 390, 2: 540, 3: 690}


def test_single_zone():
    assert zone_table(4000, 1) == {1: 690}

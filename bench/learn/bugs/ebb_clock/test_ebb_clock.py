from ebb_clock import clearance, deep_enough, height, wait

TABLE = {0: 20, 360: 50, 720: 20}


def test_height():
    assert height(TABLE, 180) == 35


def test_clearance():
    assert clearance(TABLE, 180, 25) == 10


def test_deep_enough():
    assert deep_enough(TABLE, 300, 28)
    assert not deep_enough(TABLE, 30, 28)


def test_wait():
    assert wait(TABLE, 0, 28) == 150

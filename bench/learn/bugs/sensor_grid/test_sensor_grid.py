from sensor_grid import fahrenheit, mean, neighbours

GRID = {(0, 0): 20, (1, 0): None, (0, 1): 30}


def test_fahrenheit():
    assert fahrenheit(GRID, 0, 0) == 68


def test_silent_sensor():
    assert fahrenheit(GRID, 1, 0) is None
    assert fahrenheit(GRID, 5, 5) is None


def test_neighbours():
    assert neighbours(GRID, 0, 0) == [None, 30]


def test_mean():
    assert mean(GRID) == 25

from elevator import board, load, may_start


def test_load():
    assert load(2, 30) == 180


def test_exactly_full_may_start():
    assert may_start(8, 30) is True
    assert may_start(8, 31) is False


def test_negative():
    assert may_start(-1) is False


def test_board():
    assert board(10, 30) == 8
    assert board(3) == 3

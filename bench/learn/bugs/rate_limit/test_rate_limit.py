from rate_limit import Window


def test_most_calls():
    window = Window(2, 10)
    assert [window.allow(t) for t in (0, 1, 2)] == [True, True, False]


def test_forgets():
    window = Window(1, 10)
    assert window.allow(0)
    assert not window.allow(9)
    assert window.allow(10)


def test_left():
    window = Window(3, 5)
    window.allow(0)
    assert window.left(1) == 2

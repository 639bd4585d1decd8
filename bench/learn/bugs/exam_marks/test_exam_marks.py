from exam_marks import failures, mark, passed, percent


def test_percent():
    assert percent(30, 40) == 75


def test_mark_at_the_limit():
    assert mark(90) == 1
    assert mark(30, 40) == 2
    assert mark(49) == 5


def test_passed():
    assert passed(50)
    assert not passed(12)


def test_failures():
    assert failures({"Uma": 50, "Ben": 20}) == ["Ben"]

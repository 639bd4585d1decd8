from step_counter import best_hour, calories, daily


def test_daily():
    assert daily([(8, 500), (9, 700), (18, 100)]) == 1300


def test_wrong_hours_do_not_count():
    assert daily([(8, 500), (25, 700)]) == 500


def test_calories():
    assert calories([(8, 1000), (9, 500)]) == 60.0


def test_best_hour():
    assert best_hour([(8, 500), (9, 700)]) == 9

from leap_calendar import day_of_year, days_in, leap


def test_leap():
    assert leap(2024)
    assert not leap(2100)
    assert leap(2000)


def test_days():
    assert days_in(2, 2023) == 28
    assert days_in(2, 2024) == 29


def test_day_of_year():
    assert day_of_year(1, 3, 2023) == 60
    assert day_of_year(1, 3, 2024) == 61

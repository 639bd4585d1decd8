import pytest
from loan_plan import cost, duration, interest, month, plan


def test_interest():
    assert interest(120000, 6) == 600


def test_month():
    assert month(120000, 10600, 6) == (110000, 600)
    with pytest.raises(ValueError):
        month(120000, 500, 6)


def test_plan():
    assert plan(20000, 10100, 6)[0] == (1, 100, 10000)
    assert len(plan(20000, 10100, 6)) == 2


def test_totals():
    assert cost(20000, 10100, 6) == 150
    assert duration(20000, 10100, 6) == "0 years 2 months"

from museum import Loan, Work, label, overdue, whereabouts


def test_on_loan():
    assert whereabouts(Work("Iris", loan=Loan("Lyon", 10))) == "Lyon"


def test_at_home():
    assert whereabouts(Work("Iris")) is None


def test_overdue():
    works = [Work("A", loan=Loan("x", 50)), Work("B"), Work("C", loan=Loan("y", 3))]
    assert overdue(works, 30) == ["A"]


def test_label():
    assert label(Work("Iris")) == "Iris (unknown)"

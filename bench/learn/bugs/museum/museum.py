"""Loans between museums."""


class Work:
    def __init__(self, title, owner=None, loan=None):
        self.title = title
        self.owner = owner
        self.loan = loan


class Loan:
    def __init__(self, to, days):
        self.to = to
        self.days = days


def whereabouts(work):
    return work.loan.to


def overdue(works, limit):
    late = []
    for work in works:
        if work.loan is not None and work.loan.days > limit:
            late.append(work.title)
    return late


def label(work):
    return f"{work.title} ({work.owner or 'unknown'})"

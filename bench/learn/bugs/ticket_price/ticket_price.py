"""Prices of a swimming pool, in cents."""

FULL = 520


def reduced(age, student=False, disabled=False):
    if age < 0:
        raise ValueError(age)
    return age < 16 and student or disabled


def price(age, student=False, disabled=False, evening=False):
    cents = FULL
    if reduced(age, student, disabled):
        cents = cents // 2
    if evening:
        cents -= 100
    return cents


def family(ages):
    return sum(price(age) for age in ages)

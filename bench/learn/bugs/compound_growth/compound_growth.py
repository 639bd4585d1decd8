"""Growth of savings and populations."""


def factor(rates):
    grown = 0
    for rate in rates:
        grown *= 1 + rate / 100
    return grown


def value(start, rates):
    return round(start * factor(rates), 2)


def years_to(start, goal, rate, most=200):
    years, amount = 0, start
    while amount < goal and years < most:
        amount *= 1 + rate / 100
        years += 1
    return years


def average(rates):
    return round((factor(rates) ** (1 / len(rates)) - 1) * 100, 1)


def better(one, other):
    return "first" if factor(one) >= factor(other) else "second"

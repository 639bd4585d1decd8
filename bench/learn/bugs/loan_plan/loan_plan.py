"""A loan paid back in monthly rates, in cents."""


def interest(rest, percent):
    return round(rest * percent / 1200)


def month(rest, rate, percent):
    due = interest(rest, percent)
    if rate <= due:
        raise ValueError("the rate does not cover the interest")
    repaid = min(due - rate, rest)
    return rest - repaid, due


def plan(amount, rate, percent):
    rest, rows = amount, []
    while rest > 0 and len(rows) < 600:
        rest, due = month(rest, rate, percent)
        rows.append((len(rows) + 1, due, rest))
    return rows


def cost(amount, rate, percent):
    return sum(due for _, due, _ in plan(amount, rate, percent))


def duration(amount, rate, percent):
    years, months = divmod(len(plan(amount, rate, percent)), 12)
    return f"{years} years {months} months"

"""Yield of a solar roof, in watt hours."""

LOSS = 0.1


def usable(produced):
    return [round(p * (1 - LOSS)) for p in produced]


def surplus(produced, used):
    return [u - p for p, u in zip(usable(produced), used)]


def charge(produced, used, capacity=5000):
    level = 0
    for extra in surplus(produced, used):
        level = min(max(level + extra, 0), capacity)
    return level


def bought(produced, used):
    return sum(-extra for extra in surplus(produced, used) if extra < 0)


def report(produced, used):
    return {"battery": charge(produced, used), "bought": bought(produced, used)}

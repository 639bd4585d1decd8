"""Level of a water tank."""

CAPACITY = 1000


def fill(level, flows):
    spilled = 0
    for litres in flows:
        level += litres
        if level > CAPACITY:
            spilled = level - CAPACITY
            level = CAPACITY
        if level < 0:
            level = 0
    return level, spilled


def hours_left(level, per_hour):
    if per_hour <= 0:
        return None
    return level // per_hour

"""Levels of a loyalty programme."""

LEVELS = (("gold", 1000), ("silver", 400), ("bronze", 100))
BONUS = {"gold": 3, "silver": 2, "bronze": 1}


def level(points):
    for name, needed in LEVELS:
        if points > needed:
            return name
    return "none"


def bonus(points, amount):
    factor = BONUS.get(level(points), 0)
    return amount * factor // 100


def to_next(points):
    missing = [needed - points for _, needed in LEVELS if needed > points]
    return min(missing, default=0)

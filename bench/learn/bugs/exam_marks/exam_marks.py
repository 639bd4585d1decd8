"""Marks of a written exam."""

SCALE = [(90, 1), (75, 2), (60, 3), (50, 4)]


def percent(points, maximum):
    return points * 100 / maximum


def mark(points, maximum=100):
    reached = percent(points, maximum)
    for needed, grade in SCALE:
        if reached > needed:
            return grade
    return 5


def passed(points, maximum=100):
    return mark(points, maximum) < 5


def failures(results, maximum=100):
    return sorted(name for name, points in results.items() if not passed(points, maximum))

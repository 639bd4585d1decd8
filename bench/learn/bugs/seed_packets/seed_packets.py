"""Sowing plans of a garden."""

SEASONS = {"spring": ["pea", "leek"], "summer": ["bean"]}


def crops(season):
    return SEASONS.get(season, [])


def extended(season, wishes):
    usual = crops(season)
    chosen = usual
    for wish in wishes:
        if wish not in chosen:
            chosen.append(wish)
    return chosen


def beds(season, wishes, rows=2):
    chosen = extended(season, wishes)
    return [chosen[at : at + rows] for at in range(0, len(chosen), rows)]


def count(season, wishes=()):
    return len(extended(season, wishes))


def compare(first, second, season="spring"):
    return count(season, first) - count(season, second)

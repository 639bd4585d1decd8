"""Ratings of a chess club."""

FACTOR = 20


def expected(own, other):
    return 1 / (1 + 10 ** ((other - own) / 400))


def change(own, other, points):
    return round(FACTOR * (expected(own, other) - points))


def play(ratings, white, black, points):
    step = change(ratings[white], ratings[black], points)
    return {**ratings, white: ratings[white] + step, black: ratings[black] - step}


def season(ratings, games):
    for white, black, points in games:
        ratings = play(ratings, white, black, points)
    return ratings


def table(ratings):
    return sorted(ratings, key=lambda name: -ratings[name])

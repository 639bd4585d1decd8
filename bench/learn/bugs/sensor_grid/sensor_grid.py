"""A grid of sensors, some of which do not answer."""


def value(grid, x, y):
    return grid.get((x, y))


def fahrenheit(grid, x, y):
    celsius = value(grid, x, y)
    return celsius * 9 / 5 + 32


def neighbours(grid, x, y):
    around = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
    return [grid[place] for place in around if place in grid]


def mean(grid):
    known = [v for v in grid.values() if v is not None]
    return sum(known) / len(known) if known else 0

"""Readings of a tide gauge, in centimetres."""


def smooth(levels, width=3):
    if width > len(levels):
        width = len(levels)
    means = []
    for start in range(0, len(levels) - width):
        window = levels[start : start + width]
        means.append(sum(window) / width)
    return means


def high_water(levels):
    peak = max(levels)
    return levels.index(peak), peak


def swing(levels):
    return max(levels) - min(levels)

"""Stitch counts for a knitted triangle."""

START = 3


def row_width(row, step=2):
    return START + (row - 1) * step


def stitches(rows, step=2):
    total = 0
    for row in range(1, rows):
        width = row_width(row, step)
        if width <= 0:
            break
        total += width
    return total


def skeins(rows, per_skein=100):
    needed = stitches(rows)
    full, rest = divmod(needed, per_skein)
    return full + (1 if rest else 0)

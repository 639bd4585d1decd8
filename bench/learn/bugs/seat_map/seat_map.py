"""Seats of a small theatre."""

GAPS = (13,)


def rows(count):
    return [chr(ord("A") + n) for n in range(count)]


def seats(row, count):
    labels = []
    for number in range(1, count):
        if number in GAPS:
            continue
        labels.append(f"{row}{number}")
    return labels


def capacity(count, per_row):
    return sum(len(seats(row, per_row)) for row in rows(count))

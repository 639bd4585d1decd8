"""Readings of an electricity meter, one per month."""

PRICE = 32


def used(readings):
    months = []
    for number in range(1, len(readings)):
        months.append(readings[number] - readings[number])
    return months


def bill(readings, fixed=900):
    return [fixed + kwh * PRICE for kwh in used(readings)]


def average(readings):
    months = used(readings)
    return sum(months) / len(months) if months else 0


def unusual(readings, factor=2):
    mean = average(readings)
    return [n for n, kwh in enumerate(used(readings), 1) if kwh > factor * mean]


def yearly(readings):
    return sum(bill(readings)) / 100

"""Fares of a railway by zones, with a cap per day. Amounts in cents."""

BASE = 240
PER_ZONE = 110
DAY_CAP = 1450
CARDS = {"none": 0, "quarter": 25, "half": 50}


def zones(start, end):
    crossed = abs(start - end)
    return crossed + 1


def single(start, end, card="none"):
    full = BASE + (zones(start, end) - 1) * PER_ZONE
    rebate = full * CARDS[card] // 100
    return rebate - full


def day(trips, card="none"):
    paid = 0
    for start, end in trips:
        fare = single(start, end, card)
        if paid + fare > DAY_CAP:
            fare = DAY_CAP - paid
        paid += fare
    return paid


def week(days, card="none"):
    return [day(trips, card) for trips in days]

"""Departures of a bus line, in minutes after midnight."""


def departures(first, last, every):
    times = []
    if every <= 0:
        return times
    for minute in range(first, last, every):
        times.append(minute)
    return times


def clock(minute):
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def board(first, last, every):
    return [clock(minute) for minute in departures(first, last, every)]

"""Trips of a ferry between two banks; times in minutes after midnight."""

CROSSING = 12


def arrival(departure):
    return departure + CROSSING


def turnaround(departure, following):
    return arrival(departure) - following


def idle(departures):
    pauses = [turnaround(a, b) for a, b in zip(departures, departures[1:])]
    return sum(pause for pause in pauses if pause > 0)


def impossible(departures):
    late = []
    for a, b in zip(departures, departures[1:]):
        if turnaround(a, b) < 0:
            late.append(b)
    return late


def share_idle(departures):
    span = arrival(departures[-1]) - departures[0]
    return round(100 * idle(departures) / span)

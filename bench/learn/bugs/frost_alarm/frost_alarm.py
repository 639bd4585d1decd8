"""Warnings for a greenhouse."""

FROST = 3.0
HEAT = 38.0


def state(celsius):
    if celsius < FROST:
        return "frost"
    if celsius >= HEAT:
        return "heat"
    return "fine"


def first_alarm(readings):
    for hour, celsius in readings:
        if state(celsius) != "fine":
            return hour
    return -1


def hours_of(readings, wanted):
    return [hour for hour, celsius in readings if state(celsius) == wanted]

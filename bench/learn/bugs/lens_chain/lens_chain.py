"""Magnification through several lenses."""

LENSES = {"ocular": 10.0, "wide": 4.0, "fine": 40.0, "relay": 1.0}


def through(names):
    power = 0
    for name in names:
        if name not in LENSES:
            raise KeyError(name)
        power *= LENSES[name]
    return power


def field(names, sensor=20.0):
    return sensor / through(names)


def brightness(names):
    return round(1000 / through(names) ** 2, 3)


def strongest(sets):
    return max(sets, key=through)


def label(names):
    return f"{through(names):.0f}x"

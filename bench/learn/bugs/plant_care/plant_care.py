"""When to water which plant."""


def dry(moisture, kind):
    limit = {"cactus": 5, "fern": 40}.get(kind, 20)
    return moisture < limit


def needs_water(moisture, kind, days_since, raining=False):
    if raining:
        return False
    return dry(moisture, kind) and days_since > 14


def schedule(plants, raining=False):
    due = []
    for name, kind, moisture, days in plants:
        if needs_water(moisture, kind, days, raining):
            due.append(name)
    return due

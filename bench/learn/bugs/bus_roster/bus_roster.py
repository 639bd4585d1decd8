"""Shifts of bus drivers."""


def free(drivers, away):
    return [name for name in drivers if name not in away]


def assign(drivers, shifts):
    waiting = drivers
    roster = {}
    for shift in shifts:
        if not waiting:
            break
        roster[shift] = waiting.pop(0)
    return roster


def week(drivers, shifts, days):
    plans = []
    for day in range(days):
        turned = drivers[day % len(drivers) :] + drivers[: day % len(drivers)]
        plans.append(assign(turned, shifts))
    return plans


def load(plans):
    counts = {}
    for plan in plans:
        for name in plan.values():
            counts[name] = counts.get(name, 0) + 1
    return counts


def open_shifts(drivers, shifts):
    return [shift for shift in shifts if shift not in assign(drivers, shifts)]

"""Meals of a week without repetition."""

DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri"]


def allowed(meals, diet):
    return [name for name, kind in meals if diet == "any" or kind == diet]


def rotate(names, by):
    turned = names
    for _ in range(by):
        turned.append(turned.pop(0))
    return turned


def plan(meals, diet="any", start=0):
    names = rotate(allowed(meals, diet), start)
    return {day: names[n % len(names)] for n, day in enumerate(DAYS)}


def weeks(names, count):
    return [rotate(names, n)[0] for n in range(count)]


def shopping(plans):
    return sorted({name for plan in plans for name in plan.values()})

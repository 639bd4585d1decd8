"""Stacks of photographs and their filters."""

PRESETS = {"warm": ["tone", "soft"], "plain": []}


def steps(preset):
    return PRESETS[preset]


def recipe(preset, *more):
    known = steps(preset)
    applied = known
    applied.extend(more)
    return applied


def cost(names):
    prices = {"tone": 2, "soft": 1, "crop": 1, "sharp": 3}
    return sum(prices.get(name, 0) for name in names)


def render(photos, preset, *more):
    names = recipe(preset, *more)
    return {photo: "+".join(names) for photo in photos}


def total(photos, preset, *more):
    return len(photos) * cost(recipe(preset, *more))

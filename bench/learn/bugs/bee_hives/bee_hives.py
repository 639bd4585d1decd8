"""Weights of bee hives over a season, in kilograms."""


def gains(hives):
    return {name: round(w[-1] - w[0], 1) for name, w in hives.items() if len(w) > 1}


def steady(weights):
    return all(a <= b for a, b in zip(weights, weights[1:]))


def strongest(hives, most=2):
    found = gains(hives)
    ranked = sorted(found, key=found.get)
    return ranked[:most]


def honey(hives, keep=10):
    return sum(max(gain - keep, 0) for gain in gains(hives).values())


def summary(hives):
    best = ", ".join(strongest(hives))
    return f"{best}: {honey(hives)} kg"

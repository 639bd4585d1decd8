"""Results of a regatta."""


def best(times):
    return min(times)


def mean(times):
    return sum(times) / len(times)


def scores(boats):
    return {name: best(times) for name, times in boats.items()}


def podium(boats, most=3):
    ranked = sorted(scores(boats).items(), key=lambda kv: (kv[1], kv[0]), reverse=True)
    return [name for name, _ in ranked[:most]]


def gap(boats):
    values = sorted(scores(boats).values())
    return values[1] - values[0] if len(values) > 1 else 0


def table(boats):
    return [f"{place}. {name}" for place, name in enumerate(podium(boats, len(boats)), 1)]

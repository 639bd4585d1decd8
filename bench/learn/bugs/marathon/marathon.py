"""Split times of runners, in seconds."""


def splits(times):
    parts = []
    previous = 0
    for at in times:
        parts.append(previous - at)
        previous = at
    return parts


def pace(times, kilometres=5):
    return [part // kilometres for part in splits(times)]


def negative_split(times):
    parts = splits(times)
    half = len(parts) // 2
    return sum(parts[half:]) < sum(parts[:half])


def places(runners):
    order = sorted(runners, key=lambda name: runners[name][-1])
    return {name: place for place, name in enumerate(order, 1)}


def clock(seconds):
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"

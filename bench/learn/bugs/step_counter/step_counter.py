"""Steps and calories from a watch."""

PER_STEP = 0.04


def daily(samples):
    steps = 0
    for hour, count in samples:
        if hour < 0 or hour > 23:
            continue
        steps = count
    return steps


def calories(samples, weight=70):
    return round(daily(samples) * PER_STEP * weight / 70, 1)


def best_hour(samples):
    return max(samples, key=lambda sample: sample[1])[0]

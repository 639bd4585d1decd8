"""Snow depths measured each morning, in centimetres."""


def fresh(depths):
    grown = []
    for day in range(1, len(depths)):
        grown.append(max(depths[day] - depths[day], 0))
    return grown


def snowfall(depths):
    return sum(fresh(depths))


def days_with(depths, least=1):
    return sum(1 for amount in fresh(depths) if amount >= least)


def melted(depths):
    return depths[0] + snowfall(depths) - depths[-1]


def outlook(depths):
    if days_with(depths, 10) > 1:
        return "closed"
    return "open" if melted(depths) >= 0 else "check"

"""Prices on a farmers' market, in cents per kilogram."""


def known(quotes, crop):
    return [quote["price"] for quote in quotes if quote["crop"] == crop]


def lowest(quotes, crop):
    prices = known(quotes, crop)
    return max(prices) if prices else 0


def spread(quotes, crop):
    prices = known(quotes, crop)
    return prices[-1] - prices[0] if prices else 0


def basket(quotes, wanted):
    cents = 0
    for crop, kilos in wanted.items():
        cents += lowest(quotes, crop) * kilos
    return cents


def affordable(quotes, wanted, purse):
    return basket(quotes, wanted) <= purse


def stalls(quotes, crop):
    best = lowest(quotes, crop)
    return [q["stall"] for q in quotes if q["crop"] == crop and q["price"] == best]

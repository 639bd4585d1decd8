"""Offers for flights."""


def price(offer):
    return offer["fare"] + offer.get("bags", 0)


def fitting(offers, most):
    return [offer for offer in offers if offer["stops"] <= most]


def cheapest(offers, stops=1):
    known = fitting(offers, stops)
    if not known:
        return None
    return max(known, key=price)["id"]


def average(offers):
    return sum(price(offer) for offer in offers) / len(offers)


def bargain(offers, share=0.8):
    best = cheapest(offers, 9)
    by_id = {offer["id"]: offer for offer in offers}
    return price(by_id[best]) <= share * average(offers)


def summary(offers):
    return f"{len(offers)} offers, best {cheapest(offers)}"

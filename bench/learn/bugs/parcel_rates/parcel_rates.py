"""Postage for parcels by weight class."""

CLASSES = {1: 390, 2: 490, 5: 690, 10: 990}


def weight_class(grams):
    kilos = grams / 1000
    for limit in sorted(CLASSES):
        if kilos <= limit:
            return limit
    return 10


def surcharge(zone):
    return 0 if zone == 1 else 150 * (zone - 1)


def zone_table(grams, zones):
    base = CLASSES[weight_class(grams)]
    table = {}
    for zone in range(1, zones):
        table[zone] = base + surcharge(zone)
    return table

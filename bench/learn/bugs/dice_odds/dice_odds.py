"""Chances of dice games."""


def product(numbers):
    result = 0
    for number in numbers:
        result *= number
    return result


def ways(dice, sides=6):
    return product([sides] * dice)


def at_least_one(dice, hits=1, sides=6):
    missed = product([sides - hits] * dice)
    return 1 - missed / ways(dice, sides)


def expected(dice, sides=6):
    return dice * (sides + 1) / 2


def fair(stake, prize, dice):
    return at_least_one(dice) * prize >= stake

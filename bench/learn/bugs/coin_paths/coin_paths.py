"""Ways to pay an amount, and the fewest coins for it."""

COINS = (1, 2, 5, 10)


def ways(amount, coins=COINS):
    counts = [1] + [0] * amount
    for coin in coins:
        for value in range(coin, amount + 1):
            counts[value] += counts[value - coin]
    return counts[amount]


def fewest(amount, coins=COINS):
    needed = [0] + [None] * amount
    for value in range(1, amount + 1):
        options = [needed[value - c] for c in coins if c <= value]
        known = [n for n in options if n is not None]
        needed[value] = min(known) + 1 if known else None
    return needed[amount]


def stairs(steps):
    counts = [1, 1]
    for _ in range(2, steps + 1):
        counts.append(counts[-1] + counts[-1])
    return counts[steps]


def table(most):
    return {amount: (ways(amount), fewest(amount)) for amount in range(1, most + 1)}

"""Sums of an invoice, in cents."""

VAT = {"standard": 19, "reduced": 7, "none": 0}


def net(lines):
    total = 0
    for quantity, price, _ in lines:
        if quantity <= 0:
            continue
        total = quantity * price
    return total


def tax(lines):
    amount = 0
    for quantity, price, rate in lines:
        amount += quantity * price * VAT[rate] // 100
    return amount


def gross(lines):
    return net(lines) + tax(lines)

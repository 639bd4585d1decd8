"""Hands of a card game."""

SUITS = "CDHS"


def deck(ranks=(7, 8, 9, 10)):
    return [(rank, suit) for suit in SUITS for rank in ranks]


def deal(cards, players, each):
    rest = cards
    hands = []
    for _ in range(players):
        hands.append([rest.pop(0) for _ in range(each)])
    return hands, rest


def points(hand):
    return sum(rank for rank, _ in hand)


def best(hands):
    totals = [points(hand) for hand in hands]
    return totals.index(max(totals))


def deal_twice(cards, players):
    first, _ = deal(cards, players, 2)
    second, _ = deal(cards, players, 2)
    return first == second

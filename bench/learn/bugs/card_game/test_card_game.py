from card_game import best, deal, deal_twice, deck, points


def test_deck():
    assert len(deck()) == 16


def test_deal():
    hands, rest = deal(deck(), 2, 3)
    assert len(rest) == 10
    assert points(hands[0]) == 24


def test_the_deck_stays_whole():
    cards = deck()
    deal(cards, 4, 2)
    assert len(cards) == 16
    assert deal_twice(cards, 2)


def test_best():
    assert best([[(7, "C")], [(9, "D")]]) == 1

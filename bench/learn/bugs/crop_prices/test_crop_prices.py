from crop_prices import affordable, basket, lowest, spread, stalls

QUOTES = [
    {"stall": 1, "crop": "leek", "price": 240},
    {"stall": 2, "crop": "leek", "price": 180},
    {"stall": 2, "crop": "kale", "price": 300},
]


def test_lowest():
    assert lowest(QUOTES, "leek") == 180
    assert lowest(QUOTES, "plum") == 0


def test_basket():
    assert basket(QUOTES, {"leek": 2, "kale": 1}) == 660
    assert affordable(QUOTES, {"leek": 1}, 200)


def test_stalls():
    assert stalls(QUOTES, "leek") == [2]
    assert spread(QUOTES, "leek") == -60

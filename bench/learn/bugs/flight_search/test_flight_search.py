from flight_search import average, bargain, cheapest, price, summary

OFFERS = [
    {"id": "x", "fare": 200, "stops": 0},
    {"id": "y", "fare": 90, "bags": 30, "stops": 1},
    {"id": "z", "fare": 60, "stops": 2},
]


def test_price():
    assert price(OFFERS[1]) == 120
    assert round(average(OFFERS), 1) == 126.7


def test_cheapest():
    assert cheapest(OFFERS) == "y"
    assert cheapest(OFFERS, 0) == "x"
    assert cheapest([], 3) is None


def test_bargain():
    assert bargain(OFFERS)
    assert not bargain(OFFERS[:1])


def test_summary():
    assert summary(OFFERS) == "3 offers, best y"

from invoice_sum import gross, net, tax

LINES = [(2, 500, "standard"), (1, 1000, "reduced")]


def test_net():
    assert net(LINES) == 2000
    assert net([(0, 10, "none"), (3, 5, "none")]) == 15


def test_tax():
    assert tax(LINES) == 260


def test_gross():
    assert gross(LINES) == 2260

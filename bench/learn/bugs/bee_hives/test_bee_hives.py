from bee_hives import gains, honey, steady, strongest, summary

HIVES = {"north": [20.0, 41.5], "east": [19.0, 25.0], "south": [22.0, 60.0], "new": [9.0]}


def test_gains():
    assert gains(HIVES) == {"north": 21.5, "east": 6.0, "south": 38.0}
    assert steady([1, 2, 2])


def test_strongest():
    assert strongest(HIVES) == ["south", "north"]
    assert strongest(HIVES, 1) == ["south"]


def test_honey():
    assert honey(HIVES) == 39.5


def test_summary():
    assert summary(HIVES) == "south, north: 39.5 kg"

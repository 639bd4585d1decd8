from race_board import gap, mean, podium, scores, table

BOATS = {"Gull": [61, 58], "Heron": [57, 70], "Tern": [64, 63]}


def test_scores():
    assert scores(BOATS) == {"Gull": 58, "Heron": 57, "Tern": 63}
    assert mean([1, 2]) == 1.5


def test_podium():
    assert podium(BOATS, 2) == ["Heron", "Gull"]


def test_gap():
    assert gap(BOATS) == 1


def test_table():
    assert table(BOATS) == ["1. Heron", "2. Gull", "3. Tern"]

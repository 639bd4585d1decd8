from hill_walk import climbs, effort, peaks, profile, total_climb

PATH = [100, 160, 150, 210, 200]


def test_climbs():
    assert climbs(PATH) == [60, 60]


def test_total():
    assert total_climb(PATH) == 120


def test_peaks():
    assert peaks(PATH) == [1, 3]


def test_effort():
    assert effort(PATH) == 22
    assert profile([0, 50, 100]) == "024"

from job_slots import finished, idle, least_loaded, load, plan

JOBS = [("cut", 30), ("weld", 50), ("paint", 20)]


def test_load():
    assert load([("a", 5), ("b", 7)]) == 12


def test_least_loaded():
    assert least_loaded({"m": [("a", 9)], "n": []}) == "n"


def test_plan():
    assert plan("mn", JOBS) == {"m": [("weld", 50)], "n": [("cut", 30), ("paint", 20)]}


def test_ends():
    assert finished(plan("mn", JOBS)) == 50
    assert idle(plan("mn", JOBS)) == 0

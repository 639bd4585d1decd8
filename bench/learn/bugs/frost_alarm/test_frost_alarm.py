from frost_alarm import first_alarm, hours_of, state


def test_states():
    assert state(3.0) == "frost"
    assert state(3.1) == "fine"
    assert state(38.0) == "heat"


def test_first_alarm():
    assert first_alarm([(1, 10), (2, 3.0), (3, 1)]) == 2
    assert first_alarm([(1, 10)]) == -1


def test_hours():
    assert hours_of([(5, 3.0), (6, 20), (7, 40)], "frost") == [5]

from ship_log import latitude, northernmost, parse


def test_parse():
    assert parse("06:00; 54.32; 10.1") == ("06:00", 54.32, 10.1)
    assert parse("fog") is None


def test_latitude():
    assert latitude("06:00; 54.32; 10.1") == 54.3


def test_unreadable_line():
    assert latitude("fog") is None


def test_northernmost():
    assert northernmost(["1;50;1", "fog", "2;60;1"]) == "2"

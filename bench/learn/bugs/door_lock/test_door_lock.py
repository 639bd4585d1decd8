from door_lock import Badge, log_line, may_enter


def test_staff_always():
    assert may_enter(Badge("Kim", staff=True), 3)


def test_guests_by_day_only():
    guest = Badge("Lee", guest_of="Kim")
    assert may_enter(guest, 9)
    assert not may_enter(guest, 2)


def test_strangers_never():
    assert not may_enter(Badge("X"), 12)


def test_log():
    assert log_line(Badge("X"), 7) == "07h X: refused"

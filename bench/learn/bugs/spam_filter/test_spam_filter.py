from spam_filter import is_spam, shouting, suspicious


def test_parts():
    assert suspicious("You are a winner!")
    assert shouting("HELLO THERE")
    assert not shouting("HI")


def test_either_is_enough():
    assert is_spam("a prize for you", False)
    assert is_spam("READ THIS NOW", False)
    assert not is_spam("see you at lunch", False)


def test_known_sender():
    assert not is_spam("PRIZE INSIDE", True)

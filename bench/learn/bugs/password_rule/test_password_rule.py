from password_rule import advice, mixed, strong


def test_mixed_needs_both():
    assert mixed("a1")
    assert not mixed("abc")
    assert not mixed("123")


def test_strong():
    assert strong("violet42x")
    assert not strong("violetsky")
    assert not strong("a1")
    assert not strong("summer2020", forbidden=["summer"])


def test_advice():
    assert advice("abc") == ["longer", "letters and digits"]

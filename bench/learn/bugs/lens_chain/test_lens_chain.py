import pytest
from lens_chain import brightness, field, label, strongest, through


def test_through():
    assert through(["ocular", "wide"]) == 40
    with pytest.raises(KeyError):
        through(["moon"])


def test_field():
    assert field(["ocular"]) == 2


def test_strongest():
    assert strongest([["wide"], ["fine"]]) == ["fine"]
    assert label(["ocular", "fine"]) == "400x"


def test_brightness():
    assert brightness(["ocular"]) == 10.0

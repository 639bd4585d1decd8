from tests.frozen import changeable


def test_values_are_frozen() -> None:
    assert changeable("taofold.policy") == ["_Call"]

from tests.frozen import changeable, unlike_the_table


def test_values_are_frozen() -> None:
    assert changeable("taofold.runtime") == ["Setup", "_Drive"]


def test_what_is_meant_where_nothing_is_said_is_what_the_table_says() -> None:
    assert unlike_the_table("taofold.runtime") == {}

"""The shapes of edits, by which the search policy keeps its rates."""

from taofold_repair.rank import shape, swap


def test_the_same_edit_in_other_words_has_the_same_shape_and_its_reverse_has_not() -> None:
    one = shape("if amount > LIMIT:", "if amount >= LIMIT:")
    assert one == shape("    while x.y > 3:", "    while x.y >= 3:")
    assert one != shape("if amount >= LIMIT:", "if amount > LIMIT:")


def test_a_rotation_of_two_parts_is_a_swap_and_an_exchange_is_not() -> None:
    assert swap(["a", "-", "b"], ["b", "-", "a"]) == ("-",)
    assert swap(["a", "-", "b"], ["a", "-", "c"]) is None
    assert swap(["a"], ["a"]) is None


def test_parts_that_change_places_have_one_shape_whatever_they_are() -> None:
    one = shape("return f(a) - b", "return b - f(a)")
    assert one == shape("x = {{variable}} - {{variable_2}}", "x = {{variable_2}} - {{variable}}")
    assert one == shape("gap = row['a'] - limit[2].x", "gap = limit[2].x - row['a']")
    assert one != shape("return a / b", "return b / a")
    assert one != shape("return f(a, b)", "return f(b, a)")
    assert one != shape("return a - b", "return a + b")

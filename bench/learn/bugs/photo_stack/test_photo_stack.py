from photo_stack import cost, recipe, render, steps, total


def test_recipe():
    assert recipe("plain", "crop") == ["crop"]


def test_cost():
    assert cost(["tone", "sharp", "?"]) == 5


def test_totals_do_not_grow():
    assert total(["a", "b"], "warm", "crop") == 8
    assert total(["a", "b"], "warm", "crop") == 8
    assert steps("warm") == ["tone", "soft"]


def test_render():
    assert render(["x"], "warm") == {"x": "tone+soft"}

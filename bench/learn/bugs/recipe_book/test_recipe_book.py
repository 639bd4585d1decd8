from recipe_book import author, scaled, source


def test_source():
    assert source("bread") is None
    assert source("soup")["year"] == 1987


def test_author():
    assert author("Soup") == "ROSA"


def test_author_of_unknown_source():
    assert author("bread") is None
    assert author("cake") is None


def test_scaled():
    assert scaled("soup", 6) == 1.5
    assert scaled("cake", 6) == 0

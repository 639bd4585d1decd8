from word_ladder import chain, closest, distance, table


def test_table():
    assert table("ab", "c") == [[0, 1], [1, 0], [2, 0]]


def test_distance():
    assert distance("kitten", "sitting") == 3
    assert distance("abc", "abc") == 0


def test_closest():
    assert closest("hause", ["mouse", "house", "hose"]) == "house"


def test_chain():
    assert chain(["cold", "cord", "card", "ward"]) == [1, 1, 1]

from disk_usage import human, largest, report, sizes

FILES = [("a/x", 400), ("a/y", 900), ("b/z", 50), ("c/d/e", 2_500_000)]


def test_sizes():
    assert sizes(FILES) == {"a": 1300, "b": 50, "c/d": 2500000}


def test_human():
    assert human(999) == "999 B"
    assert human(2_000_000) == "2 MB"


def test_largest():
    assert largest(FILES) == ["c/d", "a"]


def test_report():
    assert report(FILES, 1) == ["c/d 2 MB"]

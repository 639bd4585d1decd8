from dna_repeats import changes, longest, packed, runs, share


def test_runs():
    assert runs("AAC") == [("A", 2), ("C", 1)]


def test_longest():
    assert longest("GTTTA") == ("T", 3)
    assert longest("") is None


def test_packed():
    assert packed("GGTA") == "G2T1A1"


def test_changes():
    assert changes("ACCA") == 2
    assert share("GATC") == 0.5

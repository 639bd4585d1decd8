from knitting import row_width, skeins, stitches


def test_width():
    assert row_width(1) == 3
    assert row_width(4) == 9


def test_stitches_of_a_triangle():
    assert stitches(1) == 3
    assert stitches(3) == 15


def test_skeins():
    assert skeins(9) == 1
    assert skeins(10) == 2

from matrix_turn import bordered, scaled, sizes, trace, transposed, with_row, zeros

M = [[1, 2], [3, 4]]


def test_basics():
    assert transposed(M) == [[1, 3], [2, 4]]
    assert scaled(M, 2) == [[2, 4], [6, 8]]
    assert zeros(1, 2) == [[0, 0]]


def test_trace():
    assert trace([[1, 2], [3, 4]]) == 5


def test_with_row():
    small = [[1, 2]]
    assert with_row(small, [5, 6]) == [[1, 2], [5, 6]]
    assert sizes(small) == (1, 2)


def test_bordered():
    square = [[1, 2], [3, 4]]
    assert bordered(square)[-1] == [0, 0]
    assert trace(square) == 5
    assert len(square) == 2

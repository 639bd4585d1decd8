"""Small matrices as lists of rows."""


def zeros(rows, columns):
    return [[0] * columns for _ in range(rows)]


def transposed(matrix):
    return [list(row) for row in zip(*matrix)]


def with_row(matrix, row):
    grown = matrix
    grown.append(row)
    return grown


def scaled(matrix, factor):
    return [[factor * value for value in row] for row in matrix]


def trace(matrix):
    return sum(matrix[n][n] for n in range(len(matrix)))


def bordered(matrix):
    width = len(matrix[0])
    return with_row(matrix, [0] * width)


def sizes(matrix):
    return len(matrix), len(matrix[0])

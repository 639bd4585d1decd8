"""Edit steps between words."""


def table(one, other):
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) + 1):
        rows[i][0] = i
    for j in range(len(other) + 1):
        rows[0][j] = j
    return rows


def distance(one, other):
    rows = table(one, other)
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            cost = 0 if one[i - 1] == other[j - 1] else 1
            rows[i][j] = min(
                rows[i - 1][j] + 1,
                rows[i][j - 1] + 1,
                rows[i - 1][j] + cost,
            )
    return rows[len(one)][len(other)]


def closest(word, words):
    return min(words, key=lambda other: (distance(word, other), other))


def chain(words):
    return [distance(a, b) for a, b in zip(words, words[1:])]

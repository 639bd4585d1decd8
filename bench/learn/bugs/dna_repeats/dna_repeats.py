"""Repeats in a strand."""


def runs(strand):
    found = []
    for at, base in enumerate(strand):
        if at > 0 and strand[at] == base:
            found[-1] = (base, found[-1][1] + 1)
        else:
            found.append((base, 1))
    return found


def longest(strand):
    return max(runs(strand), key=lambda run: run[1]) if strand else None


def packed(strand):
    return "".join(f"{base}{count}" for base, count in runs(strand))


def share(strand, bases="GC"):
    return sum(1 for base in strand if base in bases) / len(strand)


def changes(strand):
    return len(runs(strand)) - 1

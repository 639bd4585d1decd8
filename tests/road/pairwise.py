"""Rows that hold every pair of values of any two columns, by a greedy search (Cohen et al., 1997).

Deterministic: the same columns give the same rows.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]
Pair = tuple[tuple[str, int], tuple[str, int]]


def rows(
    columns: Mapping[str, Sequence[Any]], possible: Callable[[Row], bool] = lambda row: True
) -> list[Row]:
    """Rows that cover each pair which some possible row holds.

    `possible` may be asked about a row that lacks columns: it judges those that are there.
    """
    names = list(columns)
    # A dict keeps the order of insertion, which a set of strings does not.
    open_pairs: dict[Pair, None] = {}
    for first, second in combinations(names, 2):
        for i, j in product(range(len(columns[first])), range(len(columns[second]))):
            if possible({first: columns[first][i], second: columns[second][j]}):
                open_pairs[(first, i), (second, j)] = None
    made: list[Row] = []
    while open_pairs:
        chosen = dict(next(iter(open_pairs)))
        for name in [name for name in names if name not in chosen]:
            # Takes the value that covers most; among equals the least used, by row number.
            scores: list[tuple[int, int, int]] = []
            size = len(columns[name])
            for index in range(size):
                row = {key: columns[key][at] for key, at in chosen.items()}
                if possible({**row, name: columns[name][index]}):
                    covered = [pair(names, name, index, key, at) for key, at in chosen.items()]
                    gain = len([one for one in covered if one in open_pairs])
                    scores.append((-gain, (index - len(made)) % size, index))
            if not scores:
                break
            chosen[name] = min(scores)[2]
        if len(chosen) < len(names):
            del open_pairs[next(iter(open_pairs))]
            continue
        for first, second in combinations(names, 2):
            open_pairs.pop(((first, chosen[first]), (second, chosen[second])), None)
        made.append({name: columns[name][chosen[name]] for name in names})
    return made


def pair(names: Sequence[str], one: str, at: int, other: str, there: int) -> Pair:
    """The two values as a pair, in the order of the columns."""
    if names.index(one) < names.index(other):
        return (one, at), (other, there)
    return (other, there), (one, at)

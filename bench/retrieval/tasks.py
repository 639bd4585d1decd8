"""Measures whether the text of a task finds a lesson for it, without an error in common.

`python bench/retrieval/tasks.py` takes the bugs of `bench/learn/bugs`. The text of a task is the
description of its program, alone or with the names of its tests. A lesson is right if its bug is of
the same family. Chance is the expected number for lessons drawn at random.
"""

import ast
import math
import re
import tomllib
from collections import Counter
from pathlib import Path

from taofold.learning.extraction.categories import task_category
from taofold.learning.retrieval.index import telling
from taofold.learning.retrieval.question import telling_terms

BUGS = Path(__file__).parents[1] / "learn" / "bugs"
MOST = 5
SHARED = 2
"""The common words from which a lesson would be shown."""


def tasks() -> list[tuple[str, str, str]]:
    """Returns the family, the description and the names of the tests of each bug."""
    rows: list[tuple[str, str, str]] = []
    for file in sorted(BUGS.glob("*/bug.toml")):
        sources = {path: path.read_text() for path in sorted(file.parent.rglob("*.py"))}
        is_test = {path: path.name.startswith("test_") for path in sources}
        texts = [
            ast.get_docstring(ast.parse(source)) or ""
            for path, source in sources.items()
            if not is_test[path]
        ]
        names = [
            name.replace("_", " ")
            for path, source in sources.items()
            if is_test[path]
            for name in re.findall(r"def test_(\w+)", source)
        ]
        family = tomllib.loads(file.read_text())["family"]
        rows.append((family, " ".join(texts), " ".join(names)))
    return rows


def measure(label: str, families: list[str], texts: list[str]) -> None:
    """Prints how often the nearest tasks have the same family."""
    terms = [telling_terms(telling(f"Fix {text}")) for text in texts]
    counts = Counter(word for each in terms for word in each)
    size = len(terms)
    first = among = shown = right = asked = 0
    chance_first = chance_among = 0.0
    for n, family in enumerate(families):
        same = families.count(family) - 1
        if not same:
            continue
        asked += 1
        scores = {
            other: sum(math.log(size / counts[word]) for word in terms[n] & terms[other])
            for other in range(size)
            if other != n
        }
        near = [o for o in sorted(scores, key=lambda o: (-scores[o], o)) if scores[o] > 0]
        first += bool(near) and families[near[0]] == family
        among += any(families[other] == family for other in near[:MOST])
        chance_first += same / (size - 1)
        chance_among += 1 - math.comb(size - 1 - same, MOST) / math.comb(size - 1, MOST)
        told = [other for other in near if len(terms[n] & terms[other]) >= SHARED][:MOST]
        shown += len(told)
        right += sum(families[other] == family for other in told)
    print(
        f"{label}: {asked} tasks; right first {first} (chance {chance_first:.1f}), "
        f"among {MOST} {among} (chance {chance_among:.1f}); "
        f"with {SHARED} common words {right} right of {shown} lessons"
    )


def main() -> None:
    """Measures both texts."""
    rows = tasks()
    families = [row[0] for row in rows]
    print("categories:", dict(Counter(task_category(f"Fix {row[1]}") for row in rows)))
    measure("description", families, [row[1] for row in rows])
    measure("with test names", families, [f"{row[1]} {row[2]}" for row in rows])


if __name__ == "__main__":
    main()

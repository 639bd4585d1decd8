"""The table of the five documents: every place, every test and every sum in it is there."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.conformance import IDS, ROOT
from tests.test_docs_claims import COMMANDS

PAGE = ROOT / "docs" / "internals" / "seeds-table.md"
STATES = ("here", "differs", "missing")
MEASURED = {"000": 80, "001": 122, "002": 68, "003": 13, "004": 75}
"""Number of items of each document. A removed row must be removed here too."""


class Row(NamedTuple):
    document: str
    item: str
    state: str
    where: str
    tests: str


def rows() -> list[Row]:
    found: list[Row] = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        for line in section.splitlines():
            cells = re.split(r"(?<!\\) \| ", line.strip("|").strip())
            if line.startswith("| ") and len(cells) == 4 and cells[0] != "item":
                found.append(Row(section[:3], *cells))
    return found


def is_there(place: str) -> bool:
    """Returns whether it is a command, a path of the repository, or an importable name."""
    if place.startswith("taofold "):
        return tuple(place.split()[1:]) in COMMANDS
    if not place.startswith("taofold"):
        return (ROOT / place).exists()
    names = place.split(".")
    for n in range(len(names), 0, -1):
        try:
            value = importlib.import_module(".".join(names[:n]))
        except ImportError:
            continue
        for name in names[n:]:
            value = getattr(value, name, None)
        return value is not None
    return False


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_row_has_a_state_and_a_reason_where_it_is_not_as_the_document_says() -> None:
    for row in rows():
        state = row.state.partition(":")[0].partition(",")[0]
        assert state in STATES, row
        if state != "here":
            assert len(row.state.partition(": ")[2]) > 10, row


def test_every_place_exists() -> None:
    for row in rows():
        places = re.findall(r"`([^`]+)`", row.where)
        assert places, row
        assert [place for place in places if not is_there(place)] == [], row


def test_every_test_exists() -> None:
    conformance = (ROOT / "docs" / "internals" / "conformance.md").read_text(encoding="utf-8")
    covered = set(re.findall(r"\*\*([A-Z]+-\d+)\*\* `", conformance))
    assert covered <= set(IDS)
    for row in rows():
        for test in row.tests.split(", "):
            path, _, name = test.strip("`").partition("::")
            if test.startswith("`"):
                assert (ROOT / path).is_file(), row
                assert not path.endswith(".py") or name, f"{row}: which test of the file?"
                assert not name or name in functions(ROOT / path), row
            else:
                assert test in covered, row

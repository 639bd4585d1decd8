"""The judged tree equals the delivered tree: a file outside the snapshots proves nothing."""

import asyncio
from pathlib import Path

from .projects import RIGHT, SHOP, judged, written


def test_a_new_file_that_is_not_kept_does_not_join_the_proof(tmp_path: Path) -> None:
    """The project ignores the file, so a worktree would not contain it."""
    root = written(tmp_path / "shop", {**SHOP, ".gitignore": "sums.py\n"})
    judge, _ = judged(root)
    written(root, {"shop/sums.py": RIGHT, "shop/till.py": "from shop.sums import total\n"})
    kept = frozenset([*SHOP, ".gitignore"])
    verdict = asyncio.run(judge.verdict(snapshot=kept))
    assert not verdict.passed
    assert asyncio.run(judge.verdict(snapshot=kept | {"shop/sums.py"})).passed


def test_what_a_formatter_changes_is_brought_back(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    judge, _ = judged(root, "ruff format shop AND python -m pytest -q")
    written(root, {"shop/till.py": "def total( prices ):\n  return sum( prices )\n"})
    assert asyncio.run(judge.verdict()).passed
    assert (root / "shop/till.py").read_text() == RIGHT
    assert asyncio.run(judge.verdict()).passed

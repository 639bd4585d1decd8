"""Rules for all pages of the cookbook."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cookbook.conftest import SAVED
from tests.test_docs import COOKBOOK, ROOT

PAGES = sorted(page for page in COOKBOOK.glob("*.md") if page.name != "index.md")
HEADINGS = ["Run it", "Change it", "Choices and limits"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every Python program of the pages, in a folder for each page."""
    folder = tmp_path_factory.mktemp("programs")
    files: list[Path] = []
    for page in PAGES:
        for name, text in SAVED.findall(page.read_text(encoding="utf-8")):
            if name.endswith(".py") and not name.startswith("test_"):
                files.append(folder / page.stem / name)
                files[-1].parent.mkdir(exist_ok=True)
                files[-1].write_text(text, encoding="utf-8")
    return files


def test_every_page_has_a_program_a_test_and_the_same_sections() -> None:
    assert len(PAGES) == 12
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert SAVED.findall(text), page.name
        assert re.findall(r"^## (.*)", text, re.MULTILINE) == HEADINGS, page.name
        assert (Path(__file__).parent / f"test_{page.stem}.py").exists(), page.name


def test_the_index_lists_every_page() -> None:
    text = (COOKBOOK / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(.+)\]\((\w+\.md)\)", text, re.MULTILINE)
    titles = {page.name: page.read_text("utf-8").splitlines()[0][2:] for page in PAGES}
    assert {name: title for title, name in listed} == titles


def test_the_programs_follow_the_rules_of_our_own_code(programs: list[Path]) -> None:
    """Except that a program prints."""
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml")]
    linted = subprocess.run(
        [*ruff, "check", *settings, "--ignore", "INP001,T201", *programs],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout
    formatted = subprocess.run(
        [*ruff, "format", "--diff", *settings, *programs],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert formatted.returncode == 0, formatted.stdout


def test_the_programs_are_typed(programs: list[Path]) -> None:
    """As mypy's strict checks see it; FastAPI has no types here, so its decorators are untyped."""
    checked = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file=", "--disallow-any-unimported",
            "--follow-imports=silent", "--cache-dir", str(ROOT / ".mypy_cache"),
            *[program for program in programs if program.parent.name != "fastapi"],
        ],
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout

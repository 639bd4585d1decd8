"""The loop and the pattern file of docs/migration/aiwg.md. AIWG itself is not run."""

import json
import shlex
from pathlib import Path

import pytest

from tests.migration.pages import OURS, blocks
from tests.prerequisites import GIT
from tests.terminal import Taofold, enter, taofold

__all__ = ["taofold"]

PAGE = "aiwg.md"
PATTERN = "pat-error-null-check-001"
PRODUCT = "def adult(age):\n    return age > 18\n"
TEST = """
from age import adult


def test_eighteen_is_adult():
    assert adult(18)


def test_seventeen_is_not():
    assert not adult(17)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a broken project in which an AIWG loop has learned the pattern of the page."""
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / "age.py").write_text(PRODUCT, encoding="utf-8")
    (folder / "test_age.py").write_text(TEST, encoding="utf-8")
    patterns = folder / ".aiwg" / "ralph" / "shared" / "patterns"
    patterns.mkdir(parents=True)
    ((name, text),) = blocks(PAGE, "json").items()
    (patterns / name).write_text(text, encoding="utf-8")
    return folder


def test_the_patterns_of_aiwg_are_imported_as_claims(project: Path, taofold: Taofold) -> None:
    assert taofold("patterns", "import", "--input", ".aiwg/ralph").out == "1 added, 0 known\n"
    shown = taofold("patterns", "show", PATTERN).out
    assert "11 of 12 uses, not counted" in shown
    assert "ralph-fix-auth-a1b2c3d4" in shown
    assert taofold("patterns", "export", "--output", "out").code == 0
    (file,) = (project / "out").rglob("error-patterns.json")
    exported = json.loads(file.read_text(encoding="utf-8"))["pattern_registry"]["error_patterns"]
    assert [pattern["pattern_id"] for pattern in exported] == [PATTERN]


@GIT.mark
def test_the_loop_of_the_page_ends_when_its_command_passes(project: Path, taofold: Taofold) -> None:
    """Runs the page's command with `offline:repair` instead of Claude Code."""
    begin, status, _ = blocks(PAGE, "text")[OURS].splitlines()
    begin = begin.replace("--agent claude", "--model offline:repair")
    assert taofold(*shlex.split(begin)[1:], "--quiet").code == 0
    assert "completed" in taofold(*shlex.split(status)[1:]).out
    assert "completed" in taofold("ralph-status").out
    assert "age >= 18" in (project / "age.py").read_text(encoding="utf-8")

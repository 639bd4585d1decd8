"""The search policy is optional: taofold works without it and names the missing package."""

import os
import subprocess
import sys
from pathlib import Path
from sysconfig import get_path

import pytest

import taofold
from taofold.core.errors import ConfigError
from taofold.plugins import DEMOS, SEARCHES, load, load_all
from taofold.runtime.providers import resolve


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules that has taofold and what it needs, but neither the guest nor entries."""
    folder = tmp_path_factory.mktemp("modules")
    for path in Path(get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not path.name.startswith("taofold"):
            (folder / path.name).symlink_to(path)
    (folder / "taofold").symlink_to(Path(taofold.__file__).parent)
    return folder


def python(without: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        env={**os.environ, "PYTHONPATH": str(without)},
        cwd=without.parent,
        capture_output=True,
        text=True,
    )


def test_what_is_installed_is_known_by_its_entry_points() -> None:
    assert resolve("offline:repair").name == "offline:repair"
    assert [search.name for search in load_all(SEARCHES)] == ["offline:repair"]
    assert load(DEMOS, "repair").PROJECTS == ("storeroom", "library")


def test_taofold_is_imported_and_runs_without_the_guest(without: Path) -> None:
    done = python(
        without,
        "-c",
        "from taofold import Agent\nfrom taofold.testing.models import ScriptedModel\n"
        "print(Agent(ScriptedModel(['forty-two'])).run_sync('x').output)\n"
        "import taofold_repair",
    )
    assert done.stdout == "forty-two\n"
    assert "No module named 'taofold_repair'" in done.stderr


def test_a_model_that_nobody_brings_is_a_clear_error(without: Path) -> None:
    done = python(without, "-c", "from taofold import Agent; Agent('offline:repair').run_sync('x')")
    assert "unknown provider 'offline' in 'offline:repair'" in done.stderr.splitlines()[-1]
    assert "entry points of group 'taofold.models'" in done.stderr


def test_the_demo_says_what_is_missing_and_leaves_nothing(without: Path, tmp_path: Path) -> None:
    done = python(without, "-m", "taofold.cli", "demo", "--keep", str(tmp_path / "demo"))
    assert done.returncode == 2, done.stderr
    assert "no installed package has the entry point 'repair'" in done.stderr
    assert "'taofold.demos'" in done.stderr
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "demo").exists()


def test_an_entry_point_that_cannot_be_loaded_says_where_it_leads(tmp_path: Path) -> None:
    entry = tmp_path / "broken-1.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (entry / "entry_points.txt").write_text("[taofold.demos]\nbroken = nowhere_at_all:x\n")
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(ConfigError, match="cannot be loaded from 'nowhere_at_all:x'"):
            load(DEMOS, "broken")
    finally:
        sys.path.remove(str(tmp_path))

"""Packages installed outside the work root during a loop, and packages that an agent plants.

Mutants: changed packages are not named; a renewed baseline holds the agent's work, or the current
environments of the work root; one that expects nothing is kept; a folder of the work root counts as
installed.
"""

import asyncio
import json
import sys
import venv
from pathlib import Path

import pytest

from taofold.core.errors import Refused
from taofold.loop.gates.baseline import load
from taofold.loop.gates.installed import editable, installed, package_changes
from taofold.loop.gates.judge import Judge
from tests.loop.gates.projects import RIGHT, SHOP, again, judged, written

PLUGIN = "def pytest_configure(config):\n    pass\n"
PASSES = """
def pytest_configure(config):
    import shop.till

    shop.till.total = sum
"""
CONFIG = SHOP["pyproject.toml"].replace("--disable-plugin-autoload ", "")


def environment(folder: Path) -> Path:
    """Creates a virtual environment that imports this one's pytest; returns its package folder."""
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = folder / "lib" / version / "site-packages"
    for name in ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments"):
        (packages / name).symlink_to(Path(pytest.__file__).parents[1] / name)
    return packages


def install(packages: Path, name: str, plugin: str) -> None:
    facts, points = f"{name}-1.0.dist-info/METADATA", f"{name}-1.0.dist-info/entry_points.txt"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    named = f"[pytest11]\n{name} = {name}\n"
    written(packages, {f"{name}.py": plugin, facts: metadata, points: named})


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")  # plugins are what is asked for
    return written(tmp_path / "shop", {**SHOP, "pyproject.toml": CONFIG})


def test_a_package_that_a_person_installs_is_named_and_a_new_baseline_takes_it_in(
    shop: Path,
) -> None:
    """Mutants: the verdict names no package; the plugin stays an addition."""
    packages = environment(shop.parent / "venv")
    python = packages.parents[2] / "bin" / "python"
    judge, start = judged(shop, f"{python} -m pytest -q")
    assert start.packages == ()
    install(packages, "coverlike", PLUGIN)
    written(shop, {"shop/till.py": RIGHT})
    found = again(judge)
    assert not found.passed
    assert found.packages == (f"coverlike 1.0 was installed in {packages}",)
    assert any(["coverlike 1.0 was installed" in note for note in found.notes])
    assert asyncio.run(judge.packages()) == found.packages

    verdict, settled = asyncio.run(judge.retake())
    assert [check.id for check in verdict.failing] == [check.id for check in start.failing]
    assert (settled.dropped, settled.lost) == ((), 0)
    found = again(judge)
    assert (found.passed, found.packages) == (True, ())
    assert again(Judge.resume(shop, judge.folder, settled.baseline)).passed


def test_a_new_baseline_forgives_no_change_of_a_protected_file(shop: Path) -> None:
    """Mutant: the baseline is taken from the work root as it is."""
    packages = environment(shop.parent / "venv")
    judge, _ = judged(shop, f"{packages.parents[2]}/bin/python -m pytest -q")
    install(packages, "coverlike", PLUGIN)
    written(shop, {"tests/test_till.py": "def test_easy():\n    pass\n", "conftest.py": PASSES})
    asyncio.run(judge.retake())
    found = again(judge)
    assert (found.passed, found.tampered) == (False, True)
    assert found.tampered_with == ("tests/test_till.py",)
    assert "conftest.py" not in found.joined


@pytest.mark.parametrize("retaken", [False, True])
def test_a_plugin_in_an_environment_of_the_work_root_is_never_seen(
    shop: Path, retaken: bool
) -> None:
    """Mutants: the environment is copied again; its changes count as the user's."""
    packages = environment(shop / ".venv")
    judge, _ = judged(shop, ".venv/bin/python -m pytest -q")
    install(packages, "evil", PASSES)
    if retaken:
        asyncio.run(judge.retake())
    found = again(judge)
    assert (found.passed, found.packages) == (False, ())
    assert any(["evil 1.0 was installed in .venv" in note for note in found.notes])


@pytest.mark.parametrize("retaken", [False, True])
def test_a_plugin_beside_the_sources_fails_the_proof(shop: Path, retaken: bool) -> None:
    """Mutant: a folder of the work root that an interpreter searches counts as installed."""
    packages = environment(shop.parent / "venv")
    (packages / "editable.pth").write_text(f"{shop / 'src'}\n")
    written(shop, {"src/more/__init__.py": ""})
    judge, _ = judged(shop, f"{packages.parents[2]}/bin/python -m pytest -q")
    install(shop / "src", "evil", PASSES)
    if retaken:
        asyncio.run(judge.retake())
    found = again(judge)
    assert (found.passed, found.packages) == (False, ())


def test_packages_that_leave_no_test_are_not_taken_in(shop: Path) -> None:
    """Mutant: a baseline that expects nothing takes the place of one that expects tests."""
    packages = environment(shop.parent / "venv")
    judge, _ = judged(shop, f"{packages.parents[2]}/bin/python -m pytest -q")
    assert judge.baseline is not None
    first = judge.baseline.digest
    install(packages, "broken", "raise SystemExit(0)\n")
    with pytest.raises(Refused, match="cannot be taken again"):
        asyncio.run(judge.retake())
    assert judge.baseline.digest == first
    assert load(judge.folder, first).digest == first


def test_changes_are_told_by_name_and_version(tmp_path: Path) -> None:
    for name in ("attrs-24.1.dist-info", "old-1.dist-info", "legacy.egg-info", "a.pth", "same"):
        (tmp_path / name).mkdir()
    was = installed([tmp_path, tmp_path / "none"])
    known = {"attrs": "24.1", "old": "1", "legacy": "", "a.pth": ""}
    assert was == {str(tmp_path): known, str(tmp_path / "none"): {}}
    assert package_changes(was) == ()
    (tmp_path / "attrs-24.1.dist-info").rename(tmp_path / "attrs-25.1.dist-info")
    (tmp_path / "old-1.dist-info").rmdir()
    (tmp_path / "b.pth").touch()
    where = f"in {tmp_path}"
    assert package_changes(was) == (
        f"attrs 24.1 was replaced by 25.1 {where}",
        f"b.pth was installed {where}",
        f"old 1 was removed {where}",
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 3}', '{"dir_info": []}'])
def test_packages_that_are_installed_from_the_project_are_named(tmp_path: Path, text: str) -> None:
    """Mutants: an environment elsewhere counts; another kind of note raises."""
    packages = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    for name, note in {
        "shop": json.dumps({"url": tmp_path.as_uri(), "dir_info": {"editable": True}}),
        "copied": json.dumps({"url": tmp_path.as_uri(), "dir_info": {}}),
        "other": json.dumps({"url": "file:///elsewhere", "dir_info": {"editable": True}}),
        "odd": text,
    }.items():
        info = packages / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "direct_url.json").write_text(note)
    assert editable(tmp_path) == ["shop"]

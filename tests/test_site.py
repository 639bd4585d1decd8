"""The documentation as a site: every page is in its navigation, every link leads somewhere."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import taofold
from tests import environments

ROOT = Path(__file__).parent.parent


def pages_in(entry: Any) -> list[str]:
    """The files that a part of the navigation names."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_in(part)]


def test_the_navigation_names_every_page_once() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(pages_in(settings["project"]["nav"])) == sorted(
        page.name for page in (ROOT / "docs").glob("*.md")
    )


def test_the_first_page_leads_to_every_other() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", text)) == pages


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = {name for name in taofold.__all__ if f"::: taofold.{name}\n" in text}
    # These two are the front door of a seed document: docs/seeds.md.
    assert set(taofold.__all__) - named == {"register_custom_action", "run_agent"}


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    site = environments.needs("site")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [site.program("zensical"), "build", "--strict"],
        cwd=tmp_path,
        env=environments.scrubbed(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    # A name that could not be read leaves its `:::` line behind, or no heading.
    assert ":::" not in re.sub(r"<code.*?</code>", "", reference, flags=re.DOTALL)
    for name in ("Agent", "tool", "Limits", "ReplayDiverged"):
        assert f'id="taofold.{name}"' in reference

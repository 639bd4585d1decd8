"""The documentation as a site: every page is in its navigation, every link leads somewhere."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import taofold
from tests import environments
from tests.test_docs import DOCS, PAGES, ROOT, name_of

SITE = {page for page in PAGES if DOCS in page.parents}
"""The pages of the site: all of docs/ without the decisions in docs/adr/."""


SEARCHED = (
    "retry",
    "timeout",
    "guardrail",
    "memory",
    "human in the loop",
    "structured output",
    "streaming",
)
"""Terms that users of other frameworks search for: each is in a heading."""


def pages_in(entry: Any) -> list[str]:
    """The files that a part of the navigation names."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_in(part)]


def test_the_navigation_names_every_page_once() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    assert sorted(pages_in(settings["project"]["nav"])) == sorted(map(name_of, SITE))


def linked(page: Path) -> Iterator[Path]:
    """Yields the pages that a page links to, and those that the index of a sub-folder links to."""
    for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        found = (page.parent / target).resolve()
        yield found
        if found.name == "index.md" and page.parent in found.parent.parents:
            yield from linked(found)


def test_the_first_page_leads_to_every_other() -> None:
    first = DOCS / "index.md"
    assert sorted(map(name_of, SITE - {first} - set(linked(first)))) == []


def test_the_reference_has_every_public_name() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    # `taofold.tool` would be the module of that name.
    paths = {name: f"taofold.{name}" for name in taofold.__all__} | {
        "tool": "taofold.tools.tool.tool"
    }
    named = {name for name, path in paths.items() if f"::: {path}\n" in text}
    # These two are the front door of a seed document: docs/internals/seeds.md.
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
    for name in ("Agent", "tools.tool.tool", "Limits", "ReplayDiverged"):
        assert f'id="taofold.{name}"' in reference
    search = json.loads((tmp_path / "site" / "search.json").read_text(encoding="utf-8"))
    titles = " ".join(item["title"] for item in search["items"]).lower()
    assert [term for term in SEARCHED if term not in titles] == []

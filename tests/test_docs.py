"""The documentation runs: every Python block of the README and of docs/, in a fresh directory.

`tests/cookbook` runs the programs of docs/cookbook.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from taofold.runtime import providers as registry
from taofold.testing import ScriptedModel
from taofold.tools import toolset

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
DECISIONS = DOCS / "adr"
COOKBOOK = DOCS / "cookbook"
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if DECISIONS not in page.parents),
]
ANSWER = '{"thought": "Three words.", "action": {"tool": "finish", "parameters": {"answer": 3}}}'


def name_of(page: Path) -> str:
    """Returns the path of a page below docs/, or its file name if it lies outside."""
    return page.relative_to(DOCS).as_posix() if DOCS in page.parents else page.name


def blocks() -> Iterator[tuple[str, str]]:
    """Yields each Python block. One with `<!-- continues -->` is appended to the block before."""
    for page in PAGES:
        if COOKBOOK in page.parents:
            continue
        chains: list[list[str]] = []
        names: list[str] = []
        fence = r"^(<!-- continues -->\n)?```python\n(.*?)^```"
        found = re.finditer(fence, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for number, block in enumerate(found, 1):
            if block[1]:
                chains[-1].append(block[2])
            else:
                chains.append([block[2]])
                names.append(f"{name_of(page)}:{number}")
        yield from zip(names, map("\n".join, chains), strict=True)


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in blocks()])
def test_a_block_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`openai:` stands for a scripted model here: no page needs a key to be tested."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("one two three", encoding="utf-8")
    stand_in = {"openai": lambda model, **_: ScriptedModel([ANSWER])}
    monkeypatch.setattr(registry, "_registered", {**registry._registered, **stand_in})
    # Custom actions are registered for the whole process: other tests must not see them.
    monkeypatch.setattr(toolset, "_ACTIONS", {})
    exec(compile(code, "<docs>", "exec"), {"__name__": "__main__"})


def test_every_link_to_a_file_of_ours_leads_somewhere() -> None:
    dead: list[str] = []
    for page in [*PAGES, *sorted(DECISIONS.glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                dead.append(f"{name_of(page)}: {target}")
    assert dead == []


def test_every_test_that_the_threat_model_names_exists() -> None:
    """A rule of docs/security.md stands there only with a test that would fail without it."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    missing: list[str] = []
    for path, name in named:
        file = ROOT / path
        tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        tests = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
        if not file.is_file() or (name and name not in tests):
            missing.append(f"{path}::{name}")
    assert named
    assert missing == []


def test_every_attack_of_the_threat_model_names_its_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = text.partition("## Attacks and their tests")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 20
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+`", row)] == []

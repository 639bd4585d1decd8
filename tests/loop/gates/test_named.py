"""Each file of the work is listed in the proof, or as omitted with the option that includes it.

Mutants: new tests are omitted silently; files that the project ignores are not named; the option is
not named; the report or the agent does not get the list.
"""

import asyncio
from pathlib import Path

from taofold.loop.gates.verdict_texts import observation, proof
from taofold.loop.report import report_json, report_markdown
from taofold.loop.verdict import Verdict
from tests.loop.kit import begun, iteration
from tests.loop.test_report import records

from .projects import RIGHT, SHOP, again, judged, written

WORK = {
    "shop/till.py": RIGHT,
    "shop/new.py": "A = 1\n",
    "shop/rates.json": "{}",
    "tests/test_more.py": "def test_more():\n    pass\n",
    "tests/data/more.json": "{}",
    "conftest.py": "",
    ".gitignore": "dist/\n",
    "statistics.py": "A = 1\n",
    "config.yaml": "a: 1\n",
}


def report(verdict: Verdict) -> str:
    story = records(*begun(), *iteration(1, verdict))
    machine = report_json("x", story)
    left = {change.path for change in verdict.changes if change.done == "left out"}
    assert set(machine["left_out"]) == left
    assert machine["joined"] == list(verdict.joined)
    return report_markdown("x", story)


def test_every_file_of_the_work_is_named(tmp_path: Path) -> None:
    judge, _ = judged(written(tmp_path / "shop", SHOP))
    written(judge.root, {**WORK, "shop/till.py": "def total(prices):\n    return 1\n"})
    verdict = again(judge)
    assert not verdict.passed
    left = {change.path: change.why for change in verdict.changes if change.done == "left out"}
    assert sorted([*verdict.joined, *left]) == sorted(WORK)
    assert verdict.joined == ("shop/new.py", "shop/rates.json", "shop/till.py")
    for text in (observation(verdict), report(verdict)):
        for path in WORK:
            assert path in text, path
        assert "--allow-edit tests/test_more.py" in text
        assert "--allow-edit conftest.py" in text
        assert "--allow-edit statistics.py" not in text, "no option helps"


def test_a_verdict_that_passes_names_them_in_its_report(tmp_path: Path) -> None:
    judge, _ = judged(written(tmp_path / "shop", SHOP))
    written(judge.root, {"shop/till.py": RIGHT, "tests/test_more.py": WORK["tests/test_more.py"]})
    verdict = again(judge)
    assert verdict.passed
    text = report(verdict)
    assert "in the proof: shop/till.py" in text
    assert "not in the proof: tests/test_more.py" in text
    assert "--allow-edit tests/test_more.py" in text


def test_what_the_project_ignores_is_named_by_its_folder(tmp_path: Path) -> None:
    judge, _ = judged(written(tmp_path / "shop", SHOP))
    written(
        judge.root, {"shop/till.py": RIGHT, "dist/a/b.js": "", "dist/c.js": "", "shop/x.log": ""}
    )
    verdict = asyncio.run(judge.verdict(snapshot={*SHOP}))
    left = {change.path: change.why for change in verdict.changes if change.done == "left out"}
    assert set(left) == {"dist", "shop/x.log"}
    assert "a gate that needs it must build it" in left["dist"]
    assert not [text for text in proof(verdict) if "--allow-edit" in text]


def test_the_option_is_named_where_a_protected_file_was_edited(tmp_path: Path) -> None:
    judge, _ = judged(written(tmp_path / "shop", SHOP))
    written(judge.root, {"shop/till.py": RIGHT, "tests/test_till.py": "def test_a():\n    pass\n"})
    verdict = again(judge)
    assert verdict.tampered
    assert "--allow-edit tests/test_till.py lets the agent edit it" in verdict.reasons[0]

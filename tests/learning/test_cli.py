"""`taofold patterns …` on a project with a few patterns in its registry."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from taofold.clocks import clock
from taofold.learning.extraction.history import FileChange
from taofold.learning.patterns.case import LoopCase
from taofold.learning.settings import Injection, Learning
from taofold.log.patterns.stores import open_registry
from taofold.loop.learner import CrossLoopLearner
from tests.terminal import Result, Taofold, enter, taofold

from .loops import BOUND, GUARD, attempt, fault, history
from .make import DAY, EXTRACT, error

__all__ = ["taofold"]


NONE, SWAP = (
    "pat-error-attributeerror-nonetype-object-has-no-at-001",
    "pat-error-assertionerror-assert-001",
)
ANTI = "repeated_same_error"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(tmp_path / "project", monkeypatch)


@pytest.fixture
def taught(project: Path, taofold: Taofold) -> Taofold:
    """The program, in a project whose registry knows what three loops taught."""
    (project / "empty.json").write_text("{}")
    taofold("patterns", "import", "--input", "empty.json")  # Makes the store.

    async def teach() -> None:
        path = project / ".taofold" / "runs.db"
        registry = open_registry(path, now=lambda: clock() - 2 * DAY)
        mind = CrossLoopLearner(registry, Learning(injection=Injection(control_share=0.0)))
        await mind.take_in(replace(history(attempt(GUARD)), loop="one"))
        wrong = fault("AssertionError", "assert 3 == 4")
        await mind.take_in(replace(history(attempt(BOUND, before=(wrong,))), loop="two"))
        case = LoopCase(
            "Fix it",
            "python",
            failing=(wrong,),
            failed=(wrong.id,),
        )
        await mind.inject("three", case, mind.learning.injection)
        used = attempt(
            FileChange("club.py", "if a > b:", "if a >= b:"), before=(wrong,), iteration=2
        )
        await mind.take_in(replace(history(used), loop="three"), ())
        stuck = [attempt(BOUND, after=(fault(),), iteration=n) for n in (1, 2, 3)]
        await mind.take_in(replace(history(*stuck, outcome="exhausted"), loop="four"))
        await registry.close()

    asyncio.run(teach())
    return taofold


def ids(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [one["pattern_id"] for one in json.loads(result.out)]


@pytest.mark.scenario("XTL-22")
@pytest.mark.document_item(
    "001.cli.list",
    "001.cli.list.type",
    "001.cli.list.rate",
    "001.cli.list.loop",
    "001.cli.list.range",
    "001.practice.tags",
)
def test_a_list_satisfies_all_its_filters_at_once(taught: Taofold) -> None:
    every = ids(taught("patterns", "list", "--json"))
    assert {NONE, SWAP} < set(every)
    assert set(ids(taught("patterns", "list", "--type", "error", "--json"))) == {NONE, SWAP}
    both = ("--tag", "python", "--tag", "fix-logic-error")
    assert ids(taught("patterns", "list", *both, "--json")) == [SWAP]
    assert ids(taught("patterns", "list", *both, "--from-loop", "one", "--json")) == []
    assert ids(taught("patterns", "list", *both, "--from-loop", "three", "--json")) == [SWAP]
    rates = ("--min-success-rate", "0.5", "--max-success-rate", "1.0")
    assert ids(taught("patterns", "list", *both, *rates, "--json")) == [SWAP]
    assert ids(taught("patterns", "list", *both, "--max-success-rate", "0.9", "--json")) == []
    assert ids(taught("ralph-patterns", "list", "--json")) == every


def test_a_list_for_people_has_rates_with_their_raw_counts(taught: Taofold) -> None:
    out = taught("patterns", "list").out
    line = next(one for one in out.splitlines() if SWAP in one)
    assert "1.00 (2/2)" in line
    assert "probation" in next(one for one in out.splitlines() if NONE in one)
    assert taught("patterns", "list", "--tag", "nothing").err == "no patterns\n"


@pytest.mark.scenario("XTL-32")
@pytest.mark.document_item("001.cli.show", "001.cli.show.impact")
def test_a_pattern_is_shown_with_its_figures_loops_and_words(taught: Taofold) -> None:
    out = taught("patterns", "show", SWAP).out
    for said in (
        f"Pattern: {SWAP}", "Type: Error Pattern", "Success Rate: 1.00 (2/2)", "Usage Count: 2",
        "Average Impact: unknown (1 with lessons, 0 control)", "  - two (discovered)",
        "  - three (applied successfully)", '  Pattern: "assert .* == .*"',
        "  Category: fix_logic_error", "    +if amount >= LIMIT:",
        "Tags: python, fix-logic-error, assertionerror", "Created: 20", "Last Used: 20",
    ):  # fmt: skip
        assert said in out
    told = json.loads(taught("patterns", "show", SWAP, "--json").out)
    assert told["source_loops"][1]["role"] == "applied"
    assert told["loops_shown"] == 1


@pytest.mark.scenario("XTL-26")
@pytest.mark.document_item("001.lineage")
def test_lineage_tells_discovery_and_uses_in_order_of_time(taught: Taofold) -> None:
    lines = taught("patterns", "lineage", SWAP).out.splitlines()
    assert lines[1].startswith("Discovered:  two (")
    assert lines[2].startswith("Applied:     three (")
    assert lines[2].endswith("helped")
    assert lines[-1] == "Success rate: 1.00 (2/2)"


def test_every_kind_of_pattern_has_a_page(taught: Taofold) -> None:
    for name in ids(taught("patterns", "list", "--json")):
        assert f"Pattern: {name}" in taught("patterns", "show", name).out


@pytest.mark.scenario("XTL-33")
@pytest.mark.document_item("001.extract.metrics", "001.metric.benefit", "001.metric.enough")
def test_metrics_have_the_names_of_the_source_system_and_a_curve(taught: Taofold) -> None:
    told = json.loads(taught("patterns", "metrics", "--json").out)
    assert told["total_patterns"] == sum(told["patterns_by_type"].values())
    assert set(told["cross_loop_benefit"]) >= {
        "loops_with_pattern_injection", "average_iterations_without", "improvement_percentage",
    }  # fmt: skip
    result = taught("patterns", "metrics")
    assert "improvement: unknown (1 with lessons, 0 control)" in result.out
    assert "iterations of the last 4 loops" in result.out
    assert "nnin" in result.out


@pytest.mark.document_item("001.cli.prune.zero")
def test_what_was_used_today_is_not_too_old_at_a_limit_of_no_days(
    taught: Taofold, project: Path
) -> None:
    asked = ("patterns", "prune", "--dry-run", "--max-age-days")
    old = taught(*asked, "0")
    assert "2 days ago: over 0 days" in old.out
    assert "0 would be archived" in taught(*asked, "2").err

    async def used() -> None:
        registry = open_registry(project / ".taofold" / "runs.db")
        guard = error(name="Used today")
        await registry.discover("five", [guard], EXTRACT)
        await registry.close()

    asyncio.run(used())
    assert "used-today" not in taught(*asked, "0").out


@pytest.mark.scenario("XTL-18")
@pytest.mark.document_item("001.cli.prune.dry")
def test_a_dry_run_tells_what_would_go_and_changes_nothing(taught: Taofold, tmp_path: Path) -> None:
    def files(name: str) -> dict[str, str]:
        taught("patterns", "export", str(tmp_path / name))
        return {
            str(path.relative_to(tmp_path / name)): path.read_text()
            for path in (tmp_path / name).rglob("*.json")
        }

    as_they_were = files("before")
    assert as_they_were
    before = ids(taught("patterns", "list", "--json"))
    dry = taught("patterns", "prune", "--dry-run", "--max-age-days", "0")
    assert dry.code == 0
    assert f"{len(before)} would be archived" in dry.err
    assert [identity for identity in before if identity not in dry.out] == []
    assert ids(taught("patterns", "list", "--json")) == before
    assert files("after") == as_they_were


@pytest.mark.scenario("XTL-21")
@pytest.mark.document_item("001.cli.export", "001.cli.import")
def test_what_is_exported_can_be_imported_elsewhere_twice(
    taught: Taofold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "team.json"
    assert taught("patterns", "export").code == 2
    assert taught("patterns", "export", "--output", str(bundle)).out == f"{bundle}\n"
    before = ids(taught("patterns", "list", "--json"))
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert taught("patterns", "import", "--input", str(bundle)).out.endswith(" 0 known\n")
    assert set(ids(taught("patterns", "list", "--json"))) == set(before)
    assert taught("patterns", "import", "--input", str(bundle)).out.startswith("0 added")


def test_a_folder_is_exported_to_by_its_name_alone(taught: Taofold, tmp_path: Path) -> None:
    folder = tmp_path / "ralph"
    files = taught("patterns", "export", str(folder)).out.split()
    assert str(folder / "shared" / "patterns" / "error-patterns.json") in files
    assert all(Path(file).is_file() for file in files)
    both = taught("patterns", "export", str(folder), "--output", "x.json")
    assert (both.code, "one path" in both.err) == (2, True)


@pytest.mark.parametrize("file", ["aiwg.yml", ".aiwg/config.yml"])
@pytest.mark.document_item("001.trouble.config", "001.key.files")
def test_check_and_doctor_read_the_files_of_the_source_system(
    taofold: Taofold, project: Path, file: str
) -> None:
    """Only the learning keys of such a file are used. A fault in them is reported with its line."""
    path = project / file
    path.parent.mkdir(exist_ok=True)
    keys = "other: {tool: 1}\nralph:\n  max: 3\n  cross_loop_learning:\n    injection: {KEY: 3}\n"
    path.write_text(keys.replace("KEY", "top_k"))
    checked, doctor = taofold("check", file), taofold("doctor")
    assert (checked.code, doctor.code) == (2, 1)
    for said in (checked.out, doctor.out):
        assert f"{file}:5: ralph.cross_loop_learning.injection.top_k: unknown key 'top_k'" in said
    path.write_text(keys.replace("KEY", "top_k_patterns"))
    assert taofold("check", file).code == 0
    assert f"{file})" in taofold("doctor").out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "pat-error-none-000"), 2, "no pattern 'pat-error-none-000'"),
        (("list", "--type", "errors"), 2, "the types are error, success, anti, template"),
        (("extract",), 2, "give either LOOP or --all"),
        (("extract", "x", "--all"), 2, "give either LOOP or --all"),
        (("extract", "nowhere"), 2, "no loop 'nowhere'"),
        (("inject", "nowhere"), 2, "no loop 'nowhere'"),
        (("restore", "pat-error-none-000"), 2, "pat-error-none-000"),
    ],
)
def test_what_cannot_be_done_is_said(
    taught: Taofold, arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = taught("patterns", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_a_project_without_a_store_says_how_to_get_one(taofold: Taofold) -> None:
    result = taofold("patterns", "list")
    assert result.code == 2
    assert "there are no patterns yet" in result.err
    assert "patterns import" in result.err


def test_no_text_of_a_file_makes_a_line_of_a_pattern_s_page(
    project: Path, taofold: Taofold
) -> None:
    """Piped as on a terminal: every line begins as the page's own do, and none moves a cursor."""
    forged = "x\nSuccess Rate: 1.00 (50/50)\x1b[2J"
    record = {
        "pattern_id": "pat-error-forged-001",
        "error_signature": {
            "error_type": "TypeError",
            "error_pattern": forged,
            "error_location_hints": [forged],
        },
        "fix_approach": {
            "description": f"Add a check before the access {forged}",
            "fix_category": "other",
            "code_template": forged,
            "diff_pattern": forged,
        },
        "success_rate": 1.0,
        "usage_count": 50,
        "tags": [forged],
        "taofold": {"name": forged, "error_class": forged},
    }
    (project / "forged.json").write_text(json.dumps({"error_patterns": [record]}))
    assert taofold("patterns", "import", "--input", "forged.json").code == 0
    page = taofold("patterns", "show", "pat-error-forged-001").out
    assert "\x1b" not in page
    assert [row for row in page.splitlines() if row.lstrip().startswith("Success Rate")] == [
        "  Success Rate: claimed on probation",
        *["    Success Rate: 1.00 (50/50)␛[2J"] * 2,
    ], "code has lines, each deeper than one of ours"


def test_a_pattern_that_does_not_exist_is_a_mistake_of_usage(taught: Taofold) -> None:
    assert taught("patterns", "show", "nope").code == 2

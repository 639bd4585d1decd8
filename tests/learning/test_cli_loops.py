"""`taofold patterns extract` and `inject` on real loops of a small broken project."""

import json
from pathlib import Path

import pytest

from tests.loop.conftest import GATE, project
from tests.prerequisites import GIT
from tests.terminal import Taofold, taofold

__all__ = ["project", "taofold"]
TASK = "Make the failing tests pass"


def loop(taofold: Taofold, agent: str, name: str) -> None:
    # By default the agents of a loop act without approval.
    asks = ("--autonomy", "balanced") if agent == "asker" else ()
    taofold("loop", TASK, "-c", GATE, "--agent", f"agents:{agent}", "--loop-id", name, *asks)


def broken(project: Path) -> None:
    (project / "calc.py").write_text("def double(n):\n    return n\n")


def rows(taofold: Taofold, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(taofold("patterns", *arguments, "--json").out)
    return found


@GIT.mark
@pytest.mark.scenario("XTL-07")
@pytest.mark.document_item("001.cli.extract.all")
def test_extract_all_leaves_out_what_still_runs_and_takes_each_ended_loop_once(
    project: Path, taofold: Taofold
) -> None:
    loop(taofold, "fixer", "ended")
    broken(project)
    loop(taofold, "asker", "open")
    first = {str(one["loop"]): one for one in rows(taofold, "extract", "--all")}
    assert "extracted_patterns" in first["ended"]
    assert str(first["open"]["skipped"]).startswith("it is ")
    known = rows(taofold, "list")
    assert known
    again = {str(one["loop"]): one for one in rows(taofold, "extract", "--all")}
    assert again["ended"]["extracted_patterns"]
    assert not [one for one in again["ended"]["extracted_patterns"] if one["new"]]  # type: ignore[attr-defined]
    assert rows(taofold, "list") == known, "nothing was counted twice"


@GIT.mark
@pytest.mark.scenario("XTL-01", "XTL-06", "XTL-08")
@pytest.mark.document_item(
    "001.cli.extract.types", "001.extract.trigger.manual", "001.extract.rate", "001.extract.link"
)
def test_by_hand_the_types_that_are_asked_for_are_taken_and_the_files_of_others_stay(
    project: Path, taofold: Taofold
) -> None:
    learning = "ralph: {cross_loop_learning: {extraction: {enabled: false}}}\n"
    (project / "aiwg.yml").write_text(learning)
    loop(taofold, "fixer", "ended")
    assert rows(taofold, "list") == [], "nobody extracts by himself"

    def files() -> dict[str, str]:
        taofold("patterns", "export", "out")
        folder = project / "out" / "shared" / "patterns"
        return {path.name: path.read_text() for path in folder.glob("*.json")}

    before = files()
    taofold("patterns", "extract", "ended", "--types", "error,success")
    found = rows(taofold, "list")
    assert {one["type"] for one in found} == {"error"}, "one step is no approach yet"
    shown = json.loads(taofold("patterns", "show", str(found[0]["pattern_id"]), "--json").out)
    assert (shown["success_rate"], shown["usage_count"]) == (1.0, 1)
    assert [(one["loop_id"], one["role"]) for one in shown["source_loops"]] == [
        ("ended", "discovered")
    ]
    assert shown["first_discovered"] <= shown["last_used"]
    after = files()
    assert [name for name in after if after[name] != before.get(name)] == ["error-patterns.json"]


@GIT.mark
@pytest.mark.scenario("XTL-30")
@pytest.mark.document_item("001.inject.manual", "001.cli.inject.filters", "001.inject.logged")
def test_an_open_loop_is_told_by_hand_and_reads_it_in_its_next_iteration(
    project: Path, taofold: Taofold
) -> None:
    loop(taofold, "fixer", "ended")
    taofold("patterns", "extract", "--all")
    broken(project)
    loop(taofold, "asker", "open")
    code, out, err = taofold(
        "patterns", "inject", "open", "--top-k", "10", "--min-success-rate", "0.8", "--json"
    )
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["iteration"] == 2, "not the current one"

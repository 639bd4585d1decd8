"""This runtime against the conformance kit, and a reader in another language beside it."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

from taofold.core import events as e
from tests import conformance_kit as kit
from tests.prerequisites import NODE

PAGE = kit.KIT.parent / "docs" / "log-format.md"
EVENTS = get_args(e.Event)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", kit.cases(), ids=lambda case: case.name)
def test_a_scripted_run_comes_to_the_events_result_and_traces_of_the_kit(case: Path) -> None:
    performed = kit.performed(case)
    written = {path.name for path in case.glob("*.json")} - {"case.json"}
    assert set(performed) == written
    assert written >= {"events.json", "result.json", "trace.json", "iterations.json"}
    for name, value in performed.items():
        assert value == read(case / name), name


@pytest.mark.parametrize("document", kit.documents(), ids=lambda path: path.stem)
def test_a_tao_document_is_read_as_the_kit_says(document: Path) -> None:
    assert kit.taken_in(document) == read(document.with_suffix(".events.json"))


@pytest.mark.parametrize("folding", kit.foldings(), ids=lambda path: path.stem)
def test_a_log_folds_to_the_states_of_the_kit(folding: Path) -> None:
    assert kit.folded(folding) == read(folding)["states"]


def fold(*files: Path) -> subprocess.CompletedProcess[str]:
    command = ["node", str(kit.KIT / "fold.mjs"), *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@NODE.mark
def test_a_reader_in_another_language_folds_to_the_same_states(tmp_path: Path) -> None:
    done = fold(*kit.foldings())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("states") == len(kit.foldings())
    wrong = read(kit.foldings()[0])
    wrong["states"][-1]["tool_calls"] += 1
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    assert "tool_calls" in fold(tmp_path / "wrong.json").stderr


def test_the_kit_has_every_technique_and_every_event() -> None:
    names = {case.name for case in kit.cases()}
    assert names >= {"cot", "react", "self_correct", "decompose", "plan"}
    tags = {
        record["event"]["e"] for folding in kit.foldings() for record in read(folding)["records"]
    }
    assert tags == {event.__struct_config__.tag for event in EVENTS}


def test_the_format_page_lists_every_event_with_all_its_fields() -> None:
    rows = {
        row[1]: row[2]
        for row in re.finditer(r"^\| `(\w+)` \| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    }
    assert set(rows) == {event.__struct_config__.tag for event in EVENTS}
    for event in EVENTS:
        tag = event.__struct_config__.tag
        row = re.sub(r"as `(\w+)`", lambda base: rows[base[1]], rows[tag])
        assert set(re.findall(r"`(\w+)`", row)) == set(event.__struct_fields__) - {"elapsed"}, tag


def test_what_is_derived_from_the_code_is_as_the_code_says() -> None:
    """`make docs` writes the derived part."""
    assert kit.event_kinds() == read(kit.KIT / "events.json")
    assert kit.defaults() == read(kit.KIT / "defaults.json")
    assert kit.texts() == read(kit.KIT / "texts.json")
    assert kit.conditions() == read(kit.KIT / "conditions.json")
    assert kit.templates() == read(kit.KIT / "templates.json")
    assert kit.annotated()["records"] == read(kit.KIT / "folding" / "annotations.json")["records"]


def test_the_reader_takes_nothing_from_this_package() -> None:
    source = (kit.KIT / "fold.mjs").read_text(encoding="utf-8")
    assert set(re.findall(r'from "([^"]+)"', source)) == {"node:fs", "node:util"}

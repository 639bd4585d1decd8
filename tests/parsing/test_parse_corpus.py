"""The targets of the corpus as assertions: accuracy, not time."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "parse"))
import cases

from taofold.parsing import Parsed, parse

DESTRUCTIVE = ("delete_call", "write_call", "shell_call", "tao_delete", "tao_write", "edit_call")


@pytest.fixture(scope="module")
def outcomes():
    found = []
    for row in cases.load(cases.CORPUS, "main"):
        result = parse(row["text"], cases.type_of(row["schema"]))
        value = None
        if isinstance(result, Parsed):
            adapter = cases.adapter_of(row["schema"])
            value = adapter.dump_python(result.value, mode="json", warnings=False)
        found.append((row, cases.outcome(row, isinstance(result, Parsed), value)))
    return found


def share(found, kinds):
    return sum(kind in kinds for _, kind in found) / len(found)


def test_nine_of_ten_are_right_in_every_group_of_malformations(outcomes):
    for name, categories in cases.GROUPS.items():
        group = [each for each in outcomes if each[0]["category"] in categories]
        assert share(group, cases.GOOD) >= 0.95, name


def test_almost_all_recoverable_replies_are_recovered(outcomes):
    assert share([each for each in outcomes if each[0]["verdict"] == "accept"], ("correct",)) > 0.98


def test_no_reply_is_silently_read_wrong(outcomes):
    assert [row["id"] for row, kind in outcomes if kind in cases.BAD] == []


@pytest.mark.scenario("PEER-10")
def test_no_cut_off_call_of_a_destructive_tool_is_accepted(outcomes):
    cut = [each for each in outcomes if each[0]["category"] == "truncated"]
    cut = [each for each in cut if each[0]["schema"] in DESTRUCTIVE]
    assert len(cut) > 40
    assert share(cut, ("rejected",)) == 1


@pytest.mark.parametrize("row", cases.load(cases.CORPUS, "size"), ids=lambda r: str(r["gen"]))
def test_a_large_or_deep_text_is_read_or_refused_in_linear_time(row):
    import time

    text = cases.text_of(row)
    start = time.process_time()
    result = parse(text, cases.type_of(row["schema"]))
    assert time.process_time() - start < 5, "a factor of ten over the target: not linear"
    value = None
    if isinstance(result, Parsed):
        adapter = cases.adapter_of(row["schema"])
        value = adapter.dump_python(result.value, mode="json")
    else:
        assert len(result.raw) <= 500
    assert cases.outcome(row, isinstance(result, Parsed), value) in cases.GOOD

"""Reports of evals that are kept for later: written whole, and read as data from a file."""

import json
from pathlib import Path

import pytest

from taofold import Agent
from taofold.evals import Case, compare, evaluate
from taofold.evals.report_files import FOLDER, store_report, stored_report, stored_reports
from taofold.testing.models import ScriptedModel

pytestmark = pytest.mark.anyio


def agent(name: str, answer: str) -> Agent:
    reply = {"thought": "x", "action": {"tool": "finish", "parameters": {"answer": answer}}}
    return Agent(ScriptedModel([json.dumps(reply)]), name=name)


async def test_a_report_is_kept_listed_and_read_again(tmp_path: Path) -> None:
    cases = [Case("six times seven", expect="42")]
    good = await evaluate(agent("good", "42"), cases)
    bad = await evaluate(agent("bad", "41"), cases)
    path = store_report(tmp_path, "sums", [good, bad], compare(good, bad))
    (brief,) = stored_reports(tmp_path)
    assert (brief["id"], brief["name"]) == (path.stem, "sums")
    assert brief["reports"] == [{"agent": "good", "rate": 1.0}, {"agent": "bad", "rate": 0.0}]
    whole = stored_report(tmp_path, path.stem)
    assert whole is not None
    assert whole["reports"][0] == {**good.as_json(), "interval": tuple(good.interval)}
    assert whole["comparisons"] == [compare(good, bad).as_json()]


@pytest.mark.parametrize(
    "name", ["../policy", "a/b", "", "1700000000000-0000000g", "..%2Fpolicy", "x" * 5000]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "policy.json").write_text("{}")
    assert stored_report(tmp_path, name) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"at": 1}', "[" * 100_000, "\x00"])
def test_what_is_no_report_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / FOLDER).mkdir()
    name = "1700000000000-0123abcd"
    (tmp_path / FOLDER / f"{name}.json").write_text(text)
    assert stored_report(tmp_path, name) is None
    assert stored_reports(tmp_path) == []

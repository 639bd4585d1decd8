"""Effects of a user's edit of protected files on the baseline.

Mutants: the edit is still tampering; the edited test need not pass; tests of other files are
forgotten with it; the old baseline is overwritten; code of the loop that replaces the runner is
accepted; a restored file counts as tampering; the restored content is lost.
"""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from taofold.core.errors import LogError, Refused
from taofold.loop.environment import Settled
from taofold.loop.gates.baseline import Expected, load
from taofold.loop.gates.expectations import rebased
from taofold.loop.gates.judge import Judge
from tests.loop.gates.projects import RIGHT, SHOP, TESTS, again, judged, written

TILL = "tests/test_till.py"
MORE = "tests/test_more.py"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    more = "from shop.till import total\n\n\ndef test_two():\n    assert total([1, 1]) == 2\n"
    return written(tmp_path / "shop", {**SHOP, MORE: more})


def now(judge: Judge) -> dict[str, str]:
    return asyncio.run(judge.touched())


def kept(judge: Judge, *paths: str) -> Settled:
    return asyncio.run(judge.keep(paths))


def test_what_was_touched_is_told_with_a_mark_of_its_content(shop: Path) -> None:
    judge, _ = judged(shop)
    assert now(judge) == {}
    written(shop, {TILL: "x = 1\n", "shop/till.py": RIGHT, "conftest.py": "", "tests/new.py": ""})
    (shop / MORE).unlink()
    found = now(judge)
    assert set(found) == {TILL, "conftest.py", MORE}
    assert found[MORE] == ""
    written(shop, {TILL: "x = 2\n"})
    assert now(judge)[TILL] not in ("", found[TILL])


def test_gates_of_an_edit_share_its_time_and_one_that_is_stopped_takes_nothing_over(
    shop: Path,
) -> None:
    """Mutant: the gates of an edit run for as long as their own time allows."""
    judge, _ = judged(shop)
    assert judge.baseline is not None
    first = judge.baseline.digest
    written(shop, {MORE: "import time\ntime.sleep(300)\n"})
    with pytest.raises(Refused, match="before the loop's time was over"):
        asyncio.run(judge.keep([MORE], until=monotonic() + 2))
    assert judge.baseline.digest == first


def test_what_the_agent_may_edit_is_nobodys_question(shop: Path) -> None:
    judge, _ = judged(shop, allow_edit=[MORE])
    written(shop, {TILL: "x = 1\n", MORE: "x = 1\n"})
    assert set(now(judge)) == {TILL}


def test_a_kept_edit_is_what_later_verdicts_are_compared_with(shop: Path) -> None:
    judge, _ = judged(shop)
    assert judge.baseline is not None
    first = judge.baseline.digest
    edited = TESTS.replace("test_nothing_costs_nothing", "test_renamed")
    written(shop, {TILL: edited, "shop/till.py": RIGHT})
    settled = kept(judge, TILL)
    assert (settled.dropped, settled.lost) == ((f"{TILL}::test_nothing_costs_nothing",), 1)
    found = again(judge)
    assert (found.passed, found.tampered, found.missing) == (True, False, ())
    later = Judge.resume(shop, judge.folder, settled.baseline)
    assert again(later).passed
    assert load(judge.folder, first).digest == first
    with pytest.raises(LogError):
        load(judge.folder, "0" * 64)

    written(shop, {TILL: TESTS})  # the agent brings the old one back
    found = again(judge)
    assert (found.passed, found.tampered) == (False, True)
    assert "test_renamed" in (shop / TILL).read_text()
    written(shop, {"shop/till.py": SHOP["shop/till.py"]})
    assert f"{TILL}::test_all_prices_count" in [one.id for one in again(judge).failing]


def test_a_kept_edit_forgives_nothing_elsewhere(shop: Path) -> None:
    judge, _ = judged(shop)
    written(shop, {TILL: "def test_easy():\n    pass\n", MORE: "", "shop/till.py": "total = len\n"})
    assert set(now(judge)) == {TILL, MORE}
    kept(judge, TILL)
    found = again(judge)
    assert (found.passed, found.tampered) == (False, True)
    assert [one.path for one in found.changes if one.tampering] == [MORE]
    found = again(judge)  # put back, and still expected
    assert found.missing == ()
    assert not found.tampered
    assert found.passed


def test_code_of_the_loop_that_meddles_with_the_runner_is_not_taken_over(shop: Path) -> None:
    judge, _ = judged(shop)
    evil = "import _pytest.runner as r\nr.call_and_report = lambda *a, **k: None\n"
    written(shop, {TILL: TESTS + "\n# edited\n", "shop/till.py": evil + RIGHT})
    with pytest.raises(Refused, match="cannot be taken over"):
        kept(judge, TILL)
    assert judge.baseline is not None
    found = again(judge)
    assert found.tampered
    assert not found.passed


def test_a_restored_edit_is_no_tampering_and_is_not_lost(shop: Path) -> None:
    judge, _ = judged(shop)
    written(shop, {TILL: "a person's\n", "conftest.py": "planted = 1\n", "shop/till.py": RIGHT})
    asyncio.run(judge.restore([TILL, "conftest.py"]))
    assert (shop / TILL).read_text() == TESTS
    assert not (shop / "conftest.py").exists()
    aside = [one.read_text() for one in judge.folder.glob("set-aside/**/*") if one.is_file()]
    assert sorted(aside) == ["a person's\n", "planted = 1\n"]
    found = again(judge)
    assert (found.passed, found.tampered) == (True, False)


def test_only_what_is_named_is_restored(shop: Path) -> None:
    judge, _ = judged(shop)
    written(shop, {TILL: "a person's\n", MORE: "the agent's\n"})
    asyncio.run(judge.restore([TILL]))
    assert set(now(judge)) == {MORE}


@pytest.mark.parametrize(
    ("runner", "edited", "gone"),
    [
        ("pytest", ["a.py"], {"a.py::x", "a.py::y[1]"}),
        ("pytest", ["ab.py"], {"ab.py::z"}),
        ("pytest", ["conftest.py"], {"a.py::x", "a.py::y[1]", "ab.py::z"}),
        ("node", ["a.py"], set[str]()),
        ("ruff", ["a.py"], set[str]()),
    ],
)
def test_only_tests_of_edited_files_may_go(runner: str, edited: list[str], gone: set[str]) -> None:
    was = Expected(dict.fromkeys(["a.py::x", "a.py::y[1]", "ab.py::z"], "passed"))
    if runner == "node":
        was = Expected({"a.py > x": "passed", "ab.py > z": "passed"})
        found = rebased("node", was, Expected({"a.py > new": "failed"}), edited)
        assert set(found.checks) == {"a.py > new", "ab.py > z"}
        return
    found = rebased(runner, was, Expected(), edited)  # type: ignore[arg-type]
    assert was.checks.keys() - found.checks.keys() == gone


def test_a_test_that_had_to_pass_may_not_be_skipped_because_a_helper_was_edited() -> None:
    was = Expected({"a.py::x": "passed", "a.py::s": "skipped"})
    run = Expected({"a.py::x": "skipped", "a.py::s": "passed", "a.py::new": None})
    found = rebased("pytest", was, run, ["helper.py"])
    assert found.checks == {"a.py::x": "passed", "a.py::s": "skipped", "a.py::new": None}
    assert rebased("pytest", was, run, ["a.py"]).checks["a.py::x"] == "skipped"


def test_the_names_of_unittest_are_found_by_module() -> None:
    was = Expected({"tests.test_a.T.x": "passed", "test_b.T.y": "passed"})
    assert set(rebased("unittest", was, Expected(), ["tests/test_a.py"]).checks) == {"test_b.T.y"}
    kept_ = set(rebased("unittest", was, Expected(), ["tests/test_b.py"]).checks)
    assert kept_ == {"tests.test_a.T.x"}

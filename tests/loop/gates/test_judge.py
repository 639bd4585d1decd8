"""A judge goes on with its baseline in another process, and trusts nothing that was changed."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest

from taofold.core.errors import ConfigError, LogError
from taofold.core.failing_checks import Check, Location
from taofold.loop.gates.criteria import gates
from taofold.loop.gates.judge import Judge
from taofold.loop.gates.verdict_texts import observation
from taofold.loop.verdict import Gate, GateResult, Verdict, unexecuted
from tests.loop.gates.projects import PYTEST, RIGHT, SHOP, again, judged, written


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return written(tmp_path / "shop", SHOP)


def digest(judge: Judge) -> str:
    assert judge.baseline is not None
    return judge.baseline.digest


def test_a_judge_goes_on_where_another_process_left_off(shop: Path) -> None:
    judge, _ = judged(shop)
    resumed = Judge.resume(shop, judge.folder, digest(judge))
    (shop / "tests/test_till.py").unlink()
    verdict = again(resumed)
    assert (verdict.tampered, verdict.passed) == (True, False)
    written(shop, {"shop/till.py": RIGHT})
    assert again(resumed).passed


def test_gates_share_the_time_of_a_verdict_and_none_begins_when_it_is_over(tmp_path: Path) -> None:
    root = written(tmp_path / "slow", {"slow.py": "raise SystemExit(1)", "other.py": "pass"})
    commands = ["python -c 'import slow'", "python -c 'import other'"]
    judge = Judge(root, tmp_path / "kept", gates(commands, root))
    asyncio.run(judge.begin())
    written(root, {"slow.py": "import time\ntime.sleep(300)", "other.py": "open('began', 'w')"})
    verdict = asyncio.run(judge.verdict(until=monotonic() + 1.5))
    assert not verdict.passed
    assert [result.timed_out for result in verdict.results] == [True, True]
    assert verdict.results[0].reasons == ("it did not end before the loop's time was over",)


def test_a_baseline_that_was_changed_is_not_used(shop: Path) -> None:
    judge, _ = judged(shop)
    kept = judge.folder / "baseline.json"
    kept.write_text(kept.read_text().replace("test_all_prices_count", "test_nothing_costs_nothing"))
    with pytest.raises(LogError, match="was changed"):
        Judge.resume(shop, judge.folder, digest(judge))
    kept.unlink()
    with pytest.raises(LogError, match="cannot be read"):
        Judge.resume(shop, judge.folder, digest(judge))


def test_contents_that_were_changed_are_not_restored(shop: Path) -> None:
    judge, _ = judged(shop)
    for path in (judge.folder / "objects").rglob("*"):
        if path.is_file():
            path.write_text("def test_all_prices_count(): pass\n")
    (shop / "tests/test_till.py").unlink()
    with pytest.raises(LogError, match="was changed"):
        again(judge)
    assert not (shop / "tests/test_till.py").exists()


def test_a_baseline_belongs_to_one_work_root(shop: Path, tmp_path: Path) -> None:
    judge, _ = judged(shop)
    with pytest.raises(ConfigError, match="works in"):
        Judge.resume(written(tmp_path / "other", SHOP), judge.folder, digest(judge))


def test_a_baseline_lies_outside_the_work_root(shop: Path) -> None:
    judge = Judge(shop, shop / ".taofold" / "loops", gates([PYTEST], shop))
    with pytest.raises(ConfigError, match="could write there"):
        asyncio.run(judge.begin())


def test_there_is_no_verdict_without_a_baseline(shop: Path) -> None:
    with pytest.raises(ConfigError, match=r"call judge\.begin\(\) first"):
        again(Judge(shop, shop.parent / "kept", gates([PYTEST], shop)))


def test_a_large_file_that_was_changed_is_reported_and_does_not_pass(shop: Path) -> None:
    large = shop / "tests" / "large.bin"
    with large.open("wb") as file:
        file.truncate(65_000_000)
    judge, _ = judged(shop)
    written(shop, {"shop/till.py": RIGHT})
    large.write_bytes(b"small")
    verdict = again(judge)
    assert (verdict.tampered, verdict.passed) == (True, False)
    assert [change.done for change in verdict.changes] == ["reported"]


def test_modes_are_restored(shop: Path) -> None:
    script = written(shop, {"tests/run.sh": "true\n"}) / "tests/run.sh"
    script.chmod(0o755)
    judge, _ = judged(shop)
    script.chmod(0o644)
    assert again(judge).tampered
    assert script.stat().st_mode & 0o111 == 0o111


def test_tests_run_in_one_process_although_several_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")  # xdist is what is asked for
    config = "[tool.pytest.ini_options]\naddopts = '-n 2 -p no:cacheprovider'\n"
    root = written(tmp_path / "shop", {**SHOP, "pyproject.toml": config})
    judge, first = judged(root)
    assert first.quality == 0.5, first.reasons
    written(root, {"shop/till.py": RIGHT})
    verdict = again(judge)
    assert verdict.passed, verdict.reasons
    assert "bringing up nodes" not in verdict.results[0].output


def test_a_module_that_unittest_cannot_load_is_an_error(tmp_path: Path) -> None:
    test = "import unittest, till\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    root = written(tmp_path / "shop", {"test_till.py": test})
    judge, verdict = judged(root, "python -m unittest")
    assert [(c.id, c.status) for c in verdict.failing] == [("test_till", "error")]
    written(root, {"till.py": "import unittest\nraise unittest.SkipTest('later')\n"})
    assert not again(judge).passed
    written(root, {"till.py": ""})
    good = again(judge)
    assert good.passed, good.reasons


def test_a_gate_without_any_test_does_not_pass(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", {"test_none.py": "x = 1\n"})
    _, verdict = judged(root, "python -m unittest")
    assert not verdict.passed


@pytest.mark.scenario("RLP-16")
def test_what_was_not_executed_is_known() -> None:
    ran = GateResult(Gate("true"), passed=True, ran=("true",))
    assert "no gate was run" in unexecuted(None, "t1")
    assert "could be started" in unexecuted(Verdict(False, (GateResult(Gate("x"), False),)), "")
    assert "changed after" in unexecuted(Verdict(True, (ran,), tree="t1"), "t2")
    assert unexecuted(Verdict(True, (ran,), tree="t1"), "t1") == ""


@pytest.mark.parametrize(
    ("first", "filler", "last"),
    [
        ("a.py:1: error: the first finding", "b.py:{n}: error: one more", "Found 400 errors"),
        ("a.py:1:1: F401 the first finding", "b.py:{n}:1: E501 one more", "Found 400 errors."),
        ("test session starts", "tests/test_{n}.py .......... ok", "FAILED t.py::one - E"),
    ],
)
def test_a_long_output_without_checks_is_told_from_its_first_finding_to_its_summary(
    first: str, filler: str, last: str
) -> None:
    """Mutant: the stream keeps the end of the output only."""
    output = "\n".join([first, *[filler.format(n=n) for n in range(400)], last])
    verdict = Verdict(False, (GateResult(Gate("make lint"), False, 2, output=output),))
    for one in (verdict, verdict.slim()):
        told = observation(one, 6_000)
        assert len(told) < 7_000
        assert first in told
        assert last in told
    assert len(verdict.slim().results[0].output) < 4_200


def test_an_observation_is_bounded_and_names_every_failing_check() -> None:
    checks = tuple(
        [
            Check(f"t{n}", "failed", "E", "m" * 900, (Location("a.py", n),), "trace\n" * 500)
            for n in range(40)
        ]
    )
    result = GateResult(Gate("pytest"), False, checks=checks, reasons=("exit code 1",))
    told = observation(Verdict(False, (result,)), 6_000)
    assert len(told) < 8_000
    assert "FAILED t0 (a.py:0) E: m" in told

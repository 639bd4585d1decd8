"""Gates with real tools: a failure is an observation, a correct project passes.

Each project is broken, judged, fixed and judged again. `go` and `tsc` are parsed from recorded
output in test_reports.py, because they are not installed everywhere.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from taofold.loop.gates.criteria import gates
from taofold.loop.gates.judge import Judge
from taofold.loop.gates.verdict_texts import observation
from taofold.loop.verdict import Verdict
from taofold.policy.redaction import Redactor
from tests import prerequisites
from tests.loop.gates.projects import RIGHT, SHOP, again, judged, written

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Case:
    command: str
    broken: Mapping[str, str]
    right: Mapping[str, str]
    failing: str
    """The id of the check that fails."""
    error_type: str
    said: str
    place: tuple[str, int]
    quality: float


UNITTEST = """
import unittest
from till import total

class Till(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(total([]), 0)

    def test_all(self):
        self.assertEqual(total([1, 2]), 3)
"""
NODE = """
import test from "node:test";
import assert from "node:assert";
import { total } from "./till.mjs";

test("nothing costs nothing", () => assert.strictEqual(total([]), 0));
test("prices", async (t) => {
  await t.test("all count", () => assert.strictEqual(total([1, 2]), 3));
});
"""
RUST = """
pub fn total(prices: &[i32]) -> i32 { prices.iter().skip(1).sum() }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing() { assert_eq!(total(&[]), 0); }
}
"""
RUST_TEST = """
#[test]
fn all() {
    assert_eq!(shop::total(&[1, 2]), 3);
}
"""
CARGO = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
CASES = {
    "pytest": Case(
        "python -m pytest -q", SHOP, {"shop/till.py": RIGHT},
        "tests/test_till.py::test_all_prices_count", "AssertionError", "assert 5 == 6",
        ("tests/test_till.py", 11), 0.5,
    ),
    "unittest": Case(
        "python -m unittest -q",
        {"till.py": "def total(prices):\n    return sum(prices[1:])\n", "test_till.py": UNITTEST},
        {"till.py": RIGHT}, "test_till.Till.test_all", "AssertionError", "2 != 3",
        ("test_till.py", 10), 0.5,
    ),
    "node": Case(
        "node --test",
        {
            "till.mjs": "export const total = (p) => p.slice(1).reduce((a, b) => a + b, 0);\n",
            "till.test.mjs": NODE, "package.json": "{}",
        },
        {"till.mjs": "export const total = (p) => p.reduce((a, b) => a + b, 0);\n"},
        "till.test.mjs > prices > all count", "ERR_ASSERTION", "2 !== 3",
        ("till.test.mjs", 8), 1 / 3,
    ),
    "cargo": Case(
        "cargo test --offline",
        {"Cargo.toml": CARGO, "src/lib.rs": RUST, "tests/all.rs": RUST_TEST},
        {"src/lib.rs": RUST.replace(".skip(1)", "")},
        "tests/all.rs::all", "panic", "left == right", ("tests/all.rs", 4), 0.5,
    ),
    "ruff": Case(
        "ruff check .", {"a.py": "import os\nimport sys\n\nprint(sys.argv)\n"},
        {"a.py": "import sys\n\nprint(sys.argv)\n"},
        "a.py: F401 `os` imported but unused", "F401", "imported but unused", ("a.py", 1), 0.0,
    ),
    "mypy": Case(
        "mypy a.py", {"a.py": "def f() -> int:\n    return 'x'\n"},
        {"a.py": "def f() -> int:\n    return 1\n"},
        'a.py: return-value Incompatible return value type (got "str", expected "int")',
        "return-value", "Incompatible return", ("a.py", 2), 0.0,
    ),
}  # fmt: skip


NEEDS = {"node": prerequisites.NODE, "cargo": prerequisites.CARGO}
"""Programs that the tools' commands need and Python does not install."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("contain", ["auto", "never"])
def test_a_failing_check_is_an_observation_and_a_mended_one_passes(
    tmp_path: Path, name: str, contain: str
) -> None:
    case = CASES[name]
    if (program := case.command.partition(" ")[0]) in NEEDS:
        NEEDS[program].need()
    root = written(tmp_path / "project", case.broken)
    judge, verdict = judged(root, case.command, contain=contain)
    assert not verdict.passed
    failing = {check.id: check for check in verdict.failing}
    assert case.failing in failing, verdict.results[0]
    check = failing[case.failing]
    assert check.error_type == case.error_type
    assert case.said in check.message
    assert (check.places[-1].path, check.places[-1].line) == case.place
    assert verdict.quality == pytest.approx(case.quality)
    told = observation(verdict)
    assert case.failing in told
    assert f"{case.place[0]}:{case.place[1]}" in told
    written(root, case.right)
    mended = again(judge)
    assert mended.passed, (mended.reasons, mended.results[0].output)
    assert mended.quality == 1.0
    assert mended.results[0].reported
    assert not mended.tampered, mended.changes


def test_the_record_of_an_execution_says_what_was_run(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    _, verdict = judged(root)
    [result] = verdict.results
    assert result.code == 1
    assert result.ran[1:3] == ("-I", "-B")
    assert result.ran[-1] == "-q"
    assert result.started_ms > 1_600_000_000_000
    assert result.ms > 0


def test_an_error_while_loading_is_an_error_and_its_tests_are_expected(tmp_path: Path) -> None:
    """A fix of a file that failed to load must also make each of its tests pass."""
    root = written(tmp_path / "shop", {**SHOP, "shop/till.py": "def other(): pass\n"})
    judge, verdict = judged(root)
    assert [(c.id, c.status, c.error_type) for c in verdict.failing] == [
        ("tests/test_till.py", "error", "ImportError")
    ]
    written(root, {"shop/till.py": "import pytest\npytest.skip('', allow_module_level=True)\n"})
    skipped = again(judge)
    assert not skipped.passed
    written(root, {"shop/till.py": RIGHT})
    assert again(judge).passed


@pytest.mark.scenario("RLP-17")
def test_a_test_that_was_skipped_before_may_stay_so_and_one_that_ran_may_not(
    tmp_path: Path,
) -> None:
    tests = "import os, pytest\nfrom shop.till import total\nfrom shop import till\n"
    tests += "@pytest.mark.skipif(True, reason='other system')\ndef test_a(): pass\n"
    tests += "@pytest.mark.skipif(getattr(till, 'LATER', False), reason='x')\n"
    tests += "def test_b(): assert total([1]) == 1\n"
    root = written(tmp_path / "shop", {**SHOP, "tests/test_till.py": tests})
    judge, _ = judged(root)
    written(root, {"shop/till.py": RIGHT})
    good = again(judge)
    assert good.passed, good.reasons
    assert good.quality == 1.0
    written(root, {"shop/till.py": RIGHT + "LATER = True\n"})
    verdict = again(judge)
    assert not verdict.passed
    assert verdict.missing == ("tests/test_till.py::test_b",)


@pytest.mark.scenario("RLP-02")
def test_a_gate_that_is_green_at_the_start_is_recognised(tmp_path: Path) -> None:
    _, verdict = judged(written(tmp_path / "shop", {**SHOP, "shop/till.py": RIGHT}))
    assert verdict.passed
    assert verdict.quality == 1.0


def test_a_gate_that_never_ends_is_stopped(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    judge = Judge(root, tmp_path / "kept", gates(["sleep 600"], root, timeout=0.2))
    verdict = asyncio.run(judge.begin())
    assert not verdict.passed
    assert verdict.results[0].timed_out
    assert verdict.results[0].code is None


def test_secrets_that_tests_print_are_redacted(tmp_path: Path) -> None:
    leak = "def test_leak():\n    token = 'sk-abcdefghijklmnopqrstuvwxyz'\n    assert not token\n"
    root = written(tmp_path / "shop", {**SHOP, "tests/test_leak.py": leak})
    _, verdict = judged(root, redact=Redactor())
    assert "sk-abcdefghijklmnop" not in _said(verdict)
    assert "[redacted]" in _said(verdict)


def _said(verdict: Verdict) -> str:
    shown = [f"{c.message} {c.traceback}" for c in verdict.failing]
    return observation(verdict) + verdict.results[0].output + "".join(shown)


@pytest.mark.parametrize("name", ["node", "cargo"])
def test_what_did_not_load_at_first_passes_once_its_tests_do(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    NEEDS[name].need()
    product, text = next(iter(case.right.items()))
    root = written(tmp_path / "project", {**case.broken, product: f"{text}\n)"})
    judge, verdict = judged(root, case.command)
    [check] = verdict.failing
    assert check.status == "error"
    # The verdict contains the error and its location, not only the failed file.
    assert (check.error_type, check.place.path) == (
        ("SyntaxError", product) if name == "node" else ("error", product)
    )
    written(root, case.broken)
    assert not again(judge).passed
    written(root, {product: text})
    mended = again(judge)
    assert mended.passed, mended.reasons
    assert mended.quality == 1.0


def test_a_node_file_that_did_not_load_must_have_tests_in_the_end(tmp_path: Path) -> None:
    prerequisites.NODE.need()
    case = CASES["node"]
    root = written(tmp_path / "project", {**case.broken, "till.mjs": "export const other = 1;\n"})
    judge, verdict = judged(root, case.command)
    assert "does not provide an export named 'total'" in verdict.failing[0].message
    written(root, {"till.test.mjs": "", "till.mjs": "process.exit(0);\n"})
    assert not again(judge).passed


THROWS = """
import test from "node:test";
import { total } from "./till.mjs";
test("none", () => { total(); });
"""


def test_the_place_of_what_node_threw_is_where_it_was_thrown(tmp_path: Path) -> None:
    prerequisites.NODE.need()
    till = "export function total(rows) {\n  return rows.length;\n}\n"
    files = {"package.json": "{}", "till.mjs": till, "till.test.mjs": THROWS}
    _, verdict = judged(written(tmp_path / "project", files), "node --test")
    [check] = verdict.failing
    assert [(p.path, p.function) for p in check.places] == [
        ("till.test.mjs", ""),
        ("till.mjs", "total"),
    ]
    assert check.place.line == 2


def test_the_place_of_an_exception_is_the_projects(tmp_path: Path) -> None:
    """The codec that raises it is a frozen module, and called by a file of the library."""
    till = (
        "from pathlib import Path\n\n\ndef total(path):\n    return Path(path).read_text('utf-8')\n"
    )
    tests = "from till import total\n\ndef test_a(tmp_path):\n    file = tmp_path / 'a'\n"
    tests += "    file.write_bytes(b'\\xf6 ')\n    total(file)\n"
    _, verdict = judged(written(tmp_path / "shop", {"till.py": till, "test_till.py": tests}))
    [check] = verdict.failing
    assert check.error_type == "UnicodeDecodeError"
    assert (check.place.path, check.place.line, check.place.function) == ("till.py", 5, "total")
    assert not [place for place in check.places if place.path.startswith("<")]


def test_what_a_command_prints_names_files_as_the_agent_does(tmp_path: Path) -> None:
    prerequisites.NODE.need()
    main = "function run() {\n  null.a;\n}\nrun();\n"
    root = written(tmp_path / "shop", {"main.js": main})
    _, verdict = judged(root, "node main.js")
    [check] = verdict.errors
    assert [(p.path, p.function) for p in check.places] == [
        ("main.js", "anonymous"),
        ("main.js", "run"),
    ]
    assert str(root) not in verdict.results[0].output


def test_secrets_in_the_name_or_the_place_of_an_error_are_redacted(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    leak = f"def {secret}():\n    raise type('{secret}', (Exception,), {{}})\n\n"
    leak += f"def test_leak():\n    {secret}()\n"
    _, verdict = judged(written(tmp_path / "shop", {"test_leak.py": leak}), redact=Redactor())
    [check] = verdict.failing
    assert check.error_type == "[redacted]"
    assert secret not in repr(check)

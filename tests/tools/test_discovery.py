"""Tools found in files; every fault names its file."""

from pathlib import Path
from textwrap import dedent

import pytest

from taofold.core.values import Tier
from taofold.tools.discovery import discover


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source))
    return path


GOOD = """
    def first(state, args):
        "First."
        return "k", args

    def second(state: dict, args: dict, verbose: bool = False):
        return None

    def _private(x): ...
    class NotATool: ...
"""


@pytest.mark.scenario("TAG-01")
def test_two_valid_tools_register_and_the_third_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path / "tagent.tools.py", GOOD + "    def third(query): ...\n")
    found = discover([tmp_path])
    assert found.tools.names == ("first", "second")
    (fault,) = found.faults
    assert (fault.path, fault.name) == (file, "third")
    assert "(query), not (state, args)" in fault.reason
    assert "decorate it with @tool" in fault.reason


@pytest.mark.scenario("TAG-02")
def test_directories_are_entered_unless_not_recursive_and_without_a_path_nothing_runs(
    tmp_path: Path,
) -> None:
    write(tmp_path / "deep" / "er" / "taofold_tools.py", GOOD)
    for skipped in (".hidden", "node_modules"):
        write(tmp_path / skipped / "taofold_tools.py", "raise SystemExit")
    assert discover([tmp_path]).tools.names == ("first", "second")
    assert discover([tmp_path]).faults == ()
    assert not discover([tmp_path], recursive=False).tools
    assert discover([]) == discover(())
    assert not discover([]).tools


@pytest.mark.scenario("TAG-03")
@pytest.mark.parametrize("code", ["1 / 0", "import nowhere_at_all", "raise SystemExit(1)", "def ("])
def test_a_file_that_raises_on_import_is_reported_and_others_load(
    tmp_path: Path, code: str
) -> None:
    bad = write(tmp_path / "a" / "tagent.tools.py", code)
    write(tmp_path / "b" / "tagent.tools.py", GOOD)
    found = discover([tmp_path])
    assert found.tools.names == ("first", "second")
    assert [fault.path for fault in found.faults] == [bad]
    assert "importing it raised" in str(found.faults[0])


@pytest.mark.scenario("TAG-04")
def test_the_first_file_in_sorted_order_wins_a_name_with_a_warning(tmp_path: Path) -> None:
    b = write(tmp_path / "b" / "tagent.tools.py", "def same(state, args):\n    'B.'\n")
    a = write(tmp_path / "a" / "tagent.tools.py", "def same(state, args):\n    'A.'\n")
    for paths in ([b, a], [tmp_path], [a, tmp_path, b]):
        found = discover(paths)
        assert found.tools["same"].description == "A."
        assert found.warnings == (f"tool 'same' of {b} is ignored: {a} defines it too",)


def test_decorated_tools_and_toolsets_are_taken_but_never_below_tier_2_unless_trusted(
    tmp_path: Path,
) -> None:
    write(
        tmp_path / "taofold_tools.py",
        """
        from __future__ import annotations
        from taofold.tools import RunContext, Toolset, tool

        @tool(tier=1, effect="read")
        def look(ctx: RunContext[None], path: str) -> str:
            "Look."
            return path

        more = Toolset.of(look).prefixed("my_")
        """,
    )
    found = discover(tmp_path)
    assert found.tools.names == ("look", "my_look")
    assert found.tools["look"].tier is Tier.CARD
    assert discover(tmp_path, trusted=True).tools["look"].tier is Tier.AUTO


def test_discovery_prints_nothing_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "taofold_tools.py", "print('hello')\n" + dedent(GOOD))
    assert discover(tmp_path).tools
    assert capsys.readouterr().out == ""


def test_a_path_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    (fault,) = discover([tmp_path / "none"]).faults
    assert "no such file" in fault.reason

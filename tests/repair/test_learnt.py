"""Rates of earlier searches: in the prompt, and in the report of a finished run."""

import asyncio
import shlex
from math import exp
from pathlib import Path

import pytest

from taofold import Agent, Limits
from taofold.core.events import Record
from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import EditRates
from taofold.tools import tool
from taofold.tools.files import file_tools
from taofold_repair import NAME, RepairModel
from taofold_repair.rank import HEADING, LearntOrder, keys_of, learnt_in, section
from taofold_repair.search import RepairSearch, actions_of, search_state
from taofold_repair.source import Change, Source
from tests.repair.driver import Pytest

KEYS = {"s" + "a" * 12: Rate(5.0, 1.0), "l" + "b" * 12: Rate(0.0, 3.0), "s" + "c" * 12: Rate(1, 1)}


def test_a_search_reads_the_rates_and_how_far_they_are_believed() -> None:
    text = section(EditRates(KEYS, (2.0, 0.5)))
    assert text.startswith(HEADING)
    told = learnt_in(f"Fix the tests.\n\n{text}")
    assert told.rates == {"s" + "a" * 12: 2.3333, "l" + "b" * 12: 0.4}
    assert told.belief == pytest.approx(1 / (1 + exp(-1.5)), abs=1e-4)


def test_what_no_search_taught_tells_nothing() -> None:
    assert section(EditRates()) == ""
    assert section(EditRates({"s" + "c" * 12: Rate(1, 1)})) == "", "as often as expected"


def test_a_section_of_release_0_1_has_no_weights_and_is_believed_in_full() -> None:
    old = f"{HEADING}\nReference data.\ns{'a' * 12} 2.3333"
    assert learnt_in(old) == LearntOrder({"s" + "a" * 12: 2.3333}, 1.0)


def test_no_order_is_believed_more_than_wholly() -> None:
    hostile = f"{HEADING}\nweights 0.0000 1.9999\ns{'a' * 12} 2.3333"
    assert learnt_in(hostile).belief == 1.0


def test_the_keys_of_an_edit_go_from_what_it_does_to_which_line_it_does_it_to() -> None:
    text = "while n < len(xs):\n    m = n < 3\nwhile low < high:\n    pass\n"
    source = Source("a.py", text)
    first, second, third = (
        keys_of(source, Change("swap_comparison", at, at + 1, "<="))
        for at in (text.index("<"), text.index("< 3"), text.index("< high"))
    )
    assert first[0] == second[0] == third[0], "one shape"
    assert first[1] == third[1] != second[1], "in a `while`, or where a name is assigned"
    assert len({first[2], second[2], third[2]}) == 3, "three lines that are not alike"
    assert [key[0] for key in first] == ["s", "k", "l"]


def test_what_is_no_rate_is_not_read() -> None:
    hostile = f"{HEADING}\nsaaaaaaaaaaaa 1e99\nrm -rf / 2.0\nsaaaaaaaaaaab -1.0\ns1 2.0\n"
    hostile += "weights 9.0000 9.0000 -1.000\nweights 1.0 1.0\nweights 0.5000\n"
    assert learnt_in(hostile) == LearntOrder()
    assert learnt_in("saaaaaaaaaaaa 2.0000") == LearntOrder(), (
        "without its heading it is no section"
    )


def test_a_run_says_which_edit_ended_it(tmp_path: Path) -> None:
    first, records = _repair(tmp_path / "one", "")
    outcome = RepairSearch(NAME).outcome(records, EditRates())
    assert outcome is not None
    keys, costs = outcome
    assert sum(rate.wins for rate in keys.values()) == 3, "its shape, there, and on that line"
    assert abs(sum(r.expected for key, r in keys.items() if key[0] == "s") - 1.0) < 1e-6
    assert len(costs) == 2
    assert first >= 1
    assert section(EditRates().plus(*outcome)), "the next search is told"


def test_a_run_that_repaired_nothing_says_nothing(tmp_path: Path) -> None:
    _, records = _repair(tmp_path / "one", "", steps=3)
    assert RepairSearch(NAME).outcome(records, EditRates()) is None


CODE = """\
def price(cents, count):
    total = cents * count
    if count > 10:
        total -= 50
    return total / 100
"""
TEST = """\
from shop import price

def test_nine():
    assert price(100, 9) == 9

def test_ten():
    assert price(100, 10) == 9.5
"""


def _repair(folder: Path, rates: str, steps: int = 200) -> tuple[int, tuple[Record, ...]]:
    """The candidates that were tried, and the run's records."""
    folder.mkdir()
    (folder / "shop.py").write_text(CODE)
    (folder / "test_shop.py").write_text(TEST)
    pytest_ = Pytest()

    @tool(effect="idempotent", tier=2)
    def run_command(command: str) -> str:
        """Run a program.

        Args:
            command: For example "python -m pytest -q".
        """
        words = shlex.split(command)
        code, output = pytest_.run(folder, words[words.index("pytest") + 1 :])
        return f"exit code {code}\n{output}"

    limits = Limits(steps=steps, model_calls=steps + 5, tool_calls=2 * steps)
    agent = Agent(
        RepairModel(),
        tools=[file_tools(folder), run_command],
        instructions=rates,
        limits=limits,
        approve="all",
    )
    result = asyncio.run(agent.run("Make the failing tests pass: run `python -m pytest -q`"))
    pytest_.close()
    state = search_state(actions_of(result.records))
    return state.candidates, tuple(result.records)

"""The second judge runs the tests against a product in another process.

Mutants: the product is loaded beside the tests; objects of the product reach the tests; changes of
a function's arguments are lost; a process that ended counts as passed.
"""

import asyncio
from pathlib import Path

import pytest

from taofold.loop.gates.judge import Judge
from taofold.loop.runners.apart import Apart, Product, packed, unpacked
from taofold.loop.verdict import Verdict

from .projects import RIGHT, SHOP, bytecode, judged, written

TESTS = """
import pytest
from shop import till
from shop.till import RATES, Broken, total


def test_nothing_costs_nothing():
    assert total([]) == 0


def test_all_prices_count():
    assert total([1, 2, 3]) == 6
    assert till.total((1.5, 2)) == 3.5


def test_what_is_given_may_be_changed():
    prices = [3, 1]
    assert till.sort(prices) is None
    assert prices == [1, 3]


def test_errors_are_the_products():
    with pytest.raises(Broken, match="no"):
        till.broken()
    with pytest.raises(ValueError):
        till.broken()
    assert RATES == {"a": (1, 2)}


def test_what_it_prints_is_seen(capsys):
    till.receipt([1, 2])
    assert capsys.readouterr().out == "3\\n"
"""


@pytest.mark.parametrize("name", ["exec", "eval", "open", "breakpoint", "int", "nothing_here"])
def test_a_product_names_no_function_that_is_called_here(name: str) -> None:
    product = Product.__new__(Product)
    product._raised = {}
    assert product.exception("builtins", name, []) is Exception
    assert product.exception("shop", "Broken", [name, "ValueError"]).__base__ is ValueError
    assert product.exception("builtins", "KeyError", []) is KeyError


OBJECT = """

def test_object():
    assert till.Till().total == 0


def test_patched(monkeypatch):
    monkeypatch.setattr(till, "total", len)
    assert till.total([1, 1]) == 2
"""
MORE = """

class Broken(ValueError):
    pass


RATES = {"a": (1, 2)}


def sort(prices):
    prices.sort()


def broken():
    raise Broken("no")


def receipt(prices):
    print(sum(prices))


class Till:
    total = 0
"""


def verdict(tmp_path: Path, product: str, tests: str = TESTS) -> Verdict:
    """The verdict of both judges on a product."""
    wrong = SHOP["shop/till.py"] + MORE
    root = written(tmp_path / "shop", {**SHOP, "shop/till.py": wrong, "tests/test_till.py": tests})
    judge, first = judged(root, second=True)
    assert not first.passed
    written(root, {"shop/till.py": product + MORE})
    assert judge.baseline is not None
    later = Judge.resume(
        root, judge.folder, judge.baseline.digest, second=True, bytecode=bytecode()
    )
    return asyncio.run(later.verdict())


def test_a_product_of_functions_is_judged_twice(tmp_path: Path) -> None:
    found = verdict(tmp_path, RIGHT, TESTS + OBJECT)
    assert found.passed, found.reasons
    assert "second judge: 5 of 7 tests also pass" in found.notes[0]
    assert "2 need more of it than plain data: tests/test_till.py::test_object" in found.notes[0]


@pytest.mark.parametrize(
    "product",
    [
        "import sys\ndef total(p):\n    return sum(p if 'pytest' in sys.modules else p[1:])\n",
        "import os\ndef total(p):\n    if 'PYTEST_CURRENT_TEST' not in os.environ: os._exit(0)\n"
        "    return sum(p)\n",
        "import inspect\ndef total(p):\n"
        "    for frame in inspect.stack():\n"
        "        if frame.function.startswith('test_'): return sum(p)\n    return 0\n",
    ],
    ids=["knows of pytest", "leaves elsewhere", "looks at the stack"],
)
def test_a_product_that_lies_in_the_process_of_its_tests(tmp_path: Path, product: str) -> None:
    found = verdict(tmp_path, product)
    assert not found.passed
    assert "pass only with the product in their own process" in found.reasons[0]


def test_only_plain_data_goes_through() -> None:
    value = {"a": [1, 2.5, None, True, b"x", (1,), {2}, frozenset([3])], 1: {"n": float("inf")}}
    assert unpacked(packed(value)) == value

    class Everything(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    for one in (Everything(), [Everything()], object(), test_only_plain_data_goes_through):
        with pytest.raises(Apart):
            packed(one)

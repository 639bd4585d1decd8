"""Each template: a broken function, the failure it shows, and the edit that must be offered."""

from dataclasses import dataclass

import pytest

from taofold.core.failing_checks import Check, Location
from taofold.diagnostics import PytestReport
from taofold_repair.rank import Candidate, LearntOrder, ranked
from taofold_repair.source import Change, Project, Source
from taofold_repair.templates import NAMES, TEMPLATES


@dataclass(frozen=True)
class Case:
    template: str
    code: str
    check: str
    """The failing line of the test."""
    error: str
    message: str
    wanted: str
    """Text that the repaired file must contain."""
    line: int = 0
    """Line of the failure in the module; 0 = in the test."""


def report(case: Case) -> PytestReport:
    places = [Location("tests/test_shop.py", 4, "test_it")]
    if case.line:
        places.append(Location("shop.py", case.line, "" if "Syntax" in case.error else "f"))
    failure = Check(
        "tests/test_shop.py::test_it",
        "failed",
        case.error,
        case.message,
        tuple(places),
        case.message,
    )
    return PytestReport((failure,), 3, 1, "1 failed, 3 passed", 0.1)


def offered(case: Case) -> list[Candidate]:
    test = f"import pytest\nfrom shop import f\ndef test_it():\n    {case.check}\n"
    project = Project([Source("shop.py", case.code), Source("tests/test_shop.py", test)])
    return list(ranked(project, report(case), LearntOrder()))


CASES = [
    Case("add_null_check", "def f(d, k):\n    x = d.get(k)\n    return x.name\n",
         "assert f({}, 1) == ''", "AttributeError",
         "'NoneType' object has no attribute 'name'",
         'if x is None:\n        return \'\'\n    return x.name', 3),
    Case("add_null_check", "def f(items):\n    n = 0\n    for i in items:\n        n += i.price\n"
         "    return n\n", "assert f([None]) == 0", "AttributeError",
         "'NoneType' object has no attribute 'price'",
         "if i is None:\n            continue\n        n += i.price", 4),
    Case("add_null_check", "def f(xs=None):\n    for x in xs:\n        print(x)\n",
         "f()", "TypeError", "'NoneType' object is not iterable",
         "if xs is None:\n        xs = []\n    for x in xs", 2),
    Case("add_guard", "def f(a, b):\n    return a / b\n", "assert f(1, 0) == 0",
         "ZeroDivisionError", "division by zero", "if not b:\n        return 0\n", 2),
    Case("add_guard", "def f(xs):\n    return max(xs)\n", "assert f([]) is None", "ValueError",
         "max() arg is an empty sequence", "if not xs:\n        return None\n", 2),
    Case("off_by_one", "def f(n):\n    return list(range(n))\n", "assert f(2) == [1, 2]",
         "AssertionError", "assert [0, 1] == [1, 2]", "range(1, n + 1)"),
    Case("off_by_one", "def f(n):\n    return sum(range(n))\n", "assert f(2) == 3",
         "AssertionError", "assert 1 == 3", "range(n + 1)"),
    Case("off_by_one", "def f(x):\n    return x[: len(x) - 1]\n", "assert f('ab') == 'ab'",
         "AssertionError", "assert 'a' == 'ab'", "x[: len(x)]"),
    Case("off_by_one", "def f(xs):\n    return xs[1]\n", "assert f([5, 6]) == 5",
         "AssertionError", "assert 6 == 5", "xs[0]"),
    Case("off_by_one", "def f(page, size):\n    return page * size\n", "assert f(1, 10) == 0",
         "AssertionError", "assert 10 == 0", "(page - 1) * size"),
    Case("swap_comparison", "def f(x):\n    return x > 10\n", "assert f(10)", "AssertionError",
         "assert False", "x >= 10"),
    Case("swap_comparison", "def f(x):\n    return x != 1\n", "assert f(1)", "AssertionError",
         "assert False", "x == 1"),
    Case("swap_comparison", "def f(x, y):\n    return x not in y\n", "assert f(1, [1])",
         "AssertionError", "assert False", "x in y"),
    Case("swap_arithmetic", "def f(a, b):\n    return a - b\n", "assert f(1, 2) == 3",
         "AssertionError", "assert -1 == 3", "a + b"),
    Case("swap_arithmetic", "def f(a, b):\n    return a // b\n", "assert f(1, 2) == 0.5",
         "AssertionError", "assert 0 == 0.5", "a / b"),
    Case("swap_arithmetic", "def f(a, b):\n    return a + b / 2\n", "assert f(1, 3) == 2",
         "AssertionError", "assert 2.5 == 2", "(a + b) / 2"),
    Case("swap_arithmetic",
         "def f(xs):\n    n = 0\n    for x in xs:\n        n = x\n    return n\n",
         "assert f([1, 2]) == 3", "AssertionError", "assert 2 == 3", "n += x"),
    Case("fix_boolean", "def f(a, b):\n    return a and b\n", "assert f(0, 1)", "AssertionError",
         "assert 0", "a or b"),
    Case("fix_boolean", "def f(a):\n    if not a:\n        return 1\n    return 2\n",
         "assert f(True) == 1", "AssertionError", "assert 2 == 1", "if a:"),
    Case("fix_boolean", "def f(xs):\n    return [x for x in xs if x.isdigit()]\n",
         "assert f('a1') == ['a']", "AssertionError", "assert ['1'] == ['a']",
         "if not x.isdigit()"),
    Case("wrong_variable", "def f(width, height):\n    return width * width\n",
         "assert f(2, 3) == 6", "AssertionError", "assert 4 == 6", "height * width"),
    Case("wrong_variable", "def f(total):\n    return totl\n", "assert f(1) == 1", "NameError",
         "name 'totl' is not defined. Did you mean: 'total'?", "return total\n", 2),
    Case("missing_return", "def f(xs):\n    result = []\n    for x in xs:\n"
         "        result.append(x)\n", "assert f([1]) == [1]", "AssertionError",
         "assert None == [1]", "append(x)\n    return result\n"),
    Case("missing_return", "def f(x):\n    x + 1\n", "assert f(1) == 2", "AssertionError",
         "assert None == 2", "return x + 1"),
    Case("move_statement", "def f(xs):\n    n = 0\n    for x in xs:\n        n += x\n"
         "        return n\n", "assert f([1, 2]) == 3", "AssertionError", "assert 1 == 3",
         "n += x\n    return n"),
    Case("wrong_constant", "def f(flag=True):\n    return flag\n", "assert not f()",
         "AssertionError", "assert not True", "flag=False"),
    Case("wrong_constant", "def f(xs):\n    return ' '.join(xs)\n", "assert f('ab') == 'a-b'",
         "AssertionError", "assert 'a b' == 'a-b'", "'-'.join"),
    Case("swap_arguments", "def g(low, high):\n    return high - low\n\ndef f(low, high):\n"
         "    return g(high, low)\n", "assert f(1, 3) == 2", "AssertionError", "assert -2 == 2",
         "g(low, high)"),
    Case("swap_arguments", "def f(a, b):\n    return a - b\n", "assert f(1, 3) == 2",
         "AssertionError", "assert -2 == 2", "b - a"),
    Case("fix_call", "def g(x, size=1):\n    return x * size\n\ndef f(x):\n"
         "    return g(x, sise=2)\n", "assert f(1) == 2", "TypeError",
         "g() got an unexpected keyword argument 'sise'", "g(x, size=2)", 5),
    Case("fix_call", "class A:\n    def f(x):\n        return x\n\ndef f(x):\n"
         "    return A().f(x)\n", "assert f(1) == 1", "TypeError",
         "A.f() takes 1 positional argument but 2 were given", "def f(self, x)", 6),
    Case("missing_import", "def f(x):\n    return math.sqrt(x)\n", "assert f(4) == 2",
         "NameError", "name 'math' is not defined", "import math\n", 2),
    Case("missing_import", '"""Doc."""\nimport os\n\ndef f(x):\n    return Counter(x)\n',
         "assert f('')", "NameError", "name 'Counter' is not defined",
         "import os\nfrom collections import Counter\n", 5),
    Case("rename_attribute", "def f(xs):\n    xs.push(1)\n    return xs\n", "assert f([]) == [1]",
         "AttributeError", "'list' object has no attribute 'push'", "xs.append(1)", 2),
    Case("rename_attribute", "class A:\n    def name(self):\n        return 1\n\ndef f():\n"
         "    return A().nam()\n", "assert f() == 1", "AttributeError",
         "'A' object has no attribute 'nam'", "A().name()", 6),
    Case("rename_key", "def f():\n    d = {'price': 1}\n    return d['prize']\n",
         "assert f() == 1", "KeyError", "'prize'", "d['price']", 3),
    Case("rename_key", "def f(xs):\n    d = {}\n    for x in xs:\n        d[x].append(1)\n"
         "    return d\n", "assert f('a')", "KeyError", "'a'", "d.setdefault(x, []).append(1)", 4),
    Case("fix_string", "def f(name):\n    return 'Hi {name}'\n", "assert f('a') == 'Hi a'",
         "AssertionError", "assert 'Hi {name}' == 'Hi a'", "f'Hi {name}'"),
    Case("fix_string", "def f(x):\n    return f'{x:.1f}'\n", "assert f(1) == '1.00'",
         "AssertionError", "assert '1.0' == '1.00'", "{x:.2f}"),
    Case("swap_function", "def f(a, b):\n    return min(a, b)\n", "assert f(1, 2) == 2",
         "AssertionError", "assert 1 == 2", "max(a, b)"),
    Case("swap_function", "def f(xs):\n    return sorted(xs)\n", "assert f([1, 2]) == [2, 1]",
         "AssertionError", "assert [1, 2] == [2, 1]", "sorted(xs, reverse=True)"),
    Case("fix_rounding", "def f(x):\n    return round(x, 1)\n", "assert f(1.25) == 1.25",
         "AssertionError", "assert 1.2 == 1.25", "round(x, 2)"),
    Case("convert_type", "def f(n):\n    return 'n=' + n\n", "assert f(1) == 'n=1'", "TypeError",
         'can only concatenate str (not "int") to str', "'n=' + str(n)", 2),
    Case("add_base_case", "def f(n):\n    return n * f(n - 1)\n", "assert f(3) == 6",
         "RecursionError", "maximum recursion depth exceeded", "if not n:\n        return 1\n", 2),
    Case("mutable_default", "def f(x, xs=[]):\n    xs.append(x)\n    return xs\n",
         "assert f(1) == [1]", "AssertionError", "assert [0, 1] == [1]",
         "def f(x, xs=None):\n    if xs is None:\n        xs = []\n"),
    Case("initialise", "def f(xs):\n    for x in xs:\n        n = x\n    return n\n",
         "assert f([]) == 0", "UnboundLocalError",
         "cannot access local variable 'n' where it is not associated with a value",
         "n = 0\n    for x in xs", 4),
    Case("fix_syntax", "def f(x)\n    return x\n", "assert f(1) == 1", "SyntaxError",
         "expected ':'", "def f(x):\n", 1),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.template}: {case.wanted!r}")
def test_the_right_edit_is_among_the_candidates(case: Case) -> None:
    found = [candidate.edit for candidate in offered(case)]
    repaired = [case.code.replace(edit.old, edit.new) for edit in found]
    right = [
        edit
        for edit, text in zip(found, repaired, strict=True)
        if edit.template == case.template and case.wanted in text
    ]
    assert right, [edit.new for edit in found if edit.template == case.template]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.template}: {case.wanted!r}")
def test_every_candidate_is_a_unique_edit_of_the_source_that_parses(case: Case) -> None:
    for candidate in offered(case):
        edit = candidate.edit
        assert edit.path == "shop.py"
        assert case.code.count(edit.old) == 1
        assert edit.old != edit.new
        compile(case.code.replace(edit.old, edit.new), "shop.py", "exec")


def test_every_template_is_covered_here_and_says_what_it_does() -> None:
    assert {case.template for case in CASES} == NAMES
    assert all(template.does and template.prior > 0 for template in TEMPLATES)


def test_learnt_rates_change_the_order_and_not_the_set() -> None:
    case = CASES[0]
    test = f"from shop import f\ndef test_it():\n    {case.check}\n"
    project = Project([Source("shop.py", case.code), Source("tests/test_shop.py", test)])
    plain = list(ranked(project, report(case), LearntOrder()))
    last = plain[-1]
    rates = dict.fromkeys(last.keys, 50.0)
    led = list(ranked(project, report(case), LearntOrder(rates)))
    assert sorted(c.edit.key for c in plain) == sorted(c.edit.key for c in led)
    assert led.index(next(c for c in led if c.edit == last.edit)) < len(plain) - 1
    assert led[0].keys == last.keys or led[0].score > last.score
    doubted = list(ranked(project, report(case), LearntOrder(rates, belief=0.0)))
    assert [c.edit for c in doubted] == [c.edit for c in plain], "rates that are not believed"


def test_an_edit_takes_as_much_context_as_it_needs_to_be_unique() -> None:
    code = "def f(x):\n    return x > 1\n\n\ndef g(x):\n    return x > 1\n"
    case = Case("swap_comparison", code, "assert f(1)", "AssertionError", "assert False", "")
    first = offered(case)[0].edit
    assert first.old == "def f(x):\n    return x > 1\n"[:-1] or code.count(first.old) == 1
    assert first.new.startswith(("def f", "    return x >= 1"))


def test_every_edit_can_be_taken_back() -> None:
    text = (
        "def reduced(age, student):\n"
        "    return age < 16 and student\n"
        "\n\n"
        "def price(age, cents):\n"
        "    cents = cents\n"
        "    return cents\n"
    )
    source = Source("shop.py", text)
    end, begin = text.index("cents\n", text.index("return cents")), text.index("    cents = cents")
    for start, stop, put in (
        (end, end + 5, "age"),  # `return age` stands elsewhere, too
        (begin, begin + 18, ""),  # nothing is left that could be found
    ):
        edit = source.edit(Change("wrong_variable", start, stop, put))
        assert edit is not None
        after = source.text.replace(edit.old, edit.new)
        assert after == text[:start] + put + text[stop:]
        assert after.count(edit.new) == 1
        assert after.replace(edit.new, edit.old) == text


def test_text_beyond_ascii_does_not_shift_an_edit() -> None:
    code = "def f(x):\n    é = 'üöä'; return x > 10\n"
    case = Case("swap_comparison", code, "assert f(10)", "AssertionError", "assert False", "")
    assert "    é = 'üöä'; return x >= 10" in [c.edit.new for c in offered(case)]


@pytest.mark.parametrize(
    ("change", "first"),
    [("rest.pop()", True), ("cards[0] = 1", True), ("rest += [1]", True), ("print(rest)", False)],
)
def test_a_copy_is_tried_early_where_the_shared_object_is_changed(change: str, first: bool) -> None:
    code = f"def f(cards):\n    rest = cards\n    {change}\n    return len(rest) > 3\n"
    case = Case("swap_function", code, "assert f([1, 2])", "AssertionError", "assert False", "")
    order = [candidate.edit.new for candidate in offered(case)]
    assert (order.index("    rest = list(cards)") < 6) == first

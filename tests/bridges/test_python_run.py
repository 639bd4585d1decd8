"""The sandboxed tool `python.run`: results, bounds and hostile code."""

import builtins
import sys
from typing import Any

import pydantic_monty as monty
import pytest

from taofold.bridges.python_run import sandboxed_python
from taofold.bridges.python_sandbox import CodeBounds
from taofold.tools import Outcome, RunContext
from taofold.tools.python_code import ABSENT, MODULES, RUN, read_python

pytestmark = pytest.mark.anyio
QUICK = CodeBounds(seconds=0.5, memory=32_000_000, calls=50)
"""For code that does not end."""
PATIENT = CodeBounds(seconds=60, memory=32_000_000, calls=50)
"""For code that ends, also on a busy machine."""


async def ran(code: str, bounds: CodeBounds = PATIENT, **values: Any) -> Outcome:
    bound = sandboxed_python(bounds).bind({"code": code, "values": values})
    return await bound.run(RunContext(None))


async def test_code_reads_values_and_returns_json() -> None:
    outcome = await ran("print('so')\nreturn {'m': state['n'] * 2, 't': (1,)}", state={"n": 4})
    assert outcome.value == {"value": {"m": 8, "t": [1]}, "printed": "so\n"}
    assert outcome.extraction == "so"


async def test_a_code_cannot_change_the_values_of_its_flow() -> None:
    state = {"a": [1]}
    outcome = await ran("state['a'].append(2)\nstate['b'] = 1\nreturn state", state=state)
    assert outcome.value["value"] == {"a": [1, 2], "b": 1}
    assert state == {"a": [1]}


async def test_a_code_without_an_end_is_told_its_limit() -> None:
    outcome = await ran("while True:\n    pass", QUICK)
    assert str(outcome.value["error"]).endswith("TimeoutError: the code ran longer than 0.5 s")


async def test_changes_of_the_state_are_returned_where_they_are_asked_for() -> None:
    code = "state['a'].append(2)\nstate['n'] += 1\nreturn 'so'"
    parameters = {"code": code, "values": {"state": {"a": [1], "n": 1, "b": 3}}, "changes": True}
    outcome = await sandboxed_python(QUICK).bind(parameters).run(RunContext(None))
    assert outcome.value["value"] == {"value": "so", "changes": {"a": [1, 2], "n": 2}}


async def test_an_error_has_the_line_of_the_code() -> None:
    outcome = await ran("x = 1\n\nreturn x / 0")
    assert outcome.status == "failure"
    assert outcome.value["error"] == "line 3 of the code: ZeroDivisionError: division by zero"
    assert not outcome.value["lacks"]


@pytest.mark.parametrize(
    "code", ["return {1}", "return print", "class A: pass\nreturn A()", "return float('nan')"]
)
async def test_a_result_is_json(code: str) -> None:
    outcome = await ran(code)
    assert outcome.status == "failure"
    assert outcome.value["error"].startswith("the result of the code: ")


ENDLESS = ("TimeoutError", "Timeout", "e")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("return open('/etc/passwd').read()", "PermissionError"),
        ("import os\nreturn os.listdir('/')", "PermissionError"),
        ("import os\nreturn dict(os.environ)", "os.environ"),
        ("import os\nreturn os.getenv('HOME')", "os.getenv"),
        ("import os\nos.system('id')", "AttributeError"),
        ("import subprocess", "ModuleNotFoundError"),
        ("import socket", "ModuleNotFoundError"),
        ("import ctypes", "ModuleNotFoundError"),
        ("import taofold", "ModuleNotFoundError"),
        ("import urllib.request", "ModuleNotFoundError"),
        ("from pathlib import Path\nreturn Path('/etc/passwd').read_text()", "PermissionError"),
        ("return __import__('os').listdir('/')", "NameError"),
        ("return eval(\"open('/etc/passwd').read()\")", "PermissionError"),
        ("exec('import subprocess')", "ModuleNotFoundError"),
        ("return ().__class__.__mro__[1].__subclasses__()", "AttributeError"),
        ("return (lambda: 1).__globals__", "AttributeError"),
        ("return '{0.__class__}'.format(1)", "AttributeError"),
        ("return getattr((), '__class__').__name__", "AttributeError"),
        ("return globals()", "NameError"),
        ("return taofold_json.__loader__", "AttributeError"),
        ("while True:\n    pass", "TimeoutError"),
        ("while True:\n    try:\n        pass\n    except BaseException:\n        pass", "Timeout"),
        ("x = [0] * 10**9", "MemoryError"),
        ("return 'a' * 10**10", "MemoryError"),
        ("return 9 ** 9 ** 9", "MemoryError"),
        ("def f(n):\n    return f(n + 1)\nreturn f(0)", "RecursionError"),
        ("x = []\nfor i in range(10):\n    x = [x, x, x, x, x, x, x, x]\nreturn x", "e"),
        ("return 'a' * 2_000_000", "2,000,002 characters"),
        ("while True:\n    print('x' * 1000)", "prints without end"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
async def test_hostile_code_reaches_nothing_and_ends(code: str, error: str) -> None:
    outcome = await ran(code, QUICK if error in ENDLESS else PATIENT)
    assert outcome.status == "failure"
    assert error in outcome.value["error"]
    # Lines of the host's own code and its files are no part of the message.
    assert "root:" not in str(outcome.value)


async def test_a_code_sleeps_no_time_and_has_a_clock() -> None:
    code = "import time\ntime.sleep(3600)\nreturn datetime.date.today().year"
    assert (await ran(code)).value["value"] >= 2026


def _accepted(program: str) -> bool:
    """Returns True if the interpreter runs the program without a call to its host."""
    with monty.Monty() as pool, pool.checkout() as session:
        try:
            return isinstance(session.feed_start(program), monty.MontyComplete)
        except monty.MontyError:
            return False


def test_the_table_of_modules_is_that_of_the_interpreter() -> None:
    with monty.Monty() as pool:
        found = set[str]()
        for name in sorted(sys.stdlib_module_names - {"posixpath"}):
            with pool.checkout() as session:
                if name.startswith("_") or name in ("antigravity", "this"):
                    continue
                if isinstance(session.feed_start(f"import {name}\n1"), monty.MontyComplete):
                    found.add(name)
    assert found == MODULES


def test_the_table_of_names_is_that_of_the_interpreter() -> None:
    for name in sorted(ABSENT):
        assert not _accepted(f"{name}(1)"), name
    named = [name for name in dir(builtins) if name.islower() and not name.startswith("_")]
    ended = {"copyright", "credits", "license"}  # of an interactive Python
    absent = {name for name in named if not _accepted(f"{name}\n1")} - ended
    assert absent <= ABSENT


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    yield 1",
        "x = {1: 2}\ndel x[1]",
        "class A:\n    pass\nclass B(A):\n    pass",
        "class A:\n    @staticmethod\n    def f():\n        pass",
        "async def f():\n    async for x in y:\n        pass",
        "async def f():\n    async with x:\n        pass",
        "try:\n    pass\nexcept* ValueError:\n    pass",
        "next((x for x in [1]), None)",
        "open('a')",
    ],
)
def test_the_interpreter_lacks_what_the_reader_finds(source: str) -> None:
    assert read_python(source).lacks
    assert not _accepted(source)


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def __init__(self, a):\n        self.a = a\nx = A(1).a",
        "def d(f):\n    return f\n@d\ndef g():\n    return 1\nx = g()",
        "match {'a': [1, 2]}:\n    case {'a': [x, *y]}:\n        z = x",
        "x = [(a, b) for a in range(2) for b in 'ab' if a]\ny = {a: b for a, b in x}",
        "try:\n    1 / 0\nexcept (KeyError, ZeroDivisionError) as e:\n    x = str(e)",
        "import re\nx = re.sub(r'(?P<a>x)(?=y)', r'<\\g<a>>', 'xy')",
        "import json\nx = json.dumps({'a': [1]}, indent=2, sort_keys=True)",
        "from collections import Counter, defaultdict\nx = Counter('aab').most_common(1)",
        "x = sorted({'b': 1, 'a': 2}.items(), key=lambda i: -i[1])",
        "x = f'{1.5:>8.2f}|{\"a\"!r}' + '%s' % 1 + '{}'.format(2)",
        "import os\nx = os.path.join('a', 'b') + os.path.basename('c/d')",
        "if (n := len('abc')) > 2:\n    x = n",
        "x = max([3, 1], key=lambda v: v, default=0) + sum(v for v in [1])",
    ],
)
def test_the_interpreter_runs_what_the_reader_accepts(source: str) -> None:
    assert not read_python(source).lacks
    assert _accepted(read_python(source).program)


def test_the_tool_only_reads() -> None:
    tool = sandboxed_python()
    assert (tool.name, tool.effect, int(tool.tier)) == (RUN, "read", 1)

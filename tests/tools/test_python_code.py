"""Python code of flows, read without running it."""

import json

import pytest

from taofold.tools.python_code import FIRST_LINE, NotPython, read_python


def value(source: str, **values: object) -> object:
    """Runs the program of our own code here, to see its result."""
    lines = read_python(source).program.rstrip("\n").split("\n")
    names = dict(values)
    exec("\n".join(lines[:-1]), names)
    return eval(lines[-1], names)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("return {'a': 1}", '{"a": 1}'),
        ("if state['n']:\n    return {'a': state['n']}\nreturn {}", '{"a": 5}'),
        ("return", "null"),
        ("# nothing but a comment", "{}"),
        ("", "{}"),
        ("x = 1\n_y = 2\nif False:\n    z = 3", '{"x": 1}'),
        ("x, (y, *z) = 1, (2, 3)", '{"x": 1, "y": 2, "z": [3]}'),
        ("for i in range(2):\n    pass", '{"i": 1}'),
        ("a = [b for b in range(2)]", '{"a": [0, 1]}'),
        ("def f():\n    return 3\na = f()", '{"a": 3}'),
        ("return json.dumps([1])", '"[1]"'),
        ('return """a\n  b\nc"""', '"a\\n  b\\nc"'),
        ("x = f'''{state['n']}\n{\n1\n}'''", '{"x": "5\\n1"}'),
        ("return (\n1,\n'''\nx'''\n)", '[1, "\\nx"]'),
        ("a = 1\r\nb = 2\r\n", '{"a": 1, "b": 2}'),
    ],
)
def test_a_program_returns_what_its_code_returns_or_assigns(source: str, result: str) -> None:
    assert value(source, state={"n": 5}) == result


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("state['n'] += 1", {"value": {}, "changes": {"n": 6}}),
        ("state['l'].append(2)\nreturn 7", {"value": 7, "changes": {"l": [1, 2]}}),
        (
            "state['new'] = state['n']\nreturn {'new': 0}",
            {"value": {"new": 0}, "changes": {"new": 5}},
        ),
        ("del state['n']", {"value": {}, "changes": {"n": None}}),
        ("return state['n']", {"value": 5, "changes": {}}),
        ("return 1", {"value": 1, "changes": {}}),
    ],
)
def test_a_changing_program_returns_what_its_code_changes_in_the_state(
    source: str, result: object
) -> None:
    lines = read_python(source).changing_program.rstrip("\n").split("\n")
    names: dict[str, object] = {"state": {"n": 5, "l": [1]}}
    exec("\n".join(lines[:-1]), names)
    assert json.loads(eval(lines[-1], names)) == result


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("state['n'] += 1", True),
        ("items = state['l']\nitems.append(1)", True),
        ("state.setdefault('l', [])", True),
        ("return {'n': state['n'] + 1}", False),
        ("a = []\na.append(1)", False),
    ],
)
def test_a_code_that_may_change_the_state_is_known(source: str, changes: bool) -> None:
    assert read_python(source).changes == changes


def test_a_changed_value_is_read_and_a_removed_one_needs_the_whole_state() -> None:
    assert read_python("state['n'] += 1").reads == {"n"}
    assert read_python("del state['n']").reads is None


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\nreturn {", 2),
        ("\n\nx = = 2", 3),
        ("x = 1\nbreak", 2),
        ("x = 1\nnonlocal x", 2),
        ("(" * 10_000, 1),
        ("x = " + "-" * 100_000 + "1", 1),
        ("x = '" + "a" * 70_000 + "'", 1),
        ("x = 1\0", 1),
        ("end", 0),
    ],
)
def test_a_fault_has_its_line(source: str, line: int) -> None:
    if not line:  # a name alone is no fault
        read_python(source)
        return
    with pytest.raises(NotPython) as raised:
        read_python(source)
    assert raised.value.line == line


def test_the_first_line_of_a_code_has_its_place_in_the_program() -> None:
    program = read_python("return 12345").program
    assert "12345" in program.split("\n")[FIRST_LINE - 1]


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("return state['a'] + state.get('b', 0)", {"a", "b"}),
        ("if 'c' in state or 'd' not in state:\n    pass", {"c", "d"}),
        ("state['new'] = 1\nx = state['a']", {"a"}),
        ("return 1", set()),
        ("return state", None),
        ("return {**state}", None),
        ("return [k for k in state]", None),
        ("return state[key]", None),
        ("return state.get(key)", None),
        ("return state.items()", None),
        ("s = state\nreturn s['a']", None),
        ("return len(state) + state['a']", None),
    ],
)
def test_the_values_of_the_state_that_a_code_reads_are_known(
    source: str, keys: set[str] | None
) -> None:
    assert read_python(source).reads == keys


def test_names_that_a_code_does_not_bind_are_free() -> None:
    code = read_python("import re\ndef f(a):\n    return a + b\nx = f(len(c))\nreturn x, json, re")
    assert code.free == {"b", "c", "json"}


@pytest.mark.parametrize(
    ("source", "constructs"),
    [
        ("import json, re\nfrom datetime import date", []),
        ("import yaml\nfrom glob import glob", ["import yaml", "from glob import glob"]),
        ("import os\nreturn os.path.join('a', 'b')", []),
        ("import os\nreturn os.environ", ["os.environ"]),
        ("import os as o\no.path.exists('a')\no.remove('a')", ["os.path.exists", "os.remove"]),
        ("from os import getcwd", ["os.getcwd"]),
        ("with open('a') as f:\n    pass", ["open()"]),
        ("def open(a):\n    return a\nreturn open(1)", []),
        ("def f():\n    yield 1", ["yield"]),
        ("x = {1: 2}\ndel x[1]", ["del"]),
        ("class A:\n    pass\nclass B(A):\n    pass", ["class B(…)"]),
        ("class A:\n    @property\n    def p(self):\n        return 1", ["@property"]),
        ("return next((x for x in [1]), None)", ["next(… for …)"]),
        ("return next(iter([1]))", []),
        ("return requests.get('http://a')", ["requests"]),
        ("from pathlib import Path\nreturn Path('a').read_text()", [".read_text()"]),
        ("from pathlib import PurePath\nreturn PurePath('a').name", []),
        ("return __import__('os')", ["__import__"]),
    ],
)
def test_constructs_that_the_sandbox_lacks_are_known(source: str, constructs: list[str]) -> None:
    assert [lack.construct for lack in read_python(source).lacks] == constructs


def test_a_lack_has_its_line() -> None:
    assert read_python("x = 1\n\nimport yaml").lacks[0].line == 3

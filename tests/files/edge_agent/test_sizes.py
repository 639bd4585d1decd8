"""Small files of The Edge Agent that mean much: bounded before the work, with a fault's line."""

from typing import Any

import pytest

from taofold.files.checked_yaml import parse
from taofold.files.edge_agent.nodes import NodeTranslator
from taofold.files.types import OversizedType, type_of
from taofold.tools.python_code import MOST_CHARS
from tests.files.edge_agent.test_translation import ours
from tests.files.flow.kit import faults


def inserting(constant: int, times: int, nodes: int = 1, form: str = "${v}") -> str:
    """Returns a file whose nodes insert a constant of a length into their code."""
    one = f"- {{name: n, run: \"x = '{form * times}'\"}}\n"
    lines = "".join([one.replace("name: n", f"name: n{number}") for number in range(nodes)])
    return f"edges: []\nvariables: {{v: '{'y' * constant}'}}\nnodes:\n{lines}"


@pytest.mark.parametrize("form", ["${v}", "{{ variables.v }}"])
def test_constants_are_inserted_up_to_the_longest_code(form: str) -> None:
    made = ours(inserting(100, 500, form=form))
    assert made.document.value["nodes"][0]["with"]["code"] == f"x = '{'y' * 50_000}'"
    (fault,) = faults(inserting(100, 1_000, form=form))
    assert (fault.line, fault.path) == (4, "nodes[0].run")
    assert f"more than {MOST_CHARS} characters" in fault.text


def test_the_bound_holds_before_the_code_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    constant = NodeTranslator._constant

    def counted(self: NodeTranslator, name: str) -> str | None:
        read.append(name)
        return constant(self, name)

    monkeypatch.setattr(NodeTranslator, "_constant", counted)
    assert faults(inserting(60_000, 9_000))
    assert len(read) == 2


def test_the_constants_of_all_nodes_together_are_bounded() -> None:
    assert not faults(inserting(1_000, 50, nodes=20))
    found = faults(inserting(1_000, 50, nodes=30))
    assert found
    assert {fault.path for fault in found} == {f"nodes[{number}].run" for number in range(20, 30)}


def test_an_integer_that_python_does_not_write_is_no_constant() -> None:
    text = inserting(1, 1).replace("'y'", "0x" + "f" * 20_000)
    document, wrong = parse(text, "tea.yaml")
    assert wrong if document is None else ours(text).document.value


DEEP = {
    "lists": "list[" * 100 + "str" + "]" * 100,
    "long lists": "list[" * 300 + "str" + "]" * 300,
    "mappings": "dict[str, " * 60 + "str" + "]" * 60,
    "optional": "str" + "?" * 500,
    "long optional": "str" + "?" * 5_000,
    "unions": " | ".join(["str"] * 5_000),
    "Optional": "Optional[" * 2_000 + "str" + "]" * 2_000,
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("head", ["edges: []\n", "# our own form\n"])
def test_a_type_that_is_nested_too_deep_is_a_fault_with_its_line(name: str, head: str) -> None:
    text = f'{head}state_schema:\n  a: "{DEEP[name]}"\nnodes: [{{name: n, set: {{x: 1}}}}]\n'
    (fault,) = faults(text)
    assert (fault.line, fault.path) == (3, "state_schema.a")
    assert len(str(fault)) < 1_000


def test_a_type_of_many_mappings_is_refused() -> None:
    written: Any = "str"
    for _ in range(300):
        written = [{"x": written}]
    with pytest.raises(OversizedType):
        type_of(written)


@pytest.mark.parametrize(
    "schema",
    [
        *("{type: string, enum: 3}", "{type: string, enum: []}", "{type: string, enum: [[1]]}"),
        *("{type: []}", "{type: [{}]}", "{type: [[string]]}", "{type: object, properties: 3}"),
        "{type: object, properties: {x: string}, required: 3}",
    ],
)
def test_a_wrong_schema_of_a_variable_is_a_fault_with_its_line(schema: str) -> None:
    nodes = "nodes: [{name: n, set: {x: 1}}]\n"
    found = faults(f"{nodes}state_schema:\n  a: {schema}\n")
    assert [fault.line for fault in found] == [3]


@pytest.mark.parametrize("wrap", ["%s", "[{name: outer, steps: %s}]"])
def test_too_many_nodes_are_refused_before_they_are_translated(
    monkeypatch: pytest.MonkeyPatch, wrap: str
) -> None:
    translated: list[object] = []

    def note(self: object, node: object, key: object, *rest: object) -> None:
        translated.append(key)

    monkeypatch.setattr(NodeTranslator, "_extra", note)
    many = "[" + ", ".join([f"{{name: n{number}, run: x}}" for number in range(1_001)]) + "]"
    (fault, *_) = faults(f"edges: []\nnodes: {wrap % many}\n")
    assert "has 1001 nodes; at most 1000" in fault.text
    assert fault.line == 2
    assert len(translated) < 10

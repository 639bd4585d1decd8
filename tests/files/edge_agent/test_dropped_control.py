"""Control flow of The Edge Agent that our form cannot express: refused at its line, not dropped."""

from pathlib import Path

import pytest

from tests.files.edge_agent.test_interrupts import SPOTS
from tests.files.edge_agent.test_translation import ours
from tests.files.flow.kit import faults, flow

INSIDE = [spot for name, spot in SPOTS.items() if name != "a node"]


@pytest.mark.parametrize("spot", INSIDE)
@pytest.mark.parametrize(
    "way",
    [
        *("goto: gone", "goto: deploy", "next: deploy", "next: __end__", "fan_in: deploy"),
        *("goto: [{if: state.x, to: deploy}, {to: gone}]", "paths: {a: deploy}", "goto: []"),
    ],
)
def test_a_way_out_of_a_node_inside_another_is_refused(spot: str, way: str) -> None:
    text = f"edges: []\nnodes:\n- {spot}\n- {{name: deploy}}\n"
    (fault,) = faults(text % f"{{name: in, set: {{x: 1}},\n{way}}}")
    assert fault.line == 4
    assert fault.path.endswith(way.split(":")[0])
    assert "inside another node" in fault.text


@pytest.mark.parametrize(
    ("way", "path", "says"),
    [
        ("goto: gnoe", "goto", "did you mean 'gone'?"),
        ("next: [{to: other}]", "next[0].to", "no node 'other'"),
        ("next: in", "next", "no node 'in'"),
        ("goto: ''", "goto", "no node ''"),
        ("goto: []", "goto", "names no node"),
        ("goto: [gone, a]", "goto[1]", "is never taken"),
        ("goto: [{if: x, when: y, to: a}]", "goto[0]", "one of 'if'"),
        ("goto: [{iff: x, to: a}]", "goto[0]", "one of 'if'"),
        ("{goto: gone, next: a}", "next", "stands beside 'goto'"),
        ("{next: gone, paths: {x: a}, condition: x}", "paths", "stands beside 'next'"),
        ("{paths: {x: other}, condition: state.y}", "paths.x", "no node 'other'"),
        ("{paths: {}, condition: x}", "paths", "a mapping of names to nodes"),
        ("fan_in: gone", "fan_in", "has no effect"),
        ("{strategy: {matrix: {x: [1]}}, fan_in: gnoe}", "fan_in", "did you mean 'gone'?"),
        ("{strategy: {matrix: {x: [1]}}, fan_in: a, goto: gone}", "goto", "continues at 'a'"),
        ("{if: state.x, condition: state.y}", "if", "beside 'condition'"),
        ("body: [{name: b}]", "body", "has no effect"),
        ("steps: [{name: b}]", "steps", "has no effect"),
        ("uses: tool.x", "uses", "has no effect"),
        ("items: '{{ [1] }}'", "items", "has no effect"),
        ("max_iterations: 3", "max_iterations", "has no effect"),
        ("strategy: {matrix: [1]}", "strategy", "has no effect"),
        ("subgraph: x.yaml", "subgraph", "has no effect"),
        ("language: lua", "language", "Lua"),
        ("timeout: '30'", "timeout", "a number of seconds"),
        ("timeout: -1", "timeout", "a number of seconds"),
        ("timeout: 0", "timeout", "a number of seconds"),
        ("timeout: true", "timeout", "a number of seconds"),
        ("timeout: .nan", "timeout", "a number of seconds"),
        ("timeout: '{{ state.t }}'", "timeout", "a number of seconds"),
    ],
)
def test_a_key_of_a_node_that_cannot_be_translated_is_refused(
    way: str, path: str, says: str
) -> None:
    keys = way.removeprefix("{").removesuffix("}") if way[0] == "{" else way
    inner = "{name: outer, steps: [{name: in}]}"
    nodes = f"nodes: [{{name: a}}, {inner}, {{name: gone}}, {{name: n, run: x = 1,\n{keys}}}]\n"
    (fault,) = faults(f"edges: []\n{nodes}")
    where = "nodes[3].run" if keys == "language: lua" else f"nodes[3].{path}"
    assert (fault.path, fault.line) == (where, 2 if keys == "language: lua" else 3)
    assert says in fault.text


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        (
            "LOOP, steps: [{name: c}]",
            "steps",
        ),
        ("LOOP, run: x", "run"),
        (
            "LOOP, items: [1]",
            "items",
        ),
        (
            "LOOP, while: {condition: x}",
            "while",
        ),
        ("type: dynamic_parallel, items: [1], action: {run: x}, steps: [{name: b}]", "steps"),
        ("type: dynamic_parallel, items: [1], steps: [{name: b}], body: [{name: c}]", "body"),
        (
            "type: dynamic_parallel, items: [1], steps: [{name: b}], parallel_each: x",
            "parallel_each",
        ),
        ("parallel_each: [1], run: x, strategy: {matrix: {x: [1]}}", "strategy"),
        ("uses: reason.cot, with: {problem: p}, params: {problem: q}", "params"),
    ],
)
def test_a_node_that_does_two_things_is_refused(keys: str, path: str) -> None:
    loop = "type: while_loop, max_iterations: 2, condition: x, body: [{name: b}]"
    keys = keys.replace("LOOP", loop)
    found = faults(f"edges: []\nnodes: [{{name: a, {keys}}}]\n")
    assert [fault.path for fault in found] == [f"nodes[0].{path}"]


NODES = "nodes: [{name: s}, {name: a}, {name: b}, {name: j}]\n"
PARALLEL = "{from: s, to: a, type: parallel, fan_in: j}"


@pytest.mark.parametrize(
    ("edge", "path", "says"),
    [
        ("{from: s, to: b, type: parallel, fan_in: j, condition: x}", "condition", "a parallel"),
        ("{from: s, to: b, type: parallel, fan_in: j, when: state.x}", "when", "a parallel"),
        ("{from: s, to: b, type: parallel, fan_in: j, when: false}", "when", "a parallel"),
        ("{from: s, to: b, parallel: true, fan_in: j, when: x}", "when", "a parallel"),
        ("{from: s, to: b, parallel: 'true', fan_in: j, when: x}", "parallel", "true or false"),
        ("{from: a, to: j, fan_in: b}", "fan_in", "not parallel"),
        ("{from: s, to: b, when: state.x}", "", "fans out"),
        ("{from: __end__, to: b}", "from", "no node '__end__'"),
        ("{from: a, to: __start__}", "to", "no node '__start__'"),
        ("{from: a, to: []}", "", "needs the key 'to'"),
    ],
)
def test_an_edge_that_cannot_be_translated_is_refused(edge: str, path: str, says: str) -> None:
    found = faults(f"{NODES}edges:\n- {PARALLEL}\n- {edge}\n- {{from: a, to: j}}\n")
    (fault,) = [one for one in found if one.path == f"edges[1].{path}".rstrip(".")]
    assert fault.line == 4
    assert says in fault.text


def test_the_condition_of_a_fan_out_is_kept(tmp_path: Path) -> None:
    steps = "steps: [{name: deploy, set: {deployed: true}}]"
    fan = (
        f"{{name: a, type: dynamic_parallel, items: '{{{{ [1] }}}}', condition: state.ok, {steps}}}"
    )
    run = flow(f"edges: []\nnodes: [{fan}]\n", tmp_path).run_sync("g", data={"ok": False})
    assert run.success, run.error
    assert "parallel_results" not in run.output


def test_a_node_may_be_called_end(tmp_path: Path) -> None:
    nodes = "[{name: a}, {name: b, set: {x: 1}}, {name: end, set: {y: 2}}]"
    text = f"nodes: {nodes}\nedges: [{{from: a, to: end}}]\n"
    run = flow(text, tmp_path).run_sync("g")
    assert (run.success, run.output["y"]) == (True, 2)
    assert "x" not in run.output


def test_an_edge_after_a_goto_is_a_note() -> None:
    made = ours(f"{NODES.replace('name: s', 'name: s, goto: b')}edges: [{{from: s, to: a}}]\n")
    assert not made.faults
    assert "edges[0]: this edge has no effect" in str(made.notes[0])

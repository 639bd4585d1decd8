"""Every fault of a flow file is found at once, also inside a node that has one itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from taofold.files.flow.file import read_agent

HEAD = "name: f\nmodel: offline:repair\nnodes:\n"


def faults(folder: Path, nodes: str) -> Sequence[str]:
    path = folder / "flow.yaml"
    path.write_text(HEAD + nodes)
    read, found = read_agent(path)
    assert read is None
    return [f"{fault.path}: {fault.text}" for fault in found]


@pytest.mark.parametrize(
    ("outer", "said", "place"),
    [
        ("while: {condition: 'true', max_iteration: 4}", "did you mean 'max_iterations'?", "steps"),
        ("while: {conditon: 'true', max_iterations: 4}", "did you mean 'condition'?", "steps"),
        ("parallel: {item: [1], as: x}", "did you mean 'items'?", "steps"),
        ("parallel: {items: [1], max_concurency: 2}", "did you mean 'max_concurrency'?", "steps"),
        ("goto: [{iff: 'true', to: end}]", "did you mean 'if'?", "steps"),
        ("on_error: {retry: {max: 2, facor: 2}}", "did you mean 'factor'?", "steps"),
        ("on_error: {then: contineu}", "did you mean 'continue'?", "steps"),
        ("tiemout: 3", "did you mean 'timeout'?", "steps"),
        ("timeout: soon", "nodes[0].timeout: must be a valid number", "steps"),
    ],
)
def test_a_fault_of_a_node_hides_none_of_the_nodes_inside(
    outer: str, said: str, place: str, tmp_path: Path
) -> None:
    found = faults(
        tmp_path,
        f"""\
  - name: outer
    {outer}
    steps:
      - name: inner
        uses: reason.cott
      - name: deeper
        whle: {{}}
        steps:
          - name: innermost
            uses: reason.cot
            with: {{problem: x, effrt: low}}
""",
    )
    assert any(said in fault for fault in found), found
    inside = [fault for fault in found if fault.startswith(f"nodes[0].{place}")]
    assert [fault.split(" ", 1)[0] for fault in inside] == [
        "nodes[0].steps[0].uses:",
        "nodes[0].steps[1].whle:",
        "nodes[0].steps[1].steps[0].with.effrt:",
    ]


def test_a_fault_of_a_fan_out_hides_none_of_its_branches(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        """\
  - name: fan
    parallel:
      fail_fats: true
      branches:
        a: [{name: one, uses: reason.cott}]
        b: {uses: llm.call, wiht: {prompt: x}}
""",
    )
    assert [fault.split(" ", 1)[0] for fault in found] == [
        "nodes[0].parallel.fail_fats:",
        "nodes[0].parallel.branches.a[0].uses:",
        "nodes[0].parallel.branches.b.wiht:",
    ]


def test_one_misspelt_key_is_one_fault(tmp_path: Path) -> None:
    nodes = (
        "  - {name: a, uses: reason.cot, withh: {problem: x}}\n  - {name: b, usess: reason.cot}\n"
    )
    assert faults(tmp_path, nodes) == [
        "nodes[0].withh: unknown key 'withh'; did you mean 'with'?",
        "nodes[1].usess: unknown key 'usess'; did you mean 'uses' or 'steps'?",
    ]

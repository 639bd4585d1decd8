"""Interrupts of The Edge Agent: each becomes an approval or a fault, none is dropped."""

from pathlib import Path
from typing import Any

import pytest

from tests.files.flow.kit import faults, flow

DEPLOY = "name: deploy, set: {deployed: true}"
LOOP = "{name: a, type: while_loop, condition: 'not state.deployed', max_iterations: 1, body: [%s]}"
FAN = "{name: a, type: dynamic_parallel, items: '{{ [1] }}', %s}"
SPOTS = {
    "a node": "%s",
    "steps": "{name: a, steps: [%s]}",
    "steps in steps": "{name: a, steps: [{name: b, steps: [%s]}]}",
    "a loop's body": LOOP,
    "a loop's steps": LOOP.replace("body", "steps"),
    "steps of a fan-out": FAN % "steps: [%s]",
    "the action of a fan-out": FAN % "action: %s",
    "steps for each": "{name: a, parallel_each: '{{ [1] }}', steps: [%s]}",
    "steps of a matrix": "{name: a, strategy: {matrix: {x: [1]}}, steps: [%s]}",
}
"""Places of a node, as the nodes of a file."""
INTERRUPTS = {
    "interrupt: before": "",
    "interrupt: true": "",
    "interrupt_before: true": "",
    "interrupt: after": " is done: continue?",
    "interrupt_after: true": " is done: continue?",
}
"""Interrupts at a node, with the text of the approval."""


def waiting(text: str, folder: Path) -> list[Any]:
    """Returns the calls of a started run that wait for an approval."""
    run = flow(text, folder).run_sync("g")
    assert run.stop_reason == "awaiting_approval", run.error
    return list(run.pending)


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize("interrupt", INTERRUPTS)
def test_an_interrupt_at_a_node_of_any_depth_waits(
    tmp_path: Path, spot: str, interrupt: str
) -> None:
    node = f"{{{DEPLOY}, {interrupt}}}"
    text = f"edges: []\nnodes: [{SPOTS[spot] % node}]\n"
    (call,) = waiting(text, tmp_path)
    assert INTERRUPTS[interrupt] in str(call)


@pytest.mark.parametrize(
    "top",
    [
        "interrupt_before: [deploy]",
        "interrupt_before: deploy",
        "interrupt_after: deploy",
        "config: {interrupt_before: [deploy]}",
        "config: {interrupt_after: deploy}",
    ],
)
def test_the_top_names_nodes_in_a_list_or_alone(tmp_path: Path, top: str) -> None:
    assert waiting(f"edges: []\n{top}\nnodes: [{{{DEPLOY}}}]\n", tmp_path)


@pytest.mark.parametrize(
    ("top", "path", "says"),
    [
        ("interrupt_before: [deplyo]", "interrupt_before[0]", "did you mean 'deploy'?"),
        ("interrupt_after: deplyo", "interrupt_after", "did you mean 'deploy'?"),
        ("interrupt_before: [deploy, inner]", "interrupt_before[1]", "no node 'inner'"),
        ("interrupt_before: true", "interrupt_before", "must be the name of a node"),
        ("interrupt_before: {deploy: true}", "interrupt_before", "must be the name of a node"),
        ("interrupt_before: [[deploy]]", "interrupt_before[0]", "must be the name of a node"),
        ("interrupt_before: ''", "interrupt_before", "must be the name of a node"),
        ("interrupt_before: '*'", "interrupt_before", "no node '*'"),
        ("Interrupt_before: [deploy]", "Interrupt_before", "unknown key"),
        ("config: {interrupt_after: [gone]}", "config.interrupt_after[0]", "no node 'gone'"),
        ("config: {interrupt_befor: [deploy]}", "config.interrupt_befor", "'interrupt_before'"),
        ("config: {Interrupt: [deploy]}", "config.Interrupt", "unknown key"),
        ("config: [interrupt_before]", "config", "must be a mapping"),
    ],
)
def test_a_list_of_interrupts_that_names_no_node_is_refused_with_its_line(
    top: str, path: str, says: str
) -> None:
    inner = "{name: other, steps: [{name: inner, set: {x: 1}}]}"
    (fault,) = faults(f"edges: []\n{top}\nnodes: [{{{DEPLOY}}}, {inner}]\n")
    assert (fault.line, fault.path) == (2, path)
    assert says in fault.text


@pytest.mark.parametrize("spot", SPOTS)
@pytest.mark.parametrize(
    "interrupt",
    [
        *("interrupt: Before", "interrupt: both", "interrupt: 'true'", "interrupt: [before]"),
        *("interrupt: 1", "interrupt: 0", "interrupt: ''", "interrupt: {before: true}"),
        *("interrupt_before: 'true'", "interrupt_before: 1", "interrupt_before: [deploy]"),
        *("interrupt_after: yes please", "interrupt_after: []", "Interrupt: before"),
        f"interrupt: {'x' * 5_000}",
    ],
)
def test_an_interrupt_of_no_known_value_is_refused_with_its_line(spot: str, interrupt: str) -> None:
    text = f"edges: []\nnodes:\n- {SPOTS[spot]}\n" % f"{{{DEPLOY},\n{interrupt}}}"
    (fault,) = faults(text)
    assert fault.line == 4
    assert fault.path.endswith(interrupt.split(":")[0])
    assert len(str(fault)) < 1_000


def test_an_interrupt_that_is_off_asks_nothing(tmp_path: Path) -> None:
    off = "interrupt: false, interrupt_before: false, interrupt_after: null"
    text = f"edges: []\ninterrupt_before: []\ninterrupt_after:\nnodes: [{{{DEPLOY}, {off}}}]\n"
    assert flow(text, tmp_path).run_sync("g").success

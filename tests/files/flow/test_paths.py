"""`taofold check` follows the paths of a flow: what one path never sets."""

from pathlib import Path

import pytest

from taofold.files.flow.file import FlowFile, read_agent
from taofold.files.flow.paths import unset_reads
from taofold.policy import Policy
from tests.files.flow.kit import faults


def unset(tmp_path: Path, nodes: str, result: str) -> list[tuple[str, tuple[str, ...]]]:
    file = tmp_path / "flow.yaml"
    file.write_text(f"name: f\nmodel: test\nnodes:\n{nodes}\nresult: {result}\n")
    read, wrong = read_agent(file, Policy())
    assert isinstance(read, FlowFile), wrong
    return [(read.name, read.trail) for read in unset_reads(read.flow)]


SKIPPED = """\
  - name: draft
    set: {draft: "{{ goal }}"}
    goto: [{if: "len(state.draft) > 3", to: end}, {to: polish}]
  - {name: polish, set: {final: "{{ state.draft }}"}}
"""


@pytest.mark.parametrize("result", ["state.final", "state.final or state.draft", "[state.final]"])
def test_a_result_that_one_path_never_sets_is_found(tmp_path: Path, result: str) -> None:
    assert unset(tmp_path, SKIPPED, f'"{{{{ {result} }}}}"') == [("final", ("draft",))]


@pytest.mark.parametrize(
    "result",
    [
        "get(state, 'final', '')",
        "state.final | default('')",
        "state.draft or state.final",
        "state.final if state.final is defined else ''",
    ],
)
def test_a_guarded_read_is_no_mistake(tmp_path: Path, result: str) -> None:
    assert unset(tmp_path, SKIPPED, f'"{{{{ {result} }}}}"') == []


def test_paths_through_fallbacks_lists_and_branches_are_followed(tmp_path: Path) -> None:
    nodes = """\
  - name: ask
    uses: reason.cot
    with: {problem: x}
    on_error: {fallback: report}
  - {name: inner, steps: [{name: one, set: {found: 1}}]}
  - name: fan
    parallel: {branches: {left: [{name: l, set: {leaked: 1}}]}}
  - {name: report, set: {text: "{{ state.found }} {{ state.leaked }} {{ state.ask }}"}}
"""
    assert unset(tmp_path, nodes, "done") == [
        ("found", ("ask",)),
        ("leaked", ("ask",)),
    ]


def test_a_loop_back_and_a_while_are_no_false_alarm(tmp_path: Path) -> None:
    nodes = """\
  - {name: start, set: {n: 0}}
  - name: turn
    while: {condition: "state.n < 3", max_iterations: 5}
    steps: [{name: add, set: {n: "{{ state.n + 1 }}", last: x}}]
  - name: again
    set: {seen: "{{ state.last }}"}
    goto: [{if: "state.n < 2", to: turn}, {to: end}]
"""
    assert unset(tmp_path, nodes, '"{{ state.seen }}"') == []


def test_get_and_default_are_known_in_templates() -> None:
    sets = """{n: "{{ get(state, 'n', 0) + 1 }}", m: "{{ state.m | default(2) }}"}"""
    text = f"name: f\nmodel: test\nnodes: [{{name: a, set: {sets}}}]\n"
    assert faults(text) == []

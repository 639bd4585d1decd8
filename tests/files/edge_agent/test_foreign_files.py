"""Flows of The Edge Agent from its repository, and their rewriting in our form."""

from pathlib import Path
from typing import Any

import pytest

from taofold.cli.app import main
from tests.files.edge_agent.survey import folder, run, survey
from tests.prerequisites import TEA_FILES

NINE = (
    *("reasoning/dspy-optimization-demo", "reasoning/reasoning-patterns-demo"),
    *("yaml/cot-problem-solving", "yaml/react-research-agent", "yaml/self-correcting-code-gen"),
    *("dspy/dspy-compile-optimize", "dspy/dspy-cot-reasoning", "dspy/dspy-react-research"),
)
LANGUAGES = ("Lua", "Prolog")


def rewritten(source: Path, place: Path) -> Path:
    """Returns the file that `taofold init --from` writes."""
    with pytest.raises(SystemExit) as ended:
        main(["init", str(place), "--from", str(source)])
    assert not ended.value.code
    return place / source.name


def outcome(path: Path, place: Path) -> tuple[str, str, Any]:
    """Runs a file. Returns its status, its error, and the variables of its last state."""
    place.mkdir()
    result = run(path, place)
    state = result.output_or_none
    names = state if isinstance(state, dict) else {}
    return result.status, result.error, sorted(names)


FLOW = """\
# Chooses a route.
#
# Comments at the top stay.

name: routes
version: 2
variables: {model: "test:answer"}
state_schema: {topic: str, plan: str, count: int}
initial_state: {count: 0}
nodes:
  - name: think
    action: reason.cot
    params: {problem: "{{ state.topic }}", model: "{{ variables.model }}"}
  - {name: count up, run: {type: expression, value: "state.count + 1", output_key: count}}
  - name: plan
    uses: llm.call
    with: {messages: [{role: user, content: "Plan {{ state.topic }} {{ state.plan }}"}]}
    output: {plan: "{{ result.content | upper }}"}
edges:
  - {from: __start__, to: think}
  - {from: think, to: count up}
  - {from: count up, to: think, when: "state.count < 2"}
  - {from: count up, to: plan, when: "state.count >= 2"}
  - {from: plan, to: __end__}
"""


def test_a_rewritten_file_has_no_fault_and_the_same_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "routes.yaml"
    source.write_text(FLOW, encoding="utf-8")
    (tmp_path / "ours").mkdir()
    ours = rewritten(source, tmp_path / "ours")
    text = ours.read_text(encoding="utf-8")
    assert "# Comments at the top stay.\n" in text
    assert "edges:" not in text
    assert "{{ variables.model }}" in text
    before = outcome(source, tmp_path / "a")
    assert before[0] == "finished"
    assert outcome(ours, tmp_path / "b") == before
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path / "ours"), "--from", str(source)])
    assert ended.value.code == 2
    assert "already" in capsys.readouterr().err


def test_a_file_is_not_rewritten_over_itself(tmp_path: Path) -> None:
    source = tmp_path / "routes.yaml"
    source.write_text(FLOW, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["init", str(tmp_path), "--from", str(source)])
    assert source.read_text(encoding="utf-8") == FLOW
    assert (tmp_path / "routes.taofold.yaml").exists()


@TEA_FILES.mark
def test_simple_flows_pass_and_others_are_refused_by_name() -> None:
    verdicts = survey(Path(folder()))
    simple = [verdict for verdict in verdicts if verdict.simple]
    passed = [verdict for verdict in simple if verdict.file is not None]
    assert len(passed) >= 30, [str(v.path) for v in simple if v.file is None]
    for verdict in verdicts:
        assert verdict.file is not None or verdict.faults
        assert all(fault.line or not fault.path for fault in verdict.faults), verdict.faults
        texts = "\n".join(map(str, verdict.faults))
        for language in LANGUAGES:
            if f"language.{language.lower()}" in verdict.constructs:
                assert f"code in {language} is not run" in texts


@TEA_FILES.mark
@pytest.mark.parametrize("name", NINE)
def test_a_reasoning_file_passes(name: str) -> None:
    path = f"{name}.yaml"
    (verdict,) = [v for v in survey(Path(folder()) / path.split("/")[0]) if v.path.match(path)]
    assert verdict.file is not None, verdict.faults


@TEA_FILES.mark
def test_rewritten_foreign_files_pass_and_have_the_same_result(tmp_path: Path) -> None:
    ran = 0
    for number, verdict in enumerate(survey(Path(folder()))):
        if verdict.file is None or not verdict.simple:
            continue
        place = tmp_path / str(number)
        place.mkdir()
        ours = rewritten(verdict.path, place)
        before = outcome(verdict.path, place / "theirs")
        after = outcome(ours, place / "ours")
        assert after[0] == before[0], (verdict.path, before[:2], after[:2])
        assert after[2] == before[2], verdict.path
        ran += before[0] == "finished"
    assert ran >= 30

"""`taofold check`, `init`, `doctor`, configuration, and agents in YAML."""

import json
from pathlib import Path

import pytest

from tests.terminal import Taofold

BAD = """\
model: opnai:gpt-5
instrutions: x
tools:
  - file
  - files: {root: 3}
limits:
  step: 3
  usd: -1
policy:
  autonomy: autonomous
strategy: raect
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def test_check_shows_every_fault_with_its_line(taofold: Taofold, project: Path) -> None:
    write(project, bad=BAD)
    done = taofold("check", "bad.yaml")
    assert done.code == 2
    places = [line.split(": ")[0] for line in done.out.splitlines()]
    assert places == [f"bad.yaml:{n}" for n in (1, 2, 4, 5, 7, 8, 10, 11)]
    assert "did you mean 'openai'" in done.out
    assert "did you mean 'instructions' or" in done.out
    assert "a project may only tighten" in done.out
    told = json.loads(taofold("check", "bad.yaml", "--json").out)
    assert told[2]["path"] == "tools[0]"


def test_check_notes_a_missing_root_of_a_tool(taofold: Taofold, project: Path) -> None:
    write(project, tools="model: test:answer\ntools:\n  - files\n  - files: {root: src}\n")
    noted = taofold("check", "tools.yaml")
    assert (noted.code, noted.err.count("note: ")) == (0, 1)
    assert f"note: tools.yaml:4: tools[1]: there is no folder {str(project / 'src')!r}" in noted.err
    write(project, long=f"model: test:answer\ntools:\n  - command: {{root: {'a' * 300}}}\n")
    assert "note: long.yaml:3: tools[0]: there is no folder" in taofold("check", "long.yaml").err
    (project / "src").mkdir()
    assert "note: " not in taofold("check", "tools.yaml").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "bad.yaml:"),
        ("- a\n", "not a mapping"),
        ("model: x\nmodel: y\n", "bad.yaml:2"),
        ("model: &a x\nname: *a\n", "alias"),
        ("model: !!python/object:os.system x\n", "bad.yaml:1"),
    ],
)
def test_check_refuses_what_is_no_agent_file(
    taofold: Taofold, project: Path, text: str, said: str
) -> None:
    write(project, bad=text)
    done = taofold("check", "bad.yaml")
    assert done.code == 2
    assert said in done.out


def test_check_imports_only_when_it_is_told_to(taofold: Taofold, project: Path) -> None:
    (project / "trap.py").write_text("open('sprung', 'w').close()\n")
    write(project, agent="model: offline:repair\ntools: ['trap.py:missing']\n")
    assert taofold("check", "agent.yaml").code == 0
    assert not (project / "sprung").exists()
    done = taofold("check", "agent.yaml", "--import")
    assert done.code == 2
    assert "has no 'missing'" in done.out
    assert (project / "sprung").exists()


def test_what_check_finds_by_importing_has_file_line_and_key_like_any_fault(
    taofold: Taofold, project: Path
) -> None:
    write(
        project,
        agent="model: offline:repair\ntools: ['agents.py:missing']\noutput: 'agents.py:nothing'\n",
    )
    lines = taofold("check", "agent.yaml", "--import").out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["agent.yaml:2", "agent.yaml:3"]
    assert not [line for line in lines if line.rstrip().endswith(":")]
    rows = json.loads(taofold("check", "agent.yaml", "--import", "--json").out)
    assert [(row["file"], row["line"], row["path"]) for row in rows] == [
        ("agent.yaml", 2, "tools[0]"),
        ("agent.yaml", 3, "output"),
    ]


def test_check_tells_what_the_state_must_have_at_the_start(taofold: Taofold, project: Path) -> None:
    write(project, flow="name: f\nnodes: [{name: a, set: {x: '{{ state.custmer }}'}}]\n")
    done = taofold("check", "flow.yaml")
    assert (done.code, done.out) == (0, "")
    assert "no node sets state.custmer" in done.err
    assert "--set custmer=" in done.err


def test_an_agent_file_is_tried_without_a_model(taofold: Taofold, project: Path) -> None:
    write(
        project,
        agent="model: openai:gpt-5\nname: adds\ntools: ['agents.py:add']\n"
        "output: {total: int, note: str}\n",
    )
    done = taofold("run", "agent.yaml", "what is 1 + 1?", "--model", "test:tools", "--json")
    told = json.loads(done.out)
    assert (told["status"], told["tool_calls"], told["output"]["total"]) == ("finished", 1, 0)
    done = taofold("run", "agent.yaml", "what is 1 + 1?", "--model", "test:answer", "--json")
    told = json.loads(done.out)
    assert (told["status"], told["tool_calls"], told["output"]["total"]) == ("finished", 0, 0)
    done = taofold("run", "agent.yaml", "what is 1 + 1?", "--model", "test:all")
    assert done.code == 2
    assert "there is no test:all: test:answer answers" in done.err


def test_an_agent_file_runs(taofold: Taofold, project: Path) -> None:
    write(
        project,
        agent="model: offline:repair\nname: mender\ntools: [files, command, 'agents.py:add']\n",
    )
    done = taofold("run", "agent.yaml", "write a poem")
    assert "mender with offline:repair" in done.err


def test_init_writes_files_that_check(taofold: Taofold, project: Path) -> None:
    assert taofold("init").code == 0
    assert taofold("check", "agent.yaml", "policy.yaml", "--import").code == 0
    schema = json.loads((project / ".taofold" / "agent.schema.json").read_text())
    assert "tools" in schema["properties"]
    again = taofold("init")
    assert again.code == 2
    assert "--force" in again.err


def test_the_flag_beats_the_environment_and_the_environment_the_file(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".taofold" / "config.yml").write_text("model: nowhere:a\n")
    assert "'nowhere'" in taofold("run", "do something").err
    monkeypatch.setenv("TAOFOLD_MODEL", "elsewhere:b")
    assert "'elsewhere'" in taofold("run", "do something").err
    assert "'flagged'" in taofold("run", "do something", "--model", "flagged:c").err


def test_unknown_configuration_is_an_error_with_a_suggestion(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".taofold" / "config.yml").write_text("modle: x\nlimits: {stesp: 3}\n")
    monkeypatch.setenv("TAOFOLD_LIMITS_STEP", "3")
    done = taofold("run", "agents.py:adder", "x")
    assert done.code == 2
    assert "did you mean 'model'?" in done.err
    assert "did you mean 'steps'?" in done.err
    assert "TAOFOLD_LIMITS_STEP" in done.err


def test_a_broken_policy_of_the_operator_stops_everything(taofold: Taofold, project: Path) -> None:
    config = project.parent / "config" / "taofold"
    config.mkdir(parents=True)
    (config / "policy.yaml").write_text("deny: note\n")
    done = taofold("run", "agents.py:writer", "x")
    assert done.code == 2
    assert "policy.yaml:1: deny" in done.err


def test_an_agent_file_that_changed_is_noticed_on_resume(taofold: Taofold, project: Path) -> None:
    write(project, agent="model: offline:repair\ntools: [files, command]\n")
    taofold("run", "agent.yaml", "make the failing tests pass", "--approve", "wait", "-q")
    write(project, agent="model: offline:repair\nname: other\ntools: [files, command]\n")
    done = taofold("runs", "resume", "last", "--approve", "wait", "-q")
    assert "has changed since this run began" in done.err


def test_doctor_names_keys_and_never_shows_them(
    taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    done = taofold("doctor")
    assert "OPENAI_API_KEY" in done.out
    assert "very-secret" not in done.out + done.err
    assert "contained" in done.out
    names = [one["what"] for one in json.loads(taofold("doctor", "--json").out)]
    assert names[:3] == ["python", "platform", "store"]


def test_doctor_finds_a_damaged_store(taofold: Taofold, project: Path) -> None:
    (project / ".taofold" / "runs.db").write_bytes(b"this is no database at all" * 100)
    done = taofold("doctor")
    assert done.code == 1
    assert "FAIL  store" in done.out


def test_doctor_probes_the_built_in_model(taofold: Taofold) -> None:
    done = taofold("doctor", "offline:repair")
    assert done.code == 0
    assert "plain reply" in done.out


def test_doctor_says_which_key_is_missing(
    taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = taofold("doctor", "openai:gpt-5")
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err

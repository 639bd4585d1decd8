"""All faults of a file are reported at once, each with its key, line and a remedy."""

from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.files import read_agent
from taofold.files.agent import AgentKeys
from taofold.files.checked_yaml import Fault, check, parse
from taofold.files.checked_yaml import load as load_document
from taofold.files.config import read_config
from taofold.files.python_references import load
from taofold.reasoning import Task


def faults(folder: Path, text: str) -> list[str]:
    path = folder / "agent.yaml"
    path.write_text(text)
    file, found = read_agent(path, source="agent.yaml")
    assert file is None
    return [str(fault) for fault in found]


@pytest.mark.scenario("PEER-25")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tools: [{command: {timeout: -1}}]", "tools"),
        ("tools: [{'mine.py:look': {x: 1}}]", "takes no options"),
        ("tools: [[1, 2]]", "must be a name"),
        ("tools: [comand]", "command"),
        ("tools: [{a: 1, b: 2}]", "must be a name"),
        ("strategy: reakt", "react"),
        ("output: strr", "use one of"),
        ("output: {x: strr}", "output.x"),
        ("model: opnai:x", "openai"),
        ("model: 'openai:'", "no model is named"),
        ("model: {model: 'opnai:x'}", "model: unknown provider 'opnai'; did you mean 'openai'"),
        ("model: {model: 'ollama:x', efort: low}", "model.efort: unknown key 'efort'; did you"),
        ("model: [{model: 'ollama:x', effort: lw}]", "model[0].effort: must be"),
        ("model: {model: 'ollama:x', base_url: 'http://x'}", "set by the environment"),
        ("models: {critic: {model: 'ollama:x', base_url: x}}", "models.critic.base_url: unknown"),
        ("base_url: http://x", "set by the environment"),
        ("model: 3", "model: must be a valid list, not 3"),
        ("models: {plannr: openai:x}", "planner"),
        ("budgets: [{usd: 1}]", "unknown key 'budgets'; write policy: {budgets: […]}"),
        ("skills: [nowhere]", "skills[0]: 'nowhere' is not a folder: name a folder that holds"),
        ("skills: [../x]", "skills[0]: '../x' leads out of"),
        ("models: {planner: 'opnai:x'}", "openai"),
        ("policy: nowhere.yaml", "nowhere.yaml"),
        ("policy: agnt.yaml", "; did you mean 'agent.yaml'?"),
        ("tools: [mine.py:look]", "tools[0]: there is no file"),
        (f"tools: [{'a' * 300}.py:look]", "tools[0]: there is no file"),
        ("output: mine.py:Answer", "output: there is no file"),
        (f"policy: {'a' * 300}/x.yaml", "policy: "),
        ("policy: {autonomi: balanced}", "autonomy"),
        ("limits: {stepps: 3}", "steps"),
        ("limits: {steps: -3}", "greater than or equal to 0"),
        ("limits: 5", "limits: must be a mapping, not 5; write limits: {steps: 5}; its keys are"),
        ("limits: [5]", "limits: must be a mapping, not [5]; write limits: {steps: …}; its keys"),
        ("models: 3", "models: must be a mapping, not 3; write models: {KEY: …}"),
    ],
)
def test_a_fault_names_its_key_and_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    found = faults(tmp_path, f"model: offline:repair\n{text}\n".replace(
        "model: offline:repair\nmodel:", "model:"))  # fmt: skip
    assert len(found) == 1
    assert said in found[0]
    assert "agent.yaml:" in found[0]


def test_all_faults_come_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    found = faults(tmp_path, "strategy: reakt\nnme: x\noutput: strr\ntools: [comand]\n")
    assert [said.split(":")[1] for said in found] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("policy", "good"),
    [
        ("autonomy: conservative\n", True),
        ("autonomy: autonomous\n", False),
        ("autonomi: x\n", False),
        ("[1]\n", False),
    ],
)
def test_a_policy_in_a_file_of_its_own_is_read_and_may_only_tighten(
    tmp_path: Path, policy: str, good: bool
) -> None:
    (tmp_path / "mine.yaml").write_text(policy)
    (tmp_path / "agent.yaml").write_text("policy: mine.yaml\n")
    file, found = read_agent(tmp_path / "agent.yaml")
    assert (file is not None) == good
    if file is not None:
        assert file.policy.autonomy == "conservative"
    else:
        assert found


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xff\xfe", "is not UTF-8"),
        (b"a: 1\n---\nb: 2\n", "2 YAML documents"),
        (b"- 1\n", "is not a mapping"),
        (b"a: [1\n", "x.yaml:2"),
        (b"a: 1\na: 2\n", "duplicate key"),
        (b"a" * 3_000_000, "is too large"),
        (b'a: 1\nb: [x, {c: "\\0"}]\n', "x.yaml:2: b[1].c: holds a NUL character"),
    ],
)
def test_a_file_that_is_no_mapping_of_keys_is_refused(
    tmp_path: Path, body: bytes, said: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(body)
    document, found = load_document(path)
    assert document is None
    assert len(found) == 1
    assert said in str(found[0])


def test_a_file_without_an_end_is_too_large(tmp_path: Path) -> None:
    endless = tmp_path / "endless.yaml"
    with endless.open("wb") as file:
        file.truncate(1 << 40)
    document, found = load_document(endless)
    assert document is None
    assert "is too large" in str(found[0])


def test_of_a_file_full_of_mistakes_the_first_are_told_and_how_many_more() -> None:
    document, _ = parse("".join([f"k{n}: 1\n" for n in range(1_000)]), "x")
    assert document is not None
    _, found = check(document, AgentKeys)
    assert len(found) == 101
    assert str(found[99]).startswith("x:100: k99")
    assert str(found[100]) == "x: 900 more"


def test_a_file_that_is_not_there_and_an_empty_one(tmp_path: Path) -> None:
    document, found = load_document(tmp_path / "none.yaml")
    assert document is None
    assert "cannot be read: No such file" in str(found[0])
    empty, found = parse("", "x")
    assert empty is not None
    assert (empty.value, found) == ({}, [])


def configured(folder: Path, text: str | None, **environment: str) -> Any:
    path = None
    if text is not None:
        path = folder / "config.yml"
        path.write_text(text)
    return read_config(path, environment)


def test_the_environment_beats_the_configuration_file(tmp_path: Path) -> None:
    config, found = configured(
        tmp_path,
        "model: ollama:x\nlimits: {steps: 3, usd: 1.5}\n",
        TAOFOLD_MODEL="openai:y",
        TAOFOLD_LIMITS_STEPS="7",
        TAOFOLD_LIMITS_SECONDS="2.5",
    )
    assert found == []
    assert config.model == "openai:y"
    assert config.limits.given() == {"steps": 7, "usd": 1.5, "seconds": 2.5}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TAOFOLD_TRACES", "perhaps", "otlp or opik"),
        ("TAOFOLD_LIMITS_STEPPS", "3", "steps"),
        ("TAOFOLD_LIMITS_STEPS", "many", "a number"),
        ("TAOFOLD_LIMITS_STEPS", "-1", "a number"),
        ("TAOFOLD_LIMITS_SECONDS", "inf", "a number"),
        ("TAOFOLD_LIMITS_SECONDS", "nan", "a number"),
    ],
)
def test_a_fault_of_the_environment_names_the_variable(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    config, found = configured(tmp_path, None, **{name: value})
    assert config is None
    [fault] = found
    assert name in str(fault)
    assert said in str(fault)


def test_faults_of_file_and_environment_come_together(tmp_path: Path) -> None:
    config, found = configured(tmp_path, "modell: x\n", TAOFOLD_TRACES="perhaps")
    assert config is None
    assert ["modell" in str(found[0]), "TAOFOLD_TRACES" in str(found[1])] == [True, True]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no name", "is no module:attr"),
        ("good.py:lok", "look"),
        ("gone.py:x", "there is no file"),
        ("raises.py:x", "raised ValueError: no"),
        ("leaves.py:x", "raised SystemExit"),
        ("no_such_module_at_all:x", "there is no module 'no_such_module_at_all'"),
        ("lacking_one:x", "importing 'lacking_one' failed"),
        ("leaving_one:x", "raised SystemExit"),
    ],
)
def test_what_cannot_be_imported_says_why(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "good.py").write_text("def look() -> int:\n    return 1\n")
    (tmp_path / "raises.py").write_text("raise ValueError('no')\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "lacking_one.py").write_text("import nothing_like_this_exists\n")
    (tmp_path / "leaving_one.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(ConfigError) as caught:
        load(name, tmp_path)
    assert said in str(caught.value)


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    (tmp_path / "once.py").write_text("thing = object()\n")
    assert load("once.py:thing", tmp_path) is load("once.py:thing", tmp_path)
    assert Task is load("taofold.reasoning:Task", tmp_path)


def test_the_name_of_a_file_is_one_line_of_a_fault() -> None:
    """A name with a line end would write a second fault, or that there is none."""
    fault = Fault("x\nagent.yaml: 1 file checked\x1b[2J.yaml", "cannot be read")
    assert fault.location == "x␊agent.yaml: 1 file checked␛[2J.yaml"

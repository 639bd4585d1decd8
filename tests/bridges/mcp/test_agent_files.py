"""Servers in agent files: checked without starting any, started when an agent is made."""

import sys
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.files import Config, build, read_agent
from taofold.files.export import json_schema

from .kit import SCRIPTS

FILE = """
model: offline:repair
mcp:
  asker:
    command: {python}
    args: ["{script}"]
    tools: [wipe]
    env: {{KEY: "${{HOME}}"}}
  docs:
    url: http://127.0.0.1:9/mcp
    headers: {{Authorization: "Bearer ${{HOME}}"}}
    transport: sse
    elicitation: legacy
    connect_timeout: 1
    required: false
"""


def read(folder: Path, text: str) -> tuple[object, list[str]]:
    path = folder / "agent.yaml"
    path.write_text(text)
    file, faults = read_agent(path)
    return file, [f"{one.path}: {one.text}" for one in faults]


def test_an_agent_gets_the_tools_of_its_servers(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(FILE.format(python=sys.executable, script=SCRIPTS / "asker.py"))
    file, faults = read_agent(path)
    assert file is not None, faults
    agent = build(file, Config(), tmp_path)
    assert agent.toolset.names == ("asker_wipe",)
    assert agent.toolset["asker_wipe"].tier == 2


def test_checking_starts_nothing(tmp_path: Path) -> None:
    left = tmp_path / "started"
    text = f"model: offline:repair\nmcp:\n  x: {{command: touch, args: ['{left}']}}\n"
    assert read(tmp_path, text)[1] == []
    assert not left.exists()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("x: {}", "a server has either a command or a url"),
        ("x: {command: a, url: 'http://b/c'}", "a server has either a command or a url"),
        ("x: {command: a, headers: {}}", "'headers' belongs to a url"),
        ("x: {url: 'http://b/c', args: [a]}", "'args' belongs to a command"),
        ("x: {url: 'ftp://b/c'}", "no http(s) address"),
        ("x: {url: 'http://[b'}", "no http(s) address"),
        ("x: {url: 'http://b:99999/c'}", "no http(s) address"),
        ("x: {url: 'https://me:secret@b/c'}", "credentials do not belong in a url"),
        ("x: {command: a, trsut: true}", "unknown key 'trsut'"),
        ("x: {command: a, trust: 'yes'}", "trust"),
        ("x: {command: a, timeout: 0}", "timeout"),
        ("X-Y: {command: a}", "is no server name"),
        ("x: {command: a, env: {API_TOKEN: abcdef123456}}", "secrets do not belong in files"),
        ("x: {url: 'http://b/c', headers: {Authorization: abcdef123}}", "secrets do not belong"),
        ("x: {url: 'https://b/c?api_key=abcdef123456'}", "mcp.x.url: secrets do not belong"),
        ("x: {command: a, args: ['--api-key=abcdef123456']}", "mcp.x.args: secrets do not belong"),
        ("x: {command: a, elicitation: new}", "elicitation"),
        ("[a]", "mcp"),
    ],
)
def test_every_fault_is_found_with_its_place(tmp_path: Path, section: str, said: str) -> None:
    file, faults = read(tmp_path, f"model: offline:repair\nmcp:\n  {section}\n")
    assert file is None
    assert said in " ".join(faults)
    assert "mcp" in " ".join(faults)


def test_a_reference_to_the_environment_is_no_secret(tmp_path: Path) -> None:
    section = "x: {command: a, env: {API_TOKEN: '${API_TOKEN}'}}"
    assert read(tmp_path, f"model: offline:repair\nmcp:\n  {section}\n")[1] == []


def test_a_servers_folder_stays_in_the_work_root(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("model: offline:repair\nmcp:\n  x: {command: a, cwd: ../..}\n")
    file, _ = read_agent(path)
    assert file is not None
    with pytest.raises(ExceptionGroup) as caught:
        build(file, Config(), tmp_path)
    assert "leads out of the work root" in str(caught.value.exceptions[0])


def test_a_server_that_cannot_be_started_is_a_fault_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("model: offline:repair\nmcp:\n  x: {command: /nowhere/at-all}\n")
    file, _ = read_agent(path)
    assert file is not None
    with pytest.raises((ExceptionGroup, ConfigError)) as caught:
        build(file, Config(), tmp_path)
    told = caught.value
    text = str(told.exceptions) if isinstance(told, ExceptionGroup) else str(told)
    assert "cannot be started" in text


def test_the_published_schema_knows_the_section() -> None:
    schema = json_schema()
    assert "mcp" in schema["properties"]
    assert "trust" in schema["$defs"]["McpKeys"]["properties"]


@pytest.mark.parametrize(
    "section",
    [
        "command: {python}\n    args: [servers/asker.py]",
        "command: [{python}, servers/asker.py]",
        "command: [{python}]\n    args: [servers/asker.py]",
    ],
)
def test_a_file_of_a_server_is_named_from_where_the_agent_file_lies(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, root = tmp_path / "agents", tmp_path / "work"
    (folder / "servers").mkdir(parents=True)
    root.mkdir()
    (folder / "servers" / "asker.py").write_text((SCRIPTS / "asker.py").read_text())
    monkeypatch.chdir(root)
    text = f"model: offline:repair\nmcp:\n  asker:\n    {section}\n    tools: [wipe]\n"
    (folder / "agent.yaml").write_text(text.format(python=sys.executable))
    file, faults = read_agent(folder / "agent.yaml")
    assert file is not None, faults
    agent = build(file, Config(), root)
    assert agent.toolset.names == ("asker_wipe",)


def test_a_secret_in_a_command_that_is_a_list_is_a_fault(tmp_path: Path) -> None:
    section = "x: {command: [a, --key=sk-abcdefghijklmnopqrstuvwx123456]}"
    text = f"model: offline:repair\nmcp:\n  {section}\n"
    (fault,) = read(tmp_path, text)[1]
    assert fault.startswith("mcp.x.command: secrets do not belong in files")

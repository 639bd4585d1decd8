"""`--autonomy` holds for every kind of agent, in every command that has it."""

from pathlib import Path
from typing import Final

import pytest

from taofold.agent import Agent
from taofold.cli.agent_argument import chosen, make
from taofold.core.state import fold
from taofold.log.sqlite.log import SqliteLog
from tests.terminal import Taofold, enter, taofold

__all__ = ["taofold"]
pytestmark = pytest.mark.anyio

CODE: Final = """
import json
from pathlib import Path
from taofold import Agent, Policy, Tier, tool
from taofold.testing import FunctionModel


@tool(effect="once", tier=2)
def note() -> str:
    "Write a note."
    Path("noted").touch()
    return "noted"


def reply(request):
    said = [m.text for m in request.conversation if m.role == "user"][-1]
    name = "finish" if "[success]" in said else "note"
    action = {"tool": name, "parameters": {"answer": "done"} if name == "finish" else {}}
    return json.dumps({"thought": "Next.", "action": action})


model = FunctionModel(reply)
silent = Agent(model, tools=[note])
ruled = Agent(model, tools=[note], policy=Policy(deny=frozenset({"other"})))
careful = Agent(model, tools=[note], policy=Policy(autonomy="conservative"))
"""
FILE: Final = "model: offline:repair\ntools: [tools.py:note]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / "tools.py").write_text(CODE)
    (folder / "silent.yaml").write_text(FILE)
    (folder / "careful.yaml").write_text(f"{FILE}policy:\n  autonomy: conservative\n")
    (folder / ".taofold").mkdir(mode=0o700)
    return folder


KINDS: Final = ("silent.yaml", "careful.yaml", "tools.py:silent", "tools:silent", "tools.py:ruled",
                "tools.py:careful", "")  # fmt: skip


@pytest.mark.parametrize("dial", ["conservative", "balanced", "autonomous"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_dial_that_a_person_says_holds_for_every_kind_of_agent(
    kind: str, dial: str, project: Path
) -> None:
    model = "" if kind.startswith("tools") else "offline:repair"
    agent = make(chosen(kind, model=model, autonomy=dial))
    assert agent.policy.autonomy == dial


@pytest.mark.parametrize(
    ("kind", "dial"),
    [
        ("silent.yaml", "autonomous"),
        ("tools.py:silent", "autonomous"),
        ("careful.yaml", "conservative"),
        ("tools.py:careful", "conservative"),
    ],
)
def test_the_dial_of_a_command_is_tightened_by_the_agents_own_policy(
    kind: str, dial: str, project: Path
) -> None:
    agent = make(chosen(kind, model="offline:repair", unsaid_autonomy="autonomous"))
    assert agent.policy.autonomy == dial


def test_the_dial_holds_for_agents_that_are_tools(project: Path) -> None:
    (project / "pair.py").write_text(
        f"{CODE}\n"
        "boss = Agent(model, tools=[silent.replace(name='helper', description='Helps.')])\n"
    )
    boss = make(chosen("pair.py:boss", autonomy="autonomous"))
    helpers = [tool for tool in boss.tools if isinstance(tool, Agent)]
    assert [helper.policy.autonomy for helper in helpers] == ["autonomous"]


@pytest.mark.parametrize("agent", ["tools.py:silent", "tools.py:careful"])
def test_a_run_without_a_person_goes_as_far_as_the_dial_lets_it(
    agent: str, project: Path, taofold: Taofold
) -> None:
    asked = taofold("run", agent, "note it", "-q", "--approve", "wait")
    assert asked.code == 3
    assert not (project / "noted").exists()
    done = taofold("run", agent, "note it", "-q", "--approve", "wait", "--autonomy", "autonomous")
    assert (done.code, done.out.strip()) == (0, "done")
    assert (project / "noted").exists()


def test_a_dial_that_asks_more_is_kept_when_the_run_is_resumed(
    project: Path, taofold: Taofold
) -> None:
    words = ("--approve", "wait", "--autonomy", "conservative")
    assert taofold("run", "tools.py:silent", "note it", "-q", *words).code == 3
    assert taofold("runs", "resume", "last", "-q", "--approve", "wait").code == 3
    assert not (project / "noted").exists()


@pytest.mark.parametrize(
    ("agent", "words", "code"),
    [
        ("tools.py:silent", (), 0),
        ("tools.py:careful", (), 3),
        ("tools.py:careful", ("--autonomy", "autonomous"), 0),
        ("tools.py:silent", ("--autonomy", "balanced"), 3),
    ],
)
def test_a_loop_is_autonomous_unless_the_agent_or_the_person_says_otherwise(
    agent: str, words: tuple[str, ...], code: int, project: Path, taofold: Taofold
) -> None:
    gate = ("--completion", "test -f noted", "--in-place", "--approve", "wait", "-q")
    assert taofold("loop", "note it", "--agent", agent, *gate, *words).code == code


async def test_a_server_takes_the_dial(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli.test_strictness import by_server

    (project / "agents.py").write_text(f"{CODE}\nagent = careful\n")
    await by_server(project, "--autonomy", "autonomous")
    log = SqliteLog(project / ".taofold" / "runs.db")
    (row,) = await log.rows()
    state = fold(await log.read(row.run))
    await log.close()
    assert (state.status, state.output) == ("finished", "done")

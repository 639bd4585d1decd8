"""A stored run names no code that `policy test`, `runs recheck` and `runs verify` run."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_evidence import link_again
from tests.terminal import Taofold

EVIL = """
import pathlib
from taofold import Agent
from taofold.testing.models import FunctionModel

pathlib.Path("ran").touch()
agent = Agent(FunctionModel(lambda request: pathlib.Path("ran").touch() or "x"), name="default")
"""
SERVER = """
name: default
instructions: hi
model: openai:gpt-5
mcp:
  x:
    command: touch
    args: [ran]
"""
ATTACKS: dict[str, dict[str, Any]] = {
    "python file": {"agent": "evil.py:agent"},
    "module": {"agent": "evil:agent"},
    "module in a folder": {"agent": "evil:agent", "folder": "elsewhere"},
    "program": {"agent": "cmd:touch ran"},
    "agent file": {"agent": "evil.yaml"},
    "folder of tools": {"tools": ["."]},
    "skills": {"skills": ["."]},
    "model": {"model": "evil:agent"},
    "root": {"root": "/etc"},
    "no choice": {"agent": {"x": 1}},
}


def stored(project: Path, taofold: Taofold, settings: dict[str, Any]) -> None:
    """One run of the default agent that records `settings`."""
    done = taofold("run", "hi", "--model", "test:answer", "-q")
    assert done.code == 0, done
    for name in ("ran", "elsewhere"):
        (project / name).unlink(missing_ok=True)
    (project / "evil.py").write_text(EVIL)
    (project / "evil.yaml").write_text(SERVER)
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as db, db:
        (run,) = db.execute("select run from runs").fetchone()
        place, body = db.execute("select id, body from events order by id limit 1").fetchone()
        event = json.loads(body)
        event["settings"]["cli"] |= settings
        if "python" in settings:
            event["settings"] = settings
        db.execute("update events set body = ? where id = ?", (json.dumps(event), place))
    link_again(project, run)


@pytest.mark.parametrize("attack", [*ATTACKS, "origin"])
@pytest.mark.parametrize("command", ["policy", "recheck", "verify"])
def test_a_stored_run_names_no_code(
    command: str, attack: str, taofold: Taofold, project: Path
) -> None:
    """Mutants: `StoredChoices.choice` or `stored_agent` follows the recorded choice."""
    origin = {"python": {"agent": "evil.py:agent", "folder": str(project)}}
    stored(project, taofold, ATTACKS.get(attack, origin))
    (project / "new.yaml").write_text("tiers: {x: 3}\n")
    words = {
        "policy": ("policy", "test", "new.yaml", "--runs", "all"),
        "recheck": ("runs", "recheck", "--runs", "all"),
        "verify": ("runs", "verify", "last"),
    }[command]
    before = (project / ".taofold" / "runs.db").read_bytes()
    done = taofold(*words)
    assert not (project / "ran").exists()
    assert "name the agent with --agent" in done.out or attack == "model" or command == "policy"
    assert "Traceback" not in done.err
    assert (project / ".taofold" / "runs.db").read_bytes() == before

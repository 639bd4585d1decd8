"""Two processes with a loop each in one folder, on the journal and the registry of the project.

Mutant: the journal is asked only for loops of this process, so a command's change is learnt.
"""

import json
from pathlib import Path

import pytest

from tests.prerequisites import GIT
from tests.terminal import PATIENCE, Started, Taofold, enter, started, taofold

from .test_concurrent import MAIL, PYTEST, RATE, TEST_MAIL, TEST_RATE

__all__ = ["started", "taofold"]

pytestmark = GIT.mark

AGENTS = """
import asyncio, json, pathlib
from taofold import Agent
from taofold.testing import FunctionModel
from taofold.tools.command import command_tool
from taofold.tools.files import file_tools

here = pathlib.Path(__file__).parent

def act(tool, kind="reasoning", **parameters):
    return json.dumps({"thought": "I change the file", "thought_type": kind,
                       "action": {"tool": tool, "parameters": parameters, "rationale": "needed"}})

done = act("finish", "synthesis", answer="SUCCESS: everything passes")

def edit(path, old, new):
    return act("edit_file", "goal", path=path, old=old, new=new)

def agent(name, other, change):
    \"\"\"An agent that waits for the other process before its change, and after it.\"\"\"
    replies = iter([change, done])
    count = 0
    async def answer(request):
        nonlocal count
        count += 1
        (here / ".taofold" / f"{name}.{count}").touch()
        for _ in range(PATIENCE * 50):
            if (here / ".taofold" / f"{other}.{count}").exists():
                return next(replies)
            await asyncio.sleep(0.02)
        raise RuntimeError("the other process did not come")
    model = FunctionModel(answer, name="scripted:model")
    return Agent(model, tools=[file_tools(here), command_tool(here)], approve="all")

mail = agent("mail", "rate", edit("m2.py", "    return user.lower()",
    "    if user is None:\\n        return None\\n    return user.lower()"))
rate = agent("rate", "mail", edit("m3.py", "rates[land]", "rates.get(land, 20)"))
typed = agent("rate", "mail", act("run_command", "goal",
    command="sed -i 's/rates.land./rates.get(land, 20)/' m3.py"))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = enter(tmp_path / "project", monkeypatch)
    (folder / ".taofold").mkdir(mode=0o700)
    (folder / ".taofold" / ".gitignore").write_text("*\n")
    files = {"m2.py": MAIL, "m3.py": RATE, "test_m2.py": TEST_MAIL, "test_m3.py": TEST_RATE}
    files["agents.py"] = AGENTS.replace("PATIENCE", f"{PATIENCE:.0f}")
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.document_item("001.concurrent.folder")
@pytest.mark.parametrize("second", ["rate", "typed"])
def test_processes_at_once_learn_their_own_edits_only(
    taofold: Taofold, started: Started, second: str
) -> None:
    gates = {"mail": f"{PYTEST} test_m2.py", second: f"{PYTEST} test_m3.py"}
    running = {
        name: started(
            *("loop", f"Repair {name}", "-c", gate, "--agent", f"agents:{name}"),
            *("--loop-id", name, "--json"),
        )
        for name, gate in gates.items()
    }
    for name, process in running.items():
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (name, out, err)
    reports = {
        name: json.loads(taofold("loops", "report", name, "--json").out)["iterations"][0]
        for name in gates
    }
    own = {name: row["changed"] for name, row in reports.items()}
    learnt = [
        (source["loop_id"], pattern["body"]["fix"]["files"])
        for pattern in json.loads(taofold("patterns", "list", "--type", "error", "--json").out)
        for source in pattern["source_loops"]
    ]
    assert sorted(learnt) == list(own.items())[: len(learnt)]
    if second == "rate":
        assert own == {"mail": ["m2.py"], "rate": ["m3.py"]}
        assert len(learnt) == 2
        return
    # Its command may have changed both files, so nothing is learnt from it.
    assert own == {"mail": ["m2.py"], "typed": []}
    assert reports[second]["changed_by_unknown"] == ["m2.py", "m3.py"]
    assert len(learnt) == 1

"""`taofold runs fork|rewind|diff` with files: what a user sees, and what stays untouched."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold.cli.serve import http
from tests.terminal import Taofold

SHOP = """
import json
from pathlib import Path
from typing import Any

from taofold import Agent, tool
from taofold.testing.models import FunctionModel


def act(tool, **parameters):
    return json.dumps({"thought": "I go on.", "action": {"tool": tool, "parameters": parameters}})


def scripted(replies):
    return FunctionModel(
        lambda request: replies[sum(m.role == "assistant" for m in request.conversation)]
    )


def cancel(parameters, result):
    with Path("../cancelled").open("a") as file:
        file.write(f"{parameters['item']} {result}\\n")


@tool(effect="once", tier=1, reversible=True, compensate=cancel)
def order(item: str) -> str:
    "Orders an item."
    return "order 7"


script = [
    act("write_file", path="a.txt", content="one\\n"),
    act("order", item="tea"),
    act("write_file", path="b.txt", content="two\\n"),
    act("finish", answer="ok"),
]
agent = Agent(scripted(script), tools=["files", order], snapshots=True, approve="all")
plain = Agent(scripted(script), tools=["files", order], approve="all")
"""


@pytest.fixture
def run(project: Path, taofold: Taofold) -> str:
    """A run of four steps that stored its files."""
    (project / "shop.py").write_text(SHOP)
    (project / ".gitignore").write_text("*.env\n.taofold\n__pycache__\n")
    (project / "prod.env").write_text("KEY=1")
    done = taofold("run", "shop.py:agent", "Work.", "--json", "--quiet")
    return str(json.loads(done.out)["id"])


def event_of(taofold: Taofold, run: str, step: int) -> str:
    """The number of the event with which a step ended."""
    rows = [json.loads(row) for row in taofold("runs", "log", run, "--json").out.splitlines()]
    return str([row["seq"] for row in rows if row["event"]["e"] == "observed"][step - 1])


def test_a_fork_gets_the_files_of_its_step(project: Path, taofold: Taofold, run: str) -> None:
    at = event_of(taofold, run, 1)
    done = taofold("runs", "fork", run, "--at", at, "--folder", "../other")
    assert done.code == 0
    assert f"files of step 1 are in {(project / '../other').resolve()}" in done.err
    assert "not restored, because they are ignored, too large or repositories: prod.env" in done.err
    assert "not undone: 1 later call" in done.err
    assert 'step 2: order item="tea"' in done.err
    assert (project / "../other/a.txt").read_text() == "one\n"
    assert not (project / "../other/b.txt").exists()
    assert (project / "b.txt").exists()

    went = taofold("runs", "resume", done.out.strip(), "--quiet")
    assert went.code == 0
    assert (project / "../other/b.txt").read_text() == "two\n"


def test_a_rewind_in_place_restores_and_can_be_resumed(
    project: Path, taofold: Taofold, run: str
) -> None:
    at = event_of(taofold, run, 1)
    done = taofold("runs", "rewind", run, "--at", at, "--in-place", "--json")
    told = json.loads(done.out)
    assert (told["step"], told["folder"]) == (1, str(project))
    assert [effect["tool"] for effect in told["effects_kept"]] == ["order"]
    assert not (project / "b.txt").exists()
    assert f"{run}  rewound " in taofold("runs", "list", "--status", "rewound").out
    assert "status: rewound " in taofold("runs", "show", run).out
    assert taofold("runs", "resume", run, "--quiet").code == 0
    assert (project / "b.txt").read_text() == "two\n"


def test_a_refused_rewind_changes_neither_files_nor_log(
    project: Path, taofold: Taofold, run: str
) -> None:
    (project / "a.txt").write_text("mine")
    before = taofold("runs", "log", run, "--json").out
    done = taofold("runs", "rewind", run, "--at", "0", "--in-place")
    assert done.code != 0
    assert "a.txt" in done.err
    assert "would be lost" in done.err
    assert (project / "a.txt").read_text() == "mine"
    assert taofold("runs", "log", run, "--json").out == before


def test_effects_are_undone_on_request_only(project: Path, taofold: Taofold, run: str) -> None:
    shown = taofold("runs", "rewind", run, "--at", "0", "--dry-run")
    assert "would be rewound to event 0" in shown.err
    assert 'step 2: order item="tea" (can be undone)' in shown.err
    planned = json.loads(taofold("runs", "rewind", run, "--at", "0", "--dry-run", "--json").out)
    assert [it["undoable"] for it in planned["effects_kept"]] == [True]
    asked = taofold("runs", "rewind", run, "--at", "0", "--no-files", "--compensate")
    assert asked.code == 2
    assert "use a terminal, or --approve all" in asked.err
    assert not (project / "../cancelled").exists()
    words = ("--no-files", "--compensate", "--approve", "all")
    done = taofold("runs", "rewind", run, "--at", "0", *words)
    assert done.code == 0
    assert "not undone" not in done.err
    assert 'undone: step 2: order item="tea"\n' in done.err
    told = taofold("runs", "log", run).out
    assert "compensated      step 2: order: started\n" in told
    assert "compensated      step 2: order: done\n" in told
    assert (project / "../cancelled").read_text() == "tea order 7\n"


def test_files_of_steps_and_runs_are_compared(taofold: Taofold, run: str) -> None:
    done = taofold("runs", "diff", f"{run}@0", f"{run}@3", "--patch")
    assert done.code == 1
    assert "2 files differ:\n  added    a.txt\n  added    b.txt" in done.out
    assert "+two" in done.out
    assert taofold("runs", "diff", f"{run}@3", f"{run}@4").out == "the same files\n"
    told = json.loads(taofold("runs", "diff", f"{run}@1", f"{run}@3", "--json").out)
    assert told == {"same": False, "files": [{"kind": "added", "path": "b.txt"}]}
    wrong = taofold("runs", "diff", f"{run}@9", run)
    assert "steps with files: 0, 1, 2, 3, 4" in wrong.err


def test_a_run_without_files_is_forked_as_before(taofold: Taofold, run: str) -> None:
    plain = json.loads(taofold("run", "shop.py:plain", "Work.", "--json", "--quiet").out)["id"]
    done = taofold("runs", "fork", plain, "--at", "0")
    assert "files were not restored: the run stores none" in done.err
    assert "3 later calls" in done.err
    refused = taofold("runs", "rewind", plain, "--at", "0", "--in-place")
    assert (refused.code, "stores no files" in refused.err) == (2, True)


def test_deleted_runs_leave_no_files(project: Path, taofold: Taofold, run: str) -> None:
    assert list((project / "../state/taofold/snapshots").glob("*/snapshots.git/refs/runs/*"))
    taofold("runs", "delete", run, "--yes")
    assert not list((project / "../state/taofold/snapshots").glob("*/snapshots.git/refs/runs/*/*"))


def test_two_places_for_files_are_refused(taofold: Taofold, run: str) -> None:
    done = taofold("runs", "fork", run, "--folder", "x", "--in-place")
    assert (done.code, "choose one of" in done.err) == (2, True)


def test_a_fork_of_a_fork_has_the_files_of_the_step_at_which_the_first_began(
    project: Path, taofold: Taofold, run: str
) -> None:
    """Mutant: a state that is restored into a named folder is not stored for that folder."""
    at = event_of(taofold, run, 3)
    first = taofold("runs", "fork", run, "--at", at, "--folder", "../f1").out.strip()
    rows = [json.loads(row) for row in taofold("runs", "log", first, "--json").out.splitlines()]
    assert rows[-1]["event"]["e"] == "restored"
    for number, seq in enumerate((at, str(rows[-1]["seq"]))):
        done = taofold("runs", "fork", first, "--at", seq, "--folder", f"../g{number}")
        assert done.code == 0, done.err
        assert (project / f"../g{number}/b.txt").read_text() == "two\n"
    assert taofold("runs", "diff", f"{first}@3", f"{run}@3").out == "the same files\n"
    taofold("runs", "delete", run, "--yes")
    assert taofold("runs", "rewind", first, "--at", at, "--in-place").code == 0


def test_a_run_is_rewound_to_the_same_step_again_and_again(taofold: Taofold, run: str) -> None:
    """Mutant: the default folder depends on the number of rewinds."""
    at = event_of(taofold, run, 1)
    folders: set[str] = set()
    for _ in range(3):
        done = taofold("runs", "rewind", run, "--at", at, "--json")
        assert done.code == 0, done.err
        folders.add(json.loads(done.out)["folder"])
    assert len(folders) == 3
    assert all(Path(folder, "a.txt").read_text() == "one\n" for folder in folders)


def test_a_dry_run_without_the_agent_still_lists_the_effects(taofold: Taofold, run: str) -> None:
    """Mutant: an agent that cannot be made ends the command."""
    words = ("runs", "rewind", run, "--at", "0", "--dry-run", "--agent", "gone.py:agent")
    done = taofold(*words)
    assert done.code == 0, done.err
    assert 'step 2: order item="tea"\n' in done.err
    assert "unknown which of them can be undone: " in done.err
    told = json.loads(taofold(*words, "--json").out)
    assert [it["undoable"] for it in told["effects_kept"]] == [None]
    assert taofold(*words, "--compensate").code == 2


TEAM = (
    SHOP
    + """
helper = Agent(
    scripted([act("write_file", path="c.txt", content="of the child"), act("finish", answer="ok")]),
    name="helper", tools=["files"], worktree=True,
)
lead = Agent(
    scripted([act("helper", goal="Write."), act("finish", answer="ok")]),
    tools=[helper], snapshots=True, approve="all",
)
"""
)


def test_a_fork_of_a_child_is_continued_itself(project: Path, taofold: Taofold) -> None:
    """Mutant: the printed command names the caller of the child."""
    (project / "team.py").write_text(TEAM)
    parent = json.loads(taofold("run", "team.py:lead", "Work.", "--json", "--quiet").out)["id"]
    rows = json.loads(taofold("runs", "list", "--json").out)
    child = next(row["id"] for row in rows if row["parent"] == parent)
    done = taofold("runs", "fork", child, "--at", event_of(taofold, child, 1))
    fork = done.out.strip()
    assert done.code == 0, done.err
    assert f"runs resume {fork} --agent FILE.py:NAME" in done.err
    went = taofold("runs", "resume", fork, "--agent", "team.py:helper", "--quiet")
    assert went.code == 0, went.err


CONFLICT = """
import json
from pathlib import Path
from typing import Any

from taofold import Agent
from taofold.testing.models import FunctionModel


def act(tool, **parameters):
    return json.dumps({"thought": "I go on.", "action": {"tool": tool, "parameters": parameters}})


def scripted(*replies):
    return FunctionModel(
        lambda request: replies[sum(m.role == "assistant" for m in request.conversation)]
    )


def reply(request):
    if sum(m.role == "assistant" for m in request.conversation) == 0:
        return act("write_file", path="notes.txt", content="child")
    # The parent's folder changes while the child works in its own.
    Path("notes.txt").write_text("parent")
    return act("finish", answer="done two")


helper = Agent(FunctionModel(reply), name="helper", tools=["files"], worktree=True, approve="all")
agent = Agent(
    scripted(act("helper", goal="Write."), act("finish", answer="ok")),
    tools=[helper],
    snapshots=True,
    approve="all",
)
"""


def test_an_open_conflict_of_a_child_is_shown(project: Path, taofold: Taofold) -> None:
    """Mutants: `run` and `show` omit it; `log` omits it."""
    (project / "shop.py").write_text(CONFLICT)
    (project / "notes.txt").write_text("before")
    done = taofold("run", "shop.py:agent", "Work.")
    mark = "! open conflict: notes.txt (both changed the same lines); the child's version: /"
    assert mark in done.err
    for command in ("show", "log"):
        [shown] = [it for it in taofold("runs", command, "last").out.splitlines() if mark in it]
        version = Path(shown.partition("the child's version: ")[2])
        assert version.read_text() == "child"


def test_a_worker_knows_the_folder_of_forks(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant, tried: the option does not reach the settings."""
    folders: list[Path | None] = []

    def server(*_: Any, settings: Any, **__: Any) -> Any:
        folders.append(settings.forks)
        raise SystemExit(0)

    monkeypatch.setattr(http, "Server", server)
    assert taofold("work", "agents:writer", "--forks", "forks").code == 0
    assert taofold("work", "agents:writer").code == 0
    assert folders == [Path("forks"), None]

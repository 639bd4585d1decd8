"""Forks over HTTP have the files of their step, in a folder that the server's owner configured.

Mutants: the files are restored without a configured folder; the fork works in the folder of its
source; a folder of the log that the owner did not configure is used; the agents that a fork asks
work in the folder of its source.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, MemoryLog, Policy
from taofold.clocks import clock
from taofold.core import events as e
from taofold.runtime import run as runs
from taofold.runtime.shown_status import shown_row
from taofold.server.server import Server
from taofold.tools.files import file_tools
from taofold.workspace import run_files

from .agents import act, finish, scripted
from .live import QUICK, serving

pytestmark = pytest.mark.anyio
FREE = Policy(autonomy="autonomous")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("start")
    return project


def writer(project: Path, **options: Any) -> Agent[Any, Any]:
    options.setdefault("tools", [file_tools(project)])
    return Agent(
        scripted(
            act("a", "write_file", path="a.txt", content="one"),
            act("b", "write_file", path="a.txt", content="two"),
            finish(),
        ),
        snapshots=project,
        policy=FREE,
        **options,
    )


async def forked(client: Any, **body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Forks a finished run after its first step; returns the answer and the run at its end."""
    run = await client.start()
    await client.until(run)
    events = await client.events(run)
    first = next(event for event in events if event.name == "tool_result")
    answer = await client.post(f"/runs/{run}/fork", {"at": first.data["seq"], **body})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return made, await client.until(made["id"])


async def test_a_fork_works_on_the_files_of_its_step(tmp_path: Path, project: Path) -> None:
    forks = tmp_path / "forks"
    settings = replace(QUICK, forks=forks)
    async with serving(writer(project), tmp_path / "r.db", settings=settings) as client:
        run = await client.start()
        await client.until(run)
        (project / "a.txt").write_text("of the user")
        events = await client.events(run)
        first = next(event for event in events if event.name == "tool_result")
        answer = await client.post(f"/runs/{run}/fork", {"at": first.data["seq"]})
        made = answer.json()
        files = made["files"]
        assert (files["restored"], files["step"], files["why"]) == (True, 1, "")
        assert Path(files["folder"]) == forks / made["id"]
        found = await client.until(made["id"])
        assert found["status"] == "finished"
        assert (forks / made["id"] / "a.txt").read_text() == "two", "the next step was made there"
        assert (project / "a.txt").read_text() == "of the user"


async def test_without_a_folder_the_answer_names_the_reason(tmp_path: Path, project: Path) -> None:
    async with serving(writer(project), tmp_path / "r.db", settings=QUICK) as client:
        made, found = await forked(client)
        assert found["status"] == "finished"
        assert made["files"]["restored"] is False
        assert "no folder for the files of forks" in made["files"]["why"]


async def test_a_client_may_leave_the_files_and_names_no_path(
    tmp_path: Path, project: Path
) -> None:
    settings = replace(QUICK, forks=tmp_path / "forks")
    async with serving(writer(project), tmp_path / "r.db", settings=settings) as client:
        made, _ = await forked(client, files=False)
        assert made["files"]["restored"] is False
        assert not (tmp_path / "forks").exists()
        refused = await client.post(f"/runs/{made['id']}/fork", {"folder": "/tmp/x"})
        assert refused.status_code == 422


async def test_a_run_without_files_has_none_in_its_fork(tmp_path: Path) -> None:
    agent: Agent[Any, Any] = Agent(scripted(finish()))
    async with serving(agent, tmp_path / "r.db", settings=QUICK) as client:
        run = await client.start()
        await client.until(run)
        answer = await client.post(f"/runs/{run}/fork", {})
        assert answer.json()["files"] is None


async def test_a_step_without_files_is_refused_and_makes_no_fork(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MOST_STORED", -1)
    settings = replace(QUICK, forks=tmp_path / "forks")
    async with serving(writer(project), tmp_path / "r.db", settings=settings) as client:
        run = await client.start()
        await client.until(run)
        answer = await client.post(f"/runs/{run}/fork", {})
        assert answer.status_code == 409
        assert "are not stored" in answer.text
        assert len((await client.get("/runs")).json()["items"]) == 1


async def test_the_agents_that_a_fork_asks_work_in_its_folder(
    tmp_path: Path, project: Path
) -> None:
    helper: Agent[Any, Any] = Agent(
        scripted(act("w", "write_file", path="b.txt", content="of the helper"), finish()),
        name="helper",
        tools=[file_tools(project)],
        worktree=True,
        policy=FREE,
    )
    script = act("a", "list_files"), act("b", "helper", goal="Write."), finish()
    agent: Agent[Any, Any] = Agent(
        scripted(*script),
        tools=[file_tools(project), helper],
        snapshots=project,
        policy=FREE,
    )
    settings = replace(QUICK, forks=tmp_path / "forks")
    async with serving(agent, tmp_path / "r.db", settings=settings) as client:
        run = await client.start()
        await client.until(run)
        (project / "b.txt").unlink()
        events = await client.events(run)
        first = next(event for event in events if event.name == "tool_result")
        made = (await client.post(f"/runs/{run}/fork", {"at": first.data["seq"]})).json()
        found = await client.until(made["id"])
        assert found["status"] == "finished"
        assert (Path(made["files"]["folder"]) / "b.txt").read_text() == "of the helper"
        assert not (project / "b.txt").exists()


async def test_a_folder_that_the_owner_did_not_configure_is_not_used(
    tmp_path: Path, project: Path
) -> None:
    """A log could name any folder."""
    log, agent = MemoryLog(), writer(project)
    await agent.replace(log=log).run("Write.", run_id="r")
    server = Server(log, {"a": agent}, settings=replace(QUICK, forks=tmp_path / "forks"))
    for name, inside in (("other", False), ("forks/f", True)):
        restored = e.Restored(step=2, folder=str(tmp_path / name))
        (tmp_path / name).mkdir(parents=True)
        await runs.fork(log, "r", name, now=clock(), restored=restored)
        placed = await server.worker._placed(agent, name)
        assert (placed is not agent) == inside


async def test_idle_runs_have_the_status_that_the_command_line_prints(tmp_path: Path) -> None:
    """Mutants: the list, its filter or the detail has the status of the log, which is `running`."""
    agent: Agent[Any, Any] = Agent(scripted(finish()))
    async with serving(agent, tmp_path / "r.db", settings=QUICK) as client:
        rewound = await client.start()
        await client.until(rewound)
        await runs.fork(client.server.log, rewound, "copy", at=0, now=clock())
        await runs.rewind(client.server.log, rewound, to=0, now=clock())
        listed = (await client.get("/runs")).json()["items"]
        assert {it["id"]: it["status"] for it in listed} == {rewound: "rewound", "copy": "forked"}
        assert (await client.get("/runs?status=running")).json()["items"] == []
        for run, status in ((rewound, "rewound"), ("copy", "forked")):
            assert (await client.get(f"/runs/{run}")).json()["status"] == status
            page = (await client.get(f"/runs?status={status}&limit=1")).json()
            assert ([it["id"] for it in page["items"]], page["next"]) == ([run], None)
            row = await client.server.log.row(run)
            assert (await shown_row(client.server.log, row)).status == status
            await client.post(f"/runs/{run}/resume")
            assert (await client.until(run))["status"] == "finished"

"""A fork of step n has exactly the files of a run that was stopped after step n.

Mutants: the state is stored before the tools run; a step that was cut off before its snapshot is
given the state of a later time; the fork works in the folder of its source; a state of a rewound
step is found.
"""

import asyncio
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from taofold import Agent, ConfigError, Refused, tool
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.file_states import effects_after, state_at
from taofold.log.memory import MemoryLog
from taofold.runtime import run as runs
from taofold.runtime.run import last_complete_step
from taofold.runtime.time_travel import look_back, restore_files
from taofold.testing import ScriptedModel
from taofold.tools.files import file_tools
from taofold.workspace import run_files
from tests.workspace.kit import act, finish
from tests.workspace.test_run_files import content

pytestmark = pytest.mark.anyio

PATHS = st.sampled_from(["a", "b", "d/a", "d/e/c", "x\ny", "ü"])
CHANGES = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(["", "1", "22", "\0x"])),
    st.tuples(st.just("delete"), PATHS, st.just("")),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from(["400", "600", "755", "644", "711"])),
    st.tuples(st.just("link"), PATHS, st.sampled_from(["a", "../out", "d", "/etc/hostname"])),
)


def apply(root: Path, kind: str, path: str, value: str) -> None:
    target = root / path
    try:
        if kind == "write":
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_symlink():
                target.unlink()
            target.write_text(value)
        elif kind == "delete":
            target.unlink()
        elif kind == "rename":
            (root / value).parent.mkdir(parents=True, exist_ok=True)
            target.rename(root / value)
        elif kind == "chmod":
            if not target.is_symlink():
                target.chmod(int(value, 8))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(value)
    except OSError:
        return


def changer(root: Path) -> Any:
    @tool(effect="once", tier=1, reversible=True)
    def change(kind: str, path: str, value: str) -> str:
        "Changes a file."
        apply(root, kind, path, value)
        return "done"

    return change


@contextmanager
def own_state() -> Generator[Path]:
    before = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        try:
            yield Path(folder)
        finally:
            os.environ.pop("XDG_STATE_HOME")
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before


def agent_of(root: Path, changes: list[tuple[str, str, str]], log: MemoryLog) -> Agent[Any, str]:
    script = [act("change", kind=kind, path=path, value=value) for kind, path, value in changes]
    return Agent(ScriptedModel([*script, finish()]), tools=[changer(root)], snapshots=root, log=log)


@settings(max_examples=25, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=6), st.data())
def test_the_files_of_a_fork_are_those_of_a_run_that_stopped_there(
    changes: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    step = data.draw(st.integers(0, len(changes)))
    with own_state() as folder:
        full, stopped = folder / "full", folder / "stopped"
        full.mkdir()
        stopped.mkdir()
        log = MemoryLog()

        async def work() -> Path:
            result = await agent_of(full, changes, log).run("Change files.", run_id="r")
            assert result.success
            if step:
                await agent_of(stopped, changes[:step], MemoryLog()).run("Change files.")
            records = await log.read("r")
            ends = [0] + [it.seq for it in records if isinstance(it.event, e.Observed)]
            past = await look_back(log, "r", ends[step])
            assert past.step == step
            return Path((await restore_files(past, "f")).folder)

        assert content(asyncio.run(work())) == content(stopped)


async def test_a_step_that_was_cut_off_before_its_snapshot_has_no_state(tmp_path: Path) -> None:
    log = MemoryLog()
    root = tmp_path / "tree"
    root.mkdir()
    changes = [("write", "a", "1"), ("write", "a", "2"), ("write", "a", "3")]
    await agent_of(root, changes, log).run("Change files.", run_id="r")
    records = [
        it
        for it in await log.read("r")
        if not (isinstance(it.event, e.Snapshotted) and it.event.step == 2)
    ]
    ends = [it.seq for it in records if isinstance(it.event, e.Observed)]
    assert state_at(records, ends[1]) is None
    # Its call is listed: nothing shows that it changed only files.
    assert [it.step for it in effects_after(records, ends[0])] == [2, 3]


async def test_a_resumed_run_claims_no_state_of_a_step_of_the_past(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    log = MemoryLog()
    changes = [("write", "a", "1"), ("write", "b", "2")]
    await agent_of(root, changes, log).run("Change files.", run_id="r")
    records = await log.read("r")
    cut = next(
        it.seq for it in records if isinstance(it.event, e.Snapshotted) and it.event.step == 1
    )
    # The process ended after the tool's result was durable, and before the snapshot.
    other = MemoryLog()
    row = replace(await log.row("r"), status="running")
    await other.create(row, records=records[:cut], owner="", lease_ms=0)
    (root / "a").write_text("changed by a person")
    agent = agent_of(root, changes, other)
    agent = agent.replace(
        model=ScriptedModel([act("change", kind="write", path="b", value="2"), finish()])
    )
    await agent.resume("r")
    steps = [it.event.step for it in await other.read("r") if isinstance(it.event, e.Snapshotted)]
    assert steps == [0, 2, 3]


def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a").write_text("0")
    return root


async def test_the_fork_of_an_agent_works_in_its_own_folder(tmp_path: Path) -> None:
    root = tree(tmp_path)
    log = MemoryLog()
    script = [act("write_file", path="a", content="1"), act("write_file", path="a", content="2")]
    agent: Agent[Any, str] = Agent(
        ScriptedModel([*script, finish()]), tools=["files"], snapshots=root, log=log, approve="all"
    )
    await agent.run("Write.", run_id="r")
    first = next(it.seq for it in await log.read("r") if isinstance(it.event, e.Observed))
    other = agent.replace(
        model=ScriptedModel([act("write_file", path="b", content="fork"), finish()])
    )
    result = await other.fork("r", at=first, folder=tmp_path / "fork", run_id="f")
    assert (root / "a").read_text() == "2"
    assert not (root / "b").exists()
    assert (tmp_path / "fork" / "a").read_text() == "1"
    assert (tmp_path / "fork" / "b").read_text() == "fork"
    restored = [it.event for it in result.records if isinstance(it.event, e.Restored)]
    assert [(it.step, it.kept) for it in restored] == [(1, ())]
    # Steps before the fork can be restored from the fork, too, without its source.
    past = await look_back(log, "f", 0)
    assert (Path((await restore_files(past, "g")).folder) / "a").read_text() == "0"


async def test_a_tool_that_is_bound_to_the_source_is_refused(tmp_path: Path) -> None:
    root = tree(tmp_path)
    agent: Agent[Any, str] = Agent(
        ScriptedModel([act("write_file", path="a", content="1"), finish()]),
        tools=[file_tools(root)],
        snapshots=root,
        log=MemoryLog(),
        approve="all",
    )
    await agent.run("Write.", run_id="r")
    with pytest.raises(ConfigError, match="bound to"):
        await agent.fork("r", at=0)


async def test_a_run_with_restored_files_is_not_resumed_elsewhere(tmp_path: Path) -> None:
    root = tree(tmp_path)
    log = MemoryLog()
    agent = agent_of(root, [("write", "a", "1")], log)
    await agent.run("Change.", run_id="r")
    past = await look_back(log, "r", 0)
    restored = await restore_files(past, "f")
    await runs.fork(log, "r", "f", at=0, now=clock(), restored=restored)
    with pytest.raises(Refused, match="the files of run 'f' are in"):
        await agent.resume("f")


async def test_an_interrupted_rewind_is_not_resumed(tmp_path: Path) -> None:
    root = tree(tmp_path)
    log = MemoryLog()
    agent = agent_of(root, [("write", "a", "1")], log)
    await agent.run("Change.", run_id="r")

    async def crash(append: Any) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        await runs.rewind(log, "r", to=0, now=clock(), restore=crash)
    with pytest.raises(Refused, match="rewind it again"):
        await agent.resume("r")
    past = await look_back(log, "r", 0)

    async def restore(append: Any) -> None:
        await append(await restore_files(past, "r", in_place=True))

    await runs.rewind(log, "r", to=0, now=clock(), restore=restore)
    assert (root / "a").read_text() == "0"
    again = agent.replace(model=ScriptedModel([finish()]))
    assert (await again.resume("r")).success


async def test_effects_outside_of_the_files_are_listed(tmp_path: Path) -> None:
    root = tree(tmp_path)

    @tool(effect="once", tier=1, reversible=True)
    def send(to: str) -> str:
        "Sends a mail."
        return "sent"

    log = MemoryLog()
    script = [
        act("write_file", path="a", content="1"),
        act("send", to="ada"),
        act("read_file", path="a"),
        finish(),
    ]
    agent: Agent[Any, str] = Agent(
        ScriptedModel(script), tools=["files", send], snapshots=root, log=log, approve="all"
    )
    await agent.run("Work.", run_id="r")
    past = await look_back(log, "r", 0)
    assert [it.line for it in past.effects] == ['step 2: send to="ada"']
    restored = await restore_files(past, "f")
    assert restored.kept == ('step 2: send to="ada"',)


async def test_file_tools_of_another_folder_have_effects_outside(tmp_path: Path) -> None:
    root, other = tree(tmp_path), tmp_path / "other"
    other.mkdir()
    log = MemoryLog()
    agent: Agent[Any, str] = Agent(
        ScriptedModel([act("write_file", path="x", content="1"), finish()]),
        tools=[file_tools(other)],
        snapshots=root,
        log=log,
        approve="all",
    )
    await agent.run("Write.", run_id="r")
    past = await look_back(log, "r", 0)
    assert [it.line for it in past.effects] == ['step 1: write_file path="x" content="1"']


async def test_a_failed_snapshot_is_reported_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path)
    monkeypatch.setattr(run_files, "MOST_STORED", 0)
    log = MemoryLog()
    result = await agent_of(root, [("write", "a", "1")], log).run("Change.", run_id="r")
    assert result.success
    stored = [it.event for it in result.records if isinstance(it.event, e.Snapshotted)]
    assert {it.tree for it in stored} == {""}
    assert "would need more than" in stored[0].why
    past = await look_back(log, "r", last_complete_step(result.records))
    with pytest.raises(Refused, match="steps with files: none"):
        past.require_state()

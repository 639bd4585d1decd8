"""Child runs write in worktrees: their changes are merged, or conflict openly.

Mutants that turn these red: a child works in its parent's folder; a merge takes the child's version
of a conflict; the states are not on record before the first file changes; a merge is planned again
after a crash; a file that changed since the parent was stored is overwritten; git reads the user's
configuration and the attributes of the tree.
"""

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, ConfigError, Decision, Limits, tool
from taofold.agent.worktrees import placed
from taofold.core import events as e
from taofold.core.file_states import worktree_of
from taofold.core.values import OpenConflict, OpenConflicts
from taofold.log.memory import MemoryLog
from taofold.runtime.control import decide
from taofold.runtime.worktrees import ChildMerge
from taofold.testing import ScriptedModel
from taofold.testing.replay import assert_replays
from taofold.tools.files import file_tools
from taofold.workspace import merging
from taofold.workspace.merging import Merged
from taofold.workspace.run_files import RunFiles
from tests.runtime.kit import Died, MortalLog, batch
from tests.workspace.kit import act, finish
from tests.workspace.test_run_files import content

pytestmark = pytest.mark.anyio

TEXT = "".join(f"line {number}\n" for number in range(20))


def writer(name: str, *script: str, **options: Any) -> Agent[Any, Any]:
    options.setdefault("tools", ["files"])
    return Agent(
        ScriptedModel([*script, finish(f"{name} is done")]),
        name=name,
        worktree=True,
        **options,
    )


def asker(root: Path, *children: Agent[Any, Any], script: list[str], **options: Any) -> Any:
    return Agent(
        ScriptedModel([*script, finish()]),
        tools=list(children),
        snapshots=root,
        log=MemoryLog(),
        approve="all",
        **options,
    )


def meeting(count: int) -> Any:
    """A tool whose calls end when all have begun: the children work at the same time."""
    begun: list[str] = []
    all_there = asyncio.Event()

    @tool(effect="read")
    async def meet(name: str) -> str:
        "Waits for the others."
        begun.append(name)
        if len(begun) == count:
            all_there.set()
        await all_there.wait()
        return "met"

    return meet


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text(TEXT)
    (root / "b.txt").write_text("b\n")
    return root


def results(result: Any) -> list[str]:
    return [str(seen.result) for seen in result.steps[0].observations]


async def test_a_child_writes_in_its_worktree_and_its_changes_are_merged(root: Path) -> None:
    seen: list[str] = []

    @tool(effect="read")
    def look() -> str:
        "Looks at the parent's folder."
        seen.append((root / "b.txt").read_text())
        return "seen"

    child = writer(
        "helper",
        act("write_file", path="b.txt", content="new\n"),
        act("write_file", path="sub/c.txt", content="c\n"),
        act("look"),
        tools=["files", look],
    )
    agent = asker(root, child, script=[act("helper", goal="Write.")])
    result = await agent.run("Ask.")
    assert seen == ["b\n"], "the parent's folder is unchanged while the child works"
    assert results(result) == ["helper is done\n\nFiles: 2 changed files merged."]
    assert (root / "b.txt").read_text() == "new\n"
    assert (root / "sub/c.txt").read_text() == "c\n"
    [row] = await result.log.rows(parent=result.run_id)
    records = await result.log.read(row.run)
    worktree = worktree_of(records)
    assert worktree is not None
    assert not Path(worktree.folder).exists(), "nothing is left in it"
    await assert_replays(agent, result)


async def test_tools_that_know_no_folder_are_warned_of(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Mutants, each tried: readers, and tools with a folder, are named too."""

    @tool(effect="once", tier=2)
    def publish() -> str:
        "Works in the folder of the program."
        return "published"

    @tool(effect="read")
    def look() -> str:
        "Looks."
        return "seen"

    child = writer("helper", act("look"), tools=["files", publish, look])
    agent = asker(root, child, script=[act("helper", goal="Look.")])
    await agent.run("Ask.")
    (warning,) = [it.getMessage() for it in caplog.records if it.name.endswith("agent.worktrees")]
    assert "the agent 'helper' works in " in warning
    assert "but not its tools publish: they work where the program does" in warning


async def test_two_children_at_once_that_change_different_files_both_land(root: Path) -> None:
    tools = ["files", meeting(3)]
    changes = {
        "one": act("write_file", path="one.txt", content="1"),
        "two": act("edit_file", path="a.txt", old="line 3\n", new="line three\n"),
        "three": act("edit_file", path="a.txt", old="line 15\n", new="line fifteen\n"),
    }
    one, two, three = [
        writer(name, act("meet", name=name), change, tools=tools)
        for name, change in changes.items()
    ]
    calls = [(name, {"goal": "Write."}) for name in ("one", "two", "three")]
    agent = asker(root, one, two, three, script=[batch(*calls)])
    result = await agent.run("Ask.")
    assert all("1 changed file merged." in it for it in results(result))
    assert (root / "one.txt").read_text() == "1"
    assert (root / "a.txt").read_text() == TEXT.replace("line 3\n", "line three\n").replace(
        "line 15\n", "line fifteen\n"
    )


async def test_the_second_of_two_that_change_the_same_line_conflicts_openly(root: Path) -> None:
    tools = ["files", meeting(2)]
    one, two = [
        writer(
            name,
            act("meet", name=name),
            act("edit_file", path="a.txt", old="line 3\n", new=f"{text}\n"),
            tools=tools,
        )
        for name, text in {"one": "first", "two": "second"}.items()
    ]
    calls = [(name, {"goal": "Write."}) for name in ("one", "two")]
    agent = asker(root, one, two, script=[batch(*calls)])
    result = await agent.run("Ask.")
    [lost] = [it for it in results(result) if "Open conflicts: 1." in it]
    assert "- a.txt (lines: both changed the same lines)" in lost
    winner, loser = ("second", "first") if lost.startswith("one") else ("first", "second")
    assert (root / "a.txt").read_text() == TEXT.replace("line 3\n", f"{winner}\n")
    rows = await result.log.rows(parent=result.run_id)
    [row] = [row for row in rows if f"runs diff {result.run_id} {row.run}" in lost]
    worktree = worktree_of(await result.log.read(row.run))
    assert worktree is not None
    assert worktree.folder in lost
    conflicts = [seen.conflicts for seen in result.steps[0].observations if seen.conflicts]
    files = (OpenConflict("a.txt", "both changed the same lines"),)
    assert conflicts == [OpenConflicts(1, worktree.folder, files)]
    assert (Path(worktree.folder) / "a.txt").read_text() == TEXT.replace("line 3\n", f"{loser}\n")
    await assert_replays(agent, result)


class World:
    """A folder, the worktree of a child, and the state with which it began."""

    def __init__(self, folder: Path) -> None:
        self.here, self.there = folder / "here", folder / "there"
        self.here.mkdir()

    def begin(self) -> None:
        self.files = RunFiles.of(self.here)
        self.base = self.files.take("parent").tree
        self.there = self.files.folder_for("child")
        self.files.restore_beside(self.base, self.there, "child")

    def merge(self) -> Merged:
        theirs = RunFiles.of(self.there).take("child").tree
        self.ours = self.files.take("parent").tree
        return self.files.merge(self.base, self.ours, theirs)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    for name in ("lines", "deleted", "gone", "binary", "link", "mode", "file", "same"):
        (world.here / name).write_text("one\ntwo\n")
    (world.here / "binary").write_bytes(b"\0one")
    (world.here / "large").write_text("one\n" * 2_000_000)
    (world.here / "d").mkdir()
    (world.here / "d/e").write_text("e")
    world.begin()
    return world


def test_everything_that_only_the_child_changed_lands_byte_for_byte(world: World) -> None:
    there = world.there
    (there / "gone").unlink()
    (there / "d/e").unlink()
    (there / "d").rmdir()
    (there / "d").symlink_to("/etc")
    (there / "file").unlink()
    (there / "file").mkdir()
    (there / "file/inner").write_bytes(b"\0\xff")
    (there / "mode").chmod(0o750)
    (there / "x\ny").write_text("name")
    (there / "README").write_text("one case")
    (there / "readme").write_text("other case")
    merged = world.merge()
    assert merged.conflicts == ()
    assert content(world.here) == content(there)
    assert set(merged.paths) >= {"d/e", "d", "gone", "file", "file/inner", "mode", "x\ny"}


def test_what_both_changed_conflicts_openly_and_nothing_is_overwritten(world: World) -> None:
    here, there = world.here, world.there
    for side, text in ((here, "ours"), (there, "theirs")):
        (side / "lines").write_text(f"{text}\ntwo\n")
        (side / "binary").write_bytes(b"\0" + text.encode())
        (side / "large").write_text("one\n" * 2_000_000 + text)
        (side / "new").write_text(text)
    (here / "deleted").unlink()
    (there / "deleted").write_text("theirs")
    (here / "gone").write_text("ours")
    (there / "gone").unlink()
    (here / "link").write_text("ours")
    (there / "link").unlink()
    (there / "link").symlink_to("lines")
    (here / "mode").chmod(0o600)
    (there / "mode").chmod(0o755)
    (here / "file").write_text("ours")
    (there / "file").unlink()
    (there / "file").mkdir()
    (there / "file/inner").write_text("theirs")
    for side in (here, there):
        (side / "same").write_text("both the same")
    before = content(here)
    merged = world.merge()
    assert content(here) == before
    assert merged.paths == ()
    assert {(it.path, it.kind) for it in merged.conflicts} == {
        *(("lines", "lines"), ("binary", "binary"), ("large", "large"), ("new", "added")),
        *(("deleted", "deleted"), ("gone", "deleted"), ("link", "link"), ("mode", "mode")),
        *(("file", "deleted"), ("file/inner", "folder")),
    }


def test_lines_and_permissions_are_merged(world: World) -> None:
    (world.here / "lines").write_text("one\ntwo\n" + "more\n" * 9)
    base = "".join(f"{number}\n" for number in range(9))
    (world.here / "same").write_text(base)
    world.base = world.files.take("parent").tree
    (world.there / "same").write_text(base.replace("0", "zero"))
    (world.there / "same").chmod(0o755)
    (world.there / "lines").write_bytes((world.here / "lines").read_bytes())
    (world.here / "same").write_text(base.replace("8", "eight"))
    merged = world.merge()
    assert (merged.paths, merged.conflicts) == (("same",), ())
    assert (world.here / "same").read_text() == base.replace("0", "zero").replace("8", "eight")
    assert stat.S_IMODE((world.here / "same").stat().st_mode) == 0o755


def test_a_file_that_no_state_holds_is_not_overwritten(world: World) -> None:
    (world.there / ".gitignore").write_text("")
    (world.there / "secret").write_text("theirs")
    (world.there / "made").mkdir()
    (world.there / "made/x").write_text("theirs")
    (world.here / ".git").mkdir()
    (world.here / ".gitignore").write_text("secret\nmade\n")
    (world.here / "secret").write_text("ours")
    (world.here / "made").symlink_to(world.here.parent)
    merged = world.merge()
    assert (world.here / "secret").read_text() == "ours"
    assert not (world.here.parent / "x").exists()
    assert {(it.path, it.kind) for it in merged.conflicts} == {
        *((".gitignore", "added"), ("secret", "changed"), ("made/x", "folder")),
    }


def test_a_file_that_changes_during_the_merge_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.there / "lines").write_text("theirs")
    (world.there / "mode").write_text("theirs")
    decide = merging._Plan.decide

    def change(plan: Any, path: str) -> None:
        decide(plan, path)
        (world.here / "lines").write_text("meanwhile")

    monkeypatch.setattr(merging._Plan, "decide", change)
    merged = world.merge()
    assert [tuple(it) for it in merged.conflicts] == [("changed", "lines")]
    assert merged.paths == ("mode",)
    assert (world.here / "lines").read_text() == "meanwhile"


def test_a_merge_runs_no_program_of_the_repository(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merge drivers, filters, hooks and monitors are configured, and the user's git obeys them."""
    mark = tmp_path / "ran"
    run = f"touch {mark}"
    config = (
        f"[core]\n\tfsmonitor = {run}\n\thooksPath = {tmp_path}\n\tsshCommand = {run}\n"
        f'[merge]\n\tdefault = evil\n[merge "evil"]\n\tdriver = {run}\n'
        f'[filter "evil"]\n\tclean = {run}\n\tsmudge = {run}\n\trequired = true\n'
        f'[diff "evil"]\n\tcommand = {run}\n\ttextconv = {run}\n'
    )
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(config)
    monkeypatch.setenv("HOME", str(home))
    base = "".join(f"{number}\n" for number in range(9))
    (world.here / "same").write_text(base)
    for side in (world.here, world.there):
        (side / ".gitattributes").write_text("* merge=evil filter=evil diff=evil\n")
        (side / ".git").mkdir()
        (side / ".git/config").write_text(config)
    world.base = world.files.take("parent").tree
    (world.here / "same").write_text(base + "ours\n")
    (world.there / "same").write_text("theirs\n" + base)
    assert world.merge().paths == ("same",)
    assert (world.here / "same").read_text() == "theirs\n" + base + "ours\n"
    assert not mark.exists()


@pytest.mark.parametrize("at", ["before the merge", "in the middle", "after the merge"])
async def test_an_interrupted_merge_is_done_once(
    root: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends, and a user changes a file of the folder."""
    child = writer(
        "helper",
        act("write_file", path="b.txt", content="theirs\n"),
        act("write_file", path="c.txt", content="c\n"),
        act("edit_file", path="a.txt", old="line 3\n", new="three\n"),
    )
    log = MortalLog(MemoryLog())
    agent = asker(root, child, script=[act("helper", goal="Write.")]).replace(log=log)
    apply, single = ChildMerge.apply, merging._Plan._apply

    async def interrupted(merge: ChildMerge, kept: Any) -> Merged:
        if at == "after the merge":
            await apply(merge, kept)
        return log.die()

    def in_the_middle(plan: Any, path: str, data: bytes) -> list[str]:
        return log.die() if path == "c.txt" else single(plan, path, data)

    with monkeypatch.context() as patched:
        if at == "in the middle":
            patched.setattr(merging._Plan, "_apply", in_the_middle)
        else:
            patched.setattr(ChildMerge, "apply", interrupted)
        with pytest.raises(Died):
            await agent.run("Ask.", run_id="r")
    (root / "user.txt").write_text("of the user")
    records = await log.read("r")
    starts = [it.event for it in records if isinstance(it.event, e.Started)]
    assert [bool(it.kept) for it in starts] == [False, True], "the states are on record before"

    log.dead = False
    taken = len(child.model.requests)  # type: ignore[union-attr]
    result = await agent.resume("r", takeover=True)
    assert results(result) == ["helper is done\n\nFiles: 3 changed files merged."]
    assert len(child.model.requests) == taken, "the child does not work again"  # type: ignore[union-attr]
    assert (root / "b.txt").read_text() == "theirs\n"
    assert (root / "c.txt").read_text() == "c\n"
    assert (root / "a.txt").read_text() == TEXT.replace("line 3\n", "three\n")
    assert (root / "user.txt").read_text() == "of the user"
    starts = [it.event for it in await log.read("r") if isinstance(it.event, e.Started)]
    assert len(starts) == 2, "the same states are merged"
    await assert_replays(agent, result)


async def test_a_change_after_an_interrupted_merge_is_not_overwritten(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = writer("helper", act("write_file", path="b.txt", content="theirs\n"))
    log = MortalLog(MemoryLog())
    agent = asker(root, child, script=[act("helper", goal="Write.")]).replace(log=log)

    async def interrupted(merge: ChildMerge, kept: Any) -> Merged:
        return log.die()

    with monkeypatch.context() as patched:
        patched.setattr(ChildMerge, "apply", interrupted)
        with pytest.raises(Died):
            await agent.run("Ask.", run_id="r")
    (root / "b.txt").write_text("of the user")
    log.dead = False
    result = await agent.resume("r", takeover=True)
    assert "- b.txt (lines: " in results(result)[0]
    assert (root / "b.txt").read_text() == "of the user"


async def test_an_unsuccessful_child_changes_nothing(root: Path) -> None:
    half = act("write_file", path="b.txt", content="half\n")
    child = writer("helper", half, act("list_files"), act("list_files"), limits=Limits(steps=2))
    agent = asker(root, child, script=[act("helper", goal="Write.")])
    result = await agent.run("Ask.")
    assert "none of the changes" in results(result)[0]
    assert (root / "b.txt").read_text() == "b\n"
    [row] = await result.log.rows(parent=result.run_id)
    worktree = worktree_of(await result.log.read(row.run))
    assert worktree is not None
    assert (Path(worktree.folder) / "b.txt").read_text() == "half\n"


async def test_files_that_no_state_holds_stay_in_the_worktree(root: Path) -> None:
    (root / ".gitignore").write_text("*.env\n")
    child = writer("helper", act("write_file", path="x.env", content="theirs"))
    agent = asker(root, child, script=[act("helper", goal="Write.")])
    result = await agent.run("Ask.")
    [row] = await result.log.rows(parent=result.run_id)
    worktree = worktree_of(await result.log.read(row.run))
    assert worktree is not None
    [text] = results(result)
    assert text.endswith(f"ignored, too large or repositories: x.env in {worktree.folder}")
    assert (Path(worktree.folder) / "x.env").read_text() == "theirs"


async def test_the_agents_of_a_child_work_in_its_worktree(root: Path) -> None:
    """One of them in a worktree of that worktree."""
    plain = Agent[Any, Any](
        ScriptedModel([act("write_file", path="plain.txt", content="1"), finish()]),
        name="plain",
        tools=[file_tools(root)],
    )
    seen: list[bool] = []

    @tool(effect="read")
    def look() -> str:
        "Looks into the parent's folder."
        seen.append((root / "plain.txt").exists() or (root / "inner.txt").exists())
        return "seen"

    inner = writer("inner", act("write_file", path="inner.txt", content="2"))
    child = writer(
        "helper",
        act("plain", goal="Write."),
        act("inner", goal="Write."),
        act("look"),
        tools=[plain, inner, look],
    )
    agent = asker(root, child, script=[act("helper", goal="Ask.")])
    result = await agent.run("Ask.")
    assert seen == [False]
    assert results(result) == ["helper is done\n\nFiles: 2 changed files merged."]
    assert (root / "plain.txt").read_text() + (root / "inner.txt").read_text() == "12"


async def test_a_child_that_waits_for_an_approval_continues_in_its_worktree(root: Path) -> None:
    child = writer("helper", act("write_file", path="b.txt", content="theirs\n"))
    agent = asker(root, child, script=[act("helper", goal="Write.")])
    agent = agent.replace(approve=None)
    result = await agent.run("Ask.")
    assert result.status == "waiting"
    [asked] = result.pending
    assert asked.action.tool == "write_file"
    await decide(result.log, asked.id, Decision("approve"))
    done = await agent.resume(result)
    assert results(done) == ["helper is done\n\nFiles: 1 changed file merged."]
    assert (root / "b.txt").read_text() == "theirs\n"


async def test_a_worktree_needs_the_folder_of_its_caller(root: Path) -> None:
    agent = Agent(ScriptedModel([finish()]), tools=[writer("helper")])
    with pytest.raises(ConfigError, match="needs snapshots=True"):
        await agent.run("Ask.")


@pytest.mark.parametrize("place", ["..", "../other"])
async def test_a_tool_that_could_write_outside_of_the_worktree_is_refused(
    root: Path, place: str
) -> None:
    (root / place).mkdir(exist_ok=True)
    child = writer("helper", tools=[file_tools(root / place)])
    agent = asker(root, child, script=[act("helper", goal="Write.")])
    with pytest.raises(ConfigError, match="not in the worktree"):
        await agent.run("Ask.")


def test_each_tool_with_a_folder_works_in_another_one(root: Path, tmp_path: Path) -> None:
    """Commands, too: bound to the worktree, not to the folder of the caller."""
    other = tmp_path / "other"
    other.mkdir()
    named = Agent[Any, Any](ScriptedModel([]), tools=["files", "command"], snapshots=root)
    moved = placed(named, root, other)
    assert {it.root for it in moved.toolset.values()} == {other}
    assert {it.name for it in moved.toolset.values()} == set(named.toolset)
    assert all(it.confined in (None, other) for it in moved.toolset.values())
    assert moved.snapshot_folder == other

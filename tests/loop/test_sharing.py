"""Contents that the loops of a project share, and their removal after a loop's end.

Mutants: a loop depends on the folder of another; another project's contents are linked; a partly
written file is linked; a content that was changed through another loop is used; a loop that can be
resumed loses its baseline; a completed one cannot be reverted; each content has a file.
"""

import asyncio
import shutil
from pathlib import Path
from random import Random

import pytest

from taofold.core.errors import LogError
from taofold.log.journal import MemoryJournal
from taofold.log.memory import MemoryLog
from taofold.loop.driver import LoopDependencies
from taofold.loop.environment import open_environment
from taofold.loop.gates.tree import content, store
from taofold.loop.lifecycle import abort, resume, revert, start
from taofold.loop.values import LoopLimits, LoopRequest
from taofold.loop.workspace import KeptFolder, kept_folders, open_workspace, share, state_folder
from tests.loop.gates.projects import judged, written
from tests.prerequisites import GIT

from .kit import done, means, write

pytestmark = GIT.mark

FILES = {f"pkg/m{number}.py": f"N = {number}\n" for number in range(30)}
GATE = "grep -q good a.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path / "project", {**FILES, "a.py": "bad\n"})


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "snapshots.git" / "objects").rglob("*") if path.is_file()]


def test_new_contents_are_written_into_one_pack(project: Path, tmp_path: Path) -> None:
    """Mutant: git writes a file for each."""
    space = open_workspace(project, tmp_path / "loops" / "x", loop_id="x")
    assert len(objects(space.folder)) < len(FILES)
    written(project, {"a.py": "good\n", "b.py": "", "pkg/m1.py": "N = -1\n"})
    now = space.snapshot("now")
    assert space.changed(space.first.id, now.id) == ("a.py", "b.py", "pkg/m1.py")
    assert "+N = -1" in space.diff(space.first.id, now.id)


@pytest.mark.parametrize("mode", ["place", "copy"])
def test_a_second_loop_shares_contents_and_does_not_need_the_first(
    project: Path, tmp_path: Path, mode: str
) -> None:
    """Mutants: nothing is shared; the second reads from the first one's folder."""
    first = open_workspace(project, tmp_path / "loops" / "x", loop_id="x")
    packs = {path.stat().st_ino for path in objects(first.folder) if path.suffix == ".pack"}
    second = open_workspace(project, tmp_path / "loops" / "y", loop_id="y", mode=mode)  # type: ignore[arg-type]
    assert packs <= {path.stat().st_ino for path in objects(second.folder)}
    shutil.rmtree(first.folder)
    written(second.root, {"a.py": "good\n", "pkg/m2.py": ""})
    second.snapshot("later")
    second.abort(keep=False)
    assert (second.root / "a.py").read_text() == "bad\n"
    assert (second.root / "pkg/m2.py").read_text() == FILES["pkg/m2.py"]
    assert second.git.text("fsck", "--full", "--no-dangling") == ""


def test_another_project_shares_nothing(project: Path, tmp_path: Path) -> None:
    """Mutant: the newest loop of all is taken."""
    other = open_workspace(project, tmp_path / "loops" / "x", loop_id="x")
    mine = written(tmp_path / "mine", {"a.py": "mine\n"})
    space = open_workspace(mine, tmp_path / "loops" / "y", loop_id="y")
    nodes = {path.stat().st_ino for path in objects(other.folder)}
    assert nodes.isdisjoint([path.stat().st_ino for path in objects(space.folder)])


def test_what_is_half_written_is_not_shared(project: Path, tmp_path: Path) -> None:
    first = open_workspace(project, tmp_path / "loops" / "x", loop_id="x")
    half = ("snapshots.git/objects/pack/tmp_pack_a", "objects/ab/abcd.100", "objects/ab/abcd")
    written(first.folder, dict.fromkeys(half, "half"))
    share(project, tmp_path / "loops" / "y")
    assert [(tmp_path / "loops" / "y" / name).exists() for name in half] == [False, False, True]


def test_a_content_that_was_changed_through_another_loop_is_not_used(tmp_path: Path) -> None:
    """Mutant: what lies under a digest is believed."""
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    store(tmp_path / "one", digest, b"abc")
    (tmp_path / "two" / "ba").mkdir(parents=True)
    (tmp_path / "two" / "ba" / digest).hardlink_to(tmp_path / "one" / "ba" / digest)
    assert content(tmp_path / "two", digest) == b"abc"
    (tmp_path / "one" / "ba" / digest).write_bytes(b"evil")
    with pytest.raises(LogError, match="was changed"):
        content(tmp_path / "two", digest)


def test_a_shared_file_is_counted_once(project: Path, tmp_path: Path) -> None:
    """Mutant: the sizes that `loops clean` prints add up to more than it frees."""

    def sizes(folders: tuple[KeptFolder, ...]) -> int:
        return sum([folder.size for folder in folders])

    (project / "big.bin").write_bytes(Random(1).randbytes(1_000_000))
    found: list[int] = []
    for name in ("x", "y", "z"):
        open_workspace(project, state_folder(project, tmp_path, name, "1"), loop_id=name)
        found.append(sizes(kept_folders(project, tmp_path)))
    assert found[-1] < 2 * found[0]


def test_a_tree_is_laid_once(project: Path) -> None:
    """Mutant: the first verdict lays what the first run of the gates has laid already."""
    judge, _ = judged(project, GATE)
    laid = judge.own.tree / "pkg" / "m3.py"
    before = laid.stat().st_ino, laid.stat().st_ctime_ns
    written(project, {"a.py": "good\n"})
    assert asyncio.run(judge.verdict()).passed
    assert (laid.stat().st_ino, laid.stat().st_ctime_ns) == before


def dependencies(project: Path, script: list[str]) -> LoopDependencies:
    given = means(project, script, lambda root: pytest.fail("not judged here"))
    home = project.parent / "home"
    return LoopDependencies(
        log=MemoryLog(),
        journal=MemoryJournal(),
        environment=lambda loop, state: open_environment(loop, state, home),
        agent=given.agent,
    )


def kept(project: Path) -> tuple[Path, set[str]]:
    [folder] = (project.parent / "home" / "loops").iterdir()
    return folder, {path.name for path in folder.iterdir()}


@pytest.mark.anyio
async def test_a_loop_that_was_completed_keeps_its_snapshots_alone(project: Path) -> None:
    """Mutants: nothing is removed; a snapshot is, and the files cannot be restored."""
    given = dependencies(project, [write("a.py", "good\n"), done()])
    wish = LoopRequest("make it good", (GATE,), str(project))
    assert (await start(given, wish, loop="x")).status == "completed"
    folder, names = kept(project)
    assert names.isdisjoint({"tree", "objects", "environments", "outputs", "bytecode"})
    assert {"snapshots.git", "baseline.json", "workspace.json"} <= names
    await revert(given, "x")
    assert (project / "a.py").read_text() == "bad\n"
    assert folder.exists()


@pytest.mark.anyio
async def test_a_loop_that_can_be_resumed_keeps_its_baseline(project: Path) -> None:
    """Mutant: every end counts as final."""
    given = dependencies(project, [done(), write("a.py", "good\n"), done()])
    wish = LoopRequest("make it good", (GATE,), str(project), LoopLimits(iterations=1))
    assert (await start(given, wish, loop="x")).status == "exhausted"
    _, names = kept(project)
    assert ("tree" in names, "objects" in names) == (False, True)
    state = await resume(given, "x", bounds=LoopLimits(iterations=2))
    assert state.status == "completed"


@pytest.mark.anyio
async def test_a_loop_that_was_given_up_keeps_its_snapshots_alone(project: Path) -> None:
    given = dependencies(project, [done()])
    wish = LoopRequest("make it good", (GATE,), str(project), LoopLimits(iterations=1))
    await start(given, wish, loop="x")
    with pytest.raises(Exception, match="has ended"):
        await abort(given, "x")

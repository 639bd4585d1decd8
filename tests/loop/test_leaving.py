"""Handling of a loop's workspace after its end: merged, kept, reset or removed.

Mutants: worktrees that stay for ever; that are removed although the result could not be merged; a
refused revert that cannot be retried; a removed workspace that is opened again; a death between the
end and the clearing.
"""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.log.sqlite.journal import SqliteJournal
from taofold.loop import events as loop_events
from taofold.loop.environment import LocalEnvironment, open_environment
from taofold.loop.lifecycle import catch_up
from taofold.loop.state import LoopState
from taofold.loop.stream import load
from taofold.loop.values import LoopLimits, LoopRequest
from taofold.loop.workspace import Mode, open_workspace
from tests.prerequisites import CONTAINMENT, GIT
from tests.terminal import Taofold

from .conftest import GATE
from .kit import Teacher, act, contains, done, ground_of, means, wish, write

pytestmark = GIT.mark

REPAIR = (
    *("-c", GATE, "-m", "offline:repair", "--steps", "60", "--loop-id", "x", "--quiet"),
    *("--approve", "all"),  # where nothing contains commands, they ask
)
TASK = "Make the failing tests pass"


def git(root: Path, *words: str) -> str:
    flags = ["-c", "user.name=t", "-c", "user.email=t@t"]
    done = subprocess.run(["git", *flags, *words], cwd=root, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture
def repository(project: Path) -> Path:
    """The project with a commit, and a file that is not committed."""
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    (project / "notes.txt").write_text("not committed")
    return project


def places(root: Path) -> list[Path]:
    """Worktrees and copies that are still there."""
    return sorted((root.parent / "state").glob("**/x.*/work"))


def broken(project: Path) -> None:
    (project / "calc.py").write_text("def double(n):\n    return 3 * n\n")


@pytest.mark.parametrize("mode", ["worktree", "copy"])
def test_after_a_completed_loop_the_place_goes_and_its_report_stays(
    taofold: Taofold, repository: Path, mode: str
) -> None:
    broken(repository)
    code, _, err = taofold("loop", TASK, *REPAIR, f"--{mode}")
    assert code == 0, err
    assert "2 * n" in (repository / "calc.py").read_text()
    assert places(repository) == []
    assert git(repository, "worktree", "list").count("\n") == 1
    report = taofold("loops", "report", "x").out
    assert "+    return 2 * n" in report
    assert taofold("patterns", "extract", "x").code == 0


def test_an_unfinished_loop_keeps_its_worktree_and_says_where(
    taofold: Taofold, repository: Path
) -> None:
    broken(repository)
    given = ("--worktree", "--max-iterations", "1", "--steps", "1", "--json")
    code, out, _ = taofold("loop", TASK, *REPAIR, *given)
    assert code == 1
    [place] = places(repository)
    assert str(place) in json.loads(out)["warning"]
    assert "worktree remove --force" in json.loads(out)["warning"]


def test_green_from_the_start_leaves_no_worktree_behind(taofold: Taofold, repository: Path) -> None:
    (repository / "calc.py").write_text("def double(n):\n    return 2 * n\n")
    assert taofold("loop", TASK, *REPAIR, "--worktree").code == 0
    assert places(repository) == []


@pytest.mark.parametrize("revert", [True, False])
def test_aborting_with_revert_removes_the_worktree_and_keeping_says_where_it_is(
    taofold: Taofold, repository: Path, revert: bool
) -> None:
    broken(repository)
    before = git(repository, "status", "--porcelain")
    given = ("--worktree", "--max-iterations", "9", "--steps", "1")
    crashed(taofold, repository, given)
    [place] = places(repository)
    more = ("--revert", "--yes") if revert else ()
    code, out, err = taofold("loops", "abort", "x", *more)
    assert code == 0, err
    assert git(repository, "status", "--porcelain") == before
    if revert:
        assert "the worktree was removed" in out
        assert places(repository) == []
        assert git(repository, "worktree", "list").count("\n") == 1
    else:
        assert places(repository) == [place]
        assert f"{place} stays" in err
        command = err.partition("Remove it with: ")[2].strip()
        subprocess.run(command, shell=True, check=True)
        assert git(repository, "worktree", "list").count("\n") == 1


def crashed(taofold: Taofold, project: Path, given: tuple[str, ...]) -> None:
    """A loop whose process died after its baseline."""
    taofold("loop", TASK, *REPAIR, *given)

    async def cut() -> None:
        path = project / ".taofold" / "runs.db"
        journal = SqliteJournal(path)
        facts = await journal.facts("loop/x")
        at = next(
            n
            for n, f in enumerate(facts)
            if isinstance(loop_events.decode(f.body), loop_events.IterationEnded)
        )
        await journal.drop("loop/x")
        kept = [(fact.at, fact.body) for fact in facts[: at + 1]]
        await journal.write("loop/x", -1, kept)
        await journal.close()
        assert (await load(SqliteJournal(path), "x")).state.status == "running"

    asyncio.run(cut())


def site(project: Path, home: Path, place: str = "", **more: object) -> LocalEnvironment:
    wish = LoopRequest(TASK, (GATE,), str(project), LoopLimits(), **more)  # type: ignore[arg-type]
    state = LoopState(wish=wish, place=place)
    return open_environment("x", state, home)


@pytest.mark.parametrize("gone", ["work", "workspace.json"])
def test_the_place_of_a_loop_that_began_is_never_made_anew(
    project: Path, tmp_path: Path, gone: str
) -> None:
    home = tmp_path / "home"
    place = site(project, home, mode="copy")
    kept = place.root.parent / gone
    if kept.is_dir():
        shutil.rmtree(kept)
    else:
        kept.unlink()
    begun = LoopState(
        wish=LoopRequest(TASK, (GATE,), str(project), mode="copy"),
        baseline=loop_events.BaselineTaken(verdict=contains("x")(project), baseline="digest"),
    )
    with pytest.raises(ConfigError, match="workspace of x cannot be used any more"):
        open_environment("x", begun, home)
    assert not kept.exists()


def test_a_loop_uses_nothing_that_an_earlier_one_of_its_name_left(
    project: Path, tmp_path: Path
) -> None:
    """Mutant: the folder is known by the loop's name alone."""
    home = tmp_path / "home"
    before = site(project, home, mode="copy", place="1")
    (before.root / "calc.py").write_text("def double(n):\n    return 2 * n\n")
    assert site(project, home, mode="copy", place="1").root == before.root, "after a crash"
    now = site(project, home, place="2")
    assert now.root == project
    assert now.leftovers == (str(before.root.parent),)


def test_a_loop_whose_journal_is_gone_gives_no_false_pass(
    taofold: Taofold, repository: Path
) -> None:
    """The first loop fixes the code beside the project. The second loop's agent does nothing."""
    red = ("-c", "python -c 'raise SystemExit(1)'")
    broken(repository)
    first = ("loop", TASK, *REPAIR, *red, "--copy", "--max-iterations", "1", "--loop-id", "x")
    assert taofold(*first).code == 1
    [place] = places(repository)
    assert "return 2 * n" in (place / "calc.py").read_text()
    shutil.rmtree(repository / ".taofold")
    idle = ("--loop-id", "x", "--max-iterations", "1", "--steps", "1")
    code, _, err = taofold("loop", TASK, *REPAIR, *idle)
    assert code == 1
    assert f"does not use: {place.parent}" in " ".join(err.split())


@CONTAINMENT.mark
@pytest.mark.parametrize("mode", ["worktree", "copy"])
@pytest.mark.parametrize("how", ["folder", "link"])
def test_installed_packages_of_the_project_are_seen_beside_it(
    repository: Path, tmp_path: Path, mode: Mode, how: str
) -> None:
    """Mutants: nothing is linked; the link is merged over the project's folder."""
    packages = tmp_path / "elsewhere" if how == "link" else repository / ".venv"
    (packages / "bin").mkdir(parents=True)
    (packages / "pyvenv.cfg").write_text("home = /usr/bin\n")
    if how == "link":
        (repository / ".venv").symlink_to(packages)
    (repository / "web" / "node_modules" / "left-pad").mkdir(parents=True)
    (repository / "web" / "index.js").write_text("1;\n")
    space = open_workspace(repository, tmp_path / "state" / "l", mode=mode)
    assert (space.root / ".venv" / "pyvenv.cfg").is_file()
    assert (space.root / "web" / "node_modules" / "left-pad").is_dir()
    (space.root / "calc.py").write_text("x = 1\n")
    assert space.bring_back() == (("calc.py",), ())
    assert space.close().removed
    assert (packages / "pyvenv.cfg").is_file()
    assert (repository / ".venv").is_symlink() is (how == "link")
    assert (repository / "web" / "node_modules" / "left-pad").is_dir()


@pytest.mark.parametrize("mode", ["--in-place", "--worktree", "--copy"])
@pytest.mark.parametrize("ending", ["completed", "exhausted"])
def test_what_an_ended_loop_did_can_be_undone(
    taofold: Taofold, repository: Path, mode: str, ending: str
) -> None:
    """Mutants: only running loops are reverted; later changes of the user are reverted, too."""
    if ending == "exhausted":
        more = ("-c", "python -c 'raise SystemExit(1)'", "--max-iterations", "1")
    else:
        more = ()
    broken(repository)
    given = ("loop", TASK, *REPAIR, *more, mode)
    assert taofold(*given).code == (1 if more else 0)
    is_there = ending == "completed" or mode == "--in-place"
    assert ("return 2 * n" in (repository / "calc.py").read_text()) is is_there
    (repository / "notes.txt").write_text("written since")
    code, out, err = taofold("loops", "revert", "x", "--yes")
    assert code == 0, err
    assert out.startswith("x: 1 file put back")
    assert (repository / "calc.py").read_text() == "def double(n):\n    return 3 * n\n"
    assert (repository / "notes.txt").read_text() == "written since"
    assert taofold("loops", "revert", "x", "--yes").code == 1, "once is enough"


def test_an_undo_does_not_overwrite_what_a_person_did_to_the_same_lines(
    taofold: Taofold, repository: Path
) -> None:
    broken(repository)
    assert taofold("loop", TASK, *REPAIR).code == 0
    (repository / "calc.py").write_text("def double(n):\n    return n + n  # mine\n")
    code, _, err = taofold("loops", "revert", "x", "--yes")
    assert code != 0
    assert "calc.py" in err
    assert "mine" in (repository / "calc.py").read_text()
    assert taofold("loops", "revert", "x", "--yes", "--force").code == 0
    assert "return 3 * n" in (repository / "calc.py").read_text()


@pytest.mark.parametrize("mode", ["--worktree", "--copy"])
def test_a_start_that_is_refused_leaves_nothing(
    taofold: Taofold, repository: Path, mode: str
) -> None:
    given = ("--model", "offline:repair", "-c", "no-such-program run", mode)
    assert taofold("loop", TASK, *given).code == 2
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not list((repository.parent / "state").glob("**/work"))


@pytest.mark.anyio
async def test_a_revert_that_was_refused_can_be_tried_again(tmp_path: Path) -> None:
    from dataclasses import replace as but

    from taofold.core.errors import Refused
    from taofold.loop.lifecycle import abort, start

    given = means(tmp_path, [*rounds_and_a_question()], contains("x"))
    made = given.agent(tmp_path, LoopState()).replace(ask_user=True)
    given = but(given, agent=lambda folder, state: made)
    await start(given, wish(tmp_path), loop="x")
    ground, refuse = ground_of(given), [True]
    leave = ground.leave

    async def picky(*, keep: bool, force: bool = False) -> tuple[str, ...]:
        if refuse:
            raise Refused("changed after the loop's last iteration")
        return await leave(keep=keep, force=force)

    ground.leave = picky  # type: ignore[method-assign]
    with pytest.raises(Refused, match="changed after"):
        await abort(given, "x", keep=False)
    refuse.clear()
    state, paths = await abort(given, "x", keep=False, force=True)
    assert (state.status, paths) == ("aborted", ("a.py",))
    with pytest.raises(Refused, match="has ended already"):
        await abort(given, "x", keep=False)


def rounds_and_a_question() -> list[str]:
    return [write("a.py", "one"), done(), act("may I?", "ask_user", question="?")]


@pytest.mark.anyio
async def test_what_a_dead_process_did_not_clear_the_next_one_does_before_it_learns(
    tmp_path: Path,
) -> None:
    from taofold.loop.lifecycle import start

    teacher = Teacher()
    given = means(tmp_path, [write("a.py", "good"), done()], contains("good"), learner=teacher)
    asked = wish(tmp_path, mode="copy")
    state = await start(given, asked, loop="x")
    assert state.cleared is not None
    assert state.cleared.left.removed
    facts = await given.journal.facts("loop/x")
    ended = next(
        n
        for n, f in enumerate(facts)
        if isinstance(loop_events.decode(f.body), loop_events.LoopEnded)
    )
    await given.journal.drop("loop/x")
    await given.journal.write("loop/x", -1, [(f.at, f.body) for f in facts[: ended + 1]])
    ground_of(given).log.clear()
    assert await catch_up(given) == ["x"]
    assert ground_of(given).log == ["clear"]
    assert await catch_up(given) == []


@pytest.mark.anyio
async def test_a_place_whose_result_was_not_brought_back_is_not_cleared(tmp_path: Path) -> None:
    from taofold.core.errors import Refused
    from taofold.loop.lifecycle import start

    given = means(tmp_path, [write("a.py", "good"), done()], contains("good"))
    ground = ground_of(given)

    async def clash() -> tuple[str, ...]:
        raise Refused("changed meanwhile: a.py")

    ground.deliver = clash  # type: ignore[method-assign]
    state = await start(given, wish(tmp_path, mode="copy"))
    assert state.status == "completed"
    assert state.ended is not None
    assert not state.is_in_place
    assert "changed meanwhile: a.py" in state.ended.warning
    assert "rm" in state.ended.warning
    assert "clear" not in ground.log
    assert state.cleared is None

"""Worktrees and copies are removed only if no data is lost with them.

Mutants: no check of later changes, of ignored files, of large files, of other repositories, of
commits without a branch, beside the work root; the second check compares with the first; a locked
worktree is deleted; git's own entry stays.
"""

from pathlib import Path

import pytest

from taofold.loop.workspace import Mode, Workspace, open_workspace
from tests.loop.gates.projects import git, written
from tests.prerequisites import GIT

pytestmark = GIT.mark

MODES: tuple[Mode, ...] = ("worktree", "copy")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with work that is not committed, and files that it ignores."""
    root = written(
        tmp_path / "project",
        {"a.txt": "a\n", "sub/b.txt": "b\n", ".gitignore": "*.log\nout/\n", "big.bin": ""},
    )
    with (root / "big.bin").open("r+b") as file:
        file.truncate(40_000_000)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "a.txt", "sub", ".gitignore", "big.bin")
    git(root, "commit", "-q", "-m", "first")
    return written(root, {"a.txt": "unstaged\n", "new.txt": "untracked\n"})


def opened(project: Path, mode: Mode) -> Workspace:
    return open_workspace(project, project.parent / "kept", mode=mode, loop_id="x")


@pytest.mark.parametrize("mode", MODES)
def test_after_results_were_brought_back_the_folder_and_gits_entry_go(
    project: Path, mode: Mode
) -> None:
    space = opened(project, mode)
    written(space.root, {"sub/b.txt": "better\n", "__pycache__/b.pyc": "x", ".venv/bin/x": "x"})
    space.bring_back()
    left = space.close()
    assert (left.removed, left.why) == (True, "")
    assert not space.root.exists()
    assert (project / "sub/b.txt").read_text() == "better\n"
    assert (project / "a.txt").read_text() == "unstaged\n"
    assert git(project, "worktree", "list").count("\n") == 1
    assert list((project / ".git").glob("worktrees/*")) == []


def test_what_was_kept_can_be_read_after_the_folder_is_gone(project: Path) -> None:
    space = opened(project, "worktree")
    written(space.root, {"sub/b.txt": "better\n"})
    space.bring_back()
    made = space.last
    assert space.close().removed
    again = Workspace.load(project, space.folder)
    assert again.text(made.id, "sub/b.txt") == "better\n"
    assert "+better" in again.diff(space.first.id, made.id)
    assert again.close().removed


def test_a_folder_that_somebody_else_removed_is_not_taken_for_a_closed_one(project: Path) -> None:
    from shutil import rmtree

    from taofold.core.errors import ConfigError

    space = opened(project, "copy")
    rmtree(space.root)
    with pytest.raises(ConfigError, match="is gone"):
        Workspace.load(project, space.folder)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("path", "word"),
    [("sub/b.txt", "changed since: sub/b.txt"), ("fresh.txt", "changed since: fresh.txt"),
     ("model.log", "ignored, and only there: model.log"), ("out/m.pt", "only there: out/m.pt"),
     ("huge.bin", "too large to be kept: huge.bin"),
     ("other/.git/HEAD", "repositories of their own: other/")],
)  # fmt: skip
def test_what_would_be_lost_keeps_the_folder(
    project: Path, mode: Mode, path: str, word: str
) -> None:
    space = opened(project, mode)
    space.bring_back()
    if path.startswith("other/"):
        (space.root / "other").mkdir()
        git(space.root / "other", "init", "-q")
    else:
        written(space.root, {path: "made after all was brought back\n"})
    if path == "huge.bin":
        with (space.root / path).open("r+b") as file:
            file.truncate(33_000_000)
    for _ in range(2):
        left = Workspace.load(project, space.folder).close()
        assert not left.removed
        assert word in left.why
        assert (space.root / path).exists()
    assert str(space.root) in left.remove


def test_commits_that_no_branch_holds_keep_the_worktree(project: Path) -> None:
    space = opened(project, "worktree")
    git(space.root, "commit", "-q", "--allow-empty", "-m", "by hand")
    space.bring_back()
    assert space.close().why == "commits on no branch: 1"
    git(space.root, "branch", "mine")
    assert space.close().removed
    assert "by hand" in git(project, "log", "-1", "--format=%s", "mine")


def test_a_worktree_that_is_locked_stays(project: Path) -> None:
    space = opened(project, "worktree")
    git(project, "worktree", "lock", str(space.root))
    left = space.close()
    assert not left.removed
    assert "locked" in left.why
    assert (space.root / "new.txt").exists()


def test_changes_beside_the_work_root_keep_the_worktree(project: Path) -> None:
    space = open_workspace(project / "sub", project.parent / "kept", mode="worktree")
    top = space.root.parent
    written(top, {"a.txt": "changed beside\n"})
    assert space.close().why == "changed beside the work root: a.txt"
    written(top, {"a.txt": "a\n"})
    assert space.close().removed
    assert not top.exists()


def test_the_command_that_is_told_removes_it(project: Path) -> None:
    import subprocess

    space = opened(project, "worktree")
    left = space.close(keep="somebody wants it")
    assert (left.removed, left.why) == (False, "somebody wants it")
    subprocess.run(left.remove, shell=True, check=True)
    assert not space.root.exists()
    assert git(project, "worktree", "list").count("\n") == 1


def test_files_in_place_are_never_removed(project: Path) -> None:
    space = opened(project, "place")
    assert not space.close().removed
    assert (project / "new.txt").exists()

"""Workspaces: a loop never loses uncommitted work.

Mutants: ignored files removed; links followed; the user's index used for commits; no check for
outside changes before a reset.
"""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError, Refused
from taofold.loop.workspace import Mode, Workspace, open_workspace, state_folder
from tests.loop.gates.projects import git, written
from tests.prerequisites import GIT

pytestmark = GIT.mark

FILES = {
    "a.txt": "a\n",
    "sub/b.txt": "b\n",
    "with space/ü.txt": "ü\n",
    ".gitignore": "*.log\n",
    "build.log": "kept out\n",
    "crlf.txt": "one\r\ntwo\r\n",
    ".gitattributes": "*.txt text eol=lf filter=evil diff=evil\n",
}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    root = written(tmp_path / "project", FILES)
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    (root / "away").symlink_to("/etc")
    return root


@pytest.fixture
def dirty(plain: Path) -> Path:
    """A git repository with a commit, staged, unstaged and untracked work."""
    git(plain, "init", "-q", "-b", "main")
    git(plain, "add", "a.txt", "sub", ".gitignore")
    git(plain, "commit", "-q", "-m", "first")
    written(plain, {"a.txt": "staged\n"})
    git(plain, "add", "a.txt")
    written(plain, {"a.txt": "unstaged\n", "new.txt": "untracked\n"})
    return plain


def tree(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] != ".git" and (path.is_symlink() or not path.is_dir()):
            found[name] = (
                str(path.readlink())
                if path.is_symlink()
                else (path.read_bytes(), path.stat().st_mode & 0o111)
            )
    return found


def opened(root: Path, mode: Mode = "place") -> Workspace:
    return open_workspace(root, root.parent / "kept", mode=mode, loop_id="loop-1")


def wreck(root: Path) -> None:
    """Leaves the kinds of changes that an iteration may leave."""
    written(root, {"a.txt": "other\n", "new/deep.txt": "x\n", "crlf.txt": "one\n"})
    (root / "sub/b.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").write_text("a file now\n")
    (root / "link").unlink()
    (root / "link").mkdir()
    (root / "link/inner.txt").write_text("x")
    (root / "run.sh").chmod(0o644)


@pytest.mark.parametrize("kind", ["plain", "dirty"])
def test_going_back_restores_every_byte(kind: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(kind)
    before = tree(root)
    status = git(root, "status", "--porcelain") if kind == "dirty" else ""
    space = opened(root)
    wreck(root)
    space.snapshot("iteration 1")
    assert tree(root) != before
    space.abort(keep=False)
    assert tree(root) == before
    if kind == "dirty":
        assert git(root, "status", "--porcelain") == status


def test_equal_trees_have_equal_ids(plain: Path) -> None:
    space = opened(plain)
    assert space.snapshot("again").id == space.first.id
    wreck(plain)
    second = space.snapshot("2")
    assert second.id != space.first.id
    space.restore(space.first.id)
    assert space.snapshot("3").id == space.first.id
    space.restore(second.id)
    assert space.last.id == second.id


def test_differences_are_named_and_shown(plain: Path) -> None:
    space = opened(plain)
    written(plain, {"a.txt": "A\n", "new.txt": "n\n"})
    now = space.snapshot("1")
    assert set(space.changed(space.first.id, now.id)) == {"a.txt", "new.txt"}
    shown = space.diff(space.first.id, now.id)
    assert "-a\n+A\n" in shown
    assert "+++ b/new.txt" in shown
    assert space.text(space.first.id, "a.txt") == "a\n"
    assert space.text(space.first.id, "new.txt") is None
    assert space.text(space.first.id, "link") is None


def test_ignored_files_are_neither_kept_nor_removed(plain: Path) -> None:
    space = opened(plain)
    written(plain, {"build.log": "newer\n", "other.log": "x\n", ".venv/lib/x.py": "1\n"})
    assert space.snapshot("1").id == space.first.id
    written(plain, {"a.txt": "changed"})
    space.snapshot("2")
    space.abort(keep=False)
    assert (plain / "build.log").read_text() == "newer\n"
    assert (plain / "other.log").exists()


def test_tracked_files_are_kept_even_if_ignored(plain: Path) -> None:
    git(plain, "init", "-q")
    git(plain, "add", "-f", "build.log")
    space = opened(plain)
    written(plain, {"build.log": "lost\n"})
    space.snapshot("1")
    space.restore(space.first.id)
    assert (plain / "build.log").read_text() == "kept out\n"


def test_large_files_are_left_out_and_named(plain: Path, tmp_path: Path) -> None:
    with (plain / "large.bin").open("wb") as file:
        file.truncate(40_000_000)
    space = opened(plain)
    assert space.first.skipped == ("large.bin",)
    written(plain, {"a.txt": "x"})
    space.snapshot("1")
    space.abort(keep=False)
    assert (plain / "large.bin").stat().st_size == 40_000_000


def test_links_that_were_laid_are_not_followed(plain: Path, tmp_path: Path) -> None:
    outside = written(tmp_path / "outside", {"b.txt": "theirs\n"})
    space = opened(plain)
    (plain / "sub/b.txt").unlink()
    (plain / "sub").rmdir()
    (plain / "sub").symlink_to(outside)
    space.snapshot("1")
    space.restore(space.first.id)
    assert (outside / "b.txt").read_text() == "theirs\n"
    assert not (plain / "sub").is_symlink()
    assert (plain / "sub/b.txt").read_text() == "b\n"


def test_going_back_over_changes_of_others_is_refused(plain: Path) -> None:
    space = opened(plain)
    written(plain, {"a.txt": "the loop's\n"})
    space.snapshot("1")
    written(plain, {"sub/b.txt": "a person's\n"})
    with pytest.raises(Refused, match=r"sub/b\.txt"):
        space.abort(keep=False)
    assert (plain / "sub/b.txt").read_text() == "a person's\n"
    assert (plain / "a.txt").read_text() == "the loop's\n"
    with pytest.raises(Refused):
        Workspace.load(plain, space.folder).abort(keep=False)
    space.abort(keep=False, force=True)
    assert (plain / "a.txt").read_text() == "a\n"


def test_keeping_touches_nothing(plain: Path) -> None:
    space = opened(plain)
    written(plain, {"a.txt": "x\n"})
    before = tree(plain)
    assert space.abort(keep=True) == ()
    assert tree(plain) == before


@pytest.mark.parametrize("mode", ["worktree", "copy"])
def test_work_beside_the_project_begins_with_what_was_not_committed(
    dirty: Path, mode: Mode
) -> None:
    before = tree(dirty)
    space = opened(dirty, mode)
    there = tree(space.root)
    assert {name for name in before if name not in there} == {"build.log"}
    assert (space.root / "a.txt").read_text() == "unstaged\n"
    assert (space.root / "new.txt").read_text() == "untracked\n"
    wreck(space.root)
    space.snapshot("1")
    assert tree(dirty) == before
    space.close()
    assert not space.root.exists()
    assert tree(dirty) == before
    assert "kept" not in git(dirty, "worktree", "list")


@pytest.mark.parametrize("mode", ["worktree", "copy"])
def test_results_are_brought_back(dirty: Path, mode: Mode) -> None:
    space = opened(dirty, mode)
    written(space.root, {"sub/b.txt": "better\n", "made.txt": "m\n"})
    (space.root / "run.sh").unlink()
    written(dirty, {"theirs.txt": "meanwhile\n"})
    brought, merged = space.bring_back()
    assert (set(brought), merged) == ({"sub/b.txt", "made.txt", "run.sh"}, ())
    assert (dirty / "sub/b.txt").read_text() == "better\n"
    assert (dirty / "theirs.txt").read_text() == "meanwhile\n"
    assert not (dirty / "run.sh").exists()
    assert (dirty / "a.txt").read_text() == "unstaged\n"
    assert space.bring_back() == ((), ())


def test_results_are_not_brought_over_changes_of_others(dirty: Path) -> None:
    space = opened(dirty, "copy")
    written(space.root, {"sub/b.txt": "better\n", "a.txt": "same\n"})
    written(dirty, {"sub/b.txt": "a person's\n", "a.txt": "same\n"})
    with pytest.raises(Refused, match=r"sub/b\.txt\. The"):
        space.bring_back()
    assert (dirty / "sub/b.txt").read_text() == "a person's\n"


LINES = "".join(f"line {n}\n" for n in range(20))


def test_edits_of_one_file_that_do_not_overlap_are_merged(dirty: Path) -> None:
    """Mutants: the loop's file wins; the file of the start is no side."""
    written(dirty, {"long.txt": LINES})
    space = opened(dirty, "copy")
    written(space.root, {"long.txt": LINES.replace("line 2\n", "ours\n")})
    written(dirty, {"long.txt": LINES.replace("line 17\n", "theirs\n")})
    assert space.bring_back() == (("long.txt",), ("long.txt",))
    both = LINES.replace("line 2\n", "ours\n").replace("line 17\n", "theirs\n")
    assert (dirty / "long.txt").read_text() == both
    assert space.bring_back() == (("long.txt",), ("long.txt",)), "after a crash it is done again"
    assert (dirty / "long.txt").read_text() == both


@pytest.mark.parametrize("theirs", ["line 2, theirs\n", None, "\0"])
def test_nothing_is_brought_back_where_one_file_cannot_be_merged(
    dirty: Path, theirs: str | None
) -> None:
    written(dirty, {"long.txt": LINES, "other.txt": LINES})
    space = opened(dirty, "copy")
    changed = LINES.replace("line 2\n", "ours\n")
    written(space.root, {"long.txt": changed, "other.txt": changed})
    mine = LINES.replace("line 17\n", "theirs\n")
    written(dirty, {"other.txt": mine})
    if theirs is None:
        (dirty / "long.txt").unlink()
    else:
        written(dirty, {"long.txt": LINES.replace("line 2\n", theirs)})
    with pytest.raises(Refused, match=r"also changed in .*: long\.txt\. The"):
        space.bring_back()
    assert (dirty / "other.txt").read_text() == mine


def test_a_worktree_of_a_part_of_a_repository_works_in_that_part(dirty: Path) -> None:
    space = open_workspace(dirty / "sub", dirty.parent / "kept", mode="worktree")
    assert space.root.name == "sub"
    assert (space.root / "b.txt").read_text() == "b\n"
    written(space.root, {"b.txt": "better\n"})
    space.bring_back()
    assert (dirty / "sub/b.txt").read_text() == "better\n"
    space.close()


def test_commits_stand_on_a_branch_of_their_own(dirty: Path) -> None:
    hook = dirty / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran-hook\nexit 1\n")
    hook.chmod(0o755)
    space = opened(dirty)
    status = git(dirty, "status", "--porcelain")
    head = git(dirty, "rev-parse", "HEAD")
    assert space.commit(1, "what was done")
    assert git(dirty, "status", "--porcelain") == status
    assert (git(dirty, "rev-parse", "HEAD"), git(dirty, "branch", "--show-current")) == (
        head,
        "main\n",
    )
    assert space.commit(2) == "", "nothing changed"
    written(dirty, {"a.txt": "second\n"})
    second = space.commit(2)
    log = git(dirty, "log", "--format=%s", "ralph/loop-1").splitlines()
    assert log == ["ralph: iteration 2", "ralph: iteration 1", "first"]
    assert git(dirty, "show", f"{second}:a.txt") == "second\n"
    assert git(dirty, "show", f"{second}^:new.txt") == "untracked\n"
    assert "build.log" not in git(dirty, "ls-tree", "-r", "--name-only", second)
    assert not (dirty / "ran-hook").exists()
    with pytest.raises(Refused, match="checked out"):
        space.commit(3, branch="main")
    with pytest.raises(Refused, match="not a valid branch name"):
        space.commit(3, branch="a..b")


def test_there_are_no_commits_without_a_repository(plain: Path) -> None:
    assert opened(plain).commit(1) == ""
    with pytest.raises(ConfigError, match="not a git repository"):
        open_workspace(plain, plain.parent / "other", mode="worktree")


def test_a_filter_of_the_tree_is_not_run(dirty: Path) -> None:
    git(dirty, "config", "filter.evil.clean", f"touch {dirty}/ran; cat")
    git(dirty, "config", "diff.evil.textconv", f"touch {dirty}/ran; cat")
    space = opened(dirty)
    written(dirty, {"a.txt": "x\n"})
    space.diff(space.first.id, space.snapshot("1").id)
    assert not (dirty / "ran").exists()


def test_a_workspace_is_found_again(plain: Path) -> None:
    space = opened(plain, "copy")
    written(space.root, {"a.txt": "x\n"})
    now = space.snapshot("1")
    found = Workspace.load(plain, space.folder)
    assert (found.root, found.first, found.last) == (space.root, space.first, now)
    with pytest.raises(ConfigError, match="there is no workspace"):
        Workspace.load(plain, plain.parent / "nothing")
    with pytest.raises(ConfigError, match="belongs to"):
        Workspace.load(plain.parent, space.folder)


def test_what_is_kept_lies_outside_the_project(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="an agent could write"):
        open_workspace(plain, plain / ".taofold" / "loops")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_folder(plain, tmp_path / "home", "l", "7") == tmp_path / "home/loops/l.7"
    inside = state_folder(plain, plain / ".taofold", "l", "7")
    assert inside.is_relative_to(tmp_path / "state")

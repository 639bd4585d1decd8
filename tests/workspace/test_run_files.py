"""States of a folder are exact, stay inside of it, and are stored outside of it.

Mutants: permissions are not stored; a link on the way is followed when files are restored; the
configuration of the repository is used; changes that no state holds are overwritten; states of
other runs are removed with one run.
"""

import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

import pytest

from taofold import reserved_places
from taofold.core.errors import ConfigError, Refused, RunError
from taofold.workspace import run_files, snapshots
from taofold.workspace.run_files import RunFiles
from taofold.workspace.snapshots import LARGEST, write


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "in").mkdir()
    (folder / "in" / "b.txt").write_text("b\n")
    return folder


def content(folder: Path) -> dict[bytes, tuple[str, int, bytes]]:
    """Files and links of a folder: kind, permissions, bytes."""
    found: dict[bytes, tuple[str, int, bytes]] = {}
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(where, name)
            status, inner = path.lstat(), os.fsencode(path.relative_to(folder))
            if stat.S_ISLNK(status.st_mode):
                found[inner] = ("link", 0, os.fsencode(path.readlink()))
            elif stat.S_ISREG(status.st_mode):
                mode = stat.S_IMODE(status.st_mode)
                path.chmod(mode | 0o400)
                found[inner] = ("file", mode, path.read_bytes())
                path.chmod(mode)
    return found


def test_a_state_is_restored_byte_for_byte_beside_and_in_place(tree: Path) -> None:
    files = RunFiles.of(tree)
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o750)
    (tree / "secret").write_text("s")
    (tree / "secret").chmod(0o400)
    (tree / "link").symlink_to("in/b.txt")
    first, before = files.take("r"), content(tree)

    (tree / "a.txt").unlink()
    (tree / "run.sh").chmod(0o644)
    (tree / "secret").chmod(0o600)
    (tree / "secret").write_text("t")
    (tree / "link").unlink()
    (tree / "link").mkdir()
    (tree / "link" / "x").write_text("x")
    (tree / "in" / "b.txt").rename(tree / "c.txt")
    second, after = files.take("r"), content(tree)

    beside = files.folder_for("fork")
    files.restore_beside(first.tree, beside, "fork")
    assert content(beside) == before
    files.restore(first.tree, "r")
    assert content(tree) == before
    files.restore(second.tree, "r")
    assert content(tree) == after
    assert files.take("r").tree == second.tree


def test_equal_files_have_equal_states_and_permissions_count(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r").tree
    (tree / "a.txt").chmod(0o600)
    assert files.take("r").tree != first
    (tree / "a.txt").chmod(0o644)
    assert files.take("r").tree == first


def test_permissions_that_change_in_one_second_are_noticed(tree: Path) -> None:
    files = RunFiles.of(tree)
    states = [files.take("r").tree]
    for mode in (0o600, 0o644, 0o640, 0o600):
        (tree / "a.txt").chmod(mode)
        states.append(files.take("r").tree)
        assert files.take("r").tree == states[-1]
    assert states[2] == states[0]
    assert states[4] == states[1]
    assert len({*states}) == 3


def wait_for_another_second(path: Path) -> None:
    """Git compares whole seconds."""
    second = int(path.stat().st_ctime)
    while int(time.time()) <= second:
        time.sleep(0.02)


def test_permissions_of_a_file_that_was_not_read_for_long_are_noticed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "_SETTLED_S", -10)
    files = RunFiles.of(tree)
    first = files.take("r").tree
    assert files.take("r").tree == first
    wait_for_another_second(tree / "a.txt")
    (tree / "a.txt").chmod(0o600)
    assert files.take("r").tree != first


def test_a_settled_tree_is_read_by_git_alone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "_SETTLED_S", -10)
    files = RunFiles.of(tree)
    states = [files.take("r"), files.take("r")]
    read: list[str] = []

    def lstat(path: str) -> os.stat_result:
        if str(path).endswith(".txt"):
            read.append(path)
        return os.stat(path, follow_symlinks=False)  # noqa: PTH116 - Path.lstat calls this one

    monkeypatch.setattr(run_files.os, "lstat", lstat)
    states += [files.take("r")]
    assert not read
    (tree / "a.txt").write_text("longer\n")
    files.take("r")
    assert {*read} == {str(tree / "a.txt")}
    assert len({*states}) == 1


def test_permissions_are_forgotten_with_their_file(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r")
    (tree / "c.txt").write_text("c")
    (tree / "c.txt").chmod(0o600)
    assert files.take("r").tree != first.tree
    (tree / "c.txt").unlink()
    assert files.take("r") == first


def test_permissions_that_change_while_git_reads_the_file_are_noticed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "_SETTLED_S", -10)
    files, add = RunFiles.of(tree), snapshots.Snapshots.add

    def change_and_add(git: snapshots.Snapshots, staged: snapshots.Staged, *, few: int = 0) -> None:
        (tree / "a.txt").chmod(0o600)
        add(git, staged, few=few)

    with monkeypatch.context() as patched:
        patched.setattr(snapshots.Snapshots, "add", change_and_add)
        first = files.take("r").tree
    assert [tuple(it) for it in files.changes(first, files.take("r").tree)] == [("mode", "a.txt")]


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_process_that_was_killed_leaves_no_false_state(
    tree: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setattr(run_files, "_SETTLED_S", -10)
    files, git = RunFiles.of(tree), RunFiles.of(tree)._git()
    files.take("r")
    first = files.take("r").tree
    wait_for_another_second(tree / "a.txt")
    (tree / "a.txt").write_text("longer\n")
    (tree / "in" / "b.txt").chmod(mode)
    git.add(git.staged())  # and the state itself was not written
    found = files.changes(first, files.take("r").tree)
    assert ("changed", "a.txt") in found
    assert (("mode", "in/b.txt") in found) is (mode == 0o600)


def test_a_file_that_grew_too_large_is_left_out(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r")
    (tree / "c.txt").write_text("c")
    files.take("r")
    with (tree / "c.txt").open("wb") as file:
        file.truncate(LARGEST + 1)
    state = files.take("r")
    assert (state.tree, state.files, state.left_out) == (first.tree, first.files, ("c.txt",))


def test_the_number_of_files_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = RunFiles.of(tree)
    files.take("r")
    monkeypatch.setattr(snapshots, "MOST_FILES", 2)
    (tree / "a.txt").rename(tree / "c.txt")
    assert files.take("r").files == 2
    (tree / "a.txt").write_text("a")
    with pytest.raises(RunError, match="has 3 files; snapshots keep 2"):
        files.take("r")


NAMES = [
    b"line\nend",
    b"tab\tblank ",
    b" leading",
    b"not-utf-8-\xff\xfe",
    b"-rf",
    b":(exclude)*",
    b'quote"back\\slash',
    b"in/*?[x]",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_kept(tree: Path, name: bytes) -> None:
    path = tree / os.fsdecode(name)
    try:
        path.write_bytes(b"1")
    except OSError as error:
        pytest.skip(f"this file system has no such name: {error}")
    files = RunFiles.of(tree)
    first, before = files.take("r"), content(tree)
    path.write_bytes(b"2")
    files.take("r")
    beside = files.folder_for("fork")
    files.restore_beside(first.tree, beside, "fork")
    files.restore(first.tree, "r")
    assert content(beside) == content(tree) == before


def test_nothing_of_the_repository_runs_or_changes(tree: Path, tmp_path: Path) -> None:
    trap, sprung = tmp_path / "trap.sh", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "a.txt"], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (tree / ".git" / "hooks").mkdir(exist_ok=True)
        (tree / ".git" / "hooks" / hook).write_text(trap.read_text())
        (tree / ".git" / "hooks" / hook).chmod(0o755)
    with (tree / ".git" / "config").open("a") as file:
        file.write(
            f'[core]\n\tfsmonitor = {trap}\n[filter "x"]\n\tclean = {trap}\n\tsmudge = {trap}\n'
        )
    (tree / ".gitattributes").write_text("* filter=x text eol=crlf\n")
    kept = {path: path.read_bytes() for path in (tree / ".git").rglob("*") if path.is_file()}
    files = RunFiles.of(tree)
    first, before = files.take("r"), content(tree)
    (tree / "a.txt").write_text("other\n")
    files.take("r")
    files.restore(first.tree, "r")
    files.restore_beside(first.tree, files.folder_for("f"), "f")
    assert content(tree) == before
    assert not sprung.exists()
    assert kept == {
        path: path.read_bytes() for path in (tree / ".git").rglob("*") if path.is_file()
    }
    assert not (files.folder_for("f") / ".git").exists()


def test_links_are_stored_and_never_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("mine")
    (tree / "to").symlink_to(outside)
    files = RunFiles.of(tree)
    first = files.take("r")
    assert first.files == 3
    beside = files.folder_for("f")
    files.restore_beside(first.tree, beside, "f")
    assert (beside / "to").is_symlink()
    assert not (beside / "to" / "y").exists()


def test_a_folder_that_was_replaced_by_a_link_is_restored_inside(
    tree: Path, tmp_path: Path
) -> None:
    files = RunFiles.of(tree)
    first, before = files.take("r"), content(tree)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("mine")
    (tree / "in" / "b.txt").unlink()
    (tree / "in").rmdir()
    (tree / "in").symlink_to(outside)
    files.take("r")
    files.restore(first.tree, "r")
    assert content(tree) == before
    assert (outside / "b.txt").read_text() == "mine"


def test_a_link_on_the_way_is_replaced_by_a_folder(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "way").symlink_to(outside)
    write(tree, "way/x", "100644", b"1")
    assert (tree / "way" / "x").read_bytes() == b"1"
    assert not (tree / "way").is_symlink()
    assert not list(outside.iterdir())


def test_a_folder_that_becomes_a_link_during_the_writing_leads_nowhere(
    tree: Path, tmp_path: Path
) -> None:
    outside, away = tmp_path / "outside", tmp_path / "away"
    outside.mkdir()
    (outside / "b.txt").write_text("mine")
    (outside / "deep").symlink_to("/nowhere")
    over = threading.Event()

    def flip() -> None:
        while not over.is_set():
            try:
                (tree / "in").rename(away)
                (tree / "in").symlink_to(outside)
                (tree / "in").unlink()
                away.rename(tree / "in")
            except OSError:  # the writer has just replaced the link by a folder
                continue

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for number in range(200):
            try:
                write(tree, "in/b.txt", "100644", str(number).encode())
                write(tree, "in/deep", "100644", b"x")
            except (OSError, ValueError):
                continue
    finally:
        over.set()
        thread.join()
    assert (outside / "b.txt").read_text() == "mine"
    assert (outside / "deep").readlink() == Path("/nowhere")


def test_what_a_state_does_not_hold_is_named(tree: Path) -> None:
    (tree / ".gitignore").write_text("*.env\n")
    (tree / "prod.env").write_text("KEY=1")
    with (tree / "huge").open("wb") as file:
        file.truncate(LARGEST + 1)
    subprocess.run(["git", "init", "-q", str(tree / "vendored")], check=True)
    (tree / "vendored" / "x").write_text("x")
    (tree / ".GIT").mkdir()
    (tree / ".GIT" / "x").write_text("x")
    state = RunFiles.of(tree).take("r")
    assert set(state.left_out) == {"prod.env", "huge", "vendored/", ".GIT/x"}
    assert state.files == 3


def test_the_log_and_the_project_folder_are_never_stored(tree: Path) -> None:
    (tree / ".taofold").mkdir()
    (tree / ".taofold" / "runs.db").write_text("log")
    (tree / "own.db").write_text("log")
    (tree / "own.db-wal").write_text("log")
    reserved_places.reserve_file(tree / "own.db", ("-wal",))
    files = RunFiles.of(tree)
    state = files.take("r")
    assert state.files == 2
    files.restore_beside(state.tree, files.folder_for("f"), "f")
    assert set(content(files.folder_for("f"))) == {b"a.txt", b"in/b.txt"}


def test_changes_that_no_state_holds_are_not_overwritten(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r")
    (tree / "a.txt").write_text("mine")
    with pytest.raises(Refused, match=r"no step of a run has stored.*a\.txt"):
        files.restore(first.tree, "r")
    assert (tree / "a.txt").read_text() == "mine"


def test_only_files_that_differ_from_the_nearest_state_are_named(tree: Path) -> None:
    """Mutant: the state with the last identifier is compared."""
    files = RunFiles.of(tree)
    states: list[str] = []
    for text in ("one", "two", "three", "four"):
        (tree / "a").write_text(text)
        states.append(files.take("r").tree)
    for text, state in zip(("one", "two", "three", "four"), states, strict=True):
        (tree / "keep é.txt").unlink(missing_ok=True)
        files.restore(state, "r")
        assert (tree / "a").read_text() == text
        (tree / "keep é.txt").write_text("mine")
        with pytest.raises(Refused, match=r"of a run has stored \(keep é\.txt\): they would"):
            files.restore(states[0], "r")


def test_an_ignored_file_in_the_place_of_a_stored_one_is_not_overwritten(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r")
    (tree / "a.txt").unlink()
    (tree / ".gitignore").write_text("a.txt\n")
    files.take("r")
    (tree / "a.txt").write_text("mine")
    with pytest.raises(Refused, match="would be overwritten"):
        files.restore(first.tree, "r")
    assert (tree / "a.txt").read_text() == "mine"


def test_a_folder_in_use_is_not_restored_into(tree: Path) -> None:
    files = RunFiles.of(tree)
    state = files.take("r")
    with pytest.raises(ConfigError, match="not a new or empty folder"):
        files.restore_beside(state.tree, tree / "in", "f")


@pytest.mark.parametrize("is_new", [True, False])
def test_a_restore_that_fails_leaves_no_new_folder(tree: Path, is_new: bool) -> None:
    """Mutant, tried: the folder stays, and a second attempt refuses it."""
    (tree / "lost.txt").write_text("lost")
    files = RunFiles.of(tree)
    state = files.take("r")
    name = sha1(b"blob 4\0lost", usedforsecurity=False).hexdigest()
    (stored,) = files.place.rglob(f"{name[:2]}/{name[2:]}")
    stored.unlink()
    folder = tree.parent / "other"
    if not is_new:
        folder.mkdir()
    with pytest.raises(RunError, match=r"the files cannot be restored in .*bytes were free: git"):
        files.restore_beside(state.tree, folder, "f")
    assert folder.exists() != is_new


def test_the_states_of_a_deleted_run_are_removed_and_no_others(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r")
    (tree / "a.txt").write_text("second")
    second = files.take("q")
    files.forget(["r"])
    assert not files.has(first.tree)
    assert files.has(second.tree)
    with pytest.raises(RunError, match="not stored on this machine"):
        files.restore_beside(first.tree, files.folder_for("f"), "f")


def test_a_fork_keeps_what_it_shares(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r")
    files.share("f", [first.tree])
    files.forget(["r"])
    assert files.has(first.tree)


def test_the_store_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "MOST_STORED", 10_000)
    (tree / "big").write_bytes(os.urandom(20_000))
    with pytest.raises(RunError, match="delete old runs, or add large files to"):
        RunFiles.of(tree).take("r")


def test_the_store_is_counted_again_after_it_has_grown(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    size = 1_000_000

    def sizes(_: Path) -> list[int]:
        counts.append(size)
        return [size]

    def take(content: str, limit: int = 2_000_000) -> None:
        monkeypatch.setattr(run_files, "MOST_STORED", limit)
        (tree / "a.txt").write_text(content)
        files.take("r")

    monkeypatch.setattr(run_files, "_sizes", sizes)
    monkeypatch.setattr(run_files, "_COUNT_AGAIN", 50_000)
    files = RunFiles.of(tree)
    for number in range(5):
        take(f"{number}\n" * number)
    take("1" * 20_000)
    assert len(counts) == 1
    take("2" * 20_000)
    assert len(counts) == 2
    size = 10_000  # runs were deleted
    take("3" * 10_000, limit=1_030_000)
    assert len(counts) == 3
    with pytest.raises(RunError, match="would need more than"):
        take("4" * 40_000, limit=50_000)


def test_changes_between_states_are_named(tree: Path) -> None:
    files = RunFiles.of(tree)
    first = files.take("r").tree
    (tree / "a.txt").unlink()
    (tree / "c.txt").write_text("c\n")
    (tree / "in" / "b.txt").chmod(0o600)
    second = files.take("r").tree
    assert [tuple(each) for each in files.changes(first, second)] == [
        ("removed", "a.txt"),
        ("added", "c.txt"),
        ("mode", "in/b.txt"),
    ]
    assert "+c" in files.patch(first, second)


def test_states_of_two_stores_are_compared(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("b\n")
    one, two = RunFiles.of(tree), RunFiles.of(other)
    a, b = one.take("r").tree, two.take("r").tree
    assert [tuple(each) for each in one.changes(a, b, two)] == [
        ("changed", "a.txt"),
        ("removed", "in/b.txt"),
    ]


def remove_read_permission(path: Path) -> None:
    path.chmod(0o200)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("change", [remove_read_permission])
def test_an_unreadable_file_makes_no_false_state(
    tree: Path, change: Callable[[Path], None]
) -> None:
    change(tree / "a.txt")
    with pytest.raises(RunError, match=r"a\.txt"):
        RunFiles.of(tree).take("r")

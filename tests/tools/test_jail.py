"""No path, link or race leads out of the jail. Each claim has a mutant that it catches:
without `O_NOFOLLOW` in `jail.py` the link tests and the race test go red, without the check
of `..` the path tests do."""

import ctypes
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taofold.tools.jail import Jail, OutsideJail, jail
from tests.ports import PATIENCE

LIBC = ctypes.CDLL(None, use_errno=True)
SECRET = b"SECRET: never to be read or changed"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "f.txt").write_text("inside")
    return folder


@pytest.fixture
def inside(root: Path) -> Jail:
    return jail(root)


@pytest.mark.parametrize(
    "path",
    ["../outside/secret.txt", "a/../../outside/secret.txt", "/etc/passwd", "/", "..", "a\0b"],
)
def test_paths_that_lead_out_are_refused(inside: Jail, outside: Path, path: str) -> None:
    with pytest.raises(OutsideJail):
        inside.read(path, 1000)
    with pytest.raises(OutsideJail):
        inside.write(path, b"x")
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_absolute_paths_and_dots_inside_the_root_are_fine(inside: Jail, root: Path) -> None:
    for path in (f"{root}/a/f.txt", "./a//f.txt", "a/./f.txt"):
        assert inside.read(path, 1000) == b"inside"
    with pytest.raises(OutsideJail):
        inside.parts(f"{root}er/x")  # a sibling whose name begins alike


@pytest.mark.parametrize("target", ["file", "folder", "relative", "dangling", "within"])
def test_links_are_not_followed(inside: Jail, root: Path, outside: Path, target: str) -> None:
    link = root / "link"
    goal = {
        "file": outside / "secret.txt",
        "folder": outside,
        "relative": Path("../outside"),
        "dangling": outside / "new.txt",
        "within": Path("a"),
    }[target]
    link.symlink_to(goal)
    for path in ("link", "link/secret.txt", "link/new.txt", "a/../link/f.txt"):
        with pytest.raises(OutsideJail):
            inside.read(path, 1000)
        with pytest.raises(OutsideJail):
            inside.write(path, b"x")
    with pytest.raises(OutsideJail, match="links are not followed"):
        inside.entries(("link",))
    assert [p.name for p in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_a_hard_link_is_replaced_and_not_written_through(
    inside: Jail, root: Path, outside: Path
) -> None:
    os.link(outside / "secret.txt", root / "hard")
    assert inside.write("hard", b"mine") is False
    assert (outside / "secret.txt").read_bytes() == SECRET


def test_special_files_do_not_block(inside: Jail, root: Path) -> None:
    os.mkfifo(root / "fifo")
    with pytest.raises(OutsideJail, match="device or pipe"):
        inside.read("fifo", 1000)
    with pytest.raises(OutsideJail):
        inside.write("fifo", b"x")


def test_the_runtimes_own_files_do_not_exist_and_git_is_read_only(inside: Jail, root: Path) -> None:
    for folder in (".taofold", ".git", "a/.git"):
        (root / folder).mkdir()
        (root / folder / "f").write_text("x")
    assert inside.read(".git/f", 10) == b"x"
    for path in (".git/hooks/pre-commit", "a/.git/f", ".GIT/f", ".taofold/f", "a/.Taofold/f"):
        with pytest.raises(OutsideJail):
            inside.write(path, b"x")
    with pytest.raises(OutsideJail):
        inside.read(".taofold/f", 10)
    assert ".taofold" not in [entry.path for entry in inside.entries(())]


def test_writing_is_atomic_keeps_the_mode_and_leaves_no_litter(inside: Jail, root: Path) -> None:
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o751)
    assert inside.write("run.sh", b"new") is False
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o751)
    assert inside.write("x/y/z.txt", b"made") is True
    with pytest.raises(OutsideJail):
        inside.write("a", b"over a directory")
    with pytest.raises(OutsideJail):
        inside.write("run.sh/below", b"a file")
    assert sorted(p.name for p in root.iterdir()) == ["a", "run.sh", "x"]


def test_large_files_are_refused_by_size(inside: Jail) -> None:
    with pytest.raises(OutsideJail, match="the limit is 3"):
        inside.read("a/f.txt", 3)


names = st.sampled_from(["a", "b", "f.txt", "..", ".", "", "out", "up", "loop", "abs", "new", "/"])
anything = st.lists(names, max_size=8).map("/".join) | st.text(max_size=20)


@settings(max_examples=300, deadline=None)
@given(anything, st.booleans())
def test_no_path_ever_touches_a_file_outside(path: str, absolute: bool) -> None:
    with tempfile.TemporaryDirectory() as home:
        root, outside = Path(home, "root"), Path(home, "outside")
        (root / "a" / "b").mkdir(parents=True)
        outside.mkdir()
        for name in ("f.txt", "new", "a"):
            (outside / name).write_bytes(SECRET)
        (root / "out").symlink_to("../outside")
        (root / "a" / "up").symlink_to("../..")
        (root / "loop").symlink_to("loop")
        (root / "a" / "abs").symlink_to(outside)
        path = f"{home}/{path}" if absolute else path
        inside = jail(root)
        with suppress(OSError, ValueError):
            assert inside.read(path, 1000) != SECRET
        with suppress(OSError, ValueError):
            inside.write(path, b"x")
        assert sorted(p.name for p in outside.iterdir()) == ["a", "f.txt", "new"]
        assert {p.read_bytes() for p in outside.iterdir()} == {SECRET}
        assert sorted(p.name for p in Path(home).iterdir()) == ["outside", "root"]


def exchange(first: Path, second: Path) -> None:
    """Swap two names in one step (Linux's renameat2 with RENAME_EXCHANGE)."""
    here, exchanging = -100, 2
    code = LIBC.renameat2(here, os.fsencode(first), here, os.fsencode(second), exchanging)
    assert code == 0, os.strerror(ctypes.get_errno())


@pytest.mark.skipif(not hasattr(LIBC, "renameat2"), reason="no renameat2 on this system")
def test_swapping_a_directory_for_a_link_during_use_gains_nothing(
    inside: Jail, root: Path, outside: Path
) -> None:
    """A thread keeps exchanging `a` and a link to the outside while we read and write."""
    (root / "a" / "secret.txt").write_text("inside")
    (root / "link").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(root / "a", root / "link")

    thread = threading.Thread(target=swap)
    thread.start()
    done = refused = 0
    until = monotonic() + PATIENCE
    try:
        while (done < 60 or refused < 60) and monotonic() < until:
            try:
                assert inside.read("a/secret.txt", 1000) != SECRET
                inside.write("a/secret.txt", b"mine")
                inside.write("a/new.txt", b"mine")
                done += 1
            except OutsideJail:
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert done >= 60
    assert refused >= 60
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert [p.name for p in outside.iterdir()] == ["secret.txt"]


MISREAD = [
    "README.md\n@@ -1 +1,2 @@\n+hi\n…/../Makefile",
    "a/b/../f.txt",
    "none/../f.txt",
    "a/..",
    "f.txt\r",
    "f\x1b[2K.txt",
    "f\x85.txt",
    " f.txt",
    "f.txt ",
    "a /f.txt",
    "f.txt\u00a0",
    "\u3000f.txt",
]


@pytest.mark.parametrize("path", MISREAD)
def test_a_path_that_can_be_read_as_another_one_is_refused(
    inside: Jail, root: Path, path: str
) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(OutsideJail):
        inside.read(path, 1000)
    with pytest.raises(OutsideJail, match=r"is no file name here|goes back"):
        inside.write(path, b"x")
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    "character", ["\u200d", "\u3164", "\u2800", "\ufe0f", "\u034f", "\U000e0101"]
)
def test_no_name_with_an_invisible_character_is_written_but_one_is_read(
    inside: Jail, root: Path, character: str
) -> None:
    with pytest.raises(OutsideJail, match="invisible character"):
        inside.write(f"f{character}.txt", b"x")
    (root / f"f{character}.txt").write_bytes(b"there")
    assert inside.read(f"f{character}.txt", 100) == b"there"


GIT = [
    ".git\u200c", ".g\u200dit", ".git\ufeff", "GIT~1", "git~2", "GI7EBA~1", ".git.", ".GIT . .",
    ".git::$INDEX_ALLOCATION", ".git:x", "sub\\.git\\hooks", ".ｇｉｔ", ".gi\u00adt",
]  # fmt: skip


@pytest.mark.parametrize("name", GIT)
def test_no_name_that_some_file_system_takes_for_git_is_written(
    inside: Jail, root: Path, name: str
) -> None:
    for path in (f"{name}/hooks/pre-commit", f"a/{name}/config", name):
        with pytest.raises(OutsideJail):
            inside.write(path, b"x")
    assert [path.name for path in root.iterdir() if path.name != "a"] == []


@pytest.mark.parametrize(
    "name", ["TAOFOL~1", ".taofold.", ".TAO\u200cFOLD", ".taofold:x", "TA12AB~1"]
)
def test_nor_one_that_is_taken_for_the_folder_of_the_runtime(inside: Jail, name: str) -> None:
    for write in (False, True):
        with pytest.raises(OutsideJail):
            inside.parts(f"{name}/config.yml", write=write)


@pytest.mark.parametrize(
    "path", [".github/w.yml", ".gitignore", "git/x", "gitx~1", "a.git", "tests/f~1", "x~1.txt"]
)
def test_names_that_only_begin_alike_are_written(inside: Jail, path: str) -> None:
    assert inside.parts(path, write=True)

"""Text from a repository is data: no program that it names runs, and nothing leaves the tree.

Mutants: git inherits the environment; git reads the user's configuration and the store has no
attributes of its own; the user's ignore file is read; a repository that replaces a file while it is
stored stays in the state.
"""

import contextlib
import os
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import Refused, RunError
from taofold.workspace import snapshots
from taofold.workspace.run_files import RunFiles
from tests.workspace.test_run_files import content


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "in").mkdir(parents=True)
    (tree / "a.txt").write_text("".join(f"{number}\n" for number in range(9)))
    (tree / "in" / "b.txt").write_text("b")
    return tree


def config_text(run: str, more: Path) -> str:
    return (
        f"[include]\n\tpath = {more}\n"
        f"[core]\n\tfsmonitor = {run}\n\tsshCommand = {run}\n\teditor = {run}\n\tpager = {run}\n"
        f'[filter "x"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired = true\n'
        f'[diff]\n\texternal = {run}\n[diff "x"]\n\tcommand = {run}\n\ttextconv = {run}\n'
        f'[merge]\n\tdefault = x\n[merge "x"]\n\tdriver = {run}\n'
        f"[gpg]\n\tprogram = {run}\n[commit]\n\tgpgSign = true\n[credential]\n\thelper = !{run}\n"
        f'[submodule "s"]\n\tupdate = !{run}\n\turl = ext::{run}\n[submodule]\n\trecurse = true\n'
    )


def use_everything(tree: Path) -> None:
    """Stores, compares, forks, rewinds and merges."""
    files = RunFiles.of(tree)
    first, before = files.take("r"), content(tree)
    (tree / "a.txt").write_text((tree / "a.txt").read_text() + "ours\n")
    second = files.take("r")
    assert files.changes(first.tree, second.tree)
    assert "+ours" in files.patch(first.tree, second.tree)
    beside = files.folder_for("child")
    files.restore_beside(first.tree, beside, "child")
    (beside / "a.txt").write_text("theirs\n" + (beside / "a.txt").read_text())
    theirs = RunFiles.of(beside).take("child")
    assert files.merge(first.tree, second.tree, theirs.tree).paths == ("a.txt",)
    files.take("r")
    files.restore(first.tree, "r")
    assert content(tree) == before
    files.share("s", [first.tree])
    files.forget(["r", "child"])


@pytest.mark.parametrize("place", ["repository", "included", "user", "environment", "submodule"])
def test_no_program_runs_that_a_configuration_names(
    tree: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, sprung, home = tmp_path / "trap.sh", tmp_path / "sprung", tmp_path / "home"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    included = tmp_path / "included"
    included.write_text("")
    text = config_text(str(trap), included)
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    own = tree / ".git" / "config"
    if place == "repository":
        own.write_text(own.read_text() + text)
    elif place == "included":
        included.write_text(text.partition("[core]")[2].join(["[core]", ""]))
        own.write_text(own.read_text() + f"[include]\n\tpath = {included}\n")
    elif place == "user":
        (home / ".gitconfig").write_text(text)
        (home / ".config" / "git").mkdir(parents=True)
        (home / ".config" / "git" / "attributes").write_text("* filter=x diff=x merge=x\n")
    elif place == "environment":
        names = ("filter.x.clean", "filter.x.smudge", "diff.external", "core.fsmonitor")
        monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(names)))
        for number, name in enumerate(names):
            monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", name)
            monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", str(trap))
        for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PROXY_COMMAND"):
            monkeypatch.setenv(name, str(trap))
        monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "objects"))
    else:
        inner = tree / "s"
        subprocess.run(["git", "init", "-q", str(inner)], check=True)
        inside = inner / ".git" / "config"
        inside.write_text(inside.read_text() + text)
        (inner / "x").write_text("x")
        (tree / ".gitmodules").write_text(
            f'[submodule "s"]\n\tpath = s\n\turl = ext::{trap}\n\tupdate = !{trap}\n'
        )
    attributes = "* filter=x diff=x merge=x text eol=crlf ident working-tree-encoding=UTF-16\n"
    (tree / ".gitattributes").write_text(attributes)
    (tree / "in" / ".gitattributes").write_text(attributes)
    use_everything(tree)
    assert not sprung.exists()
    assert not (tmp_path / "objects").exists(), "the store is not elsewhere"
    monkeypatch.delenv("GIT_OBJECT_DIRECTORY", raising=False)
    # The traps are real: the user's own git would have run one.
    where = tree / "s" if place == "submodule" else tree
    if place == "submodule":
        (where / ".gitattributes").write_text("* filter=x\n")
    subprocess.run(["git", "-C", str(where), "add", "-A"], check=False, capture_output=True)
    assert sprung.exists()


def test_ignore_files_outside_of_the_tree_do_not_count(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal trees have equal states on every machine: only `.gitignore` files of the tree count."""
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    before = RunFiles.of(tree).take("r")
    (home / ".config" / "git" / "ignore").write_text("*.txt\nnew\n")
    (home / "other").write_text("*.txt\nnew\n")
    (home / ".gitconfig").write_text(f"[core]\n\texcludesFile = {home / 'other'}\n")
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    (tree / ".git" / "info").mkdir(exist_ok=True)
    (tree / ".git" / "info" / "exclude").write_text("*.txt\nnew\n")
    assert RunFiles.of(tree).take("r").tree == before.tree
    (tree / "new").write_text("1")
    state = RunFiles.of(tree).take("r")
    assert (state.files, state.left_out) == (3, ())


def test_pipes_sockets_and_links_to_devices_are_left_alone(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "null").symlink_to("/dev/zero")
    files = RunFiles.of(tree)
    first = files.take("r")
    with socket.socket(socket.AF_UNIX) as listener:
        with contextlib.chdir(tree):  # the path of a socket is short
            listener.bind("socket")
        (tree / "a.txt").unlink()
        os.mkfifo(tree / "a.txt")
        second = files.take("r")
        assert [it.path for it in files.changes(first.tree, second.tree)] == ["a.txt"]
        with pytest.raises(Refused, match=r"a\.txt"):
            files.restore(first.tree, "r")
    beside = files.folder_for("f")
    files.restore_beside(first.tree, beside, "f")
    assert sorted(it.name for it in beside.iterdir()) == ["a.txt", "in", "null"]
    assert (beside / "null").readlink() == Path("/dev/zero")


def test_names_that_differ_only_in_case_and_names_of_options_are_files(tree: Path) -> None:
    for name in ("README", "readme", "-rf", "--help", ":(exclude)*", "a\nb", "*", "HEAD"):
        (tree / name).write_text(name)
    files = RunFiles.of(tree)
    state = files.take("r")
    beside = files.folder_for("f")
    files.restore_beside(state.tree, beside, "f")
    assert content(beside) == content(tree)


@pytest.mark.parametrize("name", [".git", "in/.git", ".GiT"])
def test_a_repository_in_the_tree_is_not_restored(tree: Path, name: str, tmp_path: Path) -> None:
    """As a file, which git would follow to a repository of the agent's choice."""
    files = RunFiles.of(tree)
    before = files.take("r")
    (tree / name).write_text(f"gitdir: {tmp_path}/evil\n")
    state = files.take("r")
    beside = files.folder_for("f")
    files.restore_beside(state.tree, beside, "f")
    assert not [it for it in beside.rglob("*") if it.name.lower() == ".git"]
    assert state.files <= before.files


def test_a_file_that_becomes_a_repository_while_it_is_stored_is_left_out(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git would take it as a submodule, and run its filters with the next state."""
    trap, sprung = tmp_path / "trap.sh", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    sort, inner = snapshots._sort, tree / "new"
    files = RunFiles.of(tree)
    files.take("r")
    inner.write_text("a file")

    def race(root: Path, name: str, *rest: Any) -> None:
        sort(root, name, *rest)
        if name != "new" or not inner.is_file():
            return
        inner.unlink()
        git = ["git", "-C", str(inner), "-c", "user.name=x", "-c", "user.email=x@x"]
        subprocess.run(["git", "init", "-q", str(inner)], check=True)
        (inner / "x").write_text("x")
        subprocess.run([*git, "add", "x"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
        (inner / ".gitattributes").write_text("* filter=x\n")
        (inner / "x").write_text("y")
        subprocess.run([*git, "config", "filter.x.clean", str(trap)], check=True)

    monkeypatch.setattr(snapshots, "_sort", race)
    state = files.take("r")
    beside = files.folder_for("f")
    files.restore_beside(state.tree, beside, "f")
    assert set(content(beside)) == {b"a.txt", b"in/b.txt"}
    assert files.take("r").left_out == ("new/",)
    assert not sprung.exists()


def test_a_file_that_changes_all_the_time_makes_no_false_state(tree: Path) -> None:
    versions, over = [letter * 50_000 for letter in "xyz"], threading.Event()

    def rewrite() -> None:
        number = 0
        while not over.is_set():
            (tree / "next").write_text(versions[number % 3])
            (tree / "next").rename(tree / "a.txt")
            number += 1

    thread = threading.Thread(target=rewrite)
    files = RunFiles.of(tree)
    thread.start()
    taken: list[str] = []
    try:
        for _ in range(10):
            with suppress(RunError):  # the file went away while it was read
                taken.append(files.take("r").tree)
    finally:
        over.set()
        thread.join()
    for number, state in enumerate(dict.fromkeys(taken)):
        beside = files.folder_for(str(number))
        files.restore_beside(state, beside, "f")
        assert (beside / "a.txt").read_text() in versions
    last, beside = files.take("r"), files.folder_for("last")
    files.restore_beside(last.tree, beside, "f")
    assert (beside / "a.txt").read_bytes() == (tree / "a.txt").read_bytes()

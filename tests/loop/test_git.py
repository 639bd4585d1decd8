"""taofold's git commands ignore configuration that an agent can write.

Each trap writes a file when it runs. Mutants: a bare repository in the work root is used as the
project's; filters of the configuration run; monitors and hooks run; the repository is searched
again after the agent has worked; a planted repository stays.
"""

import asyncio
import subprocess
from pathlib import Path

import pytest

from taofold.loop.workspace import Workspace, open_workspace
from taofold.workspace.git import repository
from tests.loop.gates.projects import RIGHT, SHOP, git, judged, written


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that proves that it was run."""
    program = tmp_path / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    program.chmod(0o755)
    return program


def sprung(trap: Path) -> bool:
    return (trap.parent / "sprung").exists()


def config(trap: Path, more: str = "") -> str:
    return (
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {trap}\n"
        f"\thooksPath = {trap.parent}\n\tpager = {trap}\n\teditor = {trap}\n{more}"
        f'[filter "x.y"]\n\tclean = {trap}\n\tsmudge = {trap}\n\trequired = true\n'
        f'[diff "x"]\n\tcommand = {trap}\n\ttextconv = {trap}\n'
    )


def bare(folder: Path, trap: Path, worktree: Path) -> None:
    """The shape of a repository, made of ordinary files."""
    more = f"\tbare = false\n\tworktree = {worktree}\n"
    written(folder, {"HEAD": "ref: refs/heads/main\n", "config": config(trap, more)})
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)


def worked(space: Workspace) -> None:
    """All that a loop does with git."""
    space.snapshot("one")
    space.commit(1, "body")
    (space.root / "more.txt").write_text("more")
    space.snapshot("two")
    space.commit(2, "body")
    space.diff(space.first.id, space.last.id)
    space.restore(space.first.id)
    space.abort(keep=False, force=True)


@pytest.mark.parametrize("where", [".", "shop", "deep/inner"])
def test_a_planted_bare_repository_is_not_obeyed(tmp_path: Path, trap: Path, where: str) -> None:
    root = written(tmp_path / "shop", SHOP)
    space = open_workspace(root, tmp_path / "kept", loop_id="x")
    (root / where).mkdir(parents=True, exist_ok=True)
    bare(root / where, trap, root)
    written(root, {".gitattributes": "* filter=x.y diff=x\n"})
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(
        ["git", "add", "."], cwd=root / where, env=environment, capture_output=True, check=False
    )
    assert sprung(trap), "the trap works where git is asked as everybody does"
    (tmp_path / "sprung").unlink()
    assert repository(root / where) is None
    worked(space)
    worked(Workspace.load(root, tmp_path / "kept"))
    assert not sprung(trap)


@pytest.mark.parametrize("mode", ["place", "worktree"])
def test_the_projects_own_configuration_runs_nothing(tmp_path: Path, trap: Path, mode: str) -> None:
    """This holds even for an include of a file of the tree, which an agent may edit."""
    root = written(tmp_path / "shop", {**SHOP, ".gitattributes": "*.py filter=x.y diff=x\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "config", "include.path", "../gitconfig")
    written(root, {"gitconfig": config(trap)})
    space = open_workspace(root, tmp_path / "kept", mode=mode, loop_id="x")  # type: ignore[arg-type]
    written(space.root, {"shop/till.py": RIGHT, "gitconfig": config(trap)})
    space.snapshot("work")
    assert space.commit(1)
    worked(space)
    space.close()
    assert not sprung(trap)
    git(root, "config", "--unset", "include.path")
    assert "sum(prices)\n" in git(root, "show", "ralph/x~1:shop/till.py")


def test_what_the_project_filters_stays_as_it_was_committed(tmp_path: Path) -> None:
    """Large files: a pointer is committed, the content lies in the tree."""
    root = written(tmp_path / "shop", {**SHOP, ".gitattributes": "*.big filter=big\n"})
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "filter.big.clean", "sed s/content/pointer/")
    written(root, {"a.big": "content a\n", "b.big": "content b\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    assert git(root, "show", "HEAD:a.big") == "pointer a\n"
    space = open_workspace(root, tmp_path / "kept", loop_id="x")
    written(root, {"shop/till.py": RIGHT, "b.big": "content new\n"})
    space.snapshot("work")
    space.commit(1)
    assert git(root, "show", "ralph/x:a.big") == "pointer a\n"
    assert git(root, "show", "ralph/x:b.big") == "content new\n"


def test_a_planted_repository_is_moved_aside(tmp_path: Path, trap: Path) -> None:
    root = written(tmp_path / "shop", SHOP)
    git(written(root / "vendor", {"a.py": ""}), "init", "-q")  # the user's own entry: it stays
    judge, _ = judged(root)
    assert asyncio.run(judge.disarm()) == ()
    git(root / "shop", "init", "-q")
    bare(root / "deep", trap, root)
    told = asyncio.run(judge.disarm())
    assert sorted(one.partition(" ")[0] for one in told) == ["deep/HEAD", "shop/.git"]
    assert not (root / "shop/.git").exists()
    assert not (root / "deep/HEAD").exists()
    assert (root / "vendor/.git").exists()
    assert asyncio.run(judge.disarm()) == ()

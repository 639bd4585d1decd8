"""Protected and hidden names stay out of a contained command's reach, existing or not.

Mutants it catches: no stubs, a scan of the root only, stubs that stay, a stub removed while
another command uses it, or while a process of its own has not ended."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from taofold.tools import Outcome, RunContext, Tool
from taofold.tools import containment as guard
from taofold.tools.command import command_tool
from taofold.tools.containment import Containment
from tests.ports import PATIENCE
from tests.prerequisites import CONTAINMENT, NOT_ROOT

pytestmark = pytest.mark.anyio

contained = CONTAINMENT.mark


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def box(root: Path) -> Tool:
    return command_tool(root, contain="always")


async def use(tool: Tool, command: str, ctx: RunContext[None] | None = None) -> Outcome:
    return await tool.bind({"command": command}).run(ctx or RunContext(None))


PLANT = """
mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > .taofold/config.yml
rm -rf .git .taofold; mv .git moved; mv .taofold moved; ln -s /tmp .git; mkdir .git .taofold
"""


@contained
async def test_names_that_do_not_exist_cannot_be_made_and_nothing_is_left_behind(
    box: Tool, root: Path
) -> None:
    outcome = await use(box, f"{PLANT} echo done")
    assert outcome.value.endswith("\ndone")
    assert list(root.iterdir()) == []
    assert (await use(box, "exit 3")).status == "failure"
    assert list(root.iterdir()) == []


@contained
async def test_names_deep_in_the_root_are_protected_and_hidden_too(box: Tool, root: Path) -> None:
    deep = root / "a" / "b"
    for name in (".git", ".taofold", ".git/.taofold"):
        (deep / name).mkdir(parents=True)
        (deep / name / "f").write_text("SECRET" if "taofold" in name else "kept")
    (root / "a" / ".git").write_text("gitdir: there\n")
    (root / "a" / ".taofold").write_text("SECRET")
    script = """
    cat a/b/.taofold/f a/b/.git/.taofold/f a/.taofold
    for f in a/b/.git/f a/b/.git/new a/b/.taofold/f a/.git a/.taofold; do echo x > $f; done
    rm -rf a/b/.git a/.git; mv a/b/.git a/c; cat a/b/.git/f; echo ok > a/b/free
    """
    said = (await use(box, script)).value
    assert "SECRET" not in said
    assert said.endswith("kept"), "what is protected can be read"
    assert sorted(path.name for path in (deep / ".git").iterdir()) == [".taofold", "f"]
    assert (deep / ".git" / "f").read_text() == "kept"
    assert (deep / ".taofold" / "f").read_text() == "SECRET"
    assert (root / "a" / ".git").read_text() == "gitdir: there\n"
    assert (root / "a" / ".taofold").read_text() == "SECRET"
    assert (deep / "free").read_text() == "ok\n"


@contained
async def test_a_cancelled_command_leaves_nothing_behind(box: Tool, root: Path) -> None:
    ctx, heard = RunContext(None), asyncio.Event()
    ctx.on_progress = lambda text: heard.set()
    busy = "echo go; while :; do mkdir -p .git/hooks .taofold/x; done 2>/dev/null"
    task = asyncio.ensure_future(use(box, busy, ctx))
    await asyncio.wait_for(heard.wait(), PATIENCE)
    assert sorted(path.name for path in root.iterdir()) == [".git", ".taofold"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(root.iterdir()) == []


@contained
async def test_a_command_that_ends_does_not_unprotect_another_in_the_same_root(
    box: Tool, root: Path
) -> None:
    ctx, heard = RunContext(None), asyncio.Event()
    ctx.on_progress = lambda text: heard.set()
    script = "echo go; while [ ! -e go ]; do sleep 0.01; done; mkdir -p .git/hooks && echo evil"
    task = asyncio.ensure_future(use(box, script, ctx))
    await asyncio.wait_for(heard.wait(), PATIENCE)
    await use(command_tool(root, contain="always"), "true")
    (root / "go").touch()
    assert "evil" not in (await asyncio.wait_for(task, PATIENCE)).value
    assert [path.name for path in root.iterdir()] == ["go"]


@contained
async def test_an_empty_directory_of_the_users_stays_and_a_leftover_goes(
    box: Tool, root: Path
) -> None:
    (root / ".git").mkdir()
    with guard.stubs(root, [".taofold"]):
        pass  # as after a kill of the process: the command's end was not reported
    assert (root / ".taofold").is_dir()
    await use(box, "true")
    assert [path.name for path in root.iterdir()] == [".git"]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="containers are of Linux only")
async def test_the_stubs_stay_until_the_containers_first_process_has_ended(root: Path) -> None:
    code = "import sys; sys.stdin.read()"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE
    )
    left = asyncio.Event()

    async def command() -> None:
        async with Containment(root, protected=(".git",)).around(["true"], root) as (_, (fd, *_)):
            os.write(fd, json.dumps({"child-pid": process.pid}).encode())
            left.set()

    task = asyncio.ensure_future(command())
    await left.wait()
    await asyncio.wait({task}, timeout=0.1)
    assert (root / ".git").is_dir()
    assert process.stdin is not None
    process.stdin.close()
    await asyncio.wait_for(asyncio.gather(task, process.wait()), PATIENCE)
    assert not (root / ".git").exists()


async def test_what_somebody_put_into_a_stub_meanwhile_stays(root: Path) -> None:
    with guard.stubs(root, [".git", ".taofold"]) as made:
        (root / ".git" / "f").write_text("the user's")
        made.ended = True
    assert [path.name for path in root.rglob("*")] == [".git", "f"]


@contained
async def test_a_link_in_place_of_a_protected_name_stops_the_command(box: Tool, root: Path) -> None:
    (root / "real").mkdir()
    (root / ".git").symlink_to("real")
    outcome = await use(box, "echo ran > made")
    assert outcome.status == "failure"
    assert "is a link and cannot be protected; nothing was run" in outcome.value
    assert sorted(path.name for path in root.iterdir()) == [".git", "real"]


@NOT_ROOT.mark
async def test_a_directory_that_cannot_be_read_is_emptied(root: Path) -> None:
    (root / "shut").mkdir(mode=0o000)
    assert guard.covers(root, (".git",), ()) == guard._emptied(str(root / "shut"))


async def test_too_many_names_are_an_error(root: Path) -> None:
    for number in range(guard.MOST + 1):
        (root / str(number) / ".git").mkdir(parents=True)
    with pytest.raises(OSError, match="names to protect"):
        guard.covers(root, (".git",), ())

"""Commands: bounded, whole groups killed, and confined where bubblewrap works.

Mutants it catches: `--bind / /` in place of the bound root, `--share-net` always, an
environment passed on whole, `kill` in place of `killpg`."""

import asyncio
import os
import socket
import time
import venv
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.tools import Outcome, RunContext, Tool
from taofold.tools import process as processes
from taofold.tools.command import LEFT_RUNNING, command_tool
from taofold.tools.container_network import Reach
from taofold.tools.process import OutputExcerpt
from tests.ports import PATIENCE
from tests.prerequisites import CONTAINMENT, UPLINK

pytestmark = pytest.mark.anyio

contained = CONTAINMENT.mark
linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
EVERY = ["never", pytest.param("always", marks=contained)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


@pytest.fixture(params=EVERY)
def tool(request: pytest.FixtureRequest, root: Path) -> Tool:
    return command_tool(root, contain=request.param)


@pytest.fixture
def box(root: Path) -> Tool:
    return command_tool(root, contain="always")


async def use(tool: Tool, command: object, ctx: RunContext[None] | None = None) -> Outcome:
    return await tool.bind({"command": command}).run(ctx or RunContext(None))


def alive(marker: str) -> bool:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in words and state != "Z":
                return True
    return False


async def gone(marker: str) -> bool:
    end = time.monotonic() + PATIENCE
    while alive(marker):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def test_exit_code_output_and_confinement_are_reported(tool: Tool) -> None:
    good = await use(tool, ["cat", "a.txt"])
    assert good.status == "success"
    assert good.value.startswith("exit code 0, ")
    assert good.value.endswith("contained)\nhello") or good.value.endswith("no network)\nhello")
    assert good.extraction == "hello"
    bad = await use(tool, "echo before; echo 'fatal: it broke' >&2; echo after; exit 3")
    assert bad.status == "failure"
    assert bad.value.startswith("exit code 3")
    assert "before\nfatal: it broke\nafter" in bad.value
    assert bad.extraction == "fatal: it broke"


async def test_a_list_is_run_without_a_shell(tool: Tool) -> None:
    outcome = await use(tool, ["echo", "$(id)", "; ls", "*"])
    assert outcome.value.endswith("\n$(id) ; ls *")


async def test_a_program_that_does_not_exist_is_a_failure(tool: Tool) -> None:
    outcome = await use(tool, ["no-such-program-here"])
    assert outcome.status == "failure"
    assert "No such file" in outcome.value
    assert (await use(tool, ["echo", "a\0b"])).status == "failure"


async def test_it_runs_in_a_folder_of_the_root_only(tool: Tool, root: Path) -> None:
    (root / "sub").mkdir()
    inside = await tool.bind({"command": ["pwd"], "folder": "sub"}).run(RunContext(None))
    assert inside.extraction == str(root / "sub")
    (root / "link").symlink_to("/")
    for folder in ("..", "/", "link", "a.txt", "none"):
        refused = await tool.bind({"command": ["pwd"], "folder": folder}).run(RunContext(None))
        assert refused.status == "failure"
        assert "exit code" not in refused.value


async def test_secrets_in_the_environment_are_not_passed_on(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_PRELOAD_NOT", "x")
    said = (await use(tool, ["env"])).value
    assert "sk-secret" not in said
    names = {line.split("=")[0] for line in said.split("\n")[1:]}
    assert names <= {
        "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "NO_COLOR", "PWD", "HOME", "TMPDIR",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTHONDONTWRITEBYTECODE", "TAOFOLD_STARTED_BY",
    }  # fmt: skip
    assert str(Path.home()) not in [line for line in said.split("\n") if line.startswith("HOME=")]


@linux
@pytest.mark.scenario("TAO-10", "TAG-22")
async def test_cancelling_kills_the_whole_group_and_keeps_what_was_said(tool: Tool) -> None:
    ctx, heard = RunContext(None), asyncio.Event()
    ctx.on_progress = lambda text: heard.set()
    marker = f"31{os.getpid()}.5"
    task = asyncio.ensure_future(use(tool, f"sleep {marker} & echo half; sleep {marker}", ctx))
    await asyncio.wait_for(heard.wait(), PATIENCE)
    assert alive(marker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ctx.partial == ["half\n"]
    assert await gone(marker)


@linux
async def test_background_processes_do_not_outlive_the_command(tool: Tool) -> None:
    marker = f"32{os.getpid()}.5"
    outcome = await asyncio.wait_for(use(tool, f"sleep {marker} & echo started"), PATIENCE)
    assert outcome.extraction == "started"
    assert await gone(marker)


@pytest.mark.parametrize(
    ("script", "left"),
    [
        (f"sleep {2 * PATIENCE} & echo started", True),
        (f"sleep {2 * PATIENCE} >/dev/null 2>&1 & echo started", True),
        ("echo started", False),
        ("echo started | cat", False),
    ],
)
async def test_a_command_that_left_others_running_is_told_that_they_were_stopped(
    script: str, left: bool, root: Path
) -> None:
    outcome = await asyncio.wait_for(use(command_tool(root, contain="never"), script), PATIENCE)
    assert outcome.status == "success"
    assert (LEFT_RUNNING in outcome.value) is left


async def test_much_output_keeps_head_tail_and_errors(tool: Tool) -> None:
    script = "echo begin; seq 1 50000; echo 'Error: in the middle'; seq 1 50000; echo end"
    said = (await use(tool, script)).value
    assert len(said) < tool.max_chars
    assert "\nbegin\n1\n2\n" in said
    assert "Error: in the middle" in said
    assert said.endswith("\nend")


async def test_endless_output_stops_the_program(root: Path) -> None:
    output = OutputExcerpt()
    with pytest.raises(processes.Flood):
        await processes.run(
            ["yes"], folder=root, environment=os.environ, heard=output.feed, most=100_000
        )
    assert len(output.text) < 20_000


async def test_there_is_no_input_to_wait_for(tool: Tool) -> None:
    assert (await asyncio.wait_for(use(tool, ["cat"]), PATIENCE)).status == "success"


def test_what_is_not_contained_is_tier_3_and_says_so(root: Path) -> None:
    free = command_tool(root, contain="never")
    assert (free.tier, free.effect) == (Tier.CONFIRM, "once")
    assert free.preview is not None
    assert free.preview({"command": ["ls"]}) == "run ['ls'] in '.' (not contained)"


@contained
def test_what_is_contained_is_tier_2(box: Tool) -> None:
    assert (box.tier, box.effect) == (Tier.CARD, "once")


def test_a_root_that_is_no_directory_is_a_config_error(root: Path) -> None:
    with pytest.raises(ConfigError):
        command_tool(root / "none")


@contained
async def test_nothing_outside_the_root_can_be_written(
    box: Tool, root: Path, tmp_path: Path
) -> None:
    targets = [tmp_path / "escaped", Path.home() / f"escaped-{os.getpid()}", Path("/usr/escaped")]
    for target in [*targets, Path(f"/tmp/escaped-{os.getpid()}")]:
        await use(box, f"echo x > {target}; ln -s {target} {root}/l; echo y > l; rm -f l")
        assert not target.exists()
    assert (await use(box, "echo inside > made.txt")).status == "success"
    assert (root / "made.txt").read_text() == "inside\n"


@contained
async def test_neighbours_and_home_cannot_be_read(box: Tool, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET-1")
    hidden = Path.home() / f".taofold-test-{os.getpid()}"
    hidden.write_text("SECRET-2")
    try:
        script = (
            f"cat {tmp_path}/secret {hidden} ../secret /etc/shadow; cat /proc/1/environ; ls -a ~"
        )
        said = (await use(box, script)).value
    finally:
        hidden.unlink()
    assert "SECRET" not in said
    assert "root:" not in said


@contained
async def test_there_is_no_network(box: Tool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3); print('in')"
        outcome = await use(box, ["python", "-c", code])
        assert "ConnectionRefusedError" in outcome.value


@contained
async def test_the_runtimes_files_are_hidden_and_git_and_a_virtual_environment_are_read_only(
    root: Path,
) -> None:
    for name in (".taofold", ".git", "env"):
        (root / name).mkdir()
        (root / name / "f").write_text("kept")
    box = command_tool(root, contain="always", readable=[root / "env"])
    said = (
        await use(box, "cat .taofold/f; for d in .git env .taofold; do echo x > $d/f; done")
    ).value
    assert "kept" not in said
    for name in (".taofold", ".git", "env"):
        assert (root / name / "f").read_text() == "kept"
    assert "x\n" not in said


@contained
async def test_host_processes_cannot_be_seen_or_signalled(box: Tool) -> None:
    said = (await use(box, f"kill -0 {os.getpid()}; ls /proc | grep -c '^[0-9]'")).value
    assert "No such process" in said
    assert int(said.strip().split("\n")[-1]) < 10


@contained
async def test_this_python_and_its_packages_work_inside(box: Tool) -> None:
    outcome = await use(box, ["python", "-c", "import pydantic, sys; print(sys.prefix)"])
    assert outcome.status == "success", outcome.value


@contained
async def test_an_environment_to_which_a_link_in_the_root_leads_can_be_read(
    root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "environments" / "shop"
    venv.create(outside, symlinks=True)
    (root / ".venv").symlink_to("../environments/shop")
    box = command_tool(root, contain="always")
    good = await use(box, ".venv/bin/python -c 'import sys; print(sys.prefix)'")
    assert good.extraction == str(root / ".venv")
    assert "Read-only" in (await use(box, "touch .venv/planted")).value


@UPLINK.mark
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    "place", [".venv/lib/python3.11/site-packages/a/a.py", "node_modules/a.js"]
)
async def test_packages_are_read_only_without_network_and_where_a_cache_shares_them(
    root: Path, tmp_path: Path, place: str, shared: bool
) -> None:
    """Mutants: the root's contents are always writable; only its top folder is checked."""
    cached, installed = tmp_path / "cached", root / place
    cached.write_text("as installed\n")
    installed.parent.mkdir(parents=True)
    if shared:
        installed.hardlink_to(cached)
    else:
        installed.write_text(cached.read_text())
    (root / ".venv").mkdir(exist_ok=True)
    (root / ".venv" / "pyvenv.cfg").touch()
    box = command_tool(root, contain="always", network=Reach(world=True))
    alone = command_tool(root, contain="always")
    assert "Read-only" in (await use(alone, f"echo changed > {place}")).value
    outcome = await use(box, f"echo changed > {place}")
    assert cached.read_text() == "as installed\n", "every other environment would be changed"
    assert ("Read-only" in outcome.value) is shared
    assert installed.read_text() == ("as installed\n" if shared else "changed\n")


@contained
async def test_packages_of_node_above_the_root_can_be_read(root: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "a.js").write_text("seen\n")
    box = command_tool(root, contain="always")
    assert (await use(box, "cat ../node_modules/a.js")).extraction == "seen"
    assert "Read-only" in (await use(box, "touch ../node_modules/planted")).value

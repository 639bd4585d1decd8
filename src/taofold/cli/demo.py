"""`taofold demo`: a broken Python project is repaired, with no key and no network."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.cli import options
from taofold.cli.outcome import INTERRUPTED, fail, say
from taofold.cli.program import invocation

if TYPE_CHECKING:
    from taofold.agent.result import Happening
    from taofold.cli.live import Listener

MODEL: Final = "offline:repair"
STEPS: Final = 80
_WORKER: Final = "from taofold.cli.demo import worker; worker()"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Work in this new directory."),
    ] = None,
    kill_at: Annotated[
        int | None,
        typer.Option("--kill-at", metavar="N", min=1, help="kill -9 after N events, then resume."),
    ] = None,
    model: options.ModelName = MODEL,
    quiet: options.Quiet = False,
) -> None:
    """Watch the loop repair a broken Python project: real pytest, real edits, no key.

    The built-in model is a search policy, not a language model. The agent works on a copy,
    and everything it does there is approved.
    """
    from taofold.agent.activation import new_id
    from taofold.demo import demo_project

    lacking = no_pytest()
    if lacking:
        fail(lacking)
    place = _place(keep)
    project = demo_project(place / "project")
    store, elsewhere = place / ".taofold", os.environ.get("TAOFOLD_HOME", "").strip()
    os.environ["TAOFOLD_HOME"] = str(store)
    say(f"a broken project: {project}\nthe log of the run: {store}\n")
    run = new_id()
    if kill_at is not None:
        _kill(project, run, model, kill_at, quiet=quiet)
    code = _drive(project, run, model, quiet=quiet, resume=kill_at is not None)
    say("\nshow tells the run, replay derives it again offline, check judges it; look at it:")
    if elsewhere:
        say(f"  export TAOFOLD_HOME={quote(str(store))}")
    say(f"  cd {quote(str(place))}")
    for verb in (*(["resume"] if code == INTERRUPTED else []), "show", "replay", "check"):
        say(f"  {invocation()} runs {verb} last")
    raise typer.Exit(code)


def no_pytest() -> str:
    """Why the project's tests cannot run, and what to do about it; "" if they can.

    Asked is the Python that commands of agents get, as they get it: without `PYTHONPATH` and
    without what is installed for the user only.
    """
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    python = shutil.which("python", path=path) or shutil.which("python3", path=path)
    if python is None:
        return "there is no `python` to run the project's tests with: put one on your PATH"
    done = subprocess.run([python, "-I", "-c", "import pytest"], capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    cure = f"{quote(python)} -m pip install pytest"
    return f"the demo runs a project's tests, and {python} cannot import pytest; cure: {cure}"


def _place(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="taofold-demo-"))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        fail(f"{str(keep)!r} exists already; name a new directory")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _drive(
    project: Path,
    run: str,
    model: str,
    *,
    quiet: bool,
    resume: bool = False,
    also: "Listener | None" = None,
) -> int:
    """Run, or resume, before the person; the exit code is returned."""
    from taofold.cli.agents import chosen, make
    from taofold.cli.find import with_log
    from taofold.cli.live import drive
    from taofold.cli.outcome import code_of
    from taofold.cli.place import open_store
    from taofold.demo import GOAL

    choice = chosen("", project, model=model, autonomy="autonomous", limits={"steps": STEPS})
    agent = make(choice)
    told = with_log(lambda log: log.read(run)) if resume else []
    log = open_store(create=True)
    result = drive(
        log,
        run,
        lambda listener, approver: (
            agent.but(approve=approver, log=log).resume(run, listener=listener)
            if resume
            else agent.but(approve=approver, log=log).run(
                GOAL, run_id=run, listener=listener, settings=choice.settings()
            )
        ),
        approve="all",
        quiet=quiet,
        told=told,
        also=also,
        hints=False,
    )
    return INTERRUPTED if result is None else code_of(result.state)


def _kill(project: Path, run: str, model: str, events: int, *, quiet: bool) -> None:
    """Run in a child process that kills itself, to show that nothing is lost."""
    given = [str(project), run, model, str(events), "quiet" if quiet else ""]
    done = subprocess.run([sys.executable, "-c", _WORKER, *given], check=False)
    if done.returncode != -signal.SIGKILL:
        fail(f"the run ended before event {events} (exit code {done.returncode})", 1)
    say(f"\nkill -9 after event {events}. All that is left of the run is its log: resuming.\n")


def worker() -> None:
    """The child process of `--kill-at`."""
    from taofold.agent.result import Delta

    project, run, model, events, quiet = sys.argv[1:6]
    left = int(events)

    def count(happening: "Happening") -> None:
        nonlocal left
        left -= not isinstance(happening, Delta)
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.exit(_drive(Path(project), run, model, quiet=bool(quiet), also=count))

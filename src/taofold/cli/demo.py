"""`taofold demo`: a broken Python project is repaired, with no key and no network."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taofold.cli import options
from taofold.cli.outcome import fail, say

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.agent.result import Happening

GOAL: Final = "Make the failing tests of this project pass. Do not change the tests."
MODEL: Final = "offline:repair"
_WORKER: Final = "from taofold.cli.demo import worker; worker()"
_INSTRUCTIONS: Final = (
    "Run the tests with python -m pytest -q to see what fails, change the code, run them again."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Work in this new directory, and leave it."),
    ] = None,
    kill_at: Annotated[
        int | None,
        typer.Option("--kill-at", metavar="N", min=1, help="kill -9 after N events, then resume."),
    ] = None,
    model: options.ModelName = MODEL,
    quiet: options.Quiet = False,
) -> None:
    """Watch the loop repair a broken Python project: real pytest, real edits, no key.

    The built-in model is a search policy, not a language model. The agent works on a copy.
    """
    from taofold.agent.activation import new_id
    from taofold.demo import demo_project

    place = _place(keep)
    project = place / "project"
    shutil.copytree(demo_project(), project, ignore=shutil.ignore_patterns("__pycache__"))
    (place / ".taofold").mkdir(mode=0o700)
    os.environ["TAOFOLD_HOME"] = str(place / ".taofold")
    say(f"a broken project in {project}\nits log in          {place / '.taofold'}\n")
    run = new_id()
    if kill_at is None:
        code = _drive(project, run, model, quiet=quiet, resume=False)
    else:
        _killed(project, run, model, kill_at, quiet=quiet)
        code = _drive(project, run, model, quiet=quiet, resume=True)
    _farewell(place, run)
    raise typer.Exit(code)


def _place(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="taofold-demo-"))
    if keep.exists() and any(keep.iterdir()):
        fail(f"{str(keep)!r} is not empty; name a new directory")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _agent(project: Path, model: str) -> "tuple[Agent[Any, Any], dict[str, Any]]":
    """The agent, and what lets `runs replay` and `runs resume` make it again."""
    from taofold.cli.agents import chosen, make

    choice = chosen("", project, model=model, autonomy="autonomous", limits={"steps": 60})
    return make(choice).but(instructions=make(choice).instructions), choice.settings()


def _drive(project: Path, run: str, model: str, *, quiet: bool, resume: bool) -> int:
    """Run before the person. Everything is approved: it can only touch the copy."""
    import asyncio

    from taofold.cli.find import with_log
    from taofold.cli.live import drive
    from taofold.cli.outcome import INTERRUPTED, code_of
    from taofold.cli.place import open_store

    agent, settings = _agent(project, model)
    told = with_log(lambda log: log.read(run)) if resume else []
    log = open_store(create=True)
    _ = asyncio
    result = drive(
        log,
        run,
        lambda listener, approver: (
            agent.but(approve=approver, log=log).resume(run, listener=listener)
            if resume
            else agent.but(approve=approver, log=log).run(
                GOAL, run_id=run, listener=listener, settings=settings
            )
        ),
        approve="all",
        quiet=quiet,
        told=told,
    )
    return INTERRUPTED if result is None else code_of(result.state)


def _killed(project: Path, run: str, model: str, events: int, *, quiet: bool) -> None:
    """Run in a child process that kills itself, to show that nothing is lost."""
    given = [str(project), run, model, str(events), "quiet" if quiet else ""]
    done = subprocess.run([sys.executable, "-c", _WORKER, *given], check=False)
    if done.returncode != -signal.SIGKILL:
        fail(f"the run ended before event {events} (exit code {done.returncode})", 1)
    say(
        f"\nkilled with -9 after event {events}. What is in the log is all that is left: resuming.\n"
    )


def worker() -> None:
    """The child process of `--kill-at`."""
    from taofold.cli.live import drive
    from taofold.cli.place import open_store

    project, run, model, events, quiet = sys.argv[1:6]
    agent, settings = _agent(Path(project), model)
    log = open_store(create=True)
    heard: list[Happening] = []

    def count(happening: "Happening") -> None:
        from taofold.agent.result import Delta

        if not isinstance(happening, Delta):
            heard.append(happening)
        if len(heard) >= int(events):
            os.kill(os.getpid(), signal.SIGKILL)

    drive(
        log,
        run,
        lambda listener, approver: agent.but(approve=approver, log=log).run(
            GOAL, run_id=run, listener=listener, settings=settings
        ),
        approve="all",
        quiet=bool(quiet),
        also=count,
    )


def _farewell(place: Path, run: str) -> None:
    say("\nthe log is the run. Look at it:")
    say(f"  cd {place}")
    say(f"  taofold runs show {run}")
    say(f"  taofold runs replay {run}      # offline, and identical")
    say(f"  taofold runs check {run}       # the seven points of the TAO checklist")

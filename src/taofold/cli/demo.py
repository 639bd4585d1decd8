"""Command `taofold demo`: two loops on broken Python projects, without a key or a network.

The second loop gets the lessons of the first. A third loop repeats the second project without
lessons, to measure their benefit. `--kill-at` kills a loop's process, and the next process resumes
the loop. Projects and model come from another package (`Projects`).
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import typer

from taofold.cli import options
from taofold.cli.output import INTERRUPTED, OK, UNREACHED, fail, give, invocation, say
from taofold.cli.prerequisites import lacking
from taofold.plugins import DEMOS, load

if TYPE_CHECKING:
    from taofold.loop.state import LoopState
    from taofold.loop.values import LoopRequest

MODEL: Final = "offline:repair"
STEPS: Final = 24
"""Steps of one iteration: few enough that a search needs several iterations."""
GATE: Final = "python -m pytest -q"
FIRST, SECOND, CONTROL = "demo-storeroom", "demo-library", "demo-control"
_CONFIG: Final = """\
# The demo has its own control loop, so no other loop runs without lessons.
ralph:
  cross_loop_learning:
    injection:
      control_share: 0
"""
PROJECTS: Final = "repair"
"""The entry point of group `taofold.demos` that has the broken projects."""
_WORKER: Final = "from taofold.cli.demo import worker; worker()"


class Projects(Protocol):
    """The broken projects. They are in the package of the offline model."""

    GOAL: str

    def demo_project(self, target: Path, name: str = ...) -> Path:
        """Copies the project `name` into the directory `target`; returns `target`."""
        ...


def _projects() -> Projects:
    """Returns the installed projects. Raises `ConfigError` if there are none."""
    projects: Projects = load(DEMOS, PROJECTS)
    return projects


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Work in this new directory."),
    ] = None,
    kill_at: Annotated[
        int | None,
        typer.Option(
            "--kill-at",
            metavar="N",
            min=1,
            help="Kill the first loop after N events, then resume it.",
        ),
    ] = None,
    control: Annotated[
        bool,
        typer.Option(
            "--control/--no-control", help="Run the second project again without lessons."
        ),
    ] = True,
    model: options.ModelName = MODEL,
    quiet: options.Quiet = False,
) -> None:
    """Watch two loops repair broken projects with real edits and tests. No key is needed.

    The second loop is shorter because it uses the lessons of the first. The built-in model is a
    search policy, not a language model. The agents work on copies, and all their actions are
    approved.
    """
    _projects()  # first, so that an incomplete installation leaves no files
    if reason := lacking(GATE):
        fail(f"the demo runs a project's tests: {reason}")
    folder = _place(keep)
    store, elsewhere = _store(folder), os.environ.get("TAOFOLD_HOME", "").strip()
    # In the environment, so that the child process of `--kill-at` finds the same store.
    os.environ["TAOFOLD_HOME"] = str(store)
    # The projects need no pytest plugins, and loading many takes seconds at each verdict.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    say(f"two broken projects in {folder}\nthe log of their loops is in {store}\n")
    done: list[tuple[str, LoopState]] = []
    for loop, project, lessons, head in (
        (FIRST, "storeroom", True, "first loop: no lessons yet"),
        (SECOND, "library", True, "second loop: another project, with the lessons of the first"),
        (
            CONTROL,
            "library",
            False,
            "control: the second project again, without lessons",
        ),
    ):
        if loop == CONTROL and not control:
            continue
        say(f"{head}\n")
        killed = kill_at if loop == FIRST else None
        state = _loop(folder, loop, project, model, lessons=lessons, kill_at=killed, quiet=quiet)
        if state is None:
            raise typer.Exit(INTERRUPTED)
        done.append((loop, state))
        say("")
    _result(done, model)
    _look(folder, store if elsewhere else None)
    # The control loop is a measurement; its failure does not fail the demo.
    raise typer.Exit(OK if all(state.status == "completed" for _, state in done[:2]) else UNREACHED)


def _store(folder: Path) -> Path:
    """Creates the demo's store with its configuration."""
    from taofold.log.open import make_home
    from taofold.reserved_places import write_file

    store = folder / ".taofold"
    make_home(store)
    write_file(store / "config.yml", _CONFIG.encode())
    return store


def _place(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="taofold-demo-"))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        fail(f"{str(keep)!r} already exists; name a new directory")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _loop(
    place: Path,
    loop: str,
    project: str,
    model: str,
    *,
    lessons: bool,
    kill_at: int | None,
    quiet: bool,
) -> "LoopState | None":
    """Runs one loop in the foreground; with `kill_at` kills and resumes it."""
    from taofold.cli.loops.drive import drive_visibly, warn
    from taofold.loop.lifecycle import resume, start

    folder = _projects().demo_project(place / loop.removeprefix("demo-"), project)
    if kill_at is not None:
        _kill(folder, loop, model, kill_at, quiet=quiet)
        return drive_visibly(
            loop,
            lambda dependencies: resume(dependencies, loop, warn=warn),
            approve="all",
            quiet=quiet,
        )
    wish = _wish(folder, model, lessons=lessons)
    return drive_visibly(
        loop,
        lambda dependencies: start(dependencies, wish, loop=loop, warn=warn),
        create=True,
        approve="all",
        quiet=quiet,
    )


def _wish(folder: Path, model: str, *, lessons: bool) -> "LoopRequest":
    from taofold.cli.agent_argument import chosen
    from taofold.loop.values import LoopLimits, LoopRequest

    choice = chosen("", folder, model=model, autonomy="autonomous")
    return LoopRequest(
        _projects().GOAL,
        (GATE,),
        str(folder),
        LoopLimits(steps=STEPS),
        cross_task=lessons,
        agent=choice.told(),
        model=model,
    )


def _result(done: "list[tuple[str, LoopState]]", model: str) -> None:
    """Prints the loops' steps and the patterns that were applied."""
    give(
        f"{'loop':<16} {'lessons':>7} {'rates':>5} {'iterations':>10} {'steps':>6} {'test runs':>9}"
        "  status"
    )
    for loop, state in done:
        lessons = len({name for injection in state.injected for name in injection.lessons.patterns})
        rates = "yes" if any(injection.lessons.rates for injection in state.injected) else "–"
        runs = sum(iteration.tools.get("run_command", 0) for iteration in state.done)
        give(
            f"{loop:<16} {lessons:>7} {rates:>5} {len(state.done):>10} {state.spent.steps:>6} "
            f"{runs:>9}  {state.status}"
        )
    states = dict(done)
    if CONTROL in states:
        give(_compared(states[SECOND], states[CONTROL]))
    for text in _applied(states[SECOND]):
        give(text)
    if model == MODEL:
        give(
            f"{MODEL} is a search policy, not a language model: it learns rates, which set the "
            "order of its edits. It does not read the lessons' texts."
        )


def _compared(second: "LoopState", control: "LoopState") -> str:
    """Returns a sentence that compares the second loop with the control."""
    with_, without = second.spent.steps, control.spent.steps
    if second.status != control.status:
        return (
            f"with lessons the second project is {second.status} after {with_} steps, "
            f"without them {control.status} after {without}"
        )
    if with_ >= without:
        return f"the lessons saved no steps here: {with_} steps with them, {without} without"
    share = (without - with_) / without
    return (
        f"the second project took {with_} steps with lessons and {without} without: "
        f"{share:.0%} fewer (one pair of runs; bench/learn measures it on many)"
    )


def _applied(state: "LoopState") -> list[str]:
    """Returns a line for each applied lesson."""
    from taofold.cli.project import with_registry
    from taofold.core.text import line

    used = [use for use in (state.learnt.injected if state.learnt else ()) if use.applied]

    async def names(registry: Any) -> list[str]:
        lines: list[str] = []
        for use in used:
            pattern = await registry.show(use.pattern)
            how = "its check turned green" if use.successful else "without success"
            lines.append(f"  applied {use.pattern}: {line(pattern.name, 60)} ({how})")
        return lines

    return with_registry(names)


def _look(folder: Path, elsewhere: Path | None) -> None:
    """Prints commands that show the results."""
    say("\nlook at the results:")
    if elsewhere is not None:
        say(f"  export TAOFOLD_HOME={quote(str(elsewhere))}")
    say(f"  cd {quote(str(folder))}")
    call = invocation()
    for rest in (
        "loops list",
        f"loops report {SECOND}",
        "patterns list",
        f"runs show {FIRST}.1",
        f"runs replay {FIRST}.1",
    ):
        say(f"  {call} {rest}")


def _kill(folder: Path, loop: str, model: str, events: int, *, quiet: bool) -> None:
    """Runs the loop in a child process that kills itself, to show that nothing is lost."""
    arguments = [str(folder), loop, model, str(events), "quiet" if quiet else ""]
    done = subprocess.run([sys.executable, "-c", _WORKER, *arguments], check=False)
    if done.returncode != -signal.SIGKILL:
        fail(f"the loop ended before event {events} (exit code {done.returncode})", UNREACHED)
    say(f"\nkill -9 after event {events}. Only the log of the loop is left: resuming.\n")


def worker() -> None:
    """Runs the child process of `--kill-at`."""
    from taofold.cli.loops.drive import drive_visibly, warn
    from taofold.core.events import Record
    from taofold.loop.lifecycle import start

    folder, loop, model, events, quiet = sys.argv[1:6]
    left = int(events)

    def count(happening: Any) -> None:
        nonlocal left
        # Listeners get records when they are durable. Deltas are not counted, so `events` records
        # survive.
        left -= isinstance(happening, Record)
        if left <= 0:
            # Not sys.exit: as in a power cut, no handler and no `finally` may run.
            os.kill(os.getpid(), signal.SIGKILL)

    wish = _wish(Path(folder), model, lessons=True)
    state = drive_visibly(
        loop,
        lambda dependencies: start(dependencies, wish, loop=loop, warn=warn),
        create=True,
        approve="all",
        quiet=bool(quiet),
        also=count,
    )
    sys.exit(OK if state is not None and state.status == "completed" else UNREACHED)

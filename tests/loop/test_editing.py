"""Protected files that a user edits during a pause: the loop resumes only after confirmation.

Mutants: no question is asked; the agent's own edits are offered; an edit made after a crash counts
as known; the answer is not recorded; the old baseline is used; both answers are accepted at once.
"""

import asyncio
import sqlite3
from asyncio.subprocess import PIPE
from dataclasses import replace as but
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import Refused
from taofold.loop import events as loop_events
from taofold.loop.driver import LoopDependencies
from taofold.loop.lifecycle import resume, start
from taofold.loop.state import LoopState
from taofold.loop.stream import LoopStream, load
from taofold.loop.values import LoopLimits
from taofold.runtime import ownership
from tests.prerequisites import CONTAINMENT, GIT
from tests.terminal import Taofold

from .conftest import GATE
from .kit import act, contains, done, ground_of, means, wish, write

pytestmark = pytest.mark.anyio


def questioner(root: Path, *before: str) -> LoopDependencies:
    """Returns a loop whose agent acts and then asks the user, so that it pauses."""
    script = [*before, act("may I?", "ask_user", "goal", question="?"), write("a.py", "good")]
    given = means(root, [*script, done(), done()], contains("good"))
    (root / "test_a.py").write_text("as it was")
    (root / "test_b.py").write_text("as it was")
    ground_of(given).protected = ("test_a.py", "test_b.py")
    made = given.agent(root, LoopState()).replace(ask_user=True)
    return but(given, agent=lambda folder, state: made)


async def answered(given: LoopDependencies) -> None:
    from taofold.runtime.control import decide, pending
    from taofold.runtime.setup import Decision

    [asked] = await pending(given.log, "x.1")
    await decide(given.log, asked.id, Decision("answer", answer="yes"))


async def facts(given: LoopDependencies, kind: type[loop_events.LoopFact]) -> list[Any]:
    stream = await load(given.journal, "x")
    return [one.event for one in stream.records if isinstance(one.event, kind)]


async def test_an_edit_is_named_and_nothing_goes_on_without_a_word(tmp_path: Path) -> None:
    given = questioner(tmp_path)
    assert (await start(given, wish(tmp_path), loop="x")).status == "paused"
    (tmp_path / "test_a.py").write_text("a person's")
    with pytest.raises(Refused) as refused:
        await resume(given, "x")
    for word in (
        "test_a.py (changed)",
        "--keep-edits",
        "--restore",
        "was paused",
        f"in {tmp_path},",
    ):
        assert word in str(refused.value)
    assert "test_b.py" not in str(refused.value)
    assert (await load(given.journal, "x")).state.status == "paused"
    assert (tmp_path / "test_a.py").read_text() == "a person's"
    assert await facts(given, loop_events.LoopResumed) == []


@pytest.mark.parametrize("word", ["keep", "restore"])
async def test_the_word_is_recorded_and_the_loop_goes_on(tmp_path: Path, word: str) -> None:
    given = questioner(tmp_path)
    await start(given, wish(tmp_path), loop="x")
    (tmp_path / "test_a.py").write_text("a person's")
    await answered(given)
    state = await resume(given, "x", edited=word, by="anna")  # type: ignore[arg-type]
    assert state.status == "completed"
    [said] = await facts(given, loop_events.Edited)
    kept = word == "keep"
    assert (said.paths, said.kept, said.by) == (("test_a.py",), kept, "anna")
    assert state.baseline is not None
    assert state.baseline.baseline == ("newer" if kept else "digest")
    assert (tmp_path / "test_a.py").read_text() == ("a person's" if kept else "as it was")


async def test_what_the_agent_changed_before_the_pause_is_not_a_persons_to_keep(
    tmp_path: Path,
) -> None:
    given = questioner(tmp_path, write("test_a.py", "assert True"))
    state = await start(given, wish(tmp_path), loop="x")
    assert state.pause is not None
    assert set(state.pause.touched or ()) == {"test_a.py"}
    (tmp_path / "test_b.py").write_text("a person's")
    await answered(given)
    await resume(given, "x", edited="keep")
    [said] = await facts(given, loop_events.Edited)
    assert said.paths == ("test_b.py",)
    assert "test_a.py" in await ground_of(given).touched()  # left to the verdict


async def test_an_edit_of_what_the_agent_had_changed_says_that_it_did(tmp_path: Path) -> None:
    given = questioner(tmp_path, write("test_a.py", "assert True"))
    await start(given, wish(tmp_path), loop="x")
    (tmp_path / "test_a.py").write_text("assert True  # and a comment of a person")
    with pytest.raises(Refused, match="not as at the start when the loop paused"):
        await resume(given, "x")


async def test_without_an_edit_nobody_is_asked(tmp_path: Path) -> None:
    given = questioner(tmp_path, write("test_a.py", "assert True"))
    await start(given, wish(tmp_path), loop="x")
    await answered(given)
    said: list[str] = []
    await resume(given, "x", edited="keep", warn=said.append)
    assert said == ["no protected file was changed while the loop was paused"]
    assert await facts(given, loop_events.Edited) == []


async def test_after_an_end_that_can_be_resumed_an_edit_is_asked_about_too(tmp_path: Path) -> None:
    given = means(tmp_path, [done(), done()], contains("good"))
    (tmp_path / "test_a.py").write_text("as it was")
    ground_of(given).protected = ("test_a.py",)
    await start(given, wish(tmp_path, bounds=LoopLimits(iterations=1)), loop="x")
    (tmp_path / "test_a.py").write_text("a person's")
    with pytest.raises(Refused, match=r"test_a\.py"):
        await resume(given, "x", bounds=LoopLimits(iterations=2))


async def test_after_a_crash_in_an_iteration_it_is_said_that_it_may_be_the_agents(
    tmp_path: Path,
) -> None:
    given = questioner(tmp_path)
    parts = ownership.me().split("|")
    gone = "|".join([parts[0], "4194304", "1", *parts[3:]])
    stream = LoopStream(given.journal, "x")
    judged, digest = await ground_of(given).begin()
    await stream.append(
        loop_events.LoopStarted(wish=wish(tmp_path), owner=gone),
        loop_events.BaselineTaken(
            verdict=judged.verdict, snapshot=judged.snapshot, baseline=digest
        ),
        loop_events.LessonsInjected(number=1, lessons=loop_events.Lessons()),
        loop_events.IterationStarted(number=1, run="x.1", before=judged.snapshot),
    )
    (tmp_path / "test_a.py").write_text("whose?")
    with pytest.raises(Refused, match="in the middle of iteration 1: this may be its agent's work"):
        await resume(given, "x")


def test_a_running_loop_has_no_word_for_its_agent_to_say() -> None:
    from taofold.loop.state import reduce

    fact = loop_events.Edited(paths=("t",), kept=True, baseline="mine")
    for status in ("running", "pending", "completing", "completed", "tampered"):
        with pytest.raises(Refused, match="cannot set protected files"):
            reduce(LoopState(status=status), loop_events.LoopRecord(0, 1, fact))  # type: ignore[arg-type]


@CONTAINMENT.mark
async def test_a_contained_command_reaches_neither_the_journal_nor_what_is_kept(
    project: Path, tmp_path: Path
) -> None:
    from taofold.tools.containment import Containment
    from taofold.tools.jail import HIDDEN, PROTECTED

    (project / ".taofold" / "runs.db").write_bytes(b"")
    base = sqlite3.connect(project / ".taofold" / "runs.db")
    base.execute("create table proof (x)")
    base.commit()
    base.close()
    kept = tmp_path / "state" / "secret"
    kept.mkdir(parents=True)
    script = f"ls -A .taofold 2>&1; ls {kept} 2>&1; echo end"
    place = Containment(project, protected=PROTECTED, hidden=HIDDEN)
    async with place.around(["/bin/sh", "-c", script], project) as (argv, inherited):
        running = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, pass_fds=inherited)
        raw, _ = await running.communicate()
    said = raw.decode()
    assert said.endswith("end\n")
    assert "runs.db" not in said
    assert "No such file" in said


@GIT.mark
def test_an_edit_while_it_waits_for_an_approval_is_settled_at_the_terminal(
    taofold: Taofold, project: Path
) -> None:
    task = ("loop", "Make the failing tests pass", "-c", GATE, "--agent", "agents:asker")
    task = (*task, "--autonomy", "balanced")
    assert taofold(*task, "--loop-id", "x", "--approve", "wait").code == 3
    tests = project / "test_calc.py"
    tests.write_text(tests.read_text().replace("def test_zero", "def test_nothing"))
    code, out, err = taofold("loops", "resume", "--approve", "all")
    assert (code, out) == (1, "")
    assert "test_calc.py (changed)" in err
    code, _, err = taofold("loops", "resume", "--keep-edits", "--restore")
    assert (code, "exclude one another" in err) == (2, True)
    code, out, err = taofold("loops", "resume", "--keep-edits", "--approve", "all")
    assert code == 0, err
    assert "1 test need not be there any more: test_calc.py::test_zero" in err
    assert "edited files are accepted: test_calc.py" in err
    assert "def test_nothing" in tests.read_text()

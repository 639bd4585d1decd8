"""A loop with a pause request finishes its iteration and stops before the next.

Mutants: the request is ignored; it counts as a takeover of the loop; it survives the pause; it
overrides a passed gate; a loop without an owner consumes it.
"""

from pathlib import Path

import pytest

from taofold.core.errors import Refused
from taofold.log.journal import MemoryJournal
from taofold.loop import events as loop_events
from taofold.loop.driver import LoopDependencies
from taofold.loop.lifecycle import abort, pause, resume, start
from taofold.loop.state import LoopState
from taofold.loop.stream import load
from taofold.loop.values import LoopLimits
from taofold.tools import tool
from taofold.tools.files import file_tools
from tests.prerequisites import GIT
from tests.terminal import PATIENCE, Started, Taofold, until

from .conftest import GATE
from .kit import act, contains, done, means, wish, write


def asking(root: Path, *contents: str) -> LoopDependencies:
    """A loop in whose first iteration a colleague asks for a pause, twice."""
    journal = MemoryJournal()

    @tool(tier=1, effect="read")
    async def colleague() -> str:
        """Somebody else wants a pause."""
        for _ in range(2):
            await pause(given, "x", by="anna")
        return "asked"

    script = [act("go", "colleague", "goal")]
    for text in contents:
        script += [write("a.py", text), done()]
    tools = [file_tools(root), colleague]
    given = means(root, script, contains("good"), journal=journal, tools=tools)
    return given


@pytest.mark.anyio
async def test_it_pauses_after_the_iteration_and_resume_goes_on(tmp_path: Path) -> None:
    given = asking(tmp_path, "one", "two", "good")
    state = await start(given, wish(tmp_path, bounds=LoopLimits(iterations=9)), loop="x")
    assert (state.status, len(state.done)) == ("paused", 1)
    assert state.pause == loop_events.LoopPaused(reason="asked to by anna")
    facts = [type(one.event).__name__ for one in (await load(given.journal, "x")).records]
    assert facts.count("PauseAsked") == 1
    state = await resume(given, "x")
    assert (state.status, len(state.done)) == ("completed", 3)


@pytest.mark.anyio
async def test_a_passed_gate_and_a_limit_come_before_a_pause(tmp_path: Path) -> None:
    state = await start(asking(tmp_path, "good"), wish(tmp_path), loop="x")
    assert state.status == "completed"
    (tmp_path / "a.py").unlink()
    asked = wish(tmp_path, bounds=LoopLimits(iterations=1))
    state = await start(asking(tmp_path, "bad"), asked, loop="x")
    assert state.status == "exhausted"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("ending", "word"),
    [("paused", "is paused already: asked to by anna"), ("completed", "has ended already"),
     ("exhausted", "it can be resumed"), ("aborted", "has ended already: aborted"),
     ("crashed", "has crashed")],
)  # fmt: skip
async def test_a_loop_that_does_not_go_on_says_so(tmp_path: Path, ending: str, word: str) -> None:
    bounds = LoopLimits(iterations=1 if ending == "exhausted" else 9)
    given = asking(tmp_path, "good" if ending == "completed" else "bad")
    if ending == "crashed":
        from taofold.loop.stream import LoopStream
        from taofold.runtime import ownership

        parts = ownership.me().split("|")
        gone = "|".join([parts[0], "4194304", "1", *parts[3:]])
        await LoopStream(given.journal, "x").append(
            loop_events.LoopStarted(wish=wish(tmp_path), owner=gone)
        )
    else:
        await start(given, wish(tmp_path, bounds=bounds), loop="x")
    if ending == "aborted":
        await abort(given, "x")
    with pytest.raises(Refused, match=word):
        await pause(given, "x")
    assert (await load(given.journal, "x")).state.asked is None


def test_a_state_that_has_no_next_iteration_refuses_the_fact() -> None:
    from taofold.loop.state import reduce

    for status in ("paused", "completing", "completed", "crashed"):
        with pytest.raises(Refused, match="no iteration"):
            reduce(LoopState(status=status), loop_events.LoopRecord(0, 1, loop_events.PauseAsked()))  # type: ignore[arg-type]


@GIT.mark
@pytest.mark.crash
def test_a_running_loop_is_paused_from_another_process(
    taofold: Taofold, project: Path, started: Started
) -> None:
    process = started("loop", "Make the failing tests pass", "-c", GATE, "--agent",
                      "agents:idler", "--loop-id", "x")  # fmt: skip
    until(lambda: (project / ".taofold" / "waiting").exists(), process)
    code, out, err = taofold("loops", "pause")
    assert (code, out) == (0, "x: pauses after iteration 1\n")
    assert "before the next iteration" in taofold("loops", "status").out
    (project / ".taofold" / "go").touch()
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "local requested a pause" in err
    assert "loops resume x" in err
    code, _, err = taofold("loops", "pause", "x")
    assert code == 1
    assert "is paused already: asked to by local" in err
    code, _, err = taofold("loops", "pause")
    assert code == 2

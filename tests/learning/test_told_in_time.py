"""Real loops: a known lesson is injected in the iteration in which its error occurs."""

from pathlib import Path

import pytest

from taofold.core.failing_checks import Check, Location
from taofold.learning.settings import Injection, Learning
from taofold.log.patterns.stores import memory_registry
from taofold.loop.driver import LoopDependencies
from taofold.loop.learner import CrossLoopLearner
from taofold.loop.lifecycle import start
from taofold.loop.verdict import GateResult, Verdict
from taofold.testing.models import ScriptedModel
from tests.loop.kit import GATE, done, goals, means, wish, write

pytestmark = pytest.mark.anyio
CODE = "def load(rows):\n    return {name}\n\n\ndef total(rows):\n    return {how}\n"
AWAITED = "'coroutine' object is not iterable"
MENDED = "+    return sum(await rows)"


def judging(root: Path) -> Verdict:
    """Gates that stop at the first error: a name that is missing hides a type that is wrong."""
    path, text = next((file.name, file.read_text()) for file in root.glob("*.py"))
    failing: list[Check] = []
    if "lines" in text:
        place = Location(path, 2, "load")
        failing = [Check("t::load", "failed", "NameError", "name 'lines' is not defined", (place,))]
    elif "await" not in text and "abs" not in text:
        place = Location(path, 6, "total")
        failing = [Check("t::total", "failed", "TypeError", AWAITED, (place,))]
    elif "abs" in text:
        place = Location("tests/test_total.py", 3)
        failing = [Check("t::total", "failed", "AssertionError", "assert 3 == -3", (place,))]
    result = GateResult(GATE, not failing, int(bool(failing)), "pytest", ("p",), tuple(failing))
    return Verdict(not failing, (result,), float(not failing))


def prepared(root: Path, learner: CrossLoopLearner, *texts: str) -> LoopDependencies:
    """A loop over one file that holds the first of `texts`, and becomes each next one."""
    root.mkdir()
    path = f"{root.name}.py"
    (root / path).write_text(texts[0])
    replies = [reply for text in texts[1:] for reply in (write(path, text), done())]
    return means(root, ScriptedModel(replies), judging, learner=learner)


def told(given: LoopDependencies) -> tuple[str, list[str]]:
    """The instructions, which are the same in every iteration, and the goal of each."""
    model = given.agent(Path(), None).model  # type: ignore[arg-type]
    assert isinstance(model, ScriptedModel)
    return str(model.requests[0].messages[0].content), goals(model)


HIDDEN = CODE.format(name="lines", how="sum(rows)")
OPEN = CODE.format(name="rows", how="sum(rows)")
RIGHT = CODE.format(name="rows", how="sum(await rows)")


async def knowing(tmp_path: Path) -> CrossLoopLearner:
    """Returns a registry with the first-try result of one loop in another file."""
    found = CrossLoopLearner(memory_registry(), Learning(injection=Injection(control_share=0.0)))
    folder = tmp_path / "bank"
    first = prepared(folder, found, OPEN, RIGHT)
    assert (await start(first, wish(folder), loop="first")).status == "completed"
    return found


async def test_an_error_that_stands_at_the_start_brings_its_lesson_at_once(
    tmp_path: Path,
) -> None:
    folder, learner = tmp_path / "shop", await knowing(tmp_path)
    given = prepared(folder, learner, OPEN, RIGHT)
    await start(given, wish(folder), loop="second")
    instructions, (first,) = told(given)
    assert MENDED in first
    assert "Cross-Loop" not in instructions, "they are the same whatever fails"


async def test_an_error_that_comes_to_light_later_brings_it_in_the_next_iteration(
    tmp_path: Path,
) -> None:
    folder, learner = tmp_path / "shop", await knowing(tmp_path)
    given = prepared(folder, learner, HIDDEN, OPEN, RIGHT)
    state = await start(given, wish(folder), loop="second")
    assert state.status == "completed"
    instructions, (first, second) = told(given)
    assert "Cross-Loop" not in instructions
    assert MENDED not in first
    assert MENDED in second


async def test_a_lesson_that_was_followed_is_not_told_again_of_the_wrong_value_that_is_left(
    tmp_path: Path,
) -> None:
    folder, learner = tmp_path / "shop", await knowing(tmp_path)
    followed = RIGHT.replace("sum(await rows)", "abs(sum(await rows))")
    given = prepared(folder, learner, OPEN, followed, RIGHT)
    state = await start(given, wish(folder), loop="second")
    assert state.status == "completed"
    _, (first, second) = told(given)
    assert MENDED in first
    assert "assert 3 == -3" in second
    assert "Cross-Loop" not in second


async def test_a_lesson_that_was_not_followed_is_told_again_after_a_wrong_try(
    tmp_path: Path,
) -> None:
    """Mutant: a lesson is withheld once the check fails by a value."""
    folder, learner = tmp_path / "shop", await knowing(tmp_path)
    wrong = CODE.format(name="rows", how="abs(0)")
    given = prepared(folder, learner, OPEN, wrong, RIGHT)
    state = await start(given, wish(folder), loop="second")
    assert state.status == "completed"
    _, (first, second) = told(given)
    assert MENDED in first
    assert "assert 3 == -3" in second
    assert MENDED in second

"""The learner over a real registry: lessons, attribution, extraction, all of it repeatable."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.learning.exchange.records import written
from taofold.learning.extraction.history import FileChange
from taofold.learning.loops import LoopNote
from taofold.learning.patterns.kinds import Avoidance
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.settings import Extraction, Injection, Learning
from taofold.log.patterns.stores import memory_registry
from taofold.loop.events import BaselineTaken, IterationEnded
from taofold.loop.learner import CrossLoopLearner, failed_at
from taofold.loop.state import Iteration, LoopState
from taofold.loop.values import LoopRequest, Used
from taofold.loop.verdict import Gate, GateResult, Verdict

from .loops import BOUND, GUARD, attempt, fault, history

ALWAYS = Learning(injection=Injection(control_share=0.0))


def learner(learning: Learning = ALWAYS) -> CrossLoopLearner:
    return CrossLoopLearner(memory_registry(), learning, repository="shop", by="worker")


def state(root: Path, **more: object) -> LoopState:
    wish = LoopRequest("Fix the failing tests", ("pytest",), str(root), **more)  # type: ignore[arg-type]
    return LoopState("running", wish, baseline=BaselineTaken(verdict=Verdict(False)))


def check(message: str = "'NoneType' object has no attribute 'name'") -> Check:
    place = Location("users/mail.py", 2, "address")
    return Check("tests/t.py::test_x", "failed", "AttributeError", message, (place,))


async def taught(mind: CrossLoopLearner, loop: str = "loop-1") -> None:
    # After a first attempt, lessons of that kind are injected at the start.
    vain = attempt(BOUND, after=(fault(),))
    await mind.take_in(replace(history(vain, attempt(GUARD)), loop=loop))


def lessons(mind: CrossLoopLearner, root: Path, loop: str = "loop-2") -> str:
    return asyncio.run(mind.lessons(loop, state(root), [check()])).text


@pytest.mark.document_item("001.inject.heading")
def test_what_one_loop_taught_another_is_told_in_true_names(
    tmp_path: Path,
) -> None:
    mind = learner()
    asyncio.run(taught(mind))
    text = lessons(mind, tmp_path)
    assert "Cross-Loop Learning Context" in text
    assert "+if user is None:" in text
    assert "in users/mail.py" in text
    assert "loop-1" not in text
    assert "pat-" not in text


@pytest.mark.scenario("PEER-20")
def test_lessons_are_the_same_to_the_byte_when_they_are_asked_for_again(tmp_path: Path) -> None:
    mind = learner()
    asyncio.run(taught(mind))
    first = lessons(mind, tmp_path)
    asyncio.run(taught(mind, "loop-3"))
    assert lessons(mind, tmp_path) == first


def test_a_control_loop_is_told_nothing_and_says_so(tmp_path: Path) -> None:
    mind = learner(Learning(injection=Injection(control_share=1.0)))
    asyncio.run(taught(mind))
    told = asyncio.run(mind.lessons("loop-2", state(tmp_path), [check()]))
    assert (told.text, told.control) == ("", True)


@pytest.mark.scenario("XTL-14")
@pytest.mark.document_item("001.with.loop.usage", "001.apply.own")
def test_a_used_pattern_gets_its_due_once_and_the_loop_its_account(tmp_path: Path) -> None:
    async def story() -> Pattern:
        mind = learner()
        await taught(mind)
        told = await mind.lessons("loop-2", state(tmp_path), [check()])
        past = history(attempt(GUARD, iteration=2), loop="loop-2")
        learnt = await mind.take_in(past)
        again = await mind.take_in(past)
        assert again.injected == learnt.injected
        used = {one.pattern: one for one in learnt.injected}
        name = next(one for one in told.patterns if one.startswith("pat-error"))
        assert used[name] == Used(name, True, True, 2)
        return await mind.registry.show(name)

    pattern = asyncio.run(story())
    assert (pattern.counts.usage, pattern.counts.successes) == (2, 2)
    assert [source.loop for source in pattern.sources] == ["loop-1", "loop-2"]
    assert pattern.trend[-1].size == 2
    assert pattern.last_used > 0


def test_a_loop_that_gave_up_and_was_resumed_counts_as_it_ended_at_last(tmp_path: Path) -> None:
    async def story() -> tuple[Pattern, LoopNote | None]:
        mind = learner()
        await taught(mind)
        told = await mind.lessons("loop-2", state(tmp_path), [check()])
        other = attempt(before=(fault("KeyError", "'x'"),), iteration=3)
        await mind.take_in(history(other, loop="loop-2", outcome="max_iterations"))
        name = next(one for one in told.patterns if one.startswith("pat-error"))
        assert (await mind.registry.show(name)).counts.usage == 1
        past = history(attempt(GUARD, iteration=4), loop="loop-2")
        for _ in range(2):
            await mind.take_in(past)
        return await mind.registry.show(name), await mind.registry.loop("loop-2")

    pattern, note = asyncio.run(story())
    assert (pattern.counts.usage, pattern.counts.successes) == (2, 2)
    assert (pattern.shown.loops, pattern.shown.iterations, pattern.shown.solved) == (1, 4, 1)
    assert note is not None
    assert (note.iterations, note.solved) == (4, True)


@pytest.mark.scenario("XTL-04")
@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.document_item("001.extract.trigger.failure", "001.anti.detection")
def test_a_failed_loop_that_repeated_one_error_stores_a_mistake_with_its_failure_rate(
    times: int,
) -> None:
    async def story() -> list[Pattern]:
        mind = learner()
        stuck = [attempt(GUARD, after=(fault(),), iteration=n + 1) for n in range(times)]
        past = replace(history(*stuck, outcome="exhausted"), loop="failed")
        learnt = await mind.take_in(past)
        stored = await mind.registry.patterns()
        assert [one.pattern for one in learnt.extracted] == [one.id for one in stored]
        assert not [one for one in stored if one.kind == "success"]
        return [await mind.registry.show(one.id) for one in stored if one.kind == "anti"]

    stored = asyncio.run(story())
    assert len(stored) == (times == 3)
    for pattern in stored:
        assert isinstance(pattern.body, Avoidance)
        assert pattern.body.mode == "repeated_same_error"
        assert pattern.counts.rate == 0.0
        assert [source.loop for source in pattern.sources] == ["failed"]
        record = written(pattern)
        assert (record["failure_mode"], record["failure_rate"]) == ("repeated_same_error", 1.0)


@pytest.mark.scenario("XTL-17")
def test_a_pattern_that_nobody_used_keeps_its_counts(tmp_path: Path) -> None:
    async def story() -> tuple[Pattern, tuple[Used, ...]]:
        mind = learner()
        await taught(mind)
        told = await mind.lessons("loop-2", state(tmp_path), [check()])
        other = attempt(before=(fault("KeyError", "'x'"),))
        learnt = await mind.take_in(history(other, loop="loop-2"))
        name = next(one for one in told.patterns if one.startswith("pat-error"))
        return await mind.registry.show(name), learnt.injected

    pattern, used = asyncio.run(story())
    assert pattern.counts.usage == 1
    assert [one.applied for one in used] == [False] * len(used)


@pytest.mark.scenario("XTL-08")
@pytest.mark.document_item("001.key.extraction.enabled", "001.trouble.manual")
def test_with_extraction_switched_off_nothing_is_written_and_by_hand_it_still_works() -> None:
    class Nothing:
        async def records(self, run: str) -> tuple[()]:
            return ()

        async def text(self, snapshot: str, path: str) -> None:
            return None

    async def story() -> tuple[int, int]:
        mind = learner(Learning(extraction=Extraction(enabled=False)))
        ended = replace(state(Path("/nowhere")), status="completed")
        await mind.learn("loop-1", ended, Nothing())  # type: ignore[arg-type]
        before = len(await mind.registry.patterns()) + len(await mind.registry.loops())
        await mind.take_in(history(attempt(GUARD)))
        return before, len(await mind.registry.patterns())

    before, after = asyncio.run(story())
    assert before == 0
    assert after > 0


@pytest.mark.parametrize("status", ["aborted", "tampered"])
def test_a_loop_that_was_given_up_or_tampered_with_teaches_nothing(status: str) -> None:
    mind = learner()
    ended = replace(state(Path("/nowhere")), status=status)
    learnt = asyncio.run(mind.learn("loop-1", ended, None))  # type: ignore[arg-type]
    assert learnt.extracted == ()
    assert asyncio.run(mind.registry.loops()) == []


@pytest.mark.scenario("XTL-10")
@pytest.mark.document_item("001.cli.threshold")
def test_the_loops_own_threshold_takes_the_place_of_the_configured_one(tmp_path: Path) -> None:
    async def story(rate: float | None) -> str:
        mind = learner()
        await taught(mind)
        for number in range(4):
            told = await mind.lessons(f"use-{number}", state(tmp_path), [check()])
            assert told.patterns
            left = (fault(),) if number == 1 else ()
            used = attempt(GUARD, after=left, kept=not left)
            await mind.take_in(history(used, loop=f"use-{number}"), ())
        last = await mind.lessons("last", state(tmp_path, min_success_rate=rate), [check()])
        return " ".join([*last.reasons, *last.patterns])

    assert "0.80 after 5 uses is below 0.9" in asyncio.run(story(0.9))
    assert (
        "pat-error-attributeerror-nonetype-object-has-no-at-001" in asyncio.run(story(0.1)).split()
    )


@pytest.mark.parametrize(
    ("left", "stayed"),
    [
        (check("D11 was not sold"), True),
        (replace(check("D11 was not sold"), error_type="KeyError"), False),
        (replace(check("D11 was not sold"), places=(Location("users/mail.py", 2, "send"),)), False),
        (replace(check("D11 was not sold"), id="tests/t.py::test_y"), False),
    ],
    ids=["another value in it", "another class", "another function", "another test"],
)
def test_an_error_stays_though_an_edit_changed_a_value_in_it(
    tmp_path: Path, left: Check, stayed: bool
) -> None:
    first = check("d 11 was not sold")
    later = failed_state(tmp_path, left, changed=("users/mail.py",), first=first)
    assert failed_at(later, [left]) == ((left.id,) if stayed else ())


VAR = Check(
    "a.js:no-var",
    "failed",
    "no-var",
    "Unexpected var, use let or const instead.",
    (Location("a.js", 2),),
)
THERE = replace(VAR, places=(Location("b.js", 2),))
LET = FileChange("b.js", "a()\nvar x = 1\n", "a()\nlet x = 1\n")
CONST = (
    attempt(LET, before=(THERE,), after=(THERE,)),
    attempt(FileChange("b.js", LET.after, "a()\nconst x = 1\n"), before=(THERE,)),
)


def failed_state(
    root: Path, left: Check, *, changed: tuple[str, ...], first: Check = VAR
) -> LoopState:
    """A loop whose first iteration `changed` files, and whose error stayed as `left`."""
    result = GateResult(Gate("pytest"), False, 1, checks=(left,))
    before = GateResult(Gate("pytest"), False, 1, checks=(first,))
    ended = IterationEnded(number=1, run="x.1", verdict=Verdict(False, (result,)), changed=changed)
    return replace(
        state(root),
        baseline=BaselineTaken(verdict=Verdict(False, (before,))),
        iterations=(Iteration(1, "x.1", ended=ended),),
    )


@pytest.mark.parametrize(
    ("left", "changed", "told"),
    [
        (VAR, ("a.js",), True),
        (VAR, (), False),
        (VAR, ("tests/t.py",), False),
        (replace(VAR, error_type="KeyError", message="'x'"), ("a.js",), False),
    ],
    ids=["it stayed", "nothing was edited", "only tests were edited", "another error came"],
)
def test_a_loop_has_failed_at_an_error_that_stayed_after_an_edit(
    tmp_path: Path, left: Check, changed: tuple[str, ...], told: bool
) -> None:
    later = failed_state(tmp_path, left, changed=changed)
    assert failed_at(later, [left]) == ((left.id,) if told else ())


def test_what_an_iteration_is_told_is_the_same_after_a_crash(tmp_path: Path) -> None:
    async def story() -> None:
        mind = learner()
        await mind.take_in(replace(history(*CONST), loop="loop-1"))
        for at in (state(tmp_path), failed_state(tmp_path, VAR, changed=("a.js",))):
            lessons = await mind.lessons("loop-2", at, [VAR])
            assert "+const x = 1" in lessons.text
            again = await mind.lessons("loop-2", at, [VAR])
            assert (again.text, again.patterns) == (lessons.text, lessons.patterns)
            note = await mind.registry.loop("loop-2")
            assert note is not None
            assert note.ids == frozenset(lessons.patterns)

    asyncio.run(story())


GUARDED = """\
     user = find(name)
+    if user is None:
+        raise ValueError('nobody')
     return user.email
"""
WRONG = Check("tests/t.py::test_x", "failed", "AssertionError", "assert 'a' == 'b'")


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (WRONG, True),
        (replace(WRONG, error_type="ValueError", message="no value"), False),
        (replace(WRONG, id="tests/t.py::test_y"), False),
    ],
    ids=["a wrong value", "the next exception", "another test"],
)
def test_an_error_that_became_a_wrong_value_was_mended_wrongly(
    tmp_path: Path, left: Check, told: bool
) -> None:
    async def story() -> None:
        mind = learner()
        await taught(mind)
        later = failed_state(tmp_path, left, changed=("users/mail.py",), first=check())
        assert bool((await mind.lessons("loop-2", later, [left])).text) is told
        await mind.lessons("loop-3", state(tmp_path), [check()])
        ended = replace(later.done[0], diff=GUARDED)
        followed = replace(later, iterations=(Iteration(1, "x.1", ended=ended),))
        again = await mind.lessons("loop-3", followed, [left])
        assert again.text == "", "it was told while its error stood, and was followed"

    asyncio.run(story())


def test_an_iteration_is_told_of_the_errors_that_stand_when_it_begins(tmp_path: Path) -> None:
    async def story() -> None:
        mind = learner()
        await taught(mind)
        first = await mind.lessons("loop-2", state(tmp_path), [check()])
        later = failed_state(tmp_path, check(), changed=("users/mail.py",), first=check())
        again = await mind.lessons("loop-2", later, [check()])
        assert first.text
        assert again.patterns == first.patterns, "an iteration remembers nothing of those before"
        other = Check("t::other", "failed", "ValueError", "not this")
        gone = failed_state(tmp_path, other, changed=("users/mail.py",), first=check())
        assert (await mind.lessons("loop-3", gone, [other])).text == "", "it is settled"

    asyncio.run(story())


def test_a_control_loop_is_told_nothing_later_either(tmp_path: Path) -> None:
    async def story() -> None:
        mind = learner(Learning(injection=Injection(control_share=1.0)))
        await mind.take_in(replace(history(*CONST), loop="loop-1"))
        await mind.lessons("loop-2", state(tmp_path), [VAR])
        later = failed_state(tmp_path, VAR, changed=("a.js",))
        told = await mind.lessons("loop-2", later, [VAR])
        assert (told.text, told.control) == ("", True)

    asyncio.run(story())


def test_what_a_file_claims_was_hard_to_find_waits(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = learner(), learner()
        await taught(first)
        files = await first.registry.export()
        await second.registry.import_(
            {name: json.dumps(body).encode() for name, body in files.items()}
        )
        assert (await second.lessons("loop-2", state(tmp_path), [check()])).text == ""
        later = failed_state(tmp_path, check(), changed=("users/mail.py",), first=check())
        assert (await second.lessons("loop-2", later, [check()])).text

    asyncio.run(story())

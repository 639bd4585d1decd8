"""Loops that go nowhere are found, and what is done about it climbs a ladder."""

import pytest

from taofold.core.failing_checks import Check, Location
from taofold.loop import events as loop_events
from taofold.loop.course import detect
from taofold.loop.decisions import Close, Iterate, Wait, decide
from taofold.loop.iteration import goal
from taofold.loop.values import LoopSpending
from taofold.loop.verdict import GateResult, Verdict

from .kit import GATE, begun, iteration, scored, state_after, verdict

WEATHER = (
    "Tomorrow brings heavy rain over northern islands while southern coasts stay sunny and dry; "
    "strong winds reach harbours towards midnight"
)


def story(
    *verdicts: Verdict,
    start: float = 0.0,
    files: list[dict[str, str]] | None = None,
    said: str = "I repair the parser of invoices",
    **wish: object,
) -> list[loop_events.LoopEvent]:
    """Returns the facts of iterations with these verdicts, and the detection after each."""
    events = begun(start, **wish)
    for n, one in enumerate(verdicts, 1):
        more = {"files": files[n - 1]} if files else {}
        opened, ended = iteration(n, one, said=said, **more)
        events.append(opened)
        assert isinstance(ended, loop_events.IterationEnded)
        found = detect(state_after(*events), ended)
        events += [ended, *found]
    return events


def found(events: list[loop_events.LoopEvent]) -> list[tuple[int, str, str]]:
    return [(o.number, o.kind, o.level) for o in events if isinstance(o, loop_events.Intervened)]


@pytest.mark.scenario("RLP-10")
def test_the_same_error_three_times_without_progress_asks_for_another_strategy() -> None:
    events = story(*[scored(0.5, error="KeyError 'x' at 0x7f12")] * 3, start=0.5)
    assert found(events) == [(3, "stuck", "redirect")]
    stuck = events[-1]
    assert isinstance(stuck, loop_events.Intervened)
    assert "fundamentally different" in stuck.instruction


def test_an_error_that_changes_only_in_addresses_and_times_is_the_same() -> None:
    errors = [f"object at 0x{n}f took {n} ms in /tmp/{n}" for n in (1, 2, 3)]
    assert found(story(*[scored(0.5, error=one) for one in errors], start=0.5)) != []


def test_the_same_error_beside_progress_is_not_stuck() -> None:
    assert found(story(scored(0.2), scored(0.4), scored(0.6))) == []


def test_two_times_is_not_stuck() -> None:
    assert found(story(scored(0.5), scored(0.5), start=0.5)) == []


@pytest.mark.scenario("RLP-09")
@pytest.mark.parametrize("files", [[{}] * 6, [{"a.py": "1"}] * 6], ids=["idle", "the same edit"])
def test_the_same_work_with_the_same_failure_ends_the_loop(files: list[dict[str, str]]) -> None:
    """Mutant: files that were there before count as movement."""
    events = story(*[scored(0.5)] * 7, start=0.5, files=[*files, files[0]])
    levels = [(kind, level) for _, kind, level in found(events)]
    assert ("stuck", "redirect") in levels, "a change of strategy comes first"
    assert ("plateau", "abort") in levels
    six = [one for one in events if getattr(one, "number", 0) <= 7]
    move = decide("x", state_after(*six), 5000)
    assert isinstance(move, Close)
    assert move.ending == "no_progress"
    assert "t fails" in move.reason


@pytest.mark.parametrize("what", ["files", "output"])
def test_who_still_tries_something_is_redirected_and_never_stopped(what: str) -> None:
    """For a gate with only an exit code, new files or new output are the only signs of progress.

    Mutants: a flat share ends the loop; stuck pauses for any files.
    """
    files = [{"a.py": str(n) if what == "files" else "1"} for n in range(12)]
    errors = ["E" if what == "files" else f"E{chr(97 + n)}" for n in range(12)]
    events = story(*[scored(0.0, error=one) for one in errors], files=files)
    assert {level for _, _, level in found(events)} <= {"redirect"}
    move = decide("x", state_after(*events), 5000)
    assert isinstance(move, Close)
    assert move.ending == "exhausted", "ten iterations are ten"


@pytest.mark.scenario("RLP-09")
def test_after_a_change_of_strategy_three_more_flat_iterations_end_the_loop() -> None:
    events = story(*[scored(0.5)] * 6, start=0.5)
    assert (3, "stuck", "redirect") in found(events)
    assert found(events)[-1] == (6, "plateau", "abort")
    assert [one for one in found(events) if one[0] in (4, 5)] == []
    move = decide("x", state_after(*events), 5000)
    assert isinstance(move, Close)
    assert move.ending == "no_progress"


def test_a_flat_share_is_no_plateau_while_other_checks_begin_to_pass() -> None:
    def many(bad: set[int]) -> Verdict:
        return verdict({f"t{n}": n not in bad for n in range(200)})

    assert found(story(many({1, 2, 3}), many({2, 3}), many({3}), start=0.98)) == []


def test_undo_and_redo_is_oscillation() -> None:
    versions = [{"a.py": "1"}, {"a.py": "2"}, {"a.py": "1"}, {"a.py": "2"}]
    gates = [scored(q, error=str(q)) for q in (0.3, 0.5, 0.3, 0.5)]
    assert ("oscillation", "redirect") in [
        (kind, level) for _, kind, level in found(story(*gates, files=versions))
    ]
    onward = [{"a.py": str(n)} for n in range(4)]
    assert not [one for one in found(story(*gates, files=onward)) if one[1] == "oscillation"]


def test_a_check_that_passed_and_fails_is_a_regression_and_the_next_prompt_names_it() -> None:
    events = story(verdict({"a": True, "b": False}), verdict({"a": False, "b": True}))
    assert found(events) == [(2, "regression", "warn")]
    last = events[-1]
    assert isinstance(last, loop_events.Intervened)
    assert last.why == "1 check passed before and fail now: a"
    assert "| 1 check passed before and fail now: a" in goal(state_after(*events), 3, "")


def test_the_ladder_climbs_with_each_time_and_a_pause_waits_for_a_person() -> None:
    one, two = verdict({"a": True, "b": False}), verdict({"a": False, "b": True})
    events = story(one, two, one, two)
    levels = [level for _, kind, level in found(events) if kind == "regression"]
    assert levels == ["warn", "redirect", "redirect"]
    paused = [*events, loop_events.Intervened(number=4, level="pause", kind="stuck", why="again")]
    assert decide("x", state_after(*paused), 9000) == Wait("stuck: again")


def test_talk_of_something_else_is_logged_first() -> None:
    failing = Check("t", "failed", "KeyError", "'x'", (Location("parser.py", 3),))
    result = GateResult(GATE, False, 1, "pytest", ("pytest",), (failing,))
    levels: dict[str, list[str]] = {}
    for edited in ("weather.py", ""):
        events = begun()
        for n, quality in enumerate((0.2, 0.4, 0.6), 1):
            more = {"changed": (edited,) if edited else (), "files": {"weather.py": str(n)}}
            judged = Verdict(False, (result,), quality)
            opened, ended = iteration(n, judged, said=WEATHER, **more)
            assert isinstance(ended, loop_events.IterationEnded)
            events.append(opened)
            events += [ended, *detect(state_after(*events), ended)]
        levels[edited] = [level for _, kind, level in found(events) if kind == "deviation"]
    assert levels == {"weather.py": ["log", "warn"], "": []}, "who edits nothing, leads nowhere"


def test_who_edits_where_a_check_fails_keeps_to_the_task_in_whatever_words() -> None:
    failing = Check("t", "failed", "KeyError", "'x'", (Location("rain.py", 3),))
    result = GateResult(GATE, False, 1, "pytest", ("pytest",), (failing,))
    judged = [Verdict(False, (result,), quality) for quality in (0.2, 0.4, 0.6)]
    events = begun()
    for n, one in enumerate(judged, 1):
        opened, ended = iteration(n, one, said=WEATHER, changed=("rain.py",))
        events += [opened, ended]
        assert isinstance(ended, loop_events.IterationEnded)
        assert not detect(state_after(*events[:-1]), ended)


def test_a_passed_gate_is_never_called_a_problem() -> None:
    assert found(story(scored(0.5), scored(0.5), scored(1.0, passed=True), start=0.5)) == []


@pytest.mark.scenario("RLP-08")
def test_a_confident_model_with_a_failed_gate_does_not_stop_the_loop() -> None:
    events = [*begun(), *iteration(1, scored(0.8), confidence=0.96, said="SUCCESS: all done")]
    assert isinstance(decide("x", state_after(*events), 4000), Iterate)
    passed = [*begun(), *iteration(1, scored(1.0, passed=True), confidence=0.1)]
    assert decide("x", state_after(*passed), 4000) == Close(
        "completed", "the gates passed after iteration 1"
    )


def test_a_plateau_of_iterations_that_were_cut_off_names_the_limit() -> None:
    for reason, named in (("max_steps", True), ("final_answer", False)):
        events = begun(0.5)
        for n in range(1, 7):
            more = {"stop_reason": reason, "spent": LoopSpending(steps=6)}
            opened, ended = iteration(n, scored(0.5), **more)
            assert isinstance(ended, loop_events.IterationEnded)
            events.append(opened)
            events += [ended, *detect(state_after(*events), ended)]
        last = events[-1]
        assert isinstance(last, loop_events.Intervened)
        assert last.kind == "plateau"
        assert ("cut off after 6 steps: --steps" in last.why) is named

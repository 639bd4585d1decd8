"""The changes that displays get of a run: one fold of its records, `WatchedRun`."""

from taofold.core import events as e
from taofold.core.values import Action, Observation, Thought
from taofold.core.watched import UNKNOWN, WatchedChange, WatchedRun

CALLS = (Action("look", {"at": 1}), Action("send", {"to": "Ada"}))


def fed(*events: e.Event) -> tuple[WatchedRun, list[WatchedChange]]:
    watched = WatchedRun()
    records = [e.Record("r", seq, seq * 10, event) for seq, event in enumerate(events)]
    return watched, [watched.feed(record) for record in records]


def proposed(key: str, *actions: Action) -> e.Proposed:
    return e.Proposed(key=key, thought=Thought("why"), actions=actions or CALLS)


def seen(key: str, index: int, **more: str) -> e.Observed:
    return e.Observed(key=key, index=index, observation=Observation("done", **more))  # type: ignore[arg-type]


def ask(key: str, index: int) -> e.Decided:
    return e.Decided(key=key, index=index, verdict="ask", reason="it writes")


def test_a_call_comes_with_its_step_and_how_it_stood_before() -> None:
    _, changes = fed(
        e.RunStarted(goal="g"),
        proposed("1"),
        e.Started(key="1", index=1),
        e.Started(key="1", index=1),
        seen("1", 0),
        seen("1", 1),
        proposed("2"),
    )
    assert [change.step for change in changes] == [0, 1, 1, 1, 1, 1, 2]
    assert [change.batch for change in changes] == [0, 2, 2, 2, 2, 2, 2]
    assert [change.slot.action for change in changes[2:6]] == [
        CALLS[1],
        CALLS[1],
        CALLS[0],
        CALLS[1],
    ]
    # The second start differs from the first, so a display shows the call once.
    assert [change.slot.started for change in changes[2:4]] == [False, True]
    # The step is whole with its last observation, in whichever order they come.
    assert [change.closes for change in changes[4:6]] == [False, True]


def test_an_answer_names_its_question_and_is_put_into_a_word() -> None:
    edited = Action("send", {"to": "Bea"})
    by = {"key": "1", "index": 1, "by": "ada"}
    answers = {
        "approved": e.Resolved(verdict="allow", **by),  # type: ignore[arg-type]
        "denied": e.Resolved(verdict="deny", **by),  # type: ignore[arg-type]
        "edited": e.Resolved(verdict="allow", action=edited, **by),  # type: ignore[arg-type]
        "void": e.Decided(key="1", index=1, verdict="allow"),
    }
    for word, answer in answers.items():
        watched, changes = fed(e.RunStarted(goal="g"), proposed("1"), ask("1", 1), answer)
        question = changes[-1].question
        assert question is not None
        assert question.seq == 2
        # A question that policy closes with the same call has the word "void".
        assert changes[-1].decision == word
        assert watched.questions == {}


def test_a_question_is_open_until_its_call_or_its_run_is_over() -> None:
    watched, _ = fed(e.RunStarted(goal="g"), proposed("1"), ask("1", 0), ask("1", 1))
    assert list(watched.questions) == [("1", 0), ("1", 1)]
    watched.feed(e.Record("r", 4, 40, seen("1", 0, refused="expired")))
    assert list(watched.questions) == [("1", 1)]
    watched.feed(e.Record("r", 5, 50, e.RunFinished("cancelled", "cancelled", success=False)))
    assert watched.questions == {}


def test_a_limit_is_named_once_however_the_run_meets_it() -> None:
    _, changes = fed(
        e.RunStarted(goal="g"),
        proposed("1"),
        seen("1", 0, refused="limit"),
        e.LimitHit(key="1", limit="tool_calls", value=3),
        e.LimitHit(key="1", limit="steps", value=-1),
    )
    assert [(change.limit, change.last) for change in changes[2:]] == [
        ("tool_calls", True),
        ("", False),
        ("steps", True),
    ]


def test_a_rewind_takes_back_steps_questions_and_limits() -> None:
    watched, changes = fed(
        e.RunStarted(goal="g"),
        proposed("1", CALLS[0]),
        seen("1", 0),
        e.LimitHit(key="1", limit="steps", value=1),
        proposed("2"),
        ask("2", 1),
        e.Rewound(to=2),
        e.LimitHit(key="1", limit="steps", value=1),
        proposed("2"),
    )
    assert watched.questions == {}
    assert changes[-2].limit == "steps"
    assert changes[-1].step == 2
    assert len(watched.state.steps) == 1


def test_records_from_the_middle_of_a_run_are_shown_without_their_calls() -> None:
    watched, changes = fed(e.Started(key="7", index=0), seen("7", 0))
    assert [change.slot for change in changes] == [UNKNOWN, UNKNOWN]
    assert watched.state.tool_calls == 0

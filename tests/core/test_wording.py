"""Wording of each event and its audience: `runs log`, the trace, `runs diff`."""

from typing import Any, get_args

import pytest

from taofold.core import events as e
from taofold.core.content import MediaPart, OpaquePart, TextPart, ThinkingPart, ToolCall
from taofold.core.content import Message as M
from taofold.core.text import duration, line, number, parameters, value
from taofold.core.values import Action, Observation, Thought, Usage

CALL = ToolCall("look", "{}", "c1")
PICTURE = MediaPart("image", "image/png", "d1")
PAGE = MediaPart("document", "text/plain", "d2")
LINKED = MediaPart("image", "image/png", url="https://example.org/a.png")


def replied(**fields: Any) -> e.Replied:
    return e.Replied(key="1", prompt="p", **fields)


def ended(**fields: Any) -> e.RunFinished:
    return e.RunFinished(status="finished", stop_reason="final_answer", success=True, **fields)


def observed(result: Any = None, index: int = 0, **fields: Any) -> e.Observed:
    return e.Observed(key="1", index=index, observation=Observation(result, **fields))


WORDS: list[tuple[e.Event, str, str | None]] = [
    (e.RunStarted(goal="do it", model="m"), "agent (react) with m: do it", None),
    (e.Forked(run="r", seq=4), "from r at 4", "forked from r at 4"),
    (e.Resumed(epoch=2), "epoch 2", "resumed, epoch 2"),
    (e.Steered(key="1", id="i", text="stop", by="ann"), "by ann: stop", "message by ann: stop"),
    (e.LimitHit(key="1", limit="usd", value=1), "usd", "limit usd"),
    (e.LimitHit(key="1", limit="steps", value=0), "steps", "limit steps"),
    (
        e.LimitHit(key="1", limit="steps", value=-1),
        "steps (last turn)",
        "limit steps (last turn)",
    ),
    (
        e.PromptChanged(key="1", recorded="a", requested="b"),
        "a → b",
        "the prompt changed since it was recorded: a → b",
    ),
    (
        replied(content="42", usage=Usage(999, 1), ms=1500),
        "1.0k tokens, 1.5 s: 42",
        None,
    ),
    (replied(content=(CALL, CALL), cached=True), "0 tokens, 0 ms (cached): look, look", None),
    (replied(content=(TextPart("I look"), CALL)), "0 tokens, 0 ms: I look", None),
    (
        replied(content=(CALL, CALL), found=("look", "see")),
        "0 tokens, 0 ms, found look, see: look, look",
        None,
    ),
    (replied(), "0 tokens, 0 ms:", None),
    (
        e.Cut(key="1", reason="refused", messages=3, detail="no"),
        "refused: 3 messages no",
        "data signed by the provider is no longer sent, refused: 3 messages no",
    ),
    (
        e.Cut(key="1", reason="lost", messages=3),
        "lost: 3 messages",
        "data signed by the provider is no longer sent, lost: 3 messages",
    ),
    (
        e.Hooked(key="1", hook="h", point="before_model", message="be brief"),
        "h before_model: be brief",
        "hook h before_model: be brief",
    ),
    (
        e.Hooked(key="1", hook="h", point="after_model", rejected="no", message="be brief"),
        "h after_model: no",
        "hook h after_model: no",
    ),
    (
        e.AskFailed(key="1", kind="server", message="down"),
        "server: down",
        "the model failed: server: down",
    ),
    (
        e.Charged(key="1", usage=Usage(1200, usd=0.01), model="x:m", estimated=True),
        "about 1.2k tokens, $0.0100: a call of x:m without a reply",
        "charged about 1.2k tokens, $0.0100: a call of x:m without a reply",
    ),
    (
        e.Charged(key="1", usage=Usage(9), tool="claude"),
        "9 tokens: tool claude",
        "charged 9 tokens: tool claude",
    ),
    (e.Violated(key="1", rule="R1", detail="no thought"), "R1: no thought", None),
    (
        e.Violated(key="1", rule="R1", detail="no thought", refused=True),
        "R1: no thought",
        "reply refused (strict, R1): asked again: no thought",
    ),
    (
        e.Violated(key="1", rule="R2", detail="no action", refused=True),
        "R2: no action",
        "reply refused (R2): no action",
    ),
    (
        e.Violated(key="1", rule="finish_in_batch", detail="not taken"),
        "finish_in_batch: not taken",
        "rule finish_in_batch: not taken",
    ),
    (
        e.Compacted(key="1", upto=3, chars_before=900, chars_after=80),
        "up to step 3: 900 → 80 characters",
        "compacted up to step 3: 900 → 80 characters",
    ),
    (e.Noted(key="1", kind="plan", data={"parts": 3}), 'plan {"parts": 3}', None),
    (
        e.Noted(key="1", kind="branch", data={"node": "a", "to": "b"}),
        "branch a → b",
        "branch a → b",
    ),
    (
        e.Noted(key="1", kind="branch", data={"node": "a", "to": ""}),
        "branch a → the next node",
        "branch a → the next node",
    ),
    (
        e.Proposed(
            key="1",
            thought=Thought("I look " + "x" * 80, "progress"),
            actions=(Action("look", {"what": "cats"}), Action("read", {"path": "y" * 90})),
        ),
        "progress: I look " + "x" * 62 + '… → look what="cats"; read path="' + "y" * 52 + "…",
        None,
    ),
    (
        e.HandedOff(key="1", before="desk", agent="billing", reason="it is about money"),
        "from desk to billing: it is about money",
        "handed off from desk to billing: it is about money",
    ),
    (e.Proposed(key="1", thought=Thought("hm"), actions=()), "reasoning: hm →", None),
    (e.Decided(key="1", verdict="allow"), "[0] allow (tier 1)", None),
    (
        e.Decided(key="1", verdict="ask", index=2, tier=3, reason="it pays"),
        "[2] ask (tier 3) it pays",
        None,
    ),
    (
        e.Resolved(key="1", verdict="deny", by="ann", tier=3, reason="dear"),
        "[0] deny by ann (tier 3) dear",
        None,
    ),
    (
        e.Resolved(key="1", verdict="allow", by="ann", imported=True),
        "[0] allow by ann elsewhere (imported) (tier 1)",
        None,
    ),
    (e.Started(key="1", index=3), "[3]", None),
    (e.StartedOnce(key="1"), "[0]", None),
    (observed("all of it", extraction="it", duration_ms=59_999), "[0] success 60.0 s: it", None),
    (observed({"a": 1}, 2, status="failure"), '[2] failure 0 ms: {"a": 1}', None),
    (e.DecisionRefused(id="r:3", by="eve", why="not hers"), "r:3 by eve: not hers", None),
    (
        e.Snapshotted(step=1, tree="ab" * 20, folder="/p", files=2, left_out=(".env",)),
        "step 1: abababababab, 2 files, 1 path left out",
        None,
    ),
    (
        e.Snapshotted(step=1, folder="/p", why="it is full"),
        "files after step 1 were not stored: it is full",
        "files after step 1 were not stored: it is full",
    ),
    (
        e.Restored(step=1, tree="ab" * 20, folder="/p"),
        "the files of step 1 in /p",
        "restored the files of step 1 in /p",
    ),
    (
        e.Restored(step=1, folder="/p"),
        "no files: they were left as they were",
        "restored no files: they were left as they were",
    ),
    (
        e.Compensated(
            key="3", start=9, status="failed", why="it is on its way", call="step 2: order"
        ),
        "step 2: order: failed it is on its way",
        "undo of step 2: order: failed it is on its way",
    ),
    (e.Updated(name="count", value=[1, "é"]), 'count = [1, "é"]', None),
    (e.Parked(reason="awaiting_input"), "awaiting_input", None),
    (e.Rewound(to=7), "to 7", None),
    (ended(output={"n": 3}), 'finished (final_answer) {"n": 3}', None),
    (ended(output=0), "finished (final_answer) 0", None),
    (ended(), "finished (final_answer)", None),
    (ended(output="half", error="too long"), "finished (final_answer) too long", None),
]


@pytest.mark.parametrize(("event", "summary", "announcement"), WORDS)
def test_what_people_read_of_an_event(
    event: e.Event, summary: str, announcement: str | None
) -> None:
    assert event.summary.rstrip() == summary
    assert (event.announcement or "").rstrip() == (announcement or "")
    assert (event.announcement is None) == (announcement is None)


def test_every_kind_of_event_is_worded() -> None:
    assert {type(event) for event, _, _ in WORDS} == set(get_args(e.Event))


def named(fact: str, value: bool = True) -> set[str]:
    return {kind.__name__ for kind in get_args(e.Event) if getattr(kind, fact) is value}


def test_a_replay_derives_what_no_person_and_no_driver_adds() -> None:
    assert named("derived", False) == {
        *("RunStarted", "Forked", "Resumed", "PromptChanged", "DecisionRefused", "Charged"),
        *("Updated", "Parked", "Rewound", "RunFinished", "Snapshotted", "Restored", "Compensated"),
    }


def test_a_difference_of_runs_leaves_out_how_they_were_driven() -> None:
    assert named("incidental") == {"Forked", "Resumed", "Parked", "Snapshotted", "Restored"}


def test_time_in_which_nobody_was_active_is_not_counted() -> None:
    assert named("timed", False) == {
        "RunStarted",
        "Forked",
        "Resumed",
        "Rewound",
        "Restored",
        "Compensated",
    }


def test_people_notice_what_a_provider_or_a_release_took_away() -> None:
    assert named("alarming") == {"PromptChanged", "Cut", "AskFailed"}


def test_only_which_way_a_flow_took_may_be_missing_in_an_older_log() -> None:
    assert e.Noted(key="1", kind="branch", data={"node": "a", "to": ""}).optional
    others = [event for event, _, _ in WORDS if getattr(event, "kind", "") != "branch"]
    assert not any(event.optional for event in others)


@pytest.mark.parametrize(
    ("event", "digests"),
    [
        (e.RunStarted(goal="x"), ()),
        (
            e.RunStarted(
                goal="x", parts=(TextPart("x"), PICTURE, LINKED), history=(M("user", (PAGE,)),)
            ),
            ("d2", "d1"),
        ),
        (e.Steered(key="1", id="i", text="x", by="a"), ()),
        (e.Steered(key="1", id="i", text="x", by="a", parts=(PAGE, PICTURE)), ("d2", "d1")),
        (replied(content="d1"), ()),
        (
            replied(content=(PICTURE, OpaquePart(digest="d3"), OpaquePart("{}"), LINKED)),
            ("d3", "d1"),
        ),
        (observed("x"), ()),
        (observed("x", blob="d4"), ("d4",)),
        (observed("x", parts=(TextPart("x"), PICTURE)), ("d1",)),
        (observed("x", blob="d4", parts=(PICTURE, PAGE)), ("d4", "d1", "d2")),
        (ended(output="d1"), ()),
    ],
)
def test_an_event_names_the_bytes_beside_the_log(event: e.Event, digests: tuple[str, ...]) -> None:
    assert event.blobs() == digests


def test_what_an_event_says_of_itself() -> None:
    reply = replied(content=(ThinkingPart("hm"), TextPart("I "), TextPart("look"), CALL))
    assert (reply.text, reply.calls, reply.reasoning) == ("I look", (CALL,), "hm")
    plain = replied(content="42")
    assert (plain.text, plain.calls, plain.reasoning) == ("42", (), "")
    assert e.RunStarted(goal="x").content == "x"
    assert e.RunStarted(goal="x", parts=(PICTURE,)).content == (PICTURE,)
    assert e.Steered(key="1", id="i", text="x", by="a").content == "x"
    assert e.Steered(key="1", id="i", text="x", by="a", parts=(PAGE,)).content == (PAGE,)
    timed = ended(elapsed=0)
    assert timed.timeless() == ended()
    assert ended().timeless() == ended()


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        *((0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (1449, "1.4 s"), (59_949, "59.9 s")),
        *((60_000, "1 min 0 s"), (61_400, "1 min 1 s"), (119_600, "2 min 0 s")),
        *((3_599_000, "59 min 59 s"), (3_600_000, "1 h 0 min"), (7_384_000, "2 h 3 min")),
    ],
)
def test_a_duration_in_words(ms: float, words: str) -> None:
    assert duration(ms) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((0, "0"), (999, "999"), (1000, "1.0k"), (2100, "2.1k"), (999_900, "999.9k")),
        *((1_000_000, "1.0M"), (3_449_000, "3.4M")),
    ],
)
def test_a_number_in_words(count: int, words: str) -> None:
    assert number(count) == words


def test_a_text_on_one_line() -> None:
    assert line("a\n\n b\t c") == "a b c"
    assert line("a\x1b[2J") == "a␛[2J"
    assert line("x" * 100) == "x" * 100
    assert line("x" * 101) == "x" * 99 + "…"
    assert line(12.5) == "12.5"
    # White space is removed, so eight times the width is read. Later text is not.
    assert line(" " * 79 + "ab", 10) == "a"
    assert line(" " * 80 + "ab", 10) == ""


def test_a_value_is_shown_as_json_or_as_python_shows_it() -> None:
    assert value({"ä": [1, None]}) == '{"ä": [1, null]}'
    assert value({1}) == "{1}"
    assert value("x" * 58) == '"' + "x" * 58 + '"'
    assert value("x" * 59) == '"' + "x" * 58 + "…"


@pytest.mark.parametrize(
    ("given", "width", "shown"),
    [
        ({}, 100, ""),
        ({"path": "a.py", "limit": 3}, 100, 'path="a.py" limit=3'),
        ({"a\nb": 1}, 100, "a b=1"),
        # 22 characters and two quotes are short and shown whole, one more is long.
        ({"a": "x" * 22, "b": "y" * 99}, 60, f'a="{"x" * 22}" b="{"y" * 28}…'),
        ({"a": "x" * 23, "b": "y" * 99}, 70, f'a="{"x" * 23}" b="{"y" * 30}…'),
        ({"a": "x" * 80, "b": "y" * 80}, 100, f'a="{"x" * 45}… b="{"y" * 45}…'),
        ({"a": "x" * 80, "b": "y" * 80}, 10, 'a="xxxxxx…'),
        ({"old": 1, "new": "b"}, 100, 'old=1 new="b"'),
        # A change shows only the difference, from twelve characters before it on.
        ({"old": "a" * 24 + "x", "new": "a" * 24 + "y"}, 100,
         f'old="…{"a" * 12}x" new="…{"a" * 12}y"'),
        ({"old": "a" * 23 + "x", "new": "a" * 23 + "y"}, 100,
         f'old="{"a" * 23}x" new="{"a" * 23}y"'),
        ({"old": "a" * 30, "new": "a" * 40}, 100,
         f'old="…{"a" * 12}" new="…{"a" * 22}"'),
    ],
)  # fmt: skip
def test_the_parameters_of_a_call_on_one_line(
    given: dict[str, Any], width: int, shown: str
) -> None:
    assert parameters(given, width) == shown


def test_the_parameters_of_a_call_have_a_line_of_a_hundred_characters() -> None:
    whole = {"a": "x" * 95}
    assert parameters(whole) == f'a="{"x" * 95}"'
    assert parameters({"a": "x" * 96}) == parameters({"a": "x" * 96}, 100) != parameters(whole)

"""The recorded form of a tool's result: media, key lines, sizes and redaction."""

from typing import Any

import pytest

from taofold import Agent, Image, MemoryLog, RunContext, tool
from taofold.core import events as e
from taofold.core.content import MediaPart, TextPart, blob_digest
from taofold.core.text import shorten
from taofold.core.values import Observation
from taofold.policy.redaction import MARK
from taofold.runtime.tool_calls import BLOB, MANY, QUESTION, STATE
from taofold.tools import InputRequired, Outcome
from taofold.tools.threads import WORKERS
from tests.pictures import PICTURE

from .kit import Memo, act, events, finish

pytestmark = pytest.mark.anyio
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


async def seen(function: Any, **options: Any) -> tuple[Observation, MemoryLog]:
    """Returns the recorded observation of a call of `function`."""
    log = MemoryLog()
    agent = Agent(Memo([act(function.name), finish()]), tools=[function], log=log, **options)
    result = await agent.run("x", run_id="r")
    return events(result, e.Observed)[0].observation, log


async def test_the_bytes_of_a_picture_lie_beside_the_log_and_its_text_is_clean() -> None:
    @tool(effect="read", max_chars=40)
    def draw() -> Any:
        """Draw."""
        return [f"it is {SECRET}", Image(data=PICTURE), "x" * 100, "y" * 40]

    observation, log = await seen(draw)
    before, picture, long, whole = observation.parts
    assert before == TextPart(f"it is {MARK}")
    assert isinstance(picture, MediaPart)
    assert await log.blob(blob_digest(PICTURE)) == PICTURE
    assert picture.digest == blob_digest(PICTURE)
    assert isinstance(long, TextPart)
    assert len(long.text) < 100
    assert whole == TextPart("y" * 40)


async def test_a_plain_result_has_no_parts() -> None:
    @tool(effect="read")
    def plain() -> str:
        """Say something."""
        return "plain"

    observation, _ = await seen(plain)
    assert (observation.parts, observation.blob, observation.cut) == ((), "", False)


@pytest.mark.parametrize(("value", "shown"), [(None, "(no result)"), ("", "(no result)"), (0, 0)])
async def test_a_call_without_a_result_shows_that_it_ran(value: Any, shown: Any) -> None:
    @tool(effect="read")
    def quiet() -> Any:
        """Say nothing."""
        return value

    observation, _ = await seen(quiet)
    assert (observation.result, observation.status) == (shown, "success")


@pytest.mark.parametrize(
    ("size", "most", "cut", "kept"),
    [
        (2000, 2000, False, False),
        (2001, 2000, True, False),
        (BLOB, 10 * BLOB, False, False),
        (BLOB + 1, 10 * BLOB, True, True),
        (BLOB + 1, 2000, True, True),
    ],
)
async def test_what_is_too_long_is_cut_and_what_is_large_kept_beside(
    size: int,
    most: int,
    cut: bool,
    kept: bool,
) -> None:
    @tool(effect="read", max_chars=most)
    def long() -> str:
        """Say much."""
        return "ab " * (size // 3) + "x" * (size % 3)

    observation, log = await seen(long)
    assert (observation.cut, bool(observation.blob)) == (cut, kept)
    assert (len(observation.result) < size) == cut
    if kept:
        assert len(await log.blob(observation.blob)) == size


def extract(how: str) -> Any:
    def broken(value: Any) -> str:
        raise RuntimeError("no")

    return {"own": lambda value: f"{len(value)} letters", "broken": broken,
            "nothing": lambda value: "",
            "secret": lambda value: SECRET}[how]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "extraction", "auto"),
    [
        ("own", "9 letters", False),
        ("broken", "it worked", True),
        ("nothing", "it worked", True),
        ("secret", MARK, False),
    ],
)
async def test_the_key_line_is_the_tools_or_else_one_of_the_result(
    how: str, extraction: str, auto: bool
) -> None:
    @tool(effect="read", extract=extract(how))
    def work() -> str:
        """Work."""
        return "it worked"

    observation, _ = await seen(work)
    assert (observation.extraction, observation.auto) == (extraction, auto)


async def test_the_tools_key_line_is_of_what_it_returned_and_of_nothing_else() -> None:
    asked = list[Any]()

    @tool(effect="read", extract=lambda value: asked.append(value) or "own")
    def fail() -> str:
        """Fail."""
        raise RuntimeError("no luck")

    observation, _ = await seen(fail)
    assert (observation.extraction, observation.auto, asked) == ("RuntimeError: no luck", True, [])


async def test_what_a_tool_writes_into_the_state_is_clean() -> None:
    @tool(effect="read")
    def note() -> Outcome:
        """Note."""
        return Outcome("noted", update=("found", {"password": SECRET}))

    log = MemoryLog()
    result = await Agent(Memo([act("note"), finish()]), tools=[note], log=log).run("x")
    assert result.state.data == {"found": {"password": MARK}}
    assert events(result, e.Observed)[0].observation.result == "noted"


async def test_a_timeout_says_how_many_calls_hang_once_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import asyncio

    @tool(effect="once", tier=1, reversible=True, timeout=0.01)
    async def hang(ctx: RunContext[Any]) -> None:
        """Hang."""
        ctx.report("so far")
        await asyncio.sleep(30)

    for hanging in (MANY - 1, MANY):
        monkeypatch.setattr(type(WORKERS), "hanging", hanging)
        observation, _ = await seen(hang)
        text = str(observation.result)
        assert observation.status == "timeout"
        assert text.startswith("hang timed out after 0.01 s.")
        assert (f"{hanging} calls of this process hang" in text) == (hanging == MANY)
        assert "It may have happened or may still finish. Output so far:\nso far\nOptions: " in text
        assert observation.extraction.startswith("hang timed out after 0.01 s.")
        assert observation.options[0] == "find out whether it happened"


@pytest.mark.parametrize(
    ("wants", "why"),
    [
        ({"state": "s" * (STATE + 1)}, "with more than can be kept for it"),
        ({"state": (1, 2)}, "with more than can be kept for it"),
        ({"state": SECRET}, "holds a secret in its state or form"),
        ({"form": {"title": SECRET}}, "holds a secret in its state or form"),
    ],
)
async def test_a_question_that_cannot_be_kept_as_it_is_fails_the_call(
    wants: dict[str, Any], why: str
) -> None:
    @tool(effect="read")
    def ask() -> None:
        """Ask."""
        raise InputRequired("which?", **wants)

    observation, _ = await seen(ask)
    assert observation.status == "failure"
    assert why in str(observation.result)


async def test_a_question_is_shown_to_its_bound_and_without_secrets() -> None:
    @tool(effect="read")
    def ask() -> None:
        """Ask."""
        raise InputRequired(f"{SECRET} " + "q" * QUESTION)

    result = await Agent(Memo([act("ask"), finish()]), tools=[ask], log=MemoryLog()).run("x")
    [asked] = result.pending
    assert asked.question.startswith(f"{MARK} qqq")
    assert asked.question.endswith("q… (41 more characters)")
    assert len(shorten("q" * 10, 10)) == 10
    assert shorten("q" * 11, 10) == "q" * 10 + "… (1 more character)"


async def test_who_asks_without_end_has_failed() -> None:
    asked = []

    @tool(effect="read")
    def curious() -> None:
        """Ask."""
        asked.append(1)
        raise InputRequired("again?")

    log = MemoryLog()
    agent = Agent(
        Memo([act("curious"), finish()]), tools=[curious], log=log, approve=lambda _: True
    )
    result = await agent.run("x")
    assert len(asked) == 17
    [observation] = result.steps[0].observations
    assert observation.result == "curious asks too many questions"

"""A tool that asks the user during its call: `InputRequired`."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Decision, MemoryLog, RunContext, tool
from taofold.core import events as e
from taofold.core.errors import Refused
from taofold.runtime.control import decide
from taofold.testing.replay import assert_replays
from taofold.tools import InputRequired, PersonAnswer
from tests.deadlines import LoopClock

from .kit import LOGS, Memo, act, batch, events, finish

pytestmark = pytest.mark.anyio
SEEN: list[PersonAnswer | None] = []
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}}


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


@tool(tier=1, effect="idempotent", reversible=True)
def paint(ctx: RunContext[Any], wall: str) -> str:
    """Paint."""
    SEEN.append(ctx.answer)
    if ctx.answer is None:
        raise InputRequired("which colour?", form=FORM, state={"seal": "s" * 20})
    if not ctx.answer.accepted:
        return "left as it is"
    if ctx.answer.state == {"seal": "s" * 20}:
        raise InputRequired("sure?", state={"colour": ctx.answer.text})
    return f"{wall} is {ctx.answer.state['colour']} now"


@tool(tier=1, effect="once", reversible=True)
def sign(ctx: RunContext[Any]) -> str:
    """Sign."""
    SEEN.append(ctx.answer)
    if ctx.answer is None:
        raise InputRequired("sign?")
    return "signed" if ctx.answer.accepted else "not signed"


def agent(*script: Any, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [paint, sign])
    return Agent(Memo(script), **options)


@pytest.mark.parametrize("log", LOGS)
async def test_the_call_goes_on_with_what_the_tool_kept_when_each_answer_is_in(
    log: str, tmp_path: Path
) -> None:
    store = LOGS[log](tmp_path)

    def fresh(*script: str) -> Agent[Any, Any]:  # as another process would make it
        return agent(*script, log=store)

    first = await fresh(act("paint", wall="north")).run("paint", run_id="r")
    assert (first.status, first.stop_reason) == ("waiting", "awaiting_input")
    [asked] = first.pending
    assert (asked.question, asked.form, asked.wants_text) == ("which colour?", FORM, True)
    await decide(store, asked.id, Decision("answer", answer="blue"))
    second = await fresh().resume("r")
    assert (second.status, second.stop_reason) == ("waiting", "awaiting_approval")
    [asked] = second.pending
    assert (asked.question, asked.form, asked.wants_text) == ("sure?", {}, False)
    await decide(store, asked.id, Decision("approve"))
    last = await fresh(finish()).resume("r")
    assert last.status == "finished"
    assert last.steps[0].observations[0].result == "north is blue now"
    # Nothing was called again without need: once per question, and the last time.
    assert [one.text if one else None for one in SEEN] == [None, "blue", ""]
    assert last.state.tool_calls == 1
    await assert_replays(fresh(), last)


async def test_a_run_that_waits_in_a_call_replays_and_resumes_without_calling_again() -> None:
    one = agent(act("paint", wall="w"), finish())
    result = await one.run("paint", run_id="r")
    assert result.status == "waiting"
    await one.replay(result)
    again = await one.resume(result)
    assert (again.stop_reason, len(SEEN)) == ("awaiting_input", 1)


async def test_a_callback_answers_in_process() -> None:
    def says(request: Any) -> Decision:
        return Decision("answer", answer="red") if request.wants_text else Decision("approve")

    result = await agent(act("paint", wall="w"), finish(), approve=says).run("paint")
    assert result.steps[0].observations[0].result == "w is red now"
    await assert_replays(agent(act("paint", wall="w"), finish()), result)


async def test_parameters_given_instead_of_a_text_are_the_filled_form() -> None:
    one = agent(act("paint", wall="w"), finish(), tools=[paint])
    result = await one.run("paint", run_id="r")
    [asked] = result.pending
    assert result.log is not None
    await decide(result.log, asked.id, Decision("edit", parameters={"colour": "green"}))
    await one.resume(result)
    assert SEEN[1] is not None
    assert SEEN[1].text == '{"colour":"green"}'


MISFITS = [
    Decision("answer", answer='{"colour": 3}'),
    Decision("answer", answer='{"color": "red"}'),
    Decision("edit", parameters={"colour": ["red"]}),
]


@pytest.mark.parametrize("decision", MISFITS)
async def test_an_answer_that_does_not_fit_the_form_is_refused_and_the_question_stays(
    decision: Decision,
) -> None:
    """Mutant: an answer is not held against the form."""
    one = agent(act("paint", wall="w"), finish(), tools=[paint])
    result = await one.run("paint", run_id="r")
    assert result.log is not None
    with pytest.raises(Refused, match=r"does not fit|has no 'color'"):
        await decide(result.log, result.pending[0].id, decision)
    assert (await one.resume(result)).status == "waiting"
    assert SEEN == [None]


@pytest.mark.parametrize("decision", MISFITS)
async def test_a_callback_whose_answer_does_not_fit_the_form_answers_nothing(
    decision: Decision,
) -> None:
    one = agent(act("paint", wall="w"), tools=[paint], approve=lambda _: decision)
    result = await one.run("paint")
    assert result.status == "waiting"
    assert SEEN == [None]


async def test_a_refusal_reaches_the_tool() -> None:
    one = agent(act("paint", wall="w"), finish())
    result = await one.run("paint", run_id="r")
    assert result.log is not None
    await decide(result.log, result.pending[0].id, Decision("deny", reason="no paint"))
    ended = await one.resume(result)
    assert ended.steps[0].observations[0].result == "left as it is"


async def test_approving_everything_answers_no_question() -> None:
    result = await agent(act("sign"), finish(), approve="all").run("sign")
    assert (result.status, result.stop_reason) == ("waiting", "awaiting_approval")


async def test_the_rest_of_a_batch_is_done_while_one_call_waits() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    one = agent(batch(("sign", {}), ("look", {})), finish(), tools=[sign, look])
    result = await one.run("both", run_id="r")
    assert result.status == "waiting"
    assert result.log is not None
    assert [e_.observation.result for e_ in events(result, e.Observed)] == ["seen"]
    await decide(result.log, result.pending[0].id, Decision("approve"))
    ended = await one.resume(result)
    assert [o.result for o in ended.steps[0].observations] == ["signed", "seen"]


async def test_a_call_that_may_have_been_made_with_the_answer_is_doubted_not_repeated() -> None:
    log = MemoryLog()
    one = agent(act("sign"), finish(), log=log)
    result = await one.run("sign", run_id="r")
    await decide(log, result.pending[0].id, Decision("approve"))
    ended = await one.resume("r")
    cut = next(r.seq for r in ended.records if isinstance(r.event, e.Observed))
    broken = MemoryLog()
    records = [r for r in await log.read("r") if r.seq < cut]
    await broken.create(await log.row("r"))
    claim = await broken.claim("r", "")
    await broken.append("r", claim.epoch, records, status="running")
    SEEN.clear()
    again = await agent(act("sign"), finish(), log=broken).resume("r")
    assert again.status == "waiting"
    assert "may already have happened" in again.pending[0].question
    assert SEEN == []
    await decide(broken, again.pending[0].id, Decision("approve"))
    last = await agent(finish(), log=broken).resume("r")
    assert last.status == "finished"
    assert SEEN[-1] is not None, "the answer must reach the second attempt"


async def test_a_tool_that_never_stops_asking_fails() -> None:
    @tool(effect="read")
    def nag(ctx: RunContext[Any]) -> str:
        """Nag."""
        raise InputRequired("and now?")

    result = await agent(act("nag"), finish(), tools=[nag], approve=lambda _: True).run("x")
    assert "too many questions" in str(result.steps[0].observations[0].result)


@pytest.mark.parametrize(
    ("state", "why"),
    [("x" * 70_000, "more than can be kept"), ({"k": "sk-" + "a1B2" * 12}, "secret")],
)
async def test_what_must_not_be_written_is_not_asked(state: Any, why: str) -> None:
    @tool(effect="read")
    def odd(ctx: RunContext[Any]) -> str:
        """Odd."""
        raise InputRequired("go on?", state=state)

    result = await agent(act("odd"), finish(), tools=[odd], approve=lambda _: True).run("x")
    assert why in str(result.steps[0].observations[0].result)


@tool(tier=1, effect="once", reversible=True)
async def confer(ctx: RunContext[Any]) -> str:
    """Asks the present user and continues."""
    SEEN.append(ctx.answer)
    if ctx.answer is not None:
        return f"later: {ctx.answer.text}"
    wants = InputRequired("which one?", form=FORM, state={"n": 1})
    if ctx.ask is None:
        raise wants
    return f"at once: {(await ctx.ask(wants)).text}"


async def test_who_is_there_is_asked_while_the_call_goes_on() -> None:
    def says(request: Any) -> Decision:
        assert request.question == "which one?"
        return Decision("answer", answer="this")

    one = agent(act("confer"), finish(), tools=[confer], approve=says)
    result = await one.run("x")
    assert result.steps[0].observations[0].result == "at once: this"
    assert len(SEEN) == 1, "the call went on, it was not made again"
    kinds = [type(r.event).__name__ for r in result.records if hasattr(r.event, "index")]
    wanted = ["Decided", "StartedOnce", "Decided", "Resolved", "StartedOnce", "Observed"]
    assert kinds[: len(wanted)] == wanted
    await assert_replays(one, result)


async def test_the_deadline_waits_while_a_person_thinks() -> None:
    from dataclasses import replace

    clock = LoopClock()

    async def says(_: Any) -> Decision:
        await clock.jumped(90)
        return Decision("answer", answer="this")

    quick = replace(confer, timeout=60)
    result = await agent(act("confer"), finish(), tools=[quick], approve=says).run("x")
    assert result.steps[0].observations[0].status == "success"


async def test_who_leaves_the_question_open_finds_it_later() -> None:
    log = MemoryLog()
    one = agent(act("confer"), finish(), tools=[confer], approve="all", log=log)
    result = await one.run("x", run_id="r")
    assert (result.status, result.stop_reason) == ("waiting", "awaiting_input")
    await decide(log, result.pending[0].id, Decision("answer", answer="that"))
    ended = await agent(finish(), tools=[confer], log=log).resume("r")
    assert ended.steps[0].observations[0].result == "later: that"


async def test_a_tool_that_swallows_an_open_question_still_parks_the_run() -> None:
    @tool(effect="read")
    async def stubborn(ctx: RunContext[Any]) -> str:
        """Go on anyway."""
        assert ctx.ask is not None
        try:
            await ctx.ask(InputRequired("may I?"))
        except InputRequired:
            return "I did it anyway"
        return "asked"

    result = await agent(act("stubborn"), finish(), tools=[stubborn], approve="all").run("x")
    assert (result.status, len(result.pending)) == ("waiting", 1)

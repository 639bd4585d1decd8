"""Secrets reach neither the log nor a listener, in any spelling by the model."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taofold import Agent, Decision, MemoryLog, RunContext, Tier, open_log, rate, tool
from taofold.agent.result import Delta
from taofold.core.errors import Refused
from taofold.core.values import Message, Principal, Profile, Reply, ToolCall
from taofold.log.log import Log
from taofold.policy import Policy
from taofold.policy.redaction import MARK
from taofold.runtime.control import cancel, decide, pending, steer
from taofold.testing import ScriptedModel
from taofold.tools import InputRequired

from .kit import Memo, act, finish

pytestmark = pytest.mark.anyio

SECRET = 'pä"ss\\word-123'
PLAIN = "hunter2hunter2"
NATIVE = Profile(window=1_000_000, window_known=True, native_tools=True)
RAN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(effect="read")
def look(what: str = "it") -> str:
    """Look."""
    RAN.append(what)
    return "seen"


@tool(effect="once", tier=2)
def send(what: str = "it") -> str:
    """Send."""
    RAN.append(what)
    return "sent"


def said(value: Any) -> str:
    """Everything in `value`, JSON strings unescaped."""
    plain = msgspec.to_builtins(value, enc_hook=repr)
    return json.dumps(plain, ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")


async def heard(script: list[Any], secret: str, profile: Profile = NATIVE, **run: Any) -> str:
    happened: list[Any] = []
    log = MemoryLog()
    model = ScriptedModel(script, profile=profile)
    agent = Agent(model, tools=[look, send], log=log, secrets=[secret], approve="all")
    await agent.run("goal", run_id="r", listener=happened.append, **run)
    assert await agent.replay("r")
    return said([*[r.event for r in await log.read("r")], *[str(one) for one in happened]])


@pytest.mark.parametrize("profile", [NATIVE, Profile(window=1_000_000, window_known=True)])
async def test_a_secret_behind_json_escapes_reaches_nobody(profile: Profile) -> None:
    call = Reply(text="t", calls=(ToolCall("look", json.dumps({"what": SECRET}), "1"),))
    first = call if profile.native_tools else act("look", f"it is {SECRET}", what=SECRET)
    happened = await heard([first, finish(f"it is {SECRET}")], SECRET, profile)
    assert SECRET not in happened
    assert "word-123" not in happened
    assert MARK in happened
    assert all("word-123" not in one for one in RAN)


async def test_a_secret_in_names_ids_history_and_session_is_taken_out() -> None:
    reply = Reply(text="t", calls=(ToolCall(PLAIN, "{}", PLAIN),), model=PLAIN, finish=PLAIN)
    history = (Message("user", PLAIN),)
    happened = await heard([reply, finish()], PLAIN, history=history, session=PLAIN)
    assert PLAIN not in happened


async def test_a_call_that_lost_a_secret_does_not_run_unless_it_only_reads() -> None:
    text = f"with {PLAIN} in it"
    await heard([act("send", what=text), act("look", what=text), finish()], PLAIN)
    (ran,) = RAN
    assert ran == f"with {MARK} in it"


async def test_the_policys_tier_counts_for_guessed_parameters() -> None:
    call = Reply(text="t", calls=(ToolCall("look", '{"what":"say "x" y"}', "1"),))
    model = ScriptedModel([call, finish()], profile=NATIVE)
    policy = Policy(tiers={"look": Tier.CONFIRM})
    result = await Agent(model, tools=[look], approve="all", policy=policy).run("goal")
    assert result.steps[0].observations[0].refused in ("guessed", "malformed")
    assert not RAN


async def test_streamed_text_holds_no_secret() -> None:
    happened: list[Any] = []
    key = "sk-abcdefghijklmnopqrstuvwxyz"
    model = ScriptedModel([finish("ok", f"the key is {key} and {PLAIN}, so")])
    await Agent(model, secrets=[PLAIN]).run("goal", listener=happened.append)
    text = "".join([one.text for one in happened if isinstance(one, Delta)])
    assert key not in text
    assert PLAIN not in text
    assert ", so" in text


@pytest.mark.parametrize(
    "reply",
    [
        "text",
        Reply(text=None),  # type: ignore[arg-type]
        Reply(text="x", calls=(ToolCall("look", None),)),  # type: ignore[arg-type]
        Reply(text="x", usage=msgspec.structs.replace(Reply().usage, usd=float("nan"))),
        Reply(text="x", usage=msgspec.structs.replace(Reply().usage, input_tokens=-5)),
    ],
)
async def test_an_impossible_reply_is_a_provider_failure(reply: Any) -> None:
    class Odd(ScriptedModel):
        async def complete(self, request: Any, on_text: Any = None) -> Reply:
            return reply  # type: ignore[no-any-return]

    result = await Agent(Odd([])).run("goal")
    assert result.status == "failed"


async def test_lone_surrogates_and_deep_values_do_not_break_the_log() -> None:
    deep = json.dumps({"what": "x"})[:-1] + ',"y":' + "[" * 150 + "]" * 150 + "}"
    script = [
        Reply(text="a \ud800", calls=(ToolCall("look", '{"what":"\\ud800"}', "1"),)),
        Reply(text="b", calls=(ToolCall("look", deep, "2"),)),
        finish(),
    ]
    log = MemoryLog()
    result = await Agent(ScriptedModel(script, profile=NATIVE), tools=[look], log=log).run("goal")
    assert result.status == "finished"
    msgspec.json.encode([r.event for r in result.records])
    assert result.steps[1].observations[0].refused == "malformed"


SHAPED = "sk-abcdefghijklmnop1234"


async def waiting(log: Log, **options: Any) -> tuple[Agent[Any, Any], str]:
    """A run that asks for `send`, and the id of its question."""
    script = [act("send", "t", what="a letter"), finish()]
    agent = Agent(Memo(script), tools=[look, send], log=log, secrets=[PLAIN], **options)
    await agent.run("goal", run_id="r")
    (one,) = await pending(log, "r")
    return agent, one.id


@pytest.mark.parametrize("edit", [{"what": SHAPED}, {"what": f"dear\nannex {SHAPED}"}])
async def test_an_edit_that_holds_a_secret_is_refused_and_can_be_given_again(
    edit: dict[str, Any],
) -> None:
    log = MemoryLog()
    agent, one = await waiting(log)
    with pytest.raises(Refused, match="may hold no secret"):
        await decide(log, one, Decision("edit", parameters=edit))
    await decide(log, one, Decision("edit", parameters={"what": "a card"}))
    result = await agent.resume("r")
    assert (result.success, RAN) == (True, ["a card"])
    written = said([r.event for r in await log.read("r")])
    assert SHAPED not in written


async def test_an_edit_with_a_secret_of_the_agent_is_refused_by_who_knows_it() -> None:
    log = MemoryLog()
    agent, one = await waiting(log)
    edit = Decision("edit", parameters={"what": f"it is {PLAIN}"})
    with pytest.raises(Refused, match="parameter what, line 1 holds") as refused:
        await decide(log, one, edit, redactor=agent.redactor)
    assert PLAIN not in str(refused.value)
    await decide(log, one, edit)  # a run without the secret's key: it refuses
    assert (await agent.resume("r")).success
    assert RAN == []
    written = said([r.event for r in await log.read("r")])
    assert "may hold no secret" in written
    assert PLAIN not in written
    assert await agent.replay("r")


async def test_a_callback_that_edits_a_secret_in_runs_nothing() -> None:
    log = MemoryLog()
    approve = [Decision("edit", parameters={"what": PLAIN})]
    script = [act("send", "t", what="a letter"), finish()]
    agent = Agent(
        Memo(script), tools=[send], log=log, secrets=[PLAIN], approve=lambda _: approve[0]
    )
    assert (await agent.run("goal", run_id="r")).success
    assert RAN == []
    assert "may hold no secret" in said([r.event for r in await log.read("r")])


async def test_the_names_of_people_are_redacted_where_they_enter() -> None:
    log = MemoryLog()
    agent, one = await waiting(log)
    somebody = Principal(PLAIN)
    await steer(log, "r", "quickly", by=somebody, message_id=f"steer:{PLAIN}:1")
    with pytest.raises(Refused):
        await decide(log, one, Decision("approve", digest=PLAIN), by=Principal(PLAIN, ("ADMIN",)))
    with pytest.raises(Refused):
        await decide(log, f"r:{PLAIN}", Decision("approve"), by=somebody)
    policy = Policy(approvers="USER")
    await decide(log, one, Decision("deny"), by=Principal(PLAIN, ("USER",)), policy=policy)
    assert (await agent.resume("r")).success
    kinds = {type(r.event).__name__ for r in await log.read("r")}
    assert {"Steered", "DecisionRefused", "Resolved"} <= kinds
    assert PLAIN not in said([r.event for r in await log.read("r")])


@pytest.mark.parametrize("waits", [True, False])
async def test_the_name_of_whoever_cancels_is_redacted(waits: bool) -> None:
    log = MemoryLog()

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        await cancel(log, "r", by=Principal(SHAPED))
        return "worked"

    first = act("send", "t", what="a letter") if waits else act("work")
    agent = Agent(Memo([first, finish()]), tools=[send, work], log=log)
    await agent.run("goal", run_id="r")
    if waits:
        await cancel(log, "r", by=Principal(SHAPED))
    written = said([r.event for r in await log.read("r")])
    assert "cancelled by" in written
    assert SHAPED not in written


def on_disk(folder: Path) -> bytes:
    """All that lies in the files of a log: also what was deleted there and not yet overwritten."""
    return b"\0".join([file.read_bytes() for file in sorted(folder.iterdir())])


FROM_ENVIRONMENT = "correct horse battery"


@pytest.mark.parametrize("secret", [SHAPED, FROM_ENVIRONMENT, PLAIN])
async def test_what_people_write_to_a_run_is_never_on_disk_as_they_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("DEPLOY_PASSWORD", FROM_ENVIRONMENT)
    log = open_log(tmp_path / "runs.db")
    # Only the agent has `PLAIN`. Patterns and the environment are known without the agent.
    agent, one = await waiting(log)
    knows: dict[str, Any] = {"redactor": agent.redactor} if secret == PLAIN else {}
    text, somebody = f"it is {secret}", Principal(secret, ("USER",))
    policy = Policy(approvers="USER")

    await steer(log, "r", text, by=somebody, message_id=f"m:{secret}:1", **knows)
    await steer(log, "r", text, by=somebody, message_id=f"m:{secret}:2", **knows)
    with pytest.raises(Refused, match="sent already") as refused:
        await steer(log, "r", text, message_id=f"m:{secret}:1", **knows)
    assert secret not in str(refused.value)
    wrong = [
        (f"r:{secret}", Decision("approve")),
        (f"r:{'x' * 480} {secret}", Decision("approve")),
        (one, Decision(secret)),
        (one, Decision("edit", parameters={"what": {secret}})),  # type: ignore[dict-item]
        (one, Decision("edit", parameters={"what": text})),
    ]
    for action, decision in wrong:
        with pytest.raises(Refused):
            await decide(log, action, decision, by=somebody, policy=policy, **knows)
    decision = Decision("deny", reason=text)
    await decide(log, one, decision, by=somebody, policy=policy, **knows)
    await rate(log, "r", 1, text, by=somebody, **knows)
    kinds = [signal.kind for signal in await log.inbox("r")]
    assert (kinds.count("steer"), kinds.count("refused"), kinds.count("decide")) == (2, 5, 1)
    written = on_disk(tmp_path)
    assert b"it is [redacted]" in written, "the files were searched as they are"
    assert secret[:10].encode() not in written, "nor a part that has no shape"
    assert (await agent.resume("r")).success
    assert secret.encode() not in on_disk(tmp_path)


@pytest.mark.parametrize("secret", [SHAPED, PLAIN])
@pytest.mark.parametrize("fills", [True, False])
async def test_an_answer_is_never_on_disk_as_it_was_written(
    tmp_path: Path, secret: str, fills: bool
) -> None:
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    @tool(tier=1, effect="once", reversible=True)
    def ask(ctx: RunContext[Any]) -> str:
        """Asks the user."""
        if ctx.answer is None:
            raise InputRequired("who?", form=form)
        return ctx.answer.text

    log = open_log(tmp_path / "runs.db")
    agent = Agent(Memo([act("ask"), finish()]), tools=[ask], log=log, secrets=[PLAIN])
    await agent.run("goal", run_id="r")
    (one,) = await pending(log, "r")
    knows: dict[str, Any] = {"redactor": agent.redactor} if secret == PLAIN else {}
    answer = {"name": f"it is {secret}"}
    decision = (
        Decision("edit", parameters=answer)
        if fills
        else Decision("answer", answer=json.dumps(answer))
    )
    await decide(log, one.id, decision, **knows)
    assert secret.encode() not in on_disk(tmp_path)
    assert (await agent.resume("r")).success
    assert "it is [redacted]" in said([r.event for r in await log.read("r")])
    assert secret.encode() not in on_disk(tmp_path)


async def test_whoever_cancels_is_never_on_disk_by_a_secret_name(tmp_path: Path) -> None:
    log = open_log(tmp_path / "runs.db")
    kinds: list[str] = []
    written: list[bytes] = []

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        await cancel(log, "r", by=Principal(SHAPED))
        kinds.extend([signal.kind for signal in await log.inbox("r")])
        written.append(on_disk(tmp_path))
        return "worked"

    await Agent(Memo([act("work"), finish()]), tools=[work], log=log).run("goal", run_id="r")
    assert kinds == ["cancel"]
    assert SHAPED.encode() not in written[0]

"""Parts that only their provider understands are stored whole, sent back, and dropped on record."""

from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, MemoryLog, tool
from taofold.core import events as e
from taofold.core.content import Issuer, OpaquePart, TextPart, blob_digest, is_issuer_bound
from taofold.core.errors import LogError, ModelError
from taofold.core.values import Reply, Usage
from taofold.log.log import Log
from taofold.runtime.model import Request
from taofold.runtime.model_calls import DETAIL, INLINE
from taofold.testing.models import ROOMY
from taofold.testing.replay import assert_replays

from .kit import Memo, act, events, finish, planted

pytestmark = pytest.mark.anyio
ISSUER = Issuer("messages", "api.acme.example", "acme-1")
LONG = "ä" * (INLINE + 1)


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(effect="read")
def other() -> str:
    """Look elsewhere."""
    return "seen"


def sealed(text: str, data: str) -> Reply:
    """A reply with an opaque part beside its text."""
    return Reply(parts=(OpaquePart(data, "reasoning"), TextPart(text)), issuer=ISSUER)


class Watched(Memo):
    """Notes what of each request is opaque."""

    def __init__(self, script: Any, bound: bool = False) -> None:
        super().__init__(script, profile=replace(ROOMY, prefix_bound=bound))
        self.opaque: list[list[str]] = []

    async def complete(self, request: Request, on_text: Any = None) -> Reply:
        conversation = request.conversation
        self.opaque.append(
            [
                part.data
                for index in range(len(conversation))
                if not isinstance(content := conversation.content(index), str)
                for part in content
                if isinstance(part, OpaquePart)
            ]
        )
        return await super().complete(request, on_text)


def agent(model: Memo, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    options.setdefault("tools", [look])
    return Agent(model, **options)


async def crashed(script: list[Any], log: MemoryLog | None = None) -> Log:
    """The log of a run that died behind the observation of its first step."""
    whole = log or MemoryLog()
    await agent(Watched(script), log=whole).run("x", run_id="r")
    records = await whole.read("r")
    seen = next(r.seq for r in records if isinstance(r.event, e.Observed))
    return await planted(records[: seen + 1], MemoryLog())


@pytest.mark.parametrize(("data", "beside"), [("x" * INLINE, False), (LONG, True)])
async def test_a_long_part_lies_beside_the_log_and_is_sent_back_whole(
    data: str, beside: bool
) -> None:
    log = MemoryLog()
    model = Watched([sealed(act("look"), data), finish()])
    one = agent(model, log=log)
    result = await one.run("x", run_id="r")
    assert model.opaque == [[], [data]]
    part = events(result, e.Replied)[0].content[0]
    assert isinstance(part, OpaquePart)
    assert (part.kind, part.data) == ("reasoning", "" if beside else data)
    if beside:
        whole = data.encode()
        assert (part.digest, part.size) == (blob_digest(whole), len(whole))
        assert await log.blob(part.digest) == whole
    await assert_replays(one, result)


async def test_a_later_life_sends_back_what_lies_beside_the_log() -> None:
    first = MemoryLog()
    left = await crashed([sealed(act("look"), LONG), finish()], first)
    data = LONG.encode()
    claim = await left.claim("r", "")
    await left.append("r", claim.epoch, [], status="running", blobs={blob_digest(data): data})
    model = Watched([finish()])
    result = await agent(model, log=left).resume("r")
    assert result.status == "finished"
    assert model.opaque == [[LONG]]


async def test_without_what_lay_beside_the_log_nothing_opaque_is_sent_back() -> None:
    script = [doubly_sealed(LONG), finish()]
    left = await crashed(script)
    with pytest.raises(LogError):
        await left.blob(blob_digest(LONG.encode()))
    model = Watched([finish()])
    result = await agent(model, log=left).resume("r")
    assert result.status == "finished"
    assert model.opaque == [[]]
    assert model.asked[0][2].text == act("look")


def doubly_sealed(data: str) -> Reply:
    """A long opaque part and a short one: without the first the second would not verify."""
    parts = (OpaquePart(data, "reasoning"), OpaquePart("short", "seal"), TextPart(act("look")))
    return Reply(parts=parts, issuer=ISSUER)


@pytest.mark.parametrize(
    ("bound", "tools", "words", "reason"),
    [
        (True, [look], "", ""),
        (True, [look, other], "", "tools_changed"),
        (True, [look], "Be brief.", "prompt_changed"),
        (False, [look, other], "Be brief.", ""),
    ],
)
async def test_what_was_signed_for_another_prefix_is_not_sent_back(
    bound: bool, tools: list[Any], words: str, reason: str
) -> None:
    left = await crashed([sealed(act("look"), "s"), finish()])
    model = Watched([finish()], bound)
    result = await agent(model, log=left, tools=tools, instructions=words).resume("r")
    cuts = events(result, e.Cut)
    # A changed list of tools stands in the prompt, too, for a model that reads it there.
    assert bool(cuts) == bool(reason)
    assert model.opaque == [[] if reason else ["s"]]
    if reason:
        assert cuts[0].reason in (reason, "prompt_changed")
        assert cuts[0].messages == len(model.asked[0])


TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


def refusal(words: str = "signature not verified") -> ModelError:
    return ModelError(words, kind="binding")


async def test_what_a_provider_refuses_is_given_up_and_asked_again_once() -> None:
    class Refusing(Watched):
        async def complete(self, request: Request, on_text: Any = None) -> Reply:
            reply = await super().complete(request, on_text)
            if self.opaque[-1] == ["first"]:
                raise refusal(f"bad token {TOKEN} " + "w" * 2 * DETAIL)
            return reply

    script = [sealed(act("look"), "first"), sealed(act("other"), "second"), finish()]
    model = Refusing(script)
    one = agent(model, tools=[look, other])
    result = await one.run("x", run_id="r")
    assert result.status == "finished"
    # Only the parts before the cut are dropped.
    assert model.opaque == [[], ["first"], [], ["second"]]
    [cut] = events(result, e.Cut)
    assert (cut.reason, cut.messages, len(cut.detail)) == ("refused", 4, DETAIL)
    assert TOKEN not in cut.detail
    await assert_replays(one, result)


async def test_a_cut_holds_in_later_lives() -> None:
    class Refusing(Watched):
        async def complete(self, request: Request, on_text: Any = None) -> Reply:
            reply = await super().complete(request, on_text)
            if self.opaque[-1]:
                raise refusal()
            return reply

    log = MemoryLog()
    script = [sealed(act("look"), "s"), act("look"), finish()]
    await agent(Refusing(script), log=log).run("x", run_id="r")
    records = await log.read("r")
    replied = [r.seq for r in records if isinstance(r.event, e.Observed)][1]
    left = await planted(records[: replied + 1], MemoryLog())
    model = Watched([finish()])
    result = await agent(model, log=left).resume("r")
    assert result.status == "finished"
    assert model.opaque == [[]]


@pytest.mark.parametrize("sealed_first", [True, False])
async def test_a_refusal_of_nothing_or_for_the_second_time_ends_the_run(sealed_first: bool) -> None:
    first: Any = sealed(act("look"), "s") if sealed_first else act("look")

    class Never(Watched):
        async def complete(self, request: Request, on_text: Any = None) -> Reply:
            reply = await super().complete(request, on_text)
            if len(self.opaque) > 1:
                raise refusal()
            return reply

    model = Never([first, finish()])
    result = await agent(model).run("x")
    assert (result.status, result.success) == ("failed", False)
    assert "signature not verified" in result.error
    assert len(model.opaque) == (3 if sealed_first else 2)


async def test_a_secret_beside_opaque_parts_drops_them() -> None:
    model = Watched([sealed(act("look", f"my token is {TOKEN}"), "s"), finish()])
    result = await agent(model).run("x")
    assert model.opaque == [[], []]
    replied = events(result, e.Replied)[0]
    assert not is_issuer_bound(replied.content)
    assert replied.notes == ("a secret was taken out: the opaque parts beside it are not kept",)


async def test_the_same_request_is_paid_for_once_where_replies_are_kept() -> None:
    def answer(request: Request) -> Reply:
        return Reply(finish(), usage=Usage(7, 3))

    for cache, calls in ((True, 1), (False, 2)):
        model = Memo(choose=answer)
        one = agent(model, cache=cache)
        first, second = await one.run("x"), await one.run("x")
        third = await one.run("y")
        assert len(model.asked) == calls + 1
        assert (first.usage.tokens, second.usage.tokens) == (10, 0 if cache else 10)
        assert [r.cached for r in events(second, e.Replied)] == [cache]
        assert not events(third, e.Replied)[0].cached

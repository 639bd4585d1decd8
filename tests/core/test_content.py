"""Messages are parts: what is text to everybody, and what only a provider understands."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold import Agent, MemoryLog, tool
from taofold.core import events as e
from taofold.core.content import (
    Content,
    Conversation,
    Issuer,
    MediaPart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    is_issuer_bound,
    parts_of,
    result_message,
    without_issuer_parts,
)
from taofold.core.events import decode, encode
from taofold.core.reply import Reply, Usage
from taofold.core.values import Profile
from taofold.log.formats.ndjson import loads
from taofold.log.log import RunRow
from taofold.testing.models import ScriptedModel

OLD = Path(__file__).with_name("schema1.ndjson")
"""A run as the release before parts wrote it: native calls, thinking, a broken call, history."""
pytestmark = pytest.mark.anyio

ISSUER = Issuer("messages", "api.anthropic.com", "claude-opus-5-5")
IMAGE = MediaPart("image", "image/png", "5a0c91d2" * 5, 12_300, "plan.png")
WHOLE: tuple[Part, ...] = (
    OpaquePart('{"type":"thinking","thinking":"","signature":"Eo8"}', "thinking"),
    ThinkingPart("hm", "reasoning_content"),
    ThinkingPart("for people"),
    TextPart("I look.", "commentary", '{"thoughtSignature":"x"}'),
    ToolCall("read", '{"path": "a"}', "c1", '{"thoughtSignature":"y"}'),
    IMAGE,
    ToolResult("c1", (TextPart("see"), IMAGE)),
)


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_every_part_comes_back_from_the_log_as_it_was() -> None:
    replied = e.Replied(key="1", prompt="p", content=WHOLE, issuer=ISSUER, notes=("dropped",))
    assert decode(encode(replied)) == replied


def test_plain_text_is_stored_as_text() -> None:
    assert b'"content":"hello"' in encode(e.Replied(key="1", prompt="p", content="hello"))
    assert Reply("hello").content == "hello"
    assert Reply(parts=(TextPart("hello", "final_answer"),)).content != "hello"


def test_a_reply_is_made_of_text_and_calls_or_of_parts() -> None:
    call = ToolCall("add", "{}", "c1")
    reply = Reply("I add.", (call,), reasoning="hm")
    assert reply.parts == (ThinkingPart("hm"), TextPart("I add."), call)
    assert (reply.text, reply.calls, reply.reasoning) == ("I add.", (call,), "hm")
    assert reply == Reply(parts=reply.parts)
    with pytest.raises(TypeError, match="either parts or text"):
        Reply("text", parts="text")


def test_the_text_of_a_reply_can_be_kept_in_part_and_stays_in_its_place() -> None:
    reply = Reply(parts=WHOLE[:5])
    assert reply.kept(reply.text) == WHOLE[:5]
    assert reply.kept("I") == (*WHOLE[:3], TextPart("I"), WHOLE[4])
    assert reply.kept("") == (*WHOLE[:3], WHOLE[4])
    assert Reply("", (ToolCall("add", "{}"),)).kept("so") == (
        TextPart("so"),
        ToolCall("add", "{}"),
    )


def test_unbound_content_holds_what_everybody_understands() -> None:
    kept = parts_of(without_issuer_parts(WHOLE))
    assert kept == (
        TextPart("I look.", "commentary"),
        ToolCall("read", '{"path": "a"}', "c1"),
        *WHOLE[5:],
    )
    assert not is_issuer_bound(kept)
    assert [is_issuer_bound((part,)) for part in WHOLE] == [
        True,
        True,
        False,
        True,
        True,
        False,
        False,
    ]


def talk(content: Content) -> Conversation:
    return Conversation([Message("user", "go"), Message("assistant", content, ISSUER)])


def test_the_digest_is_of_what_every_provider_would_be_told() -> None:
    assert talk(WHOLE).digest == talk(without_issuer_parts(WHOLE)).digest
    assert talk(WHOLE).bound_digest != talk(without_issuer_parts(WHOLE)).bound_digest
    other = (*WHOLE[:5], MediaPart("image", "image/png", "other"))
    assert talk(WHOLE[:6]).digest != talk(other).digest


@pytest.mark.parametrize("place", [0, 1, 3, 4])
def test_the_bound_digest_is_of_everything_that_only_the_issuer_understands(place: int) -> None:
    less = (*WHOLE[:place], *parts_of(without_issuer_parts((WHOLE[place],))), *WHOLE[place + 1 :])
    assert talk(WHOLE).bound_digest != talk(less).bound_digest
    assert talk(WHOLE).digest == talk(less).digest


def test_a_cut_takes_away_what_is_opaque_before_it_and_nothing_behind_it() -> None:
    conversation = talk(WHOLE)
    assert conversation.bound
    neutral = conversation.digest
    conversation.fragments("x", lambda *_: b"old")
    conversation.cut()
    assert not conversation.bound
    assert conversation.digest == neutral
    assert conversation.content(1) == without_issuer_parts(WHOLE)
    conversation.append(Message("assistant", WHOLE, ISSUER))
    assert conversation.bound
    assert conversation.content(2) == WHOLE
    assert conversation.fragments("x", lambda *_: b"new") == [b"new", b",", b"new", b",", b"new"]


def test_a_message_without_bytes_gets_no_separator() -> None:
    conversation = Conversation([Message("system", "s"), Message("user", "u")])
    pieces = conversation.fragments("x", lambda c, i: b"" if i == 0 else (b"a", b"b"))
    assert pieces == [b"a", b"b"]


def test_a_message_says_what_it_holds() -> None:
    message = Message("tool", (ToolResult("c1", (TextPart("see"), IMAGE)),))
    assert message.text == "see\n[image image/png 12 kB plan.png 5a0c91d2]"
    assert message.media == (IMAGE,)
    assert Message("user", (TextPart("look"), IMAGE)).shown.startswith("look\n")
    assert result_message("c1", "3").results == (ToolResult("c1", "3"),)


def test_events_name_the_bytes_they_speak_of() -> None:
    far = OpaquePart("", "reasoning", "abcd", 9000)
    past = (Message("user", (IMAGE,)),)
    assert e.RunStarted(goal="g", parts=(IMAGE,), history=past).blobs() == (IMAGE.digest,) * 2
    assert e.Replied(key="1", prompt="", content=(far,)).blobs() == ("abcd",)
    assert e.Steered(key="1", id="i", text="", by="a", parts=(IMAGE,)).blobs() == (IMAGE.digest,)
    assert e.Parked(reason="x").blobs() == ()


async def old_run(upto: int) -> MemoryLog:
    log = MemoryLog()
    await log.create(RunRow(run="old", status="running"))
    claim = await log.claim("old", "")
    await log.append("old", claim.epoch, loads(OLD.read_text(encoding="utf-8"))[:upto])
    return log


def old_agent(log: MemoryLog, *replies: Reply) -> Agent[None, str]:
    profile = Profile(window=100_000, window_known=True, native_tools=True)
    return Agent(ScriptedModel(replies, profile), tools=[add], instructions="Be exact.", log=log)


def test_a_conversation_knows_its_size_in_bytes_as_it_grows() -> None:
    talk = Conversation()
    picture = MediaPart("image", "image/png", "d" * 40, 5_000)
    call = ToolCall("search", '{"q":"фьорд"}', "c1")
    for message, size in [
        (Message("user", "Größe 峡湾 \ud800"), 7 + 1 + 6 + 1 + 3),
        (Message("assistant", (TextPart("ü"), call)), 2 + 6 + 8 + 10),
        (Message("tool", (ToolResult("c1", "да"),)), 4),
        (Message("user", (TextPart("look"), picture)), 4 + picture.chars),
    ]:
        before = talk.size
        talk.append(message)
        assert talk.size - before == size


def test_before_any_cut_all_is_sent_and_after_it_what_comes_behind() -> None:
    sealed = Message("assistant", (OpaquePart("{}", "thinking"), TextPart("a")), ISSUER)
    talk = Conversation([sealed, sealed])
    assert [talk.content(index) for index in range(2)] == [sealed.content, sealed.content]
    talk.cut()
    talk.append(sealed)
    assert [talk.content(index) for index in range(3)] == ["a", "a", sealed.content]


COUNTS = st.integers(0, 1 << 40)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS.map(float), COUNTS, COUNTS)


@given(USAGES, USAGES)
def test_usages_add_up_whatever_they_are(one: Usage, other: Usage) -> None:
    both = one + other
    assert [getattr(both, name) for name in Usage.__struct_fields__] == [
        getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__
    ]
    assert both.tokens == one.tokens + other.tokens == both.input_tokens + both.output_tokens

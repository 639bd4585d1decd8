"""A message of several parts: each is there, in its order, and counts once."""

import msgspec
import pytest

from taofold.core.content import (
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
    blob_digest,
    content_of,
    format_conversation_as_chat,
    media_of,
    result_message,
    veil_opaque,
)
from taofold.core.reply import Reply, Usage

ISSUER = Issuer("messages", "api.anthropic.com", "claude-opus-5-5")
PLAN = MediaPart("image", "image/png", "a" * 40, 12_300, "plan.png")
SOUND = MediaPart("audio", "audio/wav", "b" * 40, 499, "hm.wav")
FIRST = ToolResult("c1", (TextPart("one"), PLAN, TextPart("two")))
SECOND = ToolResult("c2", "three", error=True)


def test_the_results_of_one_message_are_all_there_in_order() -> None:
    message = Message("tool", (FIRST, SECOND, SOUND))
    assert message.results == (FIRST, SECOND)
    assert message.media == (PLAN, SOUND)
    assert message.calls == ()
    assert message.text == "one\n[image image/png 12 kB plan.png aaaaaaaa]\ntwothree"
    assert message.shown.splitlines() == [
        "one",
        "[image image/png 12 kB plan.png aaaaaaaa]",
        "two",
        "three",
        "[audio audio/wav 1 kB hm.wav bbbbbbbb]",
    ]


def test_what_is_beside_a_medium_in_a_message_is_read_behind_it_too() -> None:
    """A reader that stops at the first medium, result or text would lose the rest."""
    parts: tuple[Part, ...] = (SOUND, FIRST, TextPart("x"), SECOND, PLAN)
    assert list(media_of(parts)) == [SOUND, PLAN, PLAN]
    assert list(media_of("text")) == []


def test_a_result_holds_text_and_media_and_nothing_else() -> None:
    call = ToolCall("look", "{}", "c9")
    message = result_message("c1", (TextPart("a"), call, ThinkingPart("hm"), SOUND, TextPart("b")))
    assert message.results == (ToolResult("c1", (TextPart("a"), SOUND, TextPart("b"))),)
    assert result_message("c2", "no", error=True).results == (ToolResult("c2", "no", error=True),)
    assert not result_message("c2", "yes").results[0].error


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ((), ""),
        ((TextPart("a"),), "a"),
        ((TextPart("a", "commentary"),), None),
        ((TextPart("a", "", "{}"),), None),
        ((TextPart("a"), TextPart("b")), None),
        ((ThinkingPart("a"),), None),
    ],
)
def test_only_a_lone_text_that_is_nothing_more_is_stored_as_a_string(
    parts: tuple[Part, ...], content: str | None
) -> None:
    assert content_of(list(parts)) == (parts if content is None else content)


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        ((ThinkingPart("t"), TextPart("a"), ToolCall("x", "{}")), "thinking text call"),
        ((ToolCall("x", "{}"), TextPart("a")), "call text"),
        ((ThinkingPart("t"), ToolCall("x", "{}"), ToolCall("y", "{}")), "thinking text call call"),
        ((TextPart("a"), ToolCall("x", "{}"), TextPart("b")), "text call"),
        ((OpaquePart("{}", "k"), TextPart("a"), TextPart("b")), "opaque text"),
    ],
)
def test_a_text_that_is_kept_stands_where_the_first_text_stood(
    parts: tuple[Part, ...], places: str
) -> None:
    content = Reply(parts=parts).kept("new")
    assert not isinstance(content, str)
    assert " ".join(msgspec.to_builtins(part)["type"] for part in content) == places
    assert [part.text for part in content if isinstance(part, TextPart)] == ["new"]
    without = Reply(parts=parts).kept("")
    assert not [part for part in without if isinstance(part, TextPart)]


def test_the_thinking_of_a_reply_is_joined_and_its_calls_keep_their_order() -> None:
    one, two = ToolCall("x", "{}", "1"), ToolCall("y", "{}", "2")
    reply = Reply(parts=(ThinkingPart("a"), one, ThinkingPart("b"), TextPart("c"), two))
    assert (reply.reasoning, reply.text, reply.calls) == ("ab", "c", (one, two))
    with pytest.raises(TypeError, match="either parts or text"):
        Reply(parts="x", reasoning="y")
    assert Reply(parts="x").parts == (TextPart("x"),)


def test_usages_add_up_field_by_field() -> None:
    one, two = Usage(1, 2, 4, 8.0, 16, 32), Usage(100, 200, 300, 400.0, 500, 600)
    assert one + two == Usage(101, 202, 304, 408.0, 516, 632)
    assert (one + two).tokens == 303


@pytest.mark.parametrize(
    ("medium", "line"),
    [
        (MediaPart("image", "image/png", "c" * 40, 1), "[image image/png 1 kB cccccccc]"),
        (MediaPart("image", "image/png", "c" * 40, 1_499), "[image image/png 1 kB cccccccc]"),
        (MediaPart("image", "image/png", "c" * 40, 1_501), "[image image/png 2 kB cccccccc]"),
        (
            MediaPart("image", "image/png", url="https://x/y.png"),
            "[image image/png https://x/y.png]",
        ),
    ],
)
def test_a_medium_is_shown_as_a_line(medium: MediaPart, line: str) -> None:
    assert medium.line == line


def test_a_document_counts_by_its_size_within_bounds_and_an_image_does_not() -> None:
    def chars(kind: str, size: int) -> int:
        return MediaPart(kind, "x/y", "d" * 40, size).chars  # type: ignore[arg-type]

    least = chars("image", 1)
    assert least == chars("image", 10**9) == chars("document", 0)
    assert chars("document", 16 * (least + 1)) == least + 1
    assert chars("document", 10**9) == 400_000


def test_what_is_sealed_is_shown_as_its_kind_and_size_and_the_rest_as_it_is() -> None:
    inline, stored = OpaquePart("12345", "k"), OpaquePart("", "k", "e" * 40, 77)
    assert (inline.line, stored.line) == ("[opaque k 5 bytes]", "[opaque k 77 bytes]")
    signed = ToolCall("look", "{}", "c1", '{"s": 1}')
    parts = (inline, stored, TextPart("a", "p", "{}"), signed, TextPart("b"), SECOND, PLAN)
    assert veil_opaque(parts) == (
        *(OpaquePart("", "k", "", 5), stored, TextPart("a", "p", "…")),
        *(ToolCall("look", "{}", "c1", "…"), TextPart("b"), SECOND, PLAN),
    )
    assert veil_opaque("plain") == "plain"


PARTS: tuple[Part, ...] = (
    *(TextPart("a"), ToolCall("x", "{}", "1"), ToolCall("y", "{}", "2"), FIRST, SECOND, SOUND),
    ToolResult("c3", "four"),
)


@pytest.mark.parametrize("place", range(len(PARTS)))
def test_the_digest_of_a_conversation_is_of_every_part(place: int) -> None:
    whole = Conversation([Message("user", PARTS)])
    fewer = Conversation([Message("user", (*PARTS[:place], *PARTS[place + 1 :]))])
    assert fewer.digest != whole.digest
    assert fewer.chars < whole.chars
    assert fewer.size < whole.size


@pytest.mark.parametrize("place", range(3))
def test_the_digest_is_of_which_call_each_result_answers(place: int) -> None:
    def digest(*ids: str) -> str:
        return Conversation([Message("tool", tuple([ToolResult(i, "ok") for i in ids]))]).digest

    ids = ["c1", "c2", "c3"]
    whole = digest(*ids)
    ids[place] = "other"
    assert digest(*ids) != whole


def test_the_size_of_a_conversation_is_of_all_its_messages_in_characters_and_bytes() -> None:
    talk = Conversation([Message("user", "é"), Message("user", (TextPart("é"), PLAN))])
    talk.append(Message("assistant", (ToolCall("look", '{"a": "é"}', "c1"),), ISSUER))
    calls = len("look") + len('{"a": "é"}')
    assert talk.chars == 2 + PLAN.chars + calls
    assert talk.size == talk.chars + 3, "a byte more for each é"
    assert (talk.media, talk.issuer) == ([PLAN], ISSUER)
    talk.append(Message("tool", (FIRST, SECOND)))
    assert talk.media == [PLAN, PLAN]
    assert talk.issuer == ISSUER, "the newest that a model made"


def test_messages_are_encoded_once_for_each_form_and_go_on_where_an_encoder_failed() -> None:
    talk = Conversation([Message("user", text) for text in ("a", "", "b")])
    asked: list[tuple[str, int]] = []

    def encoder(form: str, bad: int = -1):  # type: ignore[no-untyped-def]
        def encode(of: Conversation, index: int) -> bytes | tuple[bytes, ...]:
            asked.append((form, index))
            if index == bad:
                raise ValueError(index)
            text = of[index].text.encode()
            return (text, b"!") if index == 2 else text

        return encode

    with pytest.raises(ValueError, match="2"):
        talk.fragments("one", encoder("one", 2))
    assert talk.fragments("one", encoder("one")) == [b"a", b",", b"b", b"!"]
    assert talk.fragments("two", encoder("two"), b"") == [b"a", b"b", b"!"]
    order = [("one", 0), ("one", 1), ("one", 2), ("one", 2), ("two", 0), ("two", 1), ("two", 2)]
    assert asked == order
    talk.append(Message("user", "c"))
    assert talk.fragments("one", encoder("one"))[-2:] == [b",", b"c"]
    assert asked[-1] == ("one", 3)


def test_a_digest_of_bytes_has_forty_digits() -> None:
    assert blob_digest(b"") == "3345524abf6bbe1809449224b5972c41790b6cf2"


def test_a_chat_is_numbered_from_one_and_shows_roles_that_nobody_knows() -> None:
    chat = format_conversation_as_chat(
        [Message("user", (TextPart("look"), PLAN)), {"role": "assistant", "content": "I do"}, {}]
    )
    lines = [line for line in chat.splitlines() if line]
    assert lines[1] == "👤 USER [1]: look"
    assert lines[3:] == ["🤖 ASSISTANT [2]: I do", "UNKNOWN [3]: "]

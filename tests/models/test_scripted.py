"""ScriptedModel and FunctionModel."""

import pytest

from taofold.core.content import Conversation, ToolCall, result_message
from taofold.core.errors import ModelError
from taofold.core.values import Message, Reply
from taofold.runtime.model import Request
from taofold.testing import FunctionModel, ScriptedModel, ScriptEnded

pytestmark = pytest.mark.anyio


async def test_a_script_is_followed_in_order_and_remembered(hello: Request) -> None:
    model = ScriptedModel(["one", Reply(text="two", finish="length")])
    assert (await model.complete(hello)).text == "one"
    assert (await model.complete(hello)).finish == "length"
    assert [asked.last for asked in model.requests] == ["Hello", "Hello"]
    model.assert_complete()


async def test_what_it_was_shown_does_not_change_when_the_conversation_grows() -> None:
    conversation = Conversation([Message("user", "first")])
    model = ScriptedModel(["a", "b"])
    before = conversation.digest
    await model.complete(Request(conversation))
    conversation.append(Message("assistant", "a"))
    await model.complete(Request(conversation))
    assert [len(asked.messages) for asked in model.requests] == [1, 2]
    assert model.requests[0].digest == before


async def test_a_script_that_runs_out_says_so_and_shows_the_prompt(hello: Request) -> None:
    model = ScriptedModel(["only"])
    await model.complete(hello)
    with pytest.raises(ScriptEnded, match=r"asked 2 times.*1 reply.*'Hello'"):
        await model.complete(hello)


async def test_a_scripted_exception_is_raised(hello: Request) -> None:
    with pytest.raises(ModelError, match="down"):
        await ScriptedModel([ModelError("down")]).complete(hello)


async def test_a_new_script_continues_behind_the_replies_that_a_conversation_ends_with() -> None:
    past = [Message("user", "go"), Message("assistant", "one"), Message("user", "seen")]
    same = [*past, Message("assistant", "one"), Message("user", "seen")]
    script = ["one", "two", "three"]

    async def first(replies: list[str], *messages: Message) -> str:
        return (await ScriptedModel(replies).complete(Request(Conversation(messages)))).text

    assert await first(script, *past[:1]) == "one"
    assert await first(script, *past) == "two"
    assert await first(["one", *script], *same) == "two", "the longest match counts"
    assert await first(["other"], *past) == "other"
    assert await first(["three", "one"], *past) == "three", "only the beginning of a script"


async def test_a_script_in_use_is_followed_whatever_the_conversation_holds() -> None:
    model = ScriptedModel(["one", "two", "one"])
    conversation = Conversation([Message("user", "go")])
    for expected in ("one", "two", "one"):
        reply = await model.complete(Request(conversation))
        assert reply.text == expected
        conversation.append(Message("assistant", reply.text))


async def test_native_calls_of_a_script_are_recognised_whatever_their_ids() -> None:
    call = Reply("", [ToolCall("add", '{"a": 1}', "call_1")])
    heard = Message("assistant", (ToolCall("add", '{"a": 1}', "call_7f"),))
    model = ScriptedModel([call, "two"])
    asked = Request(Conversation([Message("user", "go"), heard, result_message("call_7f", "1")]))
    assert (await model.complete(asked)).text == "two"


async def test_replies_left_over_fail_the_assertion() -> None:
    with pytest.raises(AssertionError, match="unread"):
        ScriptedModel(["unread"]).assert_complete()


async def test_deltas_add_up_to_the_text(hello: Request) -> None:
    heard: list[str] = []
    reply = await ScriptedModel(["x" * 40]).complete(hello, heard.append)
    assert len(heard) > 1
    assert "".join(heard) == reply.text


async def test_a_function_may_answer_at_once_or_later(hello: Request) -> None:
    async def later(request: Request) -> Reply:
        return Reply(text=request.conversation[-1].content)

    assert (await FunctionModel(lambda request: "now").complete(hello)).text == "now"
    assert (await FunctionModel(later).complete(hello)).text == "Hello"


def test_prices_are_dollars_per_million_tokens() -> None:
    assert ScriptedModel([], usd=(1.0, 10.0)).price(1_000_000, 100_000) == 2.0
    assert ScriptedModel([], usd=None).price(1, 1) is None

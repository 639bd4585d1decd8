"""Writes a conversation as Anthropic's Messages API wants it: content blocks in alternating
roles, results straight after their calls, leading system messages apart.

Each message becomes one piece: its blocks, and the border to the role before it. So
neighbours of one role are merged although each message is encoded once. It sends nothing.
"""

from collections.abc import Sequence

from taofold.core.values import Message
from taofold.models.wire import (
    NO_RESULT,
    arguments_of,
    as_text,
    encode,
    follows_its_call,
    pending,
    wire_name,
)


def _leading(messages: Sequence[Message], index: int) -> bool:
    return all(messages[at].role == "system" for at in range(index + 1))


def system(messages: Sequence[Message], index: int) -> bytes:
    """A system message that precedes everything else, as a block; b"" for other messages."""
    message = messages[index]
    if message.role != "system" or not message.text.strip():
        return b""
    return block(message.text) if _leading(messages, index) else b""


def native(messages: Sequence[Message], index: int) -> bytes:
    """The blocks of a message, preceded by results that are missing and by the border."""
    message = messages[index]
    if message.role == "tool":
        answers = follows_its_call(messages, index)
        return _piece(messages, index, [_answer(message) if answers else _text(message)])
    lacking = missing(messages, index)
    if message.role != "assistant":
        return _piece(messages, index, [*lacking, _text(message)])
    said = [block(message.text)] if message.text.strip() else []
    said = [*said, *_calls(message)] or [_text(message)]
    if not lacking:
        return _piece(messages, index, said)
    return join(lacking, "user", _before(messages, index)) + join(said, "assistant", "user")


def plain(messages: Sequence[Message], index: int) -> bytes:
    """A message for a model without native tools."""
    return _piece(messages, index, [block(as_text(messages[index]) or "(empty)")])


def missing(messages: Sequence[Message], end: int) -> list[bytes]:
    """Results for the calls before index `end` that have none."""
    return [result(call.id, NO_RESULT) for call in pending(messages, end)]


def ending(messages: Sequence[Message], lacking: list[bytes]) -> bytes:
    """What must follow the last message: results that are missing, or a word of the user's,
    since newer models refuse to go on with an assistant's.
    """
    if not lacking and messages[-1].role != "assistant":
        return b""
    return join(lacking or [block("(go on)")], "user", _before(messages, len(messages)))


def join(blocks: list[bytes], role: str, before: str) -> bytes:
    """Blocks of `role` after messages of role `before` ("" = there are none)."""
    joined = b",".join(blocks)
    if role == before:
        return b"," + joined
    opened = b'{"role":"%b","content":[%b' % (role.encode(), joined)
    if before:
        return b"]}," + opened
    # A conversation must begin with the user.
    first = b'{"role":"user","content":[%b]},' % block("(start)")
    return first + opened if role == "assistant" else opened


def block(text: str) -> bytes:
    """A text block."""
    return encode({"type": "text", "text": text})


def result(call_id: str, content: str) -> bytes:
    """A tool result block."""
    return encode(
        {"type": "tool_result", "tool_use_id": call_id or "call", "content": content or "(empty)"}
    )


def _answer(message: Message) -> bytes:
    return result(message.results[0].id, message.text)


def _text(message: Message) -> bytes:
    # The API refuses empty blocks, and leaving the message out would merge its neighbours.
    return block(message.text if message.text.strip() else "(empty)")


def _calls(message: Message) -> list[bytes]:
    return [
        encode(
            {
                "type": "tool_use",
                "id": call.id or "call",
                "name": wire_name(call.name),
                "input": arguments_of(call),
            }
        )
        for call in message.calls
    ]


def _piece(messages: Sequence[Message], index: int, blocks: list[bytes]) -> bytes:
    message = messages[index]
    if message.role == "system" and _leading(messages, index):
        return b""
    role = "assistant" if message.role == "assistant" else "user"
    return join(blocks, role, _before(messages, index))


def _before(messages: Sequence[Message], index: int) -> str:
    """The role that is open when message `index` comes; "" if none is."""
    if index == 0 or _leading(messages, index - 1):
        return ""
    return "assistant" if messages[index - 1].role == "assistant" else "user"

"""Encoding of requests that the providers' formats share: arguments, batches of calls with
their results, the system's messages, sampling, media (a line of text stands for those that a model
cannot take); and messages as plain text, for models without native tools.

Functions of messages; `Memo`, which remembers encodings from call to call; an `estimate` of tokens.
It knows no provider, and nothing of replies (`replies`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from secrets import token_hex
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.content import (
    Content,
    Conversation,
    Issuer,
    MediaPart,
    Part,
    Pieces,
    TextPart,
    ToolResult,
    content_of,
    media_of,
    without_issuer_parts,
)
from taofold.core.errors import ModelError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.values import Message, ModelSettings, ToolCall
from taofold.models.capabilities import reads_thinking
from taofold.runtime.model import Request

_ENCODE: Final = msgspec.json.Encoder().encode
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_CHARS_PER_TOKEN: Final = 4
_MARK: Final = f"blob {token_hex(16)} "
_MARK_BYTES: Final = _MARK.encode()
"""Stands in encoded JSON where the bytes of a blob go; nobody outside can know it."""
_DIGEST: Final = 40

NO_RESULT: Final = "(this call was not carried out)"
"""Stands for the result of a call that has none: providers refuse a history without it."""


def encode(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which UTF-8 cannot say, become question marks."""
    try:
        return _ENCODE(value)
    except UnicodeEncodeError:
        # Only now walked through: almost no text holds a lone surrogate.
        return _ENCODE(_clean(msgspec.to_builtins(value)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_object(value):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if is_sequence(value):
        return [_clean(item) for item in value]
    return value


def fields(values: Mapping[str, Any]) -> bytes:
    """The fields of an object, encoded, without its braces; b"" if there are none."""
    return encode(values)[1:-1] if values else b""


def raw(data: str) -> Any:
    """A provider's item as it came: it is put into a request byte for byte."""
    return msgspec.Raw(data.encode("utf-8", "surrogatepass"))


def blob(part: MediaPart) -> str:
    """Stands for the base64 of a medium until `pieces` puts it in."""
    return f"{_MARK}{part.digest}"


def data_url(part: MediaPart) -> str:
    """A medium as a `data:` URL, or its address."""
    return part.url or f"data:{part.media_type};base64,{blob(part)}"


def pieces(encoded: bytes, blobs: Mapping[str, bytes]) -> Pieces:
    """Encoded JSON with the bytes of media in place, which are shared, not copied.

    Raises:
        ModelError: the bytes of a medium are not at hand.
    """
    if _MARK_BYTES not in encoded:
        return encoded
    # The mark is random for each process, so no text of a model or tool can pass for one.
    first, *rest = encoded.split(_MARK_BYTES)
    chunks = [first]
    for text in rest:
        digest = text[:_DIGEST].decode()
        if digest not in blobs:
            raise ModelError(f"the bytes of blob {digest} are not at hand", kind="request")
        chunks += (blobs[digest], text[_DIGEST:])
    return tuple(chunks)


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; what cannot be read is kept as `unreadable`, since servers
    reject a history that holds broken JSON.
    """
    try:
        return _OBJECT.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"unreadable": call.arguments}


def pending(messages: Sequence[Message], end: int) -> tuple[ToolCall, ...]:
    """The calls of the batch that ends before index `end` which have no result yet."""
    return batch(messages, end).open_calls


class CallBatch(NamedTuple):
    """Calls and what answers them so far. `media`: those in the results, in order."""

    open_calls: tuple[ToolCall, ...] = ()
    media: tuple[MediaPart, ...] = ()


_NO_BATCH: Final = CallBatch()


def batch(messages: Sequence[Message], end: int) -> CallBatch:
    """The batch of calls and results that ends before index `end`.

    One pass backwards, up to the message that made the calls: each message of a run is asked for
    this, so it reads parts where properties would read them again.
    """
    answered: set[str] = set()
    media: list[MediaPart] = []
    for at in range(end - 1, -1, -1):
        message = messages[at]
        content = message.content
        if message.role != "tool":
            if isinstance(content, str):
                break
            calls = [part for part in content if type(part) is ToolCall]
            return CallBatch(
                tuple([call for call in calls if call.id not in answered]), tuple(media)
            )
        if isinstance(content, str):
            continue
        own: list[MediaPart] = []
        for part in content:
            if type(part) is ToolResult:
                answered.add(part.id)
                if type(part.content) is tuple:
                    own += media_of(part.content)
        media[:0] = own
    return CallBatch((), tuple(media)) if media else _NO_BATCH


def follows_its_call(messages: Sequence[Message], index: int) -> bool:
    """Does the message at `index` answer, as a tool, an open call of the batch before it?"""
    message = messages[index]
    if message.role != "tool" or isinstance(message.content, str):
        return False
    ids = [part.id for part in message.content if type(part) is ToolResult]
    return any([call.id in ids for call in batch(messages, index).open_calls])


def content_for(conversation: Conversation, index: int, issuer: Issuer) -> Content:
    """What message `index` holds for `issuer`: opaque parts only if they are its own.

    Models of one endpoint are sent each other's: it knows which of them they can read. Behind a
    chat endpoint may be any model, so there only the very same model's are. Some thinking of a
    vendor's is read by few of its models (`reads_thinking`).
    """
    content = conversation.content(index)
    maker = conversation[index].issuer
    if isinstance(content, str):
        return content
    if maker is None or (maker.wire, maker.host) != (issuer.wire, issuer.host):
        return without_issuer_parts(content)
    if issuer.wire == "messages" and not reads_thinking(issuer.model, maker.model):
        return without_issuer_parts(content)
    same = maker.model == issuer.model or issuer.wire != "chat"
    return content if same else without_issuer_parts(content)


def leading(messages: Sequence[Message], index: int) -> bool:
    """Is message `index` one of the system's that precede all others?"""
    return all([messages[at].role == "system" for at in range(index + 1)])


def system_texts(messages: Sequence[Message]) -> list[str]:
    """What the system's messages that precede all others say; later ones stay in their place."""
    first = takewhile(lambda message: message.role == "system", messages)
    return [message.text for message in first if message.text]


def open_role(messages: Sequence[Message], index: int) -> str:
    """Who speaks before message `index`, where the system's have no place: "" = nobody yet."""
    if index == 0 or leading(messages, index - 1):
        return ""
    return "assistant" if messages[index - 1].role == "assistant" else "user"


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that say something: not None, False, 0 or empty."""
    return {name: value for name, value in fields.items() if value}


def sampling(settings: ModelSettings, top_p: str = "top_p") -> dict[str, Any]:
    """Temperature and nucleus as far as they are set; a temperature of 0 is."""
    values = {"temperature": settings.temperature, top_p: settings.top_p}
    return {name: value for name, value in values.items() if value is not None}


def more_entries(entries: Iterable[bytes], blobs: Mapping[str, bytes]) -> list[bytes]:
    """Further entries of a list of JSON, each after a comma."""
    more: list[bytes] = []
    for entry in entries:
        chunks = pieces(entry, blobs)
        more += (b",", chunks) if isinstance(chunks, bytes) else (b",", *chunks)
    return more


def flat(parts: Iterable[Part]) -> list[Part]:
    """The parts, and in the place of a tool's result what it holds."""
    plain: list[Part] = []
    for part in parts:
        plain += part.parts if isinstance(part, ToolResult) else (part,)
    return plain


def text_or_blocks(
    parts: Iterable[Part], inputs: tuple[str, ...] | None, block: Callable[[Part], Any]
) -> Any:
    """Text as it is; text and media as blocks, those that a model with `inputs` can take."""
    taken = acceptable_parts(flat(parts), inputs)
    if not any([isinstance(part, MediaPart) for part in taken]):
        return "".join([part.text for part in taken if isinstance(part, TextPart)])
    return [entry for entry in map(block, taken) if entry is not None]


def acceptable_parts(parts: Iterable[Part], inputs: tuple[str, ...] | None) -> list[Part]:
    """The parts as a model with these `inputs` can take them: other media become a line of text."""
    return [
        TextPart(f"{part.line} (this model cannot see it)")
        if isinstance(part, MediaPart) and inputs is not None and part.kind not in inputs
        else part
        for part in parts
    ]


def as_text(message: Message) -> Content:
    """A message for a model without native tools: calls are written out in its text."""
    if isinstance(message.content, str):
        return message.content
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            parts += part.parts
        elif isinstance(part, TextPart | MediaPart):
            parts.append(part)
    if message.calls:
        calls = [{"tool": c.name, "parameters": arguments_of(c)} for c in message.calls]
        # In the reply format that the prompt asks for: a
        # model without tools sees its own way of calling.
        written = encode({"actions": calls}).decode()
        if parts and isinstance(parts[-1], TextPart):
            parts[-1] = TextPart(f"{parts[-1].text}\n{written}")
        else:
            parts.append(TextPart(written))
    return content_of(parts)


def estimate(request: Request, output: int) -> int:
    """A rough count of the tokens that a call may use: four characters each, plus the output."""
    return request.conversation.chars // _CHARS_PER_TOKEN + output


class Memo:
    """Remembers the last few encodings of things that are the same from call to call."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Any]] = {}

    def get(self, key: Any, alive: Any, make: Callable[[], Any]) -> Any:
        """`make()`, once per key. `alive` is kept, so that no `id()` in the key is reused."""
        entry = self._known.get(key)
        if entry is None:
            # Cleared at once: a run needs a few entries, and all are cheap to make again.
            if len(self._known) >= 32:
                self._known.clear()
            entry = self._known[key] = (alive, make())
        return entry[1]

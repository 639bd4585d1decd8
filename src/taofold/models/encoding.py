"""Shared encoding of requests for all providers.

Encodes arguments, batches of calls with their results, system messages, sampling and media. A line
of text replaces media that a model cannot accept. Messages become plain text for models without
native tools. `Memo` keeps encodings between calls, `estimate` estimates tokens. This module depends
on no provider and not on replies (`replies`).
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
"""Placeholder in encoded JSON for the bytes of a blob. Random, so it cannot be guessed."""
_DIGEST: Final = 40

NO_RESULT: Final = "(this call was not carried out)"
"""Result of a call that has none, because providers refuse a history without it."""


def encode(value: Any) -> bytes:
    """Returns compact JSON. Lone surrogates, which UTF-8 cannot encode, become question marks."""
    try:
        return _ENCODE(value)
    except UnicodeEncodeError:
        # Cleaned only now, because almost no text holds a lone surrogate.
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
    """Returns the encoded fields of an object without its braces, or b"" if it is empty."""
    return encode(values)[1:-1] if values else b""


def raw(data: str) -> Any:
    """Returns a provider's item for a request, byte for byte."""
    return msgspec.Raw(data.encode("utf-8", "surrogatepass"))


def blob(part: MediaPart) -> str:
    """Returns the placeholder for a medium's base64, which `pieces` replaces."""
    return f"{_MARK}{part.digest}"


def data_url(part: MediaPart) -> str:
    """Returns a medium as a `data:` URL, or its address."""
    return part.url or f"data:{part.media_type};base64,{blob(part)}"


def pieces(encoded: bytes, blobs: Mapping[str, bytes]) -> Pieces:
    """Returns encoded JSON with the bytes of media in place, shared instead of copied.

    Raises:
        ModelError: The bytes of a medium are missing.
    """
    if _MARK_BYTES not in encoded:
        return encoded
    # The mark is random for each process, so texts of models and tools cannot contain it.
    first, *rest = encoded.split(_MARK_BYTES)
    chunks = [first]
    for text in rest:
        digest = text[:_DIGEST].decode()
        if digest not in blobs:
            raise ModelError(f"the bytes of blob {digest} are not at hand", kind="request")
        chunks += (blobs[digest], text[_DIGEST:])
    return tuple(chunks)


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Returns the arguments as an object. Unparsable text is kept as `unreadable`.

    Servers reject a history with broken JSON.
    """
    try:
        return _OBJECT.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"unreadable": call.arguments}


def pending(messages: Sequence[Message], end: int) -> tuple[ToolCall, ...]:
    """Returns the calls without a result in the batch that ends before index `end`."""
    return batch(messages, end).open_calls


class CallBatch(NamedTuple):
    """Calls and their results so far. `media` are those in the results, in order."""

    open_calls: tuple[ToolCall, ...] = ()
    media: tuple[MediaPart, ...] = ()


_NO_BATCH: Final = CallBatch()


def batch(messages: Sequence[Message], end: int) -> CallBatch:
    """Returns the batch of calls and results that ends before index `end`.

    Runs for each message of a run, so it reads each part once, backwards to the calls.
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
    """Returns True if message `index` is a tool's answer to an open call of the batch before it."""
    message = messages[index]
    if message.role != "tool" or isinstance(message.content, str):
        return False
    ids = [part.id for part in message.content if type(part) is ToolResult]
    return any([call.id in ids for call in batch(messages, index).open_calls])


def content_for(conversation: Conversation, index: int, issuer: Issuer) -> Content:
    """Returns the content of message `index` for `issuer`. Opaque parts must be its own.

    Models of one endpoint get each other's parts, because the endpoint can read them. A chat
    endpoint may serve any model, so there only the same model's parts are sent. Some vendors'
    thinking can be read by few of their models (`reads_thinking`).
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
    """Returns True if message `index` is one of the leading system messages."""
    return all([messages[at].role == "system" for at in range(index + 1)])


def system_texts(messages: Sequence[Message]) -> list[str]:
    """Returns the texts of the leading system messages. Later ones stay in place."""
    first = takewhile(lambda message: message.role == "system", messages)
    return [message.text for message in first if message.text]


def open_role(messages: Sequence[Message], index: int) -> str:
    """Returns the role before message `index`, ignoring system messages. "" = none."""
    if index == 0 or leading(messages, index - 1):
        return ""
    return "assistant" if messages[index - 1].role == "assistant" else "user"


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that are not None, False, 0 or empty."""
    return {name: value for name, value in fields.items() if value}


def sampling(settings: ModelSettings, top_p: str = "top_p") -> dict[str, Any]:
    """Returns temperature and top_p if they are set. A temperature of 0 counts as set."""
    values = {"temperature": settings.temperature, top_p: settings.top_p}
    return {name: value for name, value in values.items() if value is not None}


def more_entries(entries: Iterable[bytes], blobs: Mapping[str, bytes]) -> list[bytes]:
    """Returns further entries of a JSON list, each after a comma."""
    more: list[bytes] = []
    for entry in entries:
        chunks = pieces(entry, blobs)
        more += (b",", chunks) if isinstance(chunks, bytes) else (b",", *chunks)
    return more


def flat(parts: Iterable[Part]) -> list[Part]:
    """Returns the parts, with tool results replaced by their content."""
    plain: list[Part] = []
    for part in parts:
        plain += part.parts if isinstance(part, ToolResult) else (part,)
    return plain


def text_or_blocks(
    parts: Iterable[Part], inputs: tuple[str, ...] | None, block: Callable[[Part], Any]
) -> Any:
    """Returns text unchanged, and text with media as blocks that the model accepts."""
    taken = acceptable_parts(flat(parts), inputs)
    if not any([isinstance(part, MediaPart) for part in taken]):
        return "".join([part.text for part in taken if isinstance(part, TextPart)])
    return [entry for entry in map(block, taken) if entry is not None]


def acceptable_parts(parts: Iterable[Part], inputs: tuple[str, ...] | None) -> list[Part]:
    """Returns the parts that a model with these `inputs` accepts. Other media become text."""
    return [
        TextPart(f"{part.line} (this model cannot see it)")
        if isinstance(part, MediaPart) and inputs is not None and part.kind not in inputs
        else part
        for part in parts
    ]


def as_text(message: Message) -> Content:
    """Returns a message for a model without native tools. Calls are written out as text."""
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
        # In the reply format of the prompt, so that the model sees its own calls.
        written = encode({"actions": calls}).decode()
        if parts and isinstance(parts[-1], TextPart):
            parts[-1] = TextPart(f"{parts[-1].text}\n{written}")
        else:
            parts.append(TextPart(written))
    return content_of(parts)


def estimate(request: Request, output: int) -> int:
    """Estimates the tokens of a call: four characters each, plus the output."""
    return request.conversation.chars // _CHARS_PER_TOKEN + output


class Memo:
    """Keeps the last few encodings of objects that do not change between calls."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Any]] = {}

    def get(self, key: Any, alive: Any, make: Callable[[], Any]) -> Any:
        """Returns `make()`, computed once per key. Keeps `alive`, so that no `id()` is reused."""
        entry = self._known.get(key)
        if entry is None:
            # Cleared as a whole: a run needs few entries, and all are cheap to remake.
            if len(self._known) >= 32:
                self._known.clear()
            entry = self._known[key] = (alive, make())
        return entry[1]

"""Messages of a conversation with a model, and their parts. A model's answer is in `reply`.

Text, media, calls and results are the same for every provider. Thinking is for readers. Opaque
parts are a provider's own items (encrypted reasoning, signed thinking): only the endpoint that
issued them (`Issuer`) can read them, and it requires them unchanged and in place. Media bytes are
stored beside the log under their digest; a part holds only the reference. Functions return content
as parts, as text, without opaque data, or in the form that is displayed.

A `Conversation` is an append-only list with a digest. Appending has constant cost, and a prefix
keeps its bytes, as provider prompt caches and signed reasoning require. It changes by `append`, or
by `cut`, which stops opaque parts of earlier messages from being sent. Adapters cache their encoded
fragments here. Knows nothing about tokens, providers or wire formats. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, TypeAlias, overload

import msgspec

from taofold.core.json_values import Value

Role = Literal["system", "user", "assistant", "tool"]
MediaKind = Literal["image", "document", "audio", "video"]
Wire = Literal["responses", "chat", "messages", "gemini", "ollama"]

_VEIL: Final = "…"
_IMAGE_CHARS: Final = 6_000
"""An image costs up to about 1,600 tokens, counted here at 3.8 characters each."""


class Issuer(Value, frozen=True):
    """The maker of a reply: format, host (`api.openai.com`, `bedrock:eu-west-1`) and model."""

    wire: Wire
    host: str
    model: str


class TextPart(Value, frozen=True, tag_field="type", tag="text"):
    """Text. `phase` is OpenAI's ("commentary", "final_answer"); `opaque` as in `ToolCall`."""

    text: str
    phase: str = ""
    opaque: str = ""


class MediaPart(Value, frozen=True, tag_field="type", tag="media"):
    """An image, document, sound or video: bytes in the log under `digest`, or a URL.

    `digest` is BLAKE2b-160 in hex, `size` is in bytes, `detail` is OpenAI's hint ("low", "high").
    """

    kind: MediaKind
    media_type: str
    digest: str = ""
    size: int = 0
    name: str = ""
    url: str = ""
    detail: str = ""

    @property
    def line(self) -> str:
        """A line that stands for it in text: `[image image/png 12 kB plan.png 5a0c91d2]`."""
        size = f"{max(1, round(self.size / 1000))} kB" if self.size else ""
        words = (self.kind, self.media_type, size, self.name, self.url, self.digest[:8])
        return f"[{' '.join(filter(None, words))}]"

    @property
    def chars(self) -> int:
        """Approximate cost in the model's context window, in characters of text."""
        if self.kind == "image":
            return _IMAGE_CHARS
        # Documents, sound and video are charged by their bytes because they are not parsed here.
        # The cost is bounded so that one large file does not fill the estimate of a whole window.
        return min(max(self.size // 16, _IMAGE_CHARS), 400_000)


class ThinkingPart(Value, frozen=True, tag_field="type", tag="thinking"):
    """Readable thinking. `echo` names the field in which the same endpoint requires the text back
    (`reasoning_content`); "" means it is never sent.
    """

    text: str
    echo: str = ""


class OpaquePart(Value, frozen=True, tag_field="type", tag="opaque"):
    """A provider's item as JSON text. Long items are stored in the log under `digest`."""

    data: str = ""
    kind: str = ""
    digest: str = ""
    size: int = 0

    @property
    def line(self) -> str:
        """Display form: kind and size, never the bytes."""
        return f"[opaque {self.kind} {max(self.size, len(self.data))} bytes]"


class ToolCall(Value, frozen=True, tag_field="type", tag="call"):
    """A native tool call as a provider returns it. `arguments` is JSON text, not yet parsed.

    `opaque` is a JSON object of fields that the issuer requires back with it (a signature).
    """

    name: str
    arguments: str
    id: str = ""
    opaque: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Id, name and normalised arguments: equal for a call that was sent twice."""
        try:
            decoded = msgspec.json.decode(self.arguments)
            arguments = msgspec.json.encode(decoded, order="deterministic").decode()
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            arguments = self.arguments
        return self.id, self.name, arguments


class ToolResult(Value, frozen=True, tag_field="type", tag="result"):
    """The result of the call `id`: text, or text and media in order.

    `found` are the names of deferred tools that the call has found.
    """

    id: str
    content: "str | tuple[TextPart | MediaPart, ...]"
    error: bool = False
    found: tuple[str, ...] = ()

    @property
    def parts(self) -> "tuple[TextPart | MediaPart, ...]":
        """The content as parts."""
        content = self.content
        return (TextPart(content),) if isinstance(content, str) else content

    @property
    def text(self) -> str:
        """The content as text, with one line for each medium."""
        content = self.content
        return content if isinstance(content, str) else text_with_media(content)


Part: TypeAlias = TextPart | MediaPart | ThinkingPart | OpaquePart | ToolCall | ToolResult
Content: TypeAlias = str | tuple[Part, ...]
"""A plain string is the short form of one `TextPart`."""


class Message(Value, frozen=True):
    """One message of the conversation that is sent to a model.

    Attributes:
        role: "system", "user", "assistant" or "tool".
        content: Text, or a tuple of parts.
        issuer: The endpoint that made the message, if a model did. Its opaque parts are valid only
            for this endpoint.

    Example:
        ```python
        from taofold import Message

        print(Message("user", "Add 6 and 7.").text)  # Add 6 and 7.
        ```
    """

    role: Role
    content: Content
    issuer: Issuer | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts. Empty text is no part."""
        return parts_of(self.content)

    @property
    def text(self) -> str:
        """The text, without thinking, calls and media."""
        content = self.content
        return content if isinstance(content, str) else text_of(content)

    @property
    def shown(self) -> str:
        """The displayed text, with one line for each medium."""
        content = self.content
        return content if isinstance(content, str) else text_with_media(content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message, in order."""
        content = self.content
        return () if isinstance(content, str) else calls_of(content)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of the message, in order."""
        content = self.content
        return () if isinstance(content, str) else results_of(content)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """The media of the message, including those in its results."""
        content = self.content
        return () if isinstance(content, str) else tuple(media_of(content))


def result_message(
    id: str,  # noqa: A002
    content: Content,
    *,
    error: bool = False,
    found: tuple[str, ...] = (),
) -> Message:
    """Returns the message that answers call `id`."""
    presentable = (
        content
        # A result holds text and media only; calls and thinking have no meaning in it.
        if isinstance(content, str)
        else tuple([part for part in content if isinstance(part, TextPart | MediaPart)])
    )
    return Message("tool", (ToolResult(id, presentable, error, found),))


def parts_of(content: Content) -> tuple[Part, ...]:
    """Returns `content` as parts. Empty text gives none."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    return content


def content_of(parts: Sequence[Part]) -> Content:
    """Returns `parts` in their shortest form: a lone text becomes a string."""
    if not parts:
        return ""
    first = parts[0]
    # A text with provider data stays a part; a string would lose that data.
    if len(parts) == 1 and type(first) is TextPart and not first.phase and not first.opaque:
        return first.text
    return tuple(parts)


def text_of(parts: Iterable[Part]) -> str:
    """Returns the joined text of the parts, including results but not thinking."""
    texts = [part.text for part in parts if type(part) is TextPart or type(part) is ToolResult]
    return texts[0] if len(texts) == 1 else "".join(texts)


def text_with_media(parts: Iterable[Part]) -> str:
    """Returns text, results and media as text, with one line for each medium."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, TextPart | ToolResult):
            lines.append(part.text)
        elif isinstance(part, MediaPart):
            lines.append(part.line)
    return "\n".join(filter(None, lines))


def thoughts(parts: Iterable[Part]) -> str:
    """Returns the readable thinking among the parts."""
    return "".join([part.text for part in parts if type(part) is ThinkingPart])


def calls_of(parts: Iterable[Part]) -> tuple[ToolCall, ...]:
    """Returns the calls among the parts."""
    return tuple([part for part in parts if type(part) is ToolCall])


def results_of(parts: Iterable[Part]) -> tuple[ToolResult, ...]:
    """Returns the results among the parts."""
    return tuple([part for part in parts if type(part) is ToolResult])


def media_of(content: Content) -> Iterator[MediaPart]:
    """Yields the media in `content`, including those in results."""
    if isinstance(content, str):
        return
    for part in content:
        if type(part) is MediaPart:
            yield part
        elif type(part) is ToolResult:
            yield from media_of(part.content)


def is_issuer_bound(content: Content) -> bool:
    """Returns whether `content` holds data that only its issuer can read."""
    return not isinstance(content, str) and any(
        # Type identity instead of isinstance: the parts are final, and this runs for every reply.
        [
            type(part) is OpaquePart
            or (type(part) is ThinkingPart and part.echo != "")
            or ((type(part) is ToolCall or type(part) is TextPart) and part.opaque != "")
            for part in content
        ]
    )


def without_issuer_parts(content: Content) -> Content:
    """Returns the text, media, calls and results of `content`, without issuer-bound data."""
    if isinstance(content, str):
        return content
    remaining: list[Part] = []
    for part in content:
        match part:
            # Readable thinking is dropped too: only the endpoint that made it requires it back
            # (`echo`).
            case OpaquePart() | ThinkingPart():
                pass
            case TextPart(opaque="") | ToolCall(opaque=""):
                remaining.append(part)
            case TextPart():
                remaining.append(TextPart(part.text, part.phase))
            case ToolCall():
                remaining.append(ToolCall(part.name, part.arguments, part.id))
            case MediaPart() | ToolResult():
                remaining.append(part)
    return content_of(remaining)


def veil_opaque(content: Content) -> Content:
    """Returns `content` for display: opaque parts keep only their kind, digest and size.

    Opaque data may contain anything the model saw, and cannot be checked for secrets.
    """
    if isinstance(content, str):
        return content
    visible: list[Part] = []
    for part in content:
        match part:
            # The digest stays, so that two items can be distinguished.
            case OpaquePart():
                # `size` is 0 while the bytes are inline; afterwards `data` is empty and `size`
                # counts.
                size = max(part.size, len(part.data))
                visible.append(OpaquePart("", part.kind, part.digest, size))
            case TextPart() if part.opaque:
                visible.append(TextPart(part.text, part.phase, _VEIL))
            case ToolCall() if part.opaque:
                visible.append(ToolCall(part.name, part.arguments, part.id, _VEIL))
            case _:
                visible.append(part)
    return tuple(visible)


def blob_digest(content: bytes) -> str:
    """Returns the name under which bytes are stored in a log: BLAKE2b-160 in hex."""
    return blake2b(content, digest_size=20).hexdigest()


Pieces: TypeAlias = bytes | tuple[bytes, ...]
"""An encoded message. It has several pieces if it holds media, whose bytes are never copied."""


@dataclass(slots=True)
class _Encoded:
    """Encoding progress in one wire format: the number of encoded messages and their pieces."""

    count: int = 0
    pieces: list[bytes] = field(default_factory=list[bytes])


class Conversation(Sequence[Message]):
    """Messages in order. Equal prefixes have equal digests.

    `chars` is the approximate size of what a model reads, in characters, and `size` the same in
    bytes of UTF-8. Both count media at their cost in characters. `media` lists the media needed to
    send the conversation. `issuer` is the issuer of the newest message made by a model. `pinned`
    are the messages that stay when older ones are shortened.
    """

    __slots__ = (
        "_bound",
        "_bound_digest",
        "_cut",
        "_digest",
        "_digest_text",
        "_encoded",
        "_messages",
        "chars",
        "fetched",
        "issuer",
        "media",
        "offer",
        "pinned",
        "size",
    )

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._messages: list[Message] = []
        # Two digests: the neutral one survives a change of provider, because a run continues
        # elsewhere with the same prompt. The bound one changes, because issuer-bound data makes
        # another request.
        self._digest = blake2b(digest_size=8)
        self._digest_text = ""
        """Cached hex form of `_digest` until the next message: each model call reads it twice."""
        self._bound_digest = blake2b(digest_size=8)
        self._encoded: dict[str, _Encoded] = {}
        self._cut = 0
        self._bound = False
        self.chars = self.size = 0
        self.media: list[MediaPart] = []
        self.fetched = 0
        """The number of media whose bytes are loaded."""
        self.issuer: Issuer | None = None
        self.offer = ""
        """Digest of the tools and the schema with which the newest reply was requested."""
        self.pinned: list[Message] = []
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        """Appends `message`."""
        self._messages.append(message)
        self._digest_text = ""
        content = message.content
        if isinstance(content, str):
            self.chars += len(content)
            parts = f"{message.role}\x1f\x1f{content}\x1e"
            # A model's JSON may hold a lone surrogate (\ud83d without its pair), which strict UTF-8
            # refuses to encode.
            encoded = parts.encode("utf-8", "surrogatepass")
            self.size += len(encoded) - len(parts) + len(content)  # the frame is ASCII
            self._digest.update(encoded)
            return

        # Most messages are plain text and have returned above; these hold calls, results or media.
        outline = _Outline(content)
        neutral, readable = outline.neutral(message.role), outline.readable
        encoded = neutral.encode("utf-8", "surrogatepass")
        self._digest.update(encoded)
        self.chars += readable
        # All readable text is in `neutral`; the rest of it is ASCII except for unusual ids.
        self.size += len(encoded) - len(neutral) + readable
        for part in outline.media:
            self.media.append(part)
            self.chars += part.chars
            self.size += part.chars

        if message.issuer is not None:
            self.issuer = message.issuer
            if is_issuer_bound(content):
                self._bound = True
                self._bound_digest.update(_opaque(content, len(self._messages)).encode())

    def pin(self, message: Message) -> None:
        """Appends `message`, which stays when older ones are shortened."""
        self.append(message)
        self.pinned.append(message)

    @property
    def text_chars(self) -> int:
        """The part of `chars` that is text."""
        return self.chars - sum([part.chars for part in self.media])

    def cut(self) -> None:
        """Stops issuer-bound data of all messages so far from being sent again."""
        # Only a mark: messages are never rewritten, so the neutral digest and a replay are
        # unaffected.
        self._cut = len(self._messages)
        self._bound = False
        self._bound_digest = blake2b(str(self._cut).encode(), digest_size=8)
        # Encoded fragments may hold opaque parts; they are encoded once more without them.
        self._encoded.clear()

    @property
    def bound(self) -> bool:
        """True if it holds issuer-bound data since the last cut."""
        return self._bound

    def content(self, index: int) -> Content:
        """Returns the content to send for message `index`, without opaque parts before the cut."""
        content = self._messages[index].content
        return without_issuer_parts(content) if index < self._cut else content

    @property
    def digest(self) -> str:
        """16 hex digits over the roles, texts, calls, results and media so far."""
        if not self._digest_text:
            self._digest_text = self._digest.hexdigest()
        return self._digest_text

    @property
    def bound_digest(self) -> str:
        """16 hex digits over the opaque parts since the last cut, and over its position."""
        return self._bound_digest.hexdigest()

    def fragments(
        self,
        form: str,
        encode: "Callable[[Conversation, int], Pieces]",
        separator: bytes = b",",
    ) -> list[bytes]:
        """Returns the messages in the wire format `form`, in order, to be joined. Each is encoded
        once.

        Args:
            form: Name of the wire format; the cache key.
            encode: Encodes the message at an index of this conversation; b"" omits it.
            separator: Bytes between two messages.
        """
        # One cache per format: after a change of provider the old one stays valid for its prefix.
        encoded = self._encoded.setdefault(form, _Encoded())
        pieces = encoded.pieces
        for index in range(encoded.count, len(self._messages)):
            encoding = encode(self, index)
            if encoding:
                if pieces and separator:
                    pieces.append(separator)
                if isinstance(encoding, bytes):
                    pieces.append(encoding)
                else:
                    pieces += encoding
            # Counted one by one: if `encode` raises, count and pieces still agree and the next call
            # continues from here.
            encoded.count = index + 1
        # The list itself, not a copy (that would cost O(run) per step): callers only read it.
        return pieces

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __repr__(self) -> str:
        return f"Conversation({len(self)} messages, {self.digest})"


class _Outline:
    """The parts of a message that count for its digest and its size, collected in one pass."""

    __slots__ = ("calls", "media", "readable", "results", "text")

    def __init__(self, content: tuple[Part, ...]) -> None:
        self.calls: list[ToolCall] = []
        self.results: list[str] = []
        """Ids of the calls that are answered."""
        self.media: list[MediaPart] = []
        texts: list[str] = []
        readable = 0
        for part in content:
            # Thinking and opaque parts are left out: they differ between providers, and the digest
            # must not.
            if type(part) is ToolCall:
                self.calls.append(part)
                readable += len(part.name) + len(part.arguments)
            elif type(part) is ToolResult:
                self.results.append(part.id)
                texts.append(part.text)
                if type(part.content) is tuple:
                    self.media += media_of(part.content)
            elif type(part) is TextPart:
                texts.append(part.text)
            elif type(part) is MediaPart:
                self.media.append(part)

        self.text = "".join(texts)
        self.readable = len(self.text) + readable
        """Characters of text, results and calls."""

    def neutral(self, role: Role) -> str:
        """Returns the input of the digest, equal for every provider.

        The form for text, calls and lone results must not change: logs of earlier releases depend
        on it for replay.
        """
        results = self.results
        # ASCII control characters (unit, record) as separators keep swapped or empty fields
        # distinct.
        outline = f"{role}\x1f{results[0] if results else ''}\x1f{self.text}\x1e"
        for call in self.calls:
            outline += f"{call.name}\x1f{call.arguments}\x1f{call.id}\x1e"
        for answered in results[1:]:
            outline += f"{answered}\x1e"
        for part in self.media:
            outline += f"{part.kind}\x1f{part.digest or part.url}\x1e"
        return outline


def _opaque(content: Content, number: int) -> str:
    """Returns the input of the digest of opaque parts."""
    outline = f"{number}\x1e"
    if isinstance(content, str):
        return outline
    for index, part in enumerate(content):
        match part:
            case OpaquePart():
                # Equal whether the bytes are still inline or already moved to a blob.
                digest = part.digest or blake2b(part.data.encode(), digest_size=20).hexdigest()
                outline += f"{index}\x1f{part.kind}\x1f{digest}\x1e"
            case ThinkingPart() if part.echo:
                outline += f"{index}\x1f{part.echo}\x1f{part.text}\x1e"
            case ToolCall() if part.opaque:
                outline += f"{index}\x1f{part.opaque}\x1e"
            case _:
                outline += f"{index}\x1f{getattr(part, 'opaque', '')}\x1e"
    return outline


_HEADER: Final = "=== CONVERSATION HISTORY ===\n"
_MARKS: Final = {"user": "👤 USER", "assistant": "🤖 ASSISTANT"}


def format_conversation_as_chat(history: Iterable[Mapping[str, str] | Message]) -> str:
    """Returns the messages as text, numbered from 1. An unknown role is shown in capitals."""
    lines = [_HEADER]
    for number, message in enumerate(history, 1):
        if isinstance(message, Message):
            message = {"role": message.role, "content": message.shown}
        role, content = message.get("role", "unknown"), message.get("content", "")
        lines.append(f"{_MARKS.get(role, role.upper())} [{number}]: {content}\n")
    return "\n".join(lines)

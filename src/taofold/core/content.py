"""The messages of a conversation with a model, and their parts. A model's answer is in `reply`.

Text, media, calls and results mean the same to every provider. Thinking is for people. Opaque
parts are a provider's own items (encrypted reasoning, signed thinking): nobody but the endpoint
that issued them (`Issuer`) can read them, and it wants them back unchanged and in place. Bytes of
media lie beside the log under their digest; a part only names them. There is one function for each
way to look at content: as parts, as text, without what is opaque, and as people may see it.

A `Conversation` is an append-only list with a digest. Appending costs the same however long it is,
and a prefix keeps its bytes, which is what providers' prompt caches want and what signed reasoning
is bound to. There are two ways on: `append`, and `cut`, after which nothing that only a provider
understands is sent back from the messages before it. Adapters keep their own encoded fragments
here. Knows nothing about tokens, providers or wire formats. Pure.
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
    """Who made a reply: format, host (`api.openai.com`, `bedrock:eu-west-1`) and model."""

    wire: Wire
    host: str
    model: str


class TextPart(Value, frozen=True, tag_field="type", tag="text"):
    """Text. `phase` is OpenAI's ("commentary", "final_answer"); `opaque` as in `ToolCall`."""

    text: str
    phase: str = ""
    opaque: str = ""


class MediaPart(Value, frozen=True, tag_field="type", tag="media"):
    """An image, document, sound or film: bytes in the log under `digest`, or an address.

    `digest` is BLAKE2b-160 in hex, `size` in bytes, `detail` OpenAI's hint ("low", "high").
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
        """What stands for it where only text can: `[image image/png 12 kB plan.png 5a0c91d2]`."""
        size = f"{max(1, round(self.size / 1000))} kB" if self.size else ""
        words = (self.kind, self.media_type, size, self.name, self.url, self.digest[:8])
        return f"[{' '.join(filter(None, words))}]"

    @property
    def chars(self) -> int:
        """About as many characters of text as it costs in the model's window."""
        if self.kind == "image":
            return _IMAGE_CHARS
        # Documents, sound and film are charged by their bytes, since nobody here can open them;
        # bounded, so that one large file does not fill the estimate of a whole window.
        return min(max(self.size // 16, _IMAGE_CHARS), 400_000)


class ThinkingPart(Value, frozen=True, tag_field="type", tag="thinking"):
    """Readable thinking, for people. `echo` names the field in which the same endpoint wants
    the text back (`reasoning_content`); "" = it is never sent.
    """

    text: str
    echo: str = ""


class OpaquePart(Value, frozen=True, tag_field="type", tag="opaque"):
    """A provider's item as it came, as JSON text; long ones lie in the log under `digest`."""

    data: str = ""
    kind: str = ""
    digest: str = ""
    size: int = 0

    @property
    def line(self) -> str:
        """What people are shown of it: never its bytes."""
        return f"[opaque {self.kind} {max(self.size, len(self.data))} bytes]"


class ToolCall(Value, frozen=True, tag_field="type", tag="call"):
    """A native tool call as a provider returns it: `arguments` is JSON text, unread.

    `opaque` is a JSON object of fields that the issuer wants back with it (a signature).
    """

    name: str
    arguments: str
    id: str = ""
    opaque: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for a call that was sent twice: its id, its name and what its arguments say."""
        try:
            decoded = msgspec.json.decode(self.arguments)
            arguments = msgspec.json.encode(decoded, order="deterministic").decode()
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            arguments = self.arguments
        return self.id, self.name, arguments


class ToolResult(Value, frozen=True, tag_field="type", tag="result"):
    """What came back from the call `id`: text, or text and media in order."""

    id: str
    content: "str | tuple[TextPart | MediaPart, ...]"
    error: bool = False

    @property
    def parts(self) -> "tuple[TextPart | MediaPart, ...]":
        """The content as parts."""
        content = self.content
        return (TextPart(content),) if isinstance(content, str) else content

    @property
    def text(self) -> str:
        """The text of it, with a line for each medium."""
        content = self.content
        return content if isinstance(content, str) else text_with_media(content)


Part: TypeAlias = TextPart | MediaPart | ThinkingPart | OpaquePart | ToolCall | ToolResult
Content: TypeAlias = str | tuple[Part, ...]
"""Plain text is its own short form of one `TextPart`."""


class Message(Value, frozen=True):
    """One entry of the conversation that is sent to a model.

    `issuer` made it, if it is a model's: only then do its opaque parts mean anything.
    """

    role: Role
    content: Content
    issuer: Issuer | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts; empty text is no part."""
        return parts_of(self.content)

    @property
    def text(self) -> str:
        """What it says, without thinking, calls and media."""
        content = self.content
        return content if isinstance(content, str) else text_of(content)

    @property
    def shown(self) -> str:
        """What it says to people: its text, with a line for each medium."""
        content = self.content
        return content if isinstance(content, str) else text_with_media(content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it, in order."""
        content = self.content
        return () if isinstance(content, str) else calls_of(content)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in it, in order."""
        content = self.content
        return () if isinstance(content, str) else results_of(content)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """The media in it and in its results."""
        content = self.content
        return () if isinstance(content, str) else tuple(media_of(content))


def result_message(id: str, content: Content, *, error: bool = False) -> Message:  # noqa: A002
    """The message that answers call `id`."""
    presentable = (
        content
        # A result holds text and media only: a call or a thinking part in it would be nobody's.
        if isinstance(content, str)
        else tuple([part for part in content if isinstance(part, TextPart | MediaPart)])
    )
    return Message("tool", (ToolResult(id, presentable, error),))


def parts_of(content: Content) -> tuple[Part, ...]:
    """`content` as parts; empty text is none."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    return content


def content_of(parts: Sequence[Part]) -> Content:
    """The shortest form of `parts`: a lone text is a string."""
    if not parts:
        return ""
    first = parts[0]
    # A text that is more than its characters must stay a part, or a provider's own data is lost.
    if len(parts) == 1 and type(first) is TextPart and not first.phase and not first.opaque:
        return first.text
    return tuple(parts)


def text_of(parts: Iterable[Part]) -> str:
    """The text of the parts, joined as it was written; results count, thinking does not."""
    texts = [part.text for part in parts if type(part) is TextPart or type(part) is ToolResult]
    return texts[0] if len(texts) == 1 else "".join(texts)


def text_with_media(parts: Iterable[Part]) -> str:
    """Text, results and media as text: a line stands for each medium."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, TextPart | ToolResult):
            lines.append(part.text)
        elif isinstance(part, MediaPart):
            lines.append(part.line)
    return "\n".join(filter(None, lines))


def thoughts(parts: Iterable[Part]) -> str:
    """The readable thinking among the parts."""
    return "".join([part.text for part in parts if type(part) is ThinkingPart])


def calls_of(parts: Iterable[Part]) -> tuple[ToolCall, ...]:
    """The calls among the parts."""
    return tuple([part for part in parts if type(part) is ToolCall])


def results_of(parts: Iterable[Part]) -> tuple[ToolResult, ...]:
    """The results among the parts."""
    return tuple([part for part in parts if type(part) is ToolResult])


def media_of(content: Content) -> Iterator[MediaPart]:
    """The media in `content`, those in results included."""
    if isinstance(content, str):
        return
    for part in content:
        if type(part) is MediaPart:
            yield part
        elif type(part) is ToolResult:
            yield from media_of(part.content)


def is_issuer_bound(content: Content) -> bool:
    """Does `content` hold anything that only its issuer understands?"""
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
    """`content` without what only its issuer understands: text, media, calls and results."""
    if isinstance(content, str):
        return content
    remaining: list[Part] = []
    for part in content:
        match part:
            # Readable thinking goes too: only the endpoint that made it wants it back (`echo`).
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
    """`content` for people: of what only its issuer can read there is its kind and its size.

    It may hold whatever the model saw, in a form that nobody can look through.
    """
    if isinstance(content, str):
        return content
    visible: list[Part] = []
    for part in content:
        match part:
            # The digest stays: a person can tell two items apart by it.
            case OpaquePart():
                # `size` is 0 while the bytes are inline; afterwards `data` is
                # empty and `size` counts.
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
    """The name under which bytes lie in a log: BLAKE2b-160 in hex."""
    return blake2b(content, digest_size=20).hexdigest()


Pieces: TypeAlias = bytes | tuple[bytes, ...]
"""An encoded message; in several pieces if it holds media, whose bytes are never copied."""


@dataclass(slots=True)
class _Encoded:
    """How far the messages are encoded in one format, and their pieces."""

    count: int = 0
    pieces: list[bytes] = field(default_factory=list[bytes])


class Conversation(Sequence[Message]):
    """Messages in order; equal prefixes have equal digests.

    `chars` is about the size of what a model reads, in characters, `size` in bytes of UTF-8 (media
    count in both as many characters as they cost); `media` what must be at hand to
    send it; `issuer` the maker of the newest message that a model made.
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
        "size",
    )

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._messages: list[Message] = []
        # Two digests, because a provider change keeps the neutral one: a run goes on elsewhere with
        # the same prompt, but what is bound to an issuer is not the same request.
        self._digest = blake2b(digest_size=8)
        self._digest_text = ""
        """`_digest` as text, until the next message: each call of a model asks for it twice."""
        self._bound_digest = blake2b(digest_size=8)
        self._encoded: dict[str, _Encoded] = {}
        self._cut = 0
        self._bound = False
        self.chars = self.size = 0
        self.media: list[MediaPart] = []
        self.fetched = 0
        """How many of the media have their bytes at hand."""
        self.issuer: Issuer | None = None
        self.offer = ""
        """Digest of the tools and the schema that the newest reply was asked for with."""
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        """Add `message` at the end."""
        self._messages.append(message)
        self._digest_text = ""
        content = message.content
        if isinstance(content, str):
            self.chars += len(content)
            parts = f"{message.role}\x1f\x1f{content}\x1e"
            # A model's JSON may hold a lone surrogate (\ud83d without its pair), which strict UTF-8
            # refuses to encode.
            encoded = parts.encode("utf-8", "surrogatepass")
            self.size += len(encoded) - len(parts) + len(content)  # its frame is ASCII
            self._digest.update(encoded)
            return

        # Most messages are plain text and have returned above; these hold calls, results or media.
        outline = _Outline(content)
        neutral, readable = outline.neutral(message.role), outline.readable
        encoded = neutral.encode("utf-8", "surrogatepass")
        self._digest.update(encoded)
        self.chars += readable
        # All that can be read stands in `neutral`; what is around it is ASCII but for odd ids.
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

    @property
    def text_chars(self) -> int:
        """The part of `chars` that is text."""
        return self.chars - sum([part.chars for part in self.media])

    def cut(self) -> None:
        """Send back nothing more of what only a provider understands, up to here."""
        # Only a mark: messages are never rewritten, so the neutral digest and
        # a replay are unaffected.
        self._cut = len(self._messages)
        self._bound = False
        self._bound_digest = blake2b(str(self._cut).encode(), digest_size=8)
        # What was encoded may hold opaque parts; it is encoded anew, once, without them.
        self._encoded.clear()

    @property
    def bound(self) -> bool:
        """Does it hold anything since the last cut that only its issuer understands?"""
        return self._bound

    def content(self, index: int) -> Content:
        """What message `index` may be sent with: before the cut, nothing opaque."""
        content = self._messages[index].content
        return without_issuer_parts(content) if index < self._cut else content

    @property
    def digest(self) -> str:
        """16 hex digits that stand for the roles, texts, calls, results and media so far."""
        if not self._digest_text:
            self._digest_text = self._digest.hexdigest()
        return self._digest_text

    @property
    def bound_digest(self) -> str:
        """16 hex digits that stand for the opaque parts since the last cut, and for its place."""
        return self._bound_digest.hexdigest()

    def fragments(
        self,
        form: str,
        encode: "Callable[[Conversation, int], Pieces]",
        separator: bytes = b",",
    ) -> list[bytes]:
        """The messages in the wire format `form`, each encoded once, in order, to be joined.

        `encode` gets this conversation and the index of the message; b"" = it has none.
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
            # goes on from here.
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
    """What of a message's parts counts for its digest and its size, collected in one pass.

    Every message of a run comes through here once, so it is read once and not once per question.
    """

    __slots__ = ("calls", "media", "readable", "results", "text")

    def __init__(self, content: tuple[Part, ...]) -> None:
        self.calls: list[ToolCall] = []
        self.results: list[str] = []
        """Ids of the calls that are answered."""
        self.media: list[MediaPart] = []
        texts: list[str] = []
        readable = 0
        for part in content:
            # Thinking and opaque parts are left out: they differ between providers,
            # and the digest must not.
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
        """What the digest is made of, the same for every provider.

        Of text, calls and lone results it is what it always was, so that logs of earlier
        releases replay.
        """
        results = self.results
        # The separators are ASCII control characters (unit, record), which no message can be
        # confused with when two fields are swapped or one is empty.
        outline = f"{role}\x1f{results[0] if results else ''}\x1f{self.text}\x1e"
        for call in self.calls:
            outline += f"{call.name}\x1f{call.arguments}\x1f{call.id}\x1e"
        for answered in results[1:]:
            outline += f"{answered}\x1e"
        for part in self.media:
            outline += f"{part.kind}\x1f{part.digest or part.url}\x1e"
        return outline


def _opaque(content: Content, number: int) -> str:
    """What the digest of opaque parts is made of."""
    outline = f"{number}\x1e"
    if isinstance(content, str):
        return outline
    for index, part in enumerate(content):
        match part:
            case OpaquePart():
                # The same whether the bytes are still inline or already moved to a blob.
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
    """The messages in order, numbered from 1; a role that nobody knows is shown as it is."""
    lines = [_HEADER]
    for number, message in enumerate(history, 1):
        if isinstance(message, Message):
            message = {"role": message.role, "content": message.shown}
        role, content = message.get("role", "unknown"), message.get("content", "")
        lines.append(f"{_MARKS.get(role, role.upper())} [{number}]: {content}\n")
    return "\n".join(lines)

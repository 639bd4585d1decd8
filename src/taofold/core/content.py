"""What messages are made of: ordered parts, kept as they were received.

Text, media, calls and results mean the same to every provider. Thinking is for people.
Opaque parts are a provider's own items (encrypted reasoning, signed thinking): nobody but the
endpoint that issued them can read them, and it wants them back unchanged and in place. Bytes of
media lie beside the log under their digest; a part only names them. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from taofold.core.value import Value

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
        return content if isinstance(content, str) else described(content)


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
        return content if isinstance(content, str) else said(content)

    @property
    def shown(self) -> str:
        """What it says to people: its text, with a line for each medium."""
        content = self.content
        return content if isinstance(content, str) else described(content)

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
    shown = (
        content
        if isinstance(content, str)
        else tuple([part for part in content if isinstance(part, TextPart | MediaPart)])
    )
    return Message("tool", (ToolResult(id, shown, error),))


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
    if len(parts) == 1 and type(first) is TextPart and not first.phase and not first.opaque:
        return first.text
    return tuple(parts)


def said(parts: Iterable[Part]) -> str:
    """The text of the parts, joined as it was written; results count, thinking does not."""
    texts = [part.text for part in parts if type(part) is TextPart or type(part) is ToolResult]
    return texts[0] if len(texts) == 1 else "".join(texts)


def described(parts: Iterable[Part]) -> str:
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


def bound(content: Content) -> bool:
    """Does `content` hold anything that only its issuer understands?"""
    return not isinstance(content, str) and any(
        [
            type(part) is OpaquePart
            or (type(part) is ThinkingPart and part.echo != "")
            or ((type(part) is ToolCall or type(part) is TextPart) and part.opaque != "")
            for part in content
        ]
    )


def unbound(content: Content) -> Content:
    """`content` without what only its issuer understands: text, media, calls and results."""
    if isinstance(content, str):
        return content
    kept: list[Part] = []
    for part in content:
        match part:
            case OpaquePart() | ThinkingPart():
                pass
            case TextPart(opaque="") | ToolCall(opaque=""):
                kept.append(part)
            case TextPart():
                kept.append(TextPart(part.text, part.phase))
            case ToolCall():
                kept.append(ToolCall(part.name, part.arguments, part.id))
            case MediaPart() | ToolResult():
                kept.append(part)
    return content_of(kept)


def veiled(content: Content) -> Content:
    """`content` for people: of what only its issuer can read there is its kind and its size.

    It may hold whatever the model saw, in a form that nobody can look through.
    """
    if isinstance(content, str):
        return content
    shown: list[Part] = []
    for part in content:
        match part:
            case OpaquePart():
                size = max(part.size, len(part.data))
                shown.append(OpaquePart("", part.kind, part.digest, size))
            case TextPart() if part.opaque:
                shown.append(TextPart(part.text, part.phase, _VEIL))
            case ToolCall() if part.opaque:
                shown.append(ToolCall(part.name, part.arguments, part.id, _VEIL))
            case _:
                shown.append(part)
    return tuple(shown)


def blob_digest(content: bytes) -> str:
    """The name under which bytes lie in a log: BLAKE2b-160 in hex."""
    return blake2b(content, digest_size=20).hexdigest()


class Usage(Value, frozen=True):
    """What model calls consumed: tokens and US dollars. Usages add up.

    `input_tokens` includes those read from the provider's cache (`cached_tokens`) and written to
    it (`written_tokens`), `output_tokens` those of reasoning (`reasoning_tokens`).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    written_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.usd + other.usd,
            self.written_tokens + other.written_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


Finish = Literal[
    "", "stop", "length", "tool_calls", "refusal", "pause", "overflow", "content_filter",
    "malformed", "error",
]  # fmt: skip
"""Why a reply ended; "" = unknown.

`pause`: ask again with the reply appended. `refusal`: the provider will not answer this.
`overflow`: the conversation does not fit the window. `malformed`: the provider could not read its
own model's call; asking again may help. `error`: no reply (only where the caller is tolerant).
"""


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """What a model returned: give `text`, `calls` and `reasoning`, or `parts` with their order.

    `notes` are what the provider reported about the request (reasoning it dropped, and why).

        Reply("42")
        Reply("I look.", (ToolCall("read", '{"path": "a.txt"}', "c1"),), finish="tool_calls")
    """

    parts: tuple[Part, ...]
    usage: Usage
    model: str
    finish: str
    issuer: Issuer | None
    notes: tuple[str, ...]

    def __init__(
        self,
        text: str = "",
        calls: Sequence[ToolCall] = (),
        usage: Usage = Usage(),
        model: str = "",
        finish: str = "",
        reasoning: str = "",
        *,
        parts: Content | None = None,
        issuer: Issuer | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        if parts is None:
            whole: list[Part] = [ThinkingPart(reasoning)] if reasoning else []
            if text:
                whole.append(TextPart(text))
            parts = (*whole, *calls)
        elif text or calls or reasoning:
            raise TypeError("a reply has either parts or text, calls and reasoning")
        put = object.__setattr__
        put(self, "parts", parts_of(parts))
        put(self, "usage", usage)
        put(self, "model", model)
        put(self, "finish", finish)
        put(self, "issuer", issuer)
        put(self, "notes", tuple(notes))

    @property
    def text(self) -> str:
        """What it says, without thinking and calls."""
        return said(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it, in order."""
        return calls_of(self.parts)

    @property
    def reasoning(self) -> str:
        """The readable thinking in it."""
        return thoughts(self.parts)

    @property
    def content(self) -> Content:
        """The parts in their shortest form."""
        return content_of(self.parts)

    def kept(self, text: str) -> Content:
        """The content with `text` in place of the reply's own."""
        if text == self.text:
            return self.content
        parts: list[Part] = [part for part in self.parts if type(part) is not TextPart]
        if not text:
            return content_of(parts)
        # It stands where the first text stood: behind what the model thought before it spoke.
        places = [place for place, part in enumerate(self.parts) if type(part) is TextPart]
        parts.insert(places[0] if places else len(parts) - len(self.calls), TextPart(text))
        return content_of(parts)

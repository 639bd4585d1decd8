"""The conversation: an append-only list of messages with a running digest.

Appending costs the same however long it is, and a prefix keeps its bytes, which is what
providers' prompt caches want and what signed reasoning is bound to. There are two ways on:
`append`, and `cut`, after which nothing that only a provider understands is sent back from the
messages before it. It knows nothing about tokens, providers or the wire format; an adapter keeps
its own encoded fragments here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias, overload

from taofold.core.content import (
    Content,
    Issuer,
    MediaPart,
    Message,
    OpaquePart,
    ThinkingPart,
    ToolCall,
    bound,
    unbound,
)

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
        "_bound", "_bound_digest", "_cut", "_digest", "_encoded", "_messages", "chars", "fetched",
        "issuer", "media", "offer", "size",
    )  # fmt: skip

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._messages: list[Message] = []
        self._digest = blake2b(digest_size=8)
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
        content = message.content
        if isinstance(content, str):
            self.chars += len(content)
            parts = f"{message.role}\x1f\x1f{content}\x1e"
            encoded = parts.encode("utf-8", "surrogatepass")
            self.size += len(encoded) - len(parts) + len(content)  # its frame is ASCII
            self._digest.update(encoded)
            return
        self._digest.update(_neutral(message).encode("utf-8", "surrogatepass"))
        media = message.media
        if media:
            self.media += media
            self.chars += sum([part.chars for part in media])
            self.size += sum([part.chars for part in media])
        texts = [message.text]
        for call in message.calls:
            texts += (call.name, call.arguments)
        self.chars += sum(map(len, texts))
        self.size += sum([len(text.encode("utf-8", "surrogatepass")) for text in texts])
        if message.issuer is not None:
            self.issuer = message.issuer
            if bound(content):
                self._bound = True
                self._bound_digest.update(_opaque(content, len(self._messages)).encode())

    def cut(self) -> None:
        """Send back nothing more of what only a provider understands, up to here."""
        self._cut = len(self._messages)
        self._bound = False
        self._bound_digest = blake2b(str(self._cut).encode(), digest_size=8)
        self._encoded.clear()

    @property
    def bound(self) -> bool:
        """Does it hold anything since the last cut that only its issuer understands?"""
        return self._bound

    def content(self, index: int) -> Content:
        """What message `index` may be sent with: before the cut, nothing opaque."""
        content = self._messages[index].content
        return unbound(content) if index < self._cut else content

    @property
    def digest(self) -> str:
        """16 hex digits that stand for the roles, texts, calls, results and media so far."""
        return self._digest.hexdigest()

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
        encoded = self._encoded.setdefault(form, _Encoded())
        pieces = encoded.pieces
        for index in range(encoded.count, len(self._messages)):
            made = encode(self, index)
            if made:
                if pieces and separator:
                    pieces.append(separator)
                if isinstance(made, bytes):
                    pieces.append(made)
                else:
                    pieces += made
            encoded.count = index + 1
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


def _neutral(message: Message) -> str:
    """What the digest is made of. Of text, calls and lone results it is what it always was, so
    that logs of earlier releases replay.
    """
    results = message.results
    found = f"{message.role}\x1f{results[0].id if results else ''}\x1f{message.text}\x1e"
    for call in message.calls:
        found += f"{call.name}\x1f{call.arguments}\x1f{call.id}\x1e"
    for result in results[1:]:
        found += f"{result.id}\x1e"
    for part in message.media:
        found += f"{part.kind}\x1f{part.digest or part.url}\x1e"
    return found


def _opaque(content: Content, number: int) -> str:
    """What the digest of opaque parts is made of."""
    found = f"{number}\x1e"
    if isinstance(content, str):
        return found
    for place, part in enumerate(content):
        match part:
            case OpaquePart():
                known = part.digest or blake2b(part.data.encode(), digest_size=20).hexdigest()
                found += f"{place}\x1f{part.kind}\x1f{known}\x1e"
            case ThinkingPart() if part.echo:
                found += f"{place}\x1f{part.echo}\x1f{part.text}\x1e"
            case ToolCall() if part.opaque:
                found += f"{place}\x1f{part.opaque}\x1e"
            case _:
                found += f"{place}\x1f{getattr(part, 'opaque', '')}\x1e"
    return found

"""The conversation: an append-only list of messages with a running digest.

Appending costs the same however long it is, and a prefix keeps its bytes, which is
what providers' prompt caches want. Only `compacted` starts a new one. It knows
nothing about tokens, providers or the wire format; an adapter may keep its own
encoded fragments in `encoded`, one per message.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import overload

from taofold.core.values import Message


class Conversation(Sequence[Message]):
    """Messages in order; equal prefixes have equal digests."""

    __slots__ = ("_digest", "_encoded", "_messages", "chars")

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._messages: list[Message] = []
        self._digest = blake2b(digest_size=8)
        self._encoded: dict[str, list[bytes]] = {}
        self.chars = 0
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        """Add `message` at the end."""
        self._messages.append(message)
        content = message.content
        self.chars += len(content)
        parts = f"{message.role}\x1f{message.call_id}\x1f{content}\x1e"
        for call in message.calls:
            parts += f"{call.name}\x1f{call.arguments}\x1f{call.id}\x1e"
            self.chars += len(call.arguments) + len(call.name)
        self._digest.update(parts.encode("utf-8", "surrogatepass"))

    @property
    def digest(self) -> str:
        """16 hex digits that stand for every message so far."""
        return self._digest.hexdigest()

    def encoded(self, form: str, encode: Callable[[Message], bytes]) -> list[bytes]:
        """The messages in the wire format `form`, each encoded once."""
        done = self._encoded.setdefault(form, [])
        done.extend(encode(message) for message in self._messages[len(done) :])
        return done

    def fragments(
        self, form: str, encode: Callable[[Sequence[Message], int], bytes]
    ) -> list[bytes]:
        """As `encoded`, for formats in which a message's bytes depend on those before it:
        `encode` gets all messages and the index of the one to encode.
        """
        done = self._encoded.setdefault(form, [])
        for index in range(len(done), len(self._messages)):
            done.append(encode(self._messages, index))
        return done

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

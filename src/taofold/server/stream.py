"""The server-sent events of one client: what it missed, then what happens, then the end.

A client that was dropped comes back with the `id:` of the last event it got. What it gets
of an answer that is still arriving has no id: it starts again at offset 0.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec

from taofold.core.text import iso
from taofold.server.channel import Channel, Entry, Told

MOST_BYTES: Final = 65_536
"""Frames are sent together up to this size."""
LONGEST_REPORT: Final = 2_000
"""Characters of what a tool says of its work."""


class Reader:
    """One client's way through a channel."""

    def __init__(self, channel: Channel, entry: Entry, now: Callable[[], int]) -> None:
        self._channel, self._now = channel, now
        self._index, self._position = entry
        self._sent, self._generation = 0, channel.generation
        self._reports = channel.reports
        self._last = 0
        """Sequence number of the event that was told last."""
        self.done = False

    async def frames(self) -> AsyncIterator[bytes]:
        """Everything from here on, until the run's end was told."""
        channel = self._channel
        while not self.done:
            change = channel.change
            parts, size = list[bytes](), 0
            for part in self._events():
                parts.append(part)
                size += len(part)
                if size >= MOST_BYTES:
                    yield b"".join(parts)
                    parts, size = [], 0
            if channel.live and not self.done:
                parts += self._chunk(channel.answer)
            if self._reports != channel.reports and not self.done:
                parts += self._report()
            if parts:
                yield b"".join(parts)
            elif not self.done:
                await change.wait()

    def _events(self) -> Iterator[bytes]:
        channel = self._channel
        while self._index < len(channel.told):
            told = channel.told[self._index]
            self._index += 1
            if self._position is not None and channel.covered(told.event, self._position):
                continue
            if told.event.type == "done":
                if self._index < len(channel.told):
                    continue  # the run went on: it was no end
                self.done = channel.ended
                if not self.done:
                    continue
            if told.event.type == "answer":
                yield from self._chunk(str(told.event.data["text"]))
            self._last = told.sequence
            yield self._frame(told)

    def _frame(self, told: Told) -> bytes:
        if self._position is None:
            return told.frame
        return self._channel.own(told, self._position)

    def _chunk(self, text: str) -> list[bytes]:
        """What the client has not yet got of `text`, in one piece."""
        channel = self._channel
        if self._generation != channel.generation or not text.startswith(
            channel.answer[: self._sent]
        ):
            self._generation, self._sent = channel.generation, 0
        if self._sent >= len(text):
            return []
        said = {"text": text[self._sent :], "offset": self._sent}
        self._sent = len(text)
        return [self._passing("answer_chunk", channel.run, said)]

    def _report(self) -> list[bytes]:
        """What a tool said last of its work."""
        self._reports, said = self._channel.reports, self._channel.progress
        if said is None:
            return []
        text = said.text[:LONGEST_REPORT]
        return [self._passing("progress", said.run, {"tool": said.tool, "text": text})]

    def _passing(self, name: str, run: str, said: dict[str, Any]) -> bytes:
        """The frame of what no log holds: without an id, because nobody can come back to it."""
        body = {
            "type": name,
            "timestamp": iso(self._now()),
            "sequence": self._last,
            "run": run,
            "seq": None,
            "child": run != self._channel.run,
            **said,
        }
        return f"event: {name}\ndata: ".encode() + msgspec.json.encode(body) + b"\n\n"


def read_already(channel: Channel, entry: Entry) -> bool:
    """Has the run ended, and was everything told?"""
    return channel.ended and entry.begin >= len(channel.told)

"""Cuts a stream of bytes into events, wherever the network cut it.

Reads Server-Sent Events (WHATWG HTML 9.2, `data` fields only) and newline-delimited
JSON. It knows nothing about what the events say.
"""

from collections.abc import Callable
from typing import Final

DONE: Final = b"[DONE]"


class Lines:
    """Calls `on_line` with each complete line, without its end."""

    __slots__ = ("_on_line", "_rest")

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line = on_line
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        if b"\n" not in chunk:  # joined once: a line may come in very many pieces
            self._rest.append(chunk)
            return
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest = [lines.pop()]
        for line in lines:
            self._on_line(line[:-1] if line.endswith(b"\r") else line)

    def close(self) -> None:
        """The stream ended: what is left is a line."""
        rest, self._rest = b"".join(self._rest), []
        if rest:
            self._on_line(rest)


class Events:
    """Calls `on_event` with the data of each event; several `data` lines are joined by newline."""

    __slots__ = ("_data", "_lines", "_on_event")

    def __init__(self, on_event: Callable[[bytes], None]) -> None:
        self._on_event = on_event
        self._data: list[bytes] = []
        self._lines = Lines(self._line)

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        self._lines.feed(chunk)

    def close(self) -> None:
        """The stream ended. An event that lacks only its blank line still counts."""
        self._lines.close()
        self._line(b"")

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif not line and self._data:
            data, self._data = self._data, []
            self._on_event(b"\n".join(data))

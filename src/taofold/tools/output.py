"""Keeps the useful part of a long output: its head, its tail, and error lines between.

Memory is bounded whatever is fed. Knows nothing about processes.
"""

import re
from codecs import getincrementaldecoder
from typing import Final

HEAD: Final = 5_000
TAIL: Final = 7_000
MOST_LINES: Final = 40
WIDEST: Final = 300

_ERROR: Final = re.compile(
    r"\b(?:\w*error|\w*exception|failed|failure|fatal|traceback|panic|denied)\b", re.IGNORECASE
)
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Output:
    """Feed it bytes; ask for `text` at any time. Limits are in characters."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._most_head, self._most_tail = head, tail
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._head = self._tail = self._line = ""
        self._errors: list[str] = []
        self._dropped = 0
        self.bytes = 0

    def feed(self, chunk: bytes) -> str:
        """Take the next bytes; returns what of them became part of the head."""
        self.bytes += len(chunk)
        text = self._decode(chunk)
        room = self._most_head - len(self._head)
        taken = text[:room]
        self._head += taken
        self._tail += text[room:]
        over = len(self._tail) - self._most_tail
        if over > 0:
            self._drop(self._tail[:over])
            self._tail = self._tail[over:]
        return taken

    def _drop(self, text: str) -> None:
        self._dropped += len(text)
        *lines, rest = (self._line + text).split("\n")
        self._line = rest[-WIDEST:]
        for line in lines:
            if len(self._errors) < MOST_LINES and _ERROR.search(line[:WIDEST]):
                self._errors.append(line[:WIDEST])

    @property
    def text(self) -> str:
        """What was kept, and how much was not."""
        if not self._dropped:
            return plain(self._head + self._tail)
        errors = "".join(f"\n{line}" for line in self._errors)
        said = f"\n… {self._dropped:,} characters left out"
        said += f"; error lines among them:{errors}\n…\n" if errors else " …\n"
        return plain(self._head + said + self._tail)


def plain(text: str) -> str:
    """Without terminal escapes, and with progress bars (`\\r`) reduced to their last state."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def key_line(text: str, failed: bool) -> str:
    """The line that says most: of a failure the last one about an error, else the last."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if failed:
        errors = [line for line in lines if _ERROR.search(line[:WIDEST])]
        lines = errors or lines
    return lines[-1][:WIDEST] if lines else ""

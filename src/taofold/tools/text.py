"""Text files as tools see them: decoded, with their line ends remembered.

Knows nothing about jails or tools.
"""

from dataclasses import dataclass
from typing import Final

BINARY_SNIFF: Final = 8_192
WIDEST: Final = 2_000
"""Characters of one line that are shown."""


@dataclass(frozen=True, slots=True)
class Text:
    """The content with `\\n` line ends only, and what is needed to write it back."""

    content: str
    newline: str = "\n"
    bom: bool = False
    exact: bool = True
    """False: it is not valid UTF-8, so writing it back would change it."""

    @property
    def lines(self) -> list[str]:
        """Without line ends; a final line end does not make a further line."""
        lines = self.content.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    def encoded(self, content: str) -> bytes:
        """`content` as this file would be written."""
        said = content.replace("\n", self.newline).encode()
        return b"\xef\xbb\xbf" + said if self.bom else said


def is_binary(raw: bytes) -> bool:
    """A NUL byte near the start: what git calls binary."""
    return b"\0" in raw[:BINARY_SNIFF]


def decode(raw: bytes) -> Text:
    """Reads UTF-8; bytes that are none are replaced and `exact` is false."""
    bom = raw.startswith(b"\xef\xbb\xbf")
    content = raw.decode("utf-8-sig", errors="replace")
    windows = content.count("\r\n")
    newline = "\r\n" if windows and windows == content.count("\n") else "\n"
    if newline == "\r\n":
        content = content.replace("\r\n", "\n")
    text = Text(content, newline, bom)
    return text if text.encoded(content) == raw else Text(content, newline, bom, exact=False)


def numbered(lines: list[str], first: int) -> str:
    """Lines with their numbers, a tab between."""
    return "\n".join(f"{first + i}\t{clip(line)}" for i, line in enumerate(lines))


def clip(line: str, width: int = WIDEST) -> str:
    """A line, cut if it is very long."""
    return line if len(line) <= width else f"{line[:width]}… ({len(line):,} characters)"

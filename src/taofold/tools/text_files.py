"""Text files as tools see them: decoded, with their line ends remembered, numbered, searched.

A regular expression may need exponential time and nothing can interrupt `re` in a thread, so it
runs in a child process that can be stopped. This file, run as a script, is that child: it reads a
request from stdin, and imports nothing of ours. Knows nothing about jails or tools.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

BINARY_SNIFF: Final = 8_192
WIDEST: Final = 2_000
"""Characters of one line that are shown."""


@dataclass(frozen=True, slots=True)
class TextFile:
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

    @property
    def remarks(self) -> str:
        """What is unusual about it, in brackets; "" if nothing is."""
        remarks = [] if self.newline == "\n" else ["CRLF line ends"]
        remarks += [] if self.exact else ["not valid UTF-8: shown approximately"]
        return f" ({', '.join(remarks)})" if remarks else ""

    def encoded(self, content: str) -> bytes:
        """`content` as this file would be written."""
        encoded = content.replace("\n", self.newline).encode()
        return b"\xef\xbb\xbf" + encoded if self.bom else encoded


def is_binary(raw: bytes) -> bool:
    """A NUL byte near the start: what git calls binary."""
    return b"\0" in raw[:BINARY_SNIFF]


def decode(raw: bytes) -> TextFile:
    """Reads UTF-8; bytes that are none are replaced and `exact` is false."""
    bom = raw.startswith(b"\xef\xbb\xbf")
    content = raw.decode("utf-8-sig", errors="replace")
    # Only if every line ends so: a mixed file would be changed by writing it back.
    windows = content.count("\r\n")
    newline = "\r\n" if windows and windows == content.count("\n") else "\n"
    if newline == "\r\n":
        content = content.replace("\r\n", "\n")
    text = TextFile(content, newline, bom)
    # Checked by doing it: what does not come back byte for byte is not edited.
    return text if text.encoded(content) == raw else TextFile(content, newline, bom, exact=False)


def numbered(lines: list[str], first: int) -> str:
    """Lines with their numbers, a tab between."""
    return "\n".join(f"{first + i}\t{clip(line)}" for i, line in enumerate(lines))


def clip(line: str, width: int = WIDEST) -> str:
    """A line, cut if it is very long."""
    return line if len(line) <= width else f"{line[:width]}… ({len(line):,} characters)"


SECONDS: Final = 5.0
"""How long a search may take, in seconds, for all texts together."""

Hits: TypeAlias = list[list[int]]
"""For each text the indexes of the lines that match."""


class Unmatched(ValueError):
    """The expression is wrong, or takes too long."""


def matching(
    pattern: str, texts: Sequence[str], *, ignore_case: bool, most: int, seconds: float = SECONDS
) -> Hits:
    """The lines of `texts` in which `pattern` is found, at most `most` in all.

    Raises:
        Unmatched: the pattern is no regular expression, or it needs more than `seconds`.
    """
    request = json.dumps([pattern, ignore_case, most, list(texts)])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            # Through standard input: arguments are limited in length and visible to others.
            input=request,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unmatched(
            f"the regular expression {pattern!r} needs more than {seconds:g} s; "
            "simplify it, or search fewer files with glob"
        ) from None
    if done.returncode:
        raise Unmatched(f"the search ended with code {done.returncode}; simplify the expression")
    answer: Hits | str = json.loads(done.stdout)
    if isinstance(answer, str):
        raise Unmatched(f"{pattern!r} is no regular expression: {answer}; or set regex to false")
    return answer


def _child() -> None:
    pattern, ignore_case, most, texts = json.loads(sys.stdin.read())
    try:
        search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    except (re.error, RecursionError, OverflowError) as error:
        sys.stdout.write(json.dumps(str(error) or "it nests too deep"))
        return
    hits: Hits = []
    left: int = most
    for text in texts:
        matches = [i for i, line in enumerate(text.split("\n")) if left > 0 and search(line)]
        hits.append(matches[:left])
        left -= len(matches)
    sys.stdout.write(json.dumps(hits))


if __name__ == "__main__":
    _child()

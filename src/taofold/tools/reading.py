"""The built-in tools that look at files: list, read, search. All are reads."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from taofold.core.errors import ConfigError
from taofold.tools.context import Outcome
from taofold.tools.jail import Entry, Jail
from taofold.tools.matcher import matching
from taofold.tools.media import Attachment, media_type_of, showing
from taofold.tools.text import Text, clip, decode, is_binary, numbered
from taofold.tools.walk import capped, fits, walk

MOST_ENTRIES: Final = 500
MOST_BYTES: Final = 10_000_000
"""Largest file that is read."""
MOST_CHARS: Final = 15_000
"""Characters of a file shown at once; a bit below `Tool.max_chars`, so that it is whole."""
MOST_SEARCHED: Final = 2_000_000
"""Largest file that is searched, in bytes."""
MOST_TEXT: Final = 32_000_000
"""Bytes that one search reads."""


class Reading:
    """Reads in one jail. Failures are raised; `files.py` turns them into observations."""

    def __init__(self, jail: Jail) -> None:
        self.jail = jail

    def list_files(
        self,
        path: str = ".",
        glob: str = "",
        depth: Annotated[int, Field(ge=1, le=20)] = 3,
    ) -> Outcome:
        """List files and directories below a directory, with sizes in bytes.

        Args:
            path: Directory to list, relative to the work root.
            glob: Only files that match, such as *.py or src/**/*.py; empty = all.
            depth: How many levels of directories to enter.
        """
        lines: list[str] = []
        total = 0
        for entry in capped(walk(self.jail, self.jail.parts(path), depth)):
            if glob and (entry.kind == "directory" or not fits(entry.path, glob)):
                continue
            total += 1
            if total <= MOST_ENTRIES:
                lines.append(_shown(entry))
        if not lines:
            what = f"nothing matches {glob!r} in" if glob else "nothing is in"
            return Outcome(f"{what} {path!r}", extraction=f"{what} {path!r}")
        if total > MOST_ENTRIES:
            lines.append(f"… {total - MOST_ENTRIES} more; narrow it with path, glob or depth")
        return Outcome("\n".join(lines), extraction=f"{total} entries in {path}")

    def read_file(
        self,
        path: str,
        start: Annotated[int, Field(ge=1)] = 1,
        end: Annotated[int, Field(ge=0)] = 0,
    ) -> Outcome:
        """Read a file. Of a text every line is shown as its number, a tab, the line; a picture
        or a PDF is shown as it is.

        Args:
            path: The file, relative to the work root.
            start: First line to read, counted from 1.
            end: Last line to read; 0 = to the end of the file.
        """
        raw = self.jail.read(path, MOST_BYTES)
        if media_type_of(raw).startswith(("image/", "application/pdf")):
            return self._medium(path, raw)
        if is_binary(raw):
            raise ValueError(f"{path!r} is a binary file of {len(raw):,} bytes")
        text = decode(raw)
        lines = text.lines
        if not lines:
            return Outcome(f"{path} is empty", extraction=f"{path} is empty")
        if start > len(lines):
            raise ValueError(f"{path!r} has {len(lines)} lines; start={start} is beyond them")
        last = min(end, len(lines)) if end else len(lines)
        if last < start:
            raise ValueError(f"end={end} is before start={start}")
        shown, last = _within_budget(lines, start, last)
        head = f"{path}: lines {start}-{last} of {len(lines)}{_peculiar(text)}"
        more = f"\n… continue with start={last + 1}" if last < min(end or last, len(lines)) else ""
        if not end and last < len(lines):
            more = f"\n… {len(lines) - last} more lines; continue with start={last + 1}"
        return Outcome(f"{head}\n{shown}{more}", extraction=head)

    def _medium(self, path: str, raw: bytes) -> Outcome:
        try:
            found = showing([Attachment(data=raw, name=path.rpartition("/")[2])])
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return Outcome(found.text, extraction=found.text, parts=found.parts, blobs=found.blobs)

    def search(
        self,
        pattern: str,
        path: str = ".",
        glob: str = "",
        regex: bool = False,
        ignore_case: bool = False,
        limit: Annotated[int, Field(ge=1, le=500)] = 100,
    ) -> Outcome:
        """Find lines in text files; each hit is shown as path:line: text.

        Args:
            pattern: The text to find, or a Python regular expression if regex is true.
            path: Directory or file to search, relative to the work root.
            glob: Only files that match, such as *.py or src/**/*.py; empty = all.
            regex: Whether pattern is a regular expression, applied line by line.
            ignore_case: Whether upper and lower case are the same.
            limit: Most hits to show.
        """
        if not pattern:
            raise ValueError("pattern is empty; say what to find")
        skipped: list[str] = []
        files = list(self._texts(path, glob, skipped))
        if regex:
            texts = [content for _, content in files]
            found = matching(pattern, texts, ignore_case=ignore_case, most=limit + 1)
        else:
            found = [_literal(pattern, content, ignore_case) for _, content in files]
        hits: list[str] = []
        for (name, content), indexes in zip(files, found, strict=True):
            lines = content.split("\n") if indexes else []
            hits += [f"{name}:{i + 1}: {clip(lines[i].strip(), 300)}" for i in indexes]
        return _report(hits, limit, len(files), skipped)

    def _texts(self, path: str, glob: str, skipped: list[str]) -> Iterator[tuple[str, str]]:
        left = MOST_TEXT
        for name in self._names(path, glob):
            if left <= 0:
                skipped.append("… (the rest: too much text)")
                return
            try:
                raw = self.jail.read(name, MOST_SEARCHED)
            except (OSError, ValueError):
                skipped.append(name)
                continue
            if not is_binary(raw):
                left -= len(raw)
                yield name, decode(raw).content

    def _names(self, path: str, glob: str) -> list[str]:
        parts = self.jail.parts(path)
        if parts:
            with self.jail.directory(parts[:-1]):
                here = {entry.path: entry for entry in self.jail.entries(parts[:-1])}
            entry = here.get("/".join(parts))
            if entry is None:
                raise ValueError(f"there is no {path!r}")
            if entry.kind == "file":
                return [entry.path]
        found = capped(walk(self.jail, parts, 64))
        return [e.path for e in found if e.kind == "file" and fits(e.path, glob)]


def _shown(entry: Entry) -> str:
    if entry.kind == "directory":
        return f"{entry.path}/"
    if entry.kind == "link":
        return f"{entry.path} -> {entry.target} (a link, not followed)"
    return f"{entry.path}  {entry.size}" if entry.kind == "file" else f"{entry.path}  (special)"


def _peculiar(text: Text) -> str:
    said = [] if text.newline == "\n" else ["CRLF line ends"]
    said += [] if text.exact else ["not valid UTF-8: shown approximately"]
    return f" ({', '.join(said)})" if said else ""


def _within_budget(lines: list[str], start: int, last: int) -> tuple[str, int]:
    chosen: list[str] = []
    left = MOST_CHARS
    for line in lines[start - 1 : last]:
        left -= len(clip(line)) + 8
        if left < 0 and chosen:
            break
        chosen.append(line)
    return numbered(chosen, start), start + len(chosen) - 1


def _literal(pattern: str, content: str, ignore_case: bool) -> list[int]:
    if ignore_case:
        pattern, content = pattern.casefold(), content.casefold()
    if pattern not in content:
        return []
    return [index for index, line in enumerate(content.split("\n")) if pattern in line]


def _report(hits: list[str], limit: int, files: int, skipped: list[str]) -> Outcome:
    note = f"\n(not searched: {', '.join(skipped[:5])})" if skipped else ""
    if not hits:
        said = f"no line matches in {files} files"
        return Outcome(said + note, extraction=said)
    more = f"\n… more than {limit} hits; narrow it with path or glob" if len(hits) > limit else ""
    shown = hits[:limit]
    return Outcome("\n".join(shown) + more + note, extraction=shown[0])

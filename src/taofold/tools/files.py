"""The built-in file tools: list, read, search, write and edit files below one directory.

Images can be read too. Each change has a preview for its approver. Every path goes through `jail`;
no file is opened by name here. Writing tools may be repeated after a crash with the same parameters
and leave the same file. An edit stores the id of its effect with the file (an extended attribute).
If the file system has none, an edit that would apply to its own result is refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches, unified_diff
from fnmatch import fnmatchcase
from functools import partial, wraps
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from taofold.core.errors import ConfigError
from taofold.core.text import times, unambiguous, visible_line
from taofold.tools.attachments import Attachment, media_type_of, showing
from taofold.tools.context import Outcome, RunContext
from taofold.tools.jail import PROTECTED, FileEntry, Jail, jail
from taofold.tools.regex_process import matching
from taofold.tools.tool import Tool, make
from taofold.tools.toolset import Toolset

MOST_ENTRIES: Final = 500
MOST_BYTES: Final = 10_000_000
"""Maximum bytes of a file that is read."""
MOST_CHARS: Final = 15_000
"""Maximum characters shown of a file. Slightly below `Tool.max_chars`, so nothing is cut twice."""
MOST_SEARCHED: Final = 2_000_000
"""Maximum bytes of a file that is searched."""
MOST_TEXT: Final = 32_000_000
"""Maximum bytes that one search reads."""
BINARY_SNIFF: Final = 8_192
WIDEST: Final = 2_000
"""Maximum characters shown of one line."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text with `\\n` line ends, and what is needed to write it back."""

    content: str
    newline: str = "\n"
    bom: bool = False
    exact: bool = True
    """False if the file is not valid UTF-8, so that writing it back would change it."""

    @property
    def lines(self) -> list[str]:
        """The lines without line ends. A final line end adds no empty line."""
        lines = self.content.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    @property
    def remarks(self) -> str:
        """Unusual properties of the file, in brackets, or ""."""
        remarks = [] if self.newline == "\n" else ["CRLF line ends"]
        remarks += [] if self.exact else ["not valid UTF-8: shown approximately"]
        return f" ({', '.join(remarks)})" if remarks else ""

    def encoded(self, content: str) -> bytes:
        """Returns the bytes of `content` with this file's line ends and encoding."""
        encoded = content.replace("\n", self.newline).encode()
        return b"\xef\xbb\xbf" + encoded if self.bom else encoded


def is_binary(raw: bytes) -> bool:
    """Returns True if a NUL byte is near the start, as in git."""
    return b"\0" in raw[:BINARY_SNIFF]


def decode(raw: bytes) -> TextFile:
    """Decodes UTF-8. Invalid bytes are replaced, and `exact` is then False."""
    bom = raw.startswith(b"\xef\xbb\xbf")
    content = raw.decode("utf-8-sig", errors="replace")
    # Only if all lines end this way: writing back would change a mixed file.
    windows = content.count("\r\n")
    newline = "\r\n" if windows and windows == content.count("\n") else "\n"
    if newline == "\r\n":
        content = content.replace("\r\n", "\n")
    text = TextFile(content, newline, bom)
    # Checked by a round trip: a file that differs afterwards is not edited.
    return text if text.encoded(content) == raw else TextFile(content, newline, bom, exact=False)


def numbered(lines: list[str], first: int) -> str:
    """Returns the lines, each after its number and a tab."""
    return "\n".join(f"{first + i}\t{clip(line)}" for i, line in enumerate(lines))


def clip(line: str, width: int = WIDEST) -> str:
    """Returns a line, cut if it is very long."""
    return line if len(line) <= width else f"{line[:width]}… ({len(line):,} characters)"


class FileReader:
    """The reading tools of one jail. They raise OSError and ValueError (`_report_refusals`)."""

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
        # Capped before the glob applies, so that a listing without matches ends too.
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
        return Outcome("\n".join(lines), extraction=f"{times(total, 'entry', 'entries')} in {path}")

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
            raise ValueError(
                f"{path!r} has {times(len(lines), 'line')}; start={start} is beyond them"
            )
        last = min(end, len(lines)) if end else len(lines)
        if last < start:
            raise ValueError(f"end={end} is before start={start}")
        excerpt, last = _within_budget(lines, start, last)
        head = f"{path}: lines {start}-{last} of {len(lines)}{text.remarks}"
        # Names the next line, so that the model does not read the beginning again.
        more = f"\n… continue with start={last + 1}" if last < min(end or last, len(lines)) else ""
        if not end and last < len(lines):
            more = f"\n… {times(len(lines) - last, 'more line')}; continue with start={last + 1}"
        return Outcome(f"{head}\n{excerpt}{more}", extraction=head)

    def _medium(self, path: str, raw: bytes) -> Outcome:
        try:
            attached = showing([Attachment(data=raw, name=path.rpartition("/")[2])])
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return Outcome(
            attached.text, extraction=attached.text, parts=attached.parts, blobs=attached.blobs
        )

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
        # Plain text needs no child process, because `in` always ends quickly.
        if regex:
            texts = [content for _, content in files]
            hits_by_file = matching(pattern, texts, ignore_case=ignore_case, most=limit + 1)
        else:
            hits_by_file = [_literal(pattern, content, ignore_case) for _, content in files]
        hits: list[str] = []
        for (name, content), indexes in zip(files, hits_by_file, strict=True):
            lines = content.split("\n") if indexes else []
            place = visible_line(name)
            hits += [f"{place}:{i + 1}: {clip(lines[i].strip(), 300)}" for i in indexes]
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
        entries = capped(walk(self.jail, parts, 64))
        return [e.path for e in entries if e.kind == "file" and fits(e.path, glob)]


def _shown(entry: FileEntry) -> str:
    path = visible_line(entry.path)
    if entry.kind == "directory":
        return f"{path}/"
    if entry.kind == "link":
        return f"{path} -> {visible_line(entry.target)} (a link, not followed)"
    return f"{path}  {entry.size}" if entry.kind == "file" else f"{path}  (special)"


def _within_budget(lines: list[str], start: int, last: int) -> tuple[str, int]:
    chosen: list[str] = []
    left = MOST_CHARS
    # At least one line: a model that gets no lines would ask again forever.
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
    note = f"\n(not searched: {', '.join(map(visible_line, skipped[:5]))})" if skipped else ""
    if not hits:
        summary = f"no line matches in {times(files, 'file')}"
        return Outcome(summary + note, extraction=summary)
    more = f"\n… more than {limit} hits; narrow it with path or glob" if len(hits) > limit else ""
    first_hits = hits[:limit]
    return Outcome("\n".join(first_hits) + more + note, extraction=first_hits[0])


MOST_DIFF: Final = 60
"""Maximum lines of a diff that a model reads."""


class FileEditor:
    """The writing tools of one jail. They raise OSError and ValueError (`_report_refusals`)."""

    def __init__(self, jail: Jail) -> None:
        self.jail = jail

    def write_file(self, path: str, content: str) -> Outcome:
        """Create a file, or replace all of its content; missing directories are made.

        Args:
            path: The file, relative to the work root.
            content: The whole new content, as text.
        """
        raw = content.encode()
        if len(raw) > MOST_BYTES:
            raise ValueError(f"content has {len(raw):,} bytes; the limit is {MOST_BYTES:,}")
        with self.jail.exclusive(path, create=True):
            return self._write(path, content, raw)

    def _write(self, path: str, content: str, raw: bytes) -> Outcome:
        there = self._before(path)
        before = None if there is None else decode(there)
        # A repetition after a crash changes nothing and keeps the file's modification time.
        if before is not None and before.encoded(before.content) == raw and before.exact:
            return Outcome(f"{path} already has this content", extraction=f"{path} is unchanged")
        created = self.jail.write(path, raw)
        count = len(TextFile(content).lines)
        size = f"{times(count, 'line')}, {times(len(raw), 'byte')}"
        summary = f"{'created' if created else 'replaced'} {path}: {size}"
        if before is None:
            return Outcome(summary, extraction=summary)
        return Outcome(
            f"{summary}\n{shown_difference(before.content, content)}", extraction=summary
        )

    def edit_file(
        self,
        ctx: RunContext[Any],
        path: str,
        old: str,
        new: str,
        all: bool = False,  # noqa: A002 - the name that models expect
    ) -> Outcome:
        """Replace an exact piece of text in a file; it must occur once, unless all is true.

        Args:
            path: The file, relative to the work root.
            old: The text to replace, exactly as in the file, without line numbers.
            new: The text to put in its place.
            all: Replace every occurrence.
        """
        with self.jail.exclusive(path):
            text = self._text(path)
            # This call's mark: an earlier activation of the run made the edit.
            if ctx.effect_id and self.jail.mark(path) == ctx.effect_id:
                summary = f"edited {path}: it was done before the interruption, and not again"
                return Outcome(summary, extraction=summary)
            after, count = _edited(text, path, old, new, all)
            # One rename publishes content and mark together.
            self.jail.write(path, text.encoded(after), ctx.effect_id)
        summary = f"edited {path}: {count} occurrence{'s' if count > 1 else ''} replaced"
        return Outcome(f"{summary}\n{shown_difference(text.content, after)}", extraction=summary)

    def preview_write(self, parameters: dict[str, Any]) -> str:
        """Returns the whole diff that `write_file` would make."""
        path, content = str(parameters.get("path")), str(parameters.get("content", ""))
        try:
            before, place, after = self._before(path), self._place(path), content.encode()
        except (OSError, ValueError) as error:
            return f"write {visible_line(path)}: {error}"
        return _preview("create" if before is None else "replace", place, before, after)

    def preview_edit(self, parameters: dict[str, Any]) -> str:
        """Returns the whole diff that `edit_file` would make."""
        path = str(parameters.get("path"))
        old, new = str(parameters.get("old", "")), str(parameters.get("new", ""))
        try:
            text, place = self._text(path), self._place(path)
            after, _ = _edited(text, path, old, new, bool(parameters.get("all")))
        except (OSError, ValueError) as error:
            return f"edit {visible_line(path)}: {error}"
        return _preview("edit", place, text.encoded(text.content), text.encoded(after))

    def _place(self, path: str) -> str:
        """Returns the display path of the file that `path` leads to."""
        return unambiguous("/".join(self.jail.parts(path, write=True)))

    def _text(self, path: str) -> TextFile:
        raw = self.jail.read(path, MOST_BYTES)
        text = decode(raw)
        # Writing back would change the bytes that were replaced.
        if is_binary(raw) or not text.exact:
            raise ValueError(f"{path!r} is binary or not UTF-8: editing would change the rest")
        return text

    def _before(self, path: str) -> bytes | None:
        parts = self.jail.parts(path, write=True)
        try:
            here = [entry.path for entry in self.jail.entries(parts[:-1])]
        except ValueError:
            return None  # its directory will be made
        return self.jail.read(path, MOST_BYTES) if "/".join(parts) in here else None


def _edited(text: TextFile, path: str, old: str, new: str, every: bool) -> tuple[str, int]:
    """Returns the new content and the number of changed places."""
    content = text.content
    if text.newline == "\r\n":
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        raise ValueError("old is empty; use write_file to write a whole file")
    if old == new:
        raise ValueError("old and new are the same")
    places = _places(content, old)
    settled = _places(content, new) if old in new else []
    # Every occurrence of `old` is inside an existing `new`, as after this edit.
    if places and all(any(s <= p < s + len(new) for s in settled) for p in places):
        # Without a mark this may be a repetition, which would apply the edit twice.
        raise ValueError(
            f"{path!r} has the new text at line {_line(content, settled[0])} already: nothing was "
            "changed. If you want it once more, add surrounding lines to old and new"
        )
    if not places:
        raise ValueError(f"old is not in {path!r}: nothing was changed. {_nearest(text, old, new)}")
    if len(places) > 1 and not every:
        lines = ", ".join(str(_line(content, offset)) for offset in places[:10])
        raise ValueError(
            f"old occurs {len(places)} times in {path!r}, at lines {lines}: nothing was changed. "
            "Add surrounding lines so that it is unique, or set all to true"
        )
    return content.replace(old, new), len(places)


def _preview(verb: str, place: str, before: bytes | None, after: bytes) -> str:
    """Returns the byte-exact change of a file. An approval holds for its current content."""
    rows, old = [f"{verb} {place}"], b"" if before is None or is_binary(before) else before
    sides = [old, after]
    # Unchanged line ends need one row. Changed ones are shown in each line.
    if b"\r\n" in after and all(raw.count(b"\r\n") == raw.count(b"\n") for raw in sides):
        rows.append("(line ends: CRLF)")
        sides = [raw.replace(b"\r\n", b"\n") for raw in sides]
    rows += _difference(*[_spelled(raw) for raw in sides])
    if before is not None:
        lines = times(len(TextFile(_spelled(old)).lines), "line")
        what = "binary content" if is_binary(before) else lines
        digest = blake2b(before, digest_size=16).hexdigest()
        rows.append(f"(the file has {what} now, digest {digest})")
    return "\n".join(rows)


def _spelled(raw: bytes) -> str:
    """Returns `raw` as text that also shows bytes that are not UTF-8."""
    return unambiguous(raw.decode("utf-8", errors="surrogateescape"))


def _line(content: str, place: int) -> int:
    return content.count("\n", 0, place) + 1


def _places(content: str, piece: str) -> list[int]:
    places: list[int] = []
    at = content.find(piece)
    while at >= 0:
        places.append(at)
        at = content.find(piece, at + len(piece))
    return places


def _nearest(text: TextFile, old: str, new: str) -> str:
    """Returns a hint with the most similar text, for a model that copied imprecisely."""
    if new.strip() and new in text.content:
        return f"The new text is there, at line {_line(text.content, text.content.index(new))}"
    lines = text.lines
    first_line = next((line.strip() for line in old.split("\n") if line.strip()), "")
    stripped = [line.strip() for line in lines]
    size = old.strip("\n").count("\n") + 1
    if first_line in stripped:
        at = stripped.index(first_line)
        why = "Only white space or a later line differs"
    else:
        near = get_close_matches(first_line, stripped[:5000], 1, 0.6) if first_line else []
        if not near:
            return "Nothing similar is there; read the file first"
        at, why = stripped.index(near[0]), "The nearest text is"
    return f"{why}, at line {at + 1}:\n{numbered(lines[at : at + min(size, 20)], at + 1)}"


def _difference(before: str, after: str) -> list[str]:
    return list(unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2))[2:]


def shown_difference(before: str, after: str) -> str:
    """Returns the difference as a result shows it: at most `MOST_DIFF` lines."""
    lines = _difference(before, after)
    more = [f"… {times(len(lines) - MOST_DIFF, 'more line')}"] if len(lines) > MOST_DIFF else []
    return "\n".join(lines[:MOST_DIFF] + more)


TOOLSET: Final = "files"


def file_tools(
    root: Path | str, write: bool = True, *, protected: tuple[str, ...] = PROTECTED
) -> Toolset:
    """Returns the tools for the files below `root`.

    Reads are tier 1. Writes are tier 2 and idempotent: after a crash they are repeated with the
    same result. `.taofold` does not exist for the tools.

    Args:
        root: The directory.
        write: Includes the tools that change files.
        protected: Names that are read-only at any depth.

    Returns:
        The toolset.

    Raises:
        ConfigError: `root` is not a directory.
    """
    try:
        inside = jail(root, protected=protected)
    except OSError as error:
        raise ConfigError(f"the work root {str(root)!r} cannot be used: {error}") from error
    reading = FileReader(inside)
    tools: list[Tool] = [
        make(_report_refusals(function), effect="read", toolset=TOOLSET)
        for function in (reading.list_files, reading.read_file, reading.search)
    ]
    if write:
        editing = FileEditor(inside)
        tools += [
            make(
                _report_refusals(function),
                effect="idempotent",
                toolset=TOOLSET,
                preview=preview,
                sequential=True,
            )
            for function, preview in (
                (editing.write_file, editing.preview_write),
                (editing.edit_file, editing.preview_edit),
            )
        ]

    def place(name: str, folder: Path) -> Tool:
        return file_tools(folder, write, protected=protected)[name]

    root = inside.root
    return Toolset(
        [replace(it, confined=root, root=root, place=partial(place, it.name)) for it in tools]
    )


def _report_refusals(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Wraps a tool so that errors of the file system or jail become failures for the model."""

    @wraps(function)
    def telling(*args: Any, **kwargs: Any) -> Outcome:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            return Outcome(f"it failed: {error.strerror or error}", "failure")
        except ValueError as error:
            return Outcome(str(error), "failure")

    return telling


MOST_WALKED: Final = 20_000
"""Maximum entries that one call visits."""
UNLISTED: Final = frozenset({".git", "__pycache__", "node_modules", ".venv", ".mypy_cache"})
"""Directories that are listed but not entered."""


def walk(jail: Jail, parts: tuple[str, ...], depth: int) -> Iterator[FileEntry]:
    """Yields entries below `parts`, a directory before its contents. `depth` 1 does not recurse."""
    for entry in jail.entries(parts):
        yield entry
        name = entry.path.rpartition("/")[2]
        if entry.kind == "directory" and depth > 1 and name not in UNLISTED:
            try:
                yield from walk(jail, (*parts, name), depth - 1)
            except (OSError, ValueError):  # it vanished or is unreadable
                continue


def capped(entries: Iterator[FileEntry], most: int = MOST_WALKED) -> Iterator[FileEntry]:
    """Yields at most `most` entries, so that no tool walks a whole disk."""
    return islice(entries, most)


def fits(path: str, glob: str) -> bool:
    """Returns True if `path` matches. A glob without `/` tests the name; `**/` spans folders."""
    if not glob:
        return True
    if "/" not in glob:
        return fnmatchcase(path.rpartition("/")[2], glob)
    return fnmatchcase(path, glob) or fnmatchcase(path, glob.replace("**/", ""))

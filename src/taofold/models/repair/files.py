"""What the files hold, as far as the conversation shows it: reads, then edits on top.

Opens no file. What was cut out of an observation is asked for again in smaller pieces.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from taofold.models.repair.transcript import Deed

_NUMBERED: Final = re.compile(r"^\s*(\d+)(\t|→|: ?| ?\| ?)(.*)$")
_TOTAL: Final = re.compile(r"\blines \d+-\d+ of (\d+)\b")
_NOTE: Final = re.compile(r"^\s*(?:\[?…|\.\.\.|\(|\[|#? ?lines? \d|$)")
_PATH: Final = re.compile(r"[\w.\-/]*\w\.py\b")
_FOREIGN: Final = re.compile(r"(?:^|/)(?:site-packages|\.?venv|node_modules|\.tox|build)/")
CHUNK: Final = 160
"""Lines asked for at once where a whole file did not fit; halved while it still does not."""


@dataclass(slots=True)
class File:
    """A file as it was shown. `lines` is keyed by 1-based number; `complete` = all are there."""

    path: str
    lines: dict[int, str] = field(default_factory=dict[int, str])
    complete: bool = False
    cuts: int = 0
    refused: bool = False

    @property
    def text(self) -> str:
        """The whole text; only if `complete`."""
        return "".join([self.lines[number] + "\n" for number in sorted(self.lines)])

    def missing(self) -> tuple[int, int] | None:
        """The range of lines to ask for next, or None for the whole file."""
        if not self.cuts:
            return None
        first = next(n for n in range(1, len(self.lines) + 2) if n not in self.lines)
        return first, first + max(CHUNK >> (self.cuts - 1), 20) - 1


@dataclass(slots=True)
class Files:
    """All files that were read, and the paths that were listed."""

    known: dict[str, File] = field(default_factory=dict[str, File])
    listed: tuple[str, ...] = ()
    asked: bool = False

    def text(self, path: str) -> str | None:
        """What `path` holds, None if that was not shown completely."""
        file = self.known.get(path)
        return file.text if file is not None and file.complete else None

    def wants(self, path: str) -> bool:
        """Is there something left to read?"""
        file = self.known.get(path)
        return file is None or not (file.complete or file.refused)


def collect(deeds: Iterable[Deed]) -> Files:
    """Fold reads, lists, writes and edits, oldest first."""
    files = Files()
    for deed in deeds:
        path = str(deed.parameters.get("path", "")).removeprefix("./")
        match deed.tool:
            case "list_files":
                files.asked = True
                if not deed.failed:
                    files.listed = tuple(dict.fromkeys([*files.listed, *paths(deed.text)]))
            case "read_file":
                _read(files.known.setdefault(path, File(path)), deed)
            case "edit_file" if not deed.failed:
                _edited(files, path, deed.parameters)
            case "edit_file" | "write_file" if deed.failed:
                files.known.pop(path, None)
            case "write_file":
                file = files.known[path] = File(path, complete=True)
                _fill(file, str(deed.parameters.get("content", "")), 1)
            case _:
                pass
    return files


def paths(text: str) -> list[str]:
    """Every path of a Python file in `text`, in order."""
    found = [path.removeprefix("./") for path in _PATH.findall(text)]
    return [p for p in dict.fromkeys(found) if not _FOREIGN.search(p)]


def _edited(files: Files, path: str, parameters: Any) -> None:
    text = files.text(path)
    old = str(parameters.get("old", ""))
    if text is None or text.count(old) != 1:
        files.known.pop(path, None)
        return
    file = files.known[path]
    file.lines = {}
    _fill(file, text.replace(old, str(parameters.get("new", ""))), 1)


def _fill(file: File, text: str, first: int) -> int:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, first):
        file.lines[number] = line
    return len(lines)


def _read(file: File, deed: Deed) -> None:
    start, end = deed.parameters.get("start"), deed.parameters.get("end")
    ranged = isinstance(start, int) and isinstance(end, int)
    if deed.failed:
        # Past the end of the file there is nothing; otherwise it cannot be read at all.
        file.complete = ranged and bool(file.lines)
        file.refused = not file.complete
        return
    if not ranged:
        file.lines = {}
    if deed.text.strip() in ("", f"{file.path} is empty"):
        file.complete = True
        return
    shown = _numbered(deed.text)
    if shown is None and deed.cut:
        file.cuts += 1
        return
    if shown is None:
        got = _fill(file, deed.text, start if isinstance(start, int) else 1)
    else:
        file.lines.update(shown)
        got = len(shown)
    if deed.cut:
        file.cuts += 1
    elif not ranged or (isinstance(start, int) and isinstance(end, int) and got < end - start + 1):
        file.complete = True


def _numbered(text: str) -> dict[int, str] | None:
    """The lines by number if `text` shows numbers, else None."""
    lines = text.split("\n")
    found: dict[int, str] = {}
    last = 0
    for line in lines:
        match = _NUMBERED.match(line)
        if match and int(match[1]) > last:
            last = int(match[1])
            found[last] = match[3]
        elif not _NOTE.match(line):
            if not found:
                continue  # A title line above the numbers.
            return None
    shown = len([line for line in lines if line.strip()])
    return found if found and len(found) * 2 >= shown and shown - len(found) <= 3 else None

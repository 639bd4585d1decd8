"""The built-in tools that change files: write a whole one, edit by exact match.

Both may be repeated after a crash with the same parameters and leave the same file: an edit
keeps the id of its effect with the file (an extended attribute), and where the file system
has none, an edit that would grow its own result is refused.
"""

from difflib import get_close_matches, unified_diff
from typing import Any, Final

from taofold.tools.context import Outcome, RunContext
from taofold.tools.jail import Jail
from taofold.tools.text import Text, decode, is_binary, numbered

MOST_BYTES: Final = 10_000_000
MOST_DIFF: Final = 60
"""Lines of a difference that are shown."""


class Editing:
    """Writes in one jail. Failures are raised; `files.py` turns them into observations."""

    def __init__(self, jail: Jail) -> None:
        self.jail = jail

    def write_file(self, path: str, content: str) -> Outcome:
        """Create a file, or replace all of its content; missing directories are made.

        Args:
            path: The file, relative to the work root.
            content: The whole new content, as text.
        """
        before = self._before(path)
        raw = content.encode()
        if len(raw) > MOST_BYTES:
            raise ValueError(f"content has {len(raw):,} bytes; the limit is {MOST_BYTES:,}")
        if before is not None and before.encoded(before.content) == raw and before.exact:
            return Outcome(f"{path} already has this content", extraction=f"{path} is unchanged")
        created = self.jail.write(path, raw)
        count = len(Text(content).lines)
        said = f"{'created' if created else 'replaced'} {path}: {count} lines, {len(raw)} bytes"
        if before is None:
            return Outcome(said, extraction=said)
        return Outcome(f"{said}\n{_diff(before.content, content, path)}", extraction=said)

    def edit_file(
        self,
        ctx: RunContext[Any],
        path: str,
        old: str,
        new: str,
        all: bool = False,  # noqa: A002 - the word a model would expect
    ) -> Outcome:
        """Replace an exact piece of text in a file; it must occur once, unless all is true.

        Args:
            path: The file, relative to the work root.
            old: The text to replace, exactly as in the file, without line numbers.
            new: The text to put in its place.
            all: Replace every occurrence.
        """
        text = self._text(path)
        if ctx.effect_id and self.jail.mark(path) == ctx.effect_id:
            said = f"edited {path}: it was done before the interruption, and not again"
            return Outcome(said, extraction=said)
        after, count = _edited(text, path, old, new, all)
        self.jail.write(path, text.encoded(after), ctx.effect_id)
        said = f"edited {path}: {count} occurrence{'s' if count > 1 else ''} replaced"
        return Outcome(f"{said}\n{_diff(text.content, after, path)}", extraction=said)

    def preview_write(self, parameters: dict[str, Any]) -> str:
        """The difference that `write_file` would make."""
        path, content = str(parameters.get("path")), str(parameters.get("content", ""))
        try:
            before = self._before(path)
        except (OSError, ValueError) as error:
            return f"write {path}: {error}"
        verb = "create" if before is None else "replace"
        return f"{verb} {path}\n{_diff(before.content if before else '', content, path)}"

    def preview_edit(self, parameters: dict[str, Any]) -> str:
        """The difference that `edit_file` would make."""
        path = str(parameters.get("path"))
        old, new = str(parameters.get("old", "")), str(parameters.get("new", ""))
        try:
            text = self._text(path)
            after, _ = _edited(text, path, old, new, bool(parameters.get("all")))
        except (OSError, ValueError) as error:
            return f"edit {path}: {error}"
        return f"edit {path}\n{_diff(text.content, after, path)}"

    def _text(self, path: str) -> Text:
        raw = self.jail.read(path, MOST_BYTES)
        text = decode(raw)
        if is_binary(raw) or not text.exact:
            raise ValueError(f"{path!r} is binary or not UTF-8: editing would change the rest")
        return text

    def _before(self, path: str) -> Text | None:
        parts = self.jail.parts(path, write=True)
        try:
            here = [entry.path for entry in self.jail.entries(parts[:-1])]
        except ValueError:
            return None  # its directory will be made
        return decode(self.jail.read(path, MOST_BYTES)) if "/".join(parts) in here else None


def _edited(text: Text, path: str, old: str, new: str, every: bool) -> tuple[str, int]:
    """The new content and in how many places it differs."""
    content = text.content
    if text.newline == "\r\n":
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        raise ValueError("old is empty; use write_file to write a whole file")
    if old == new:
        raise ValueError("old and new are the same")
    places = _places(content, old)
    settled = _places(content, new) if old in new else []
    if places and all(any(s <= p < s + len(new) for s in settled) for p in places):
        # Done again it would grow again: where no mark tells, this may be a repetition.
        raise ValueError(
            f"{path!r} has the new text at line {_line(content, settled[0])} already: nothing was "
            "changed. If you want it once more, add surrounding lines to old and new"
        )
    if not places:
        raise ValueError(f"old is not in {path!r}: nothing was changed. {_nearest(text, old, new)}")
    if len(places) > 1 and not every:
        lines = ", ".join(str(_line(content, place)) for place in places[:10])
        raise ValueError(
            f"old occurs {len(places)} times in {path!r}, at lines {lines}: nothing was changed. "
            "Add surrounding lines so that it is unique, or set all to true"
        )
    return content.replace(old, new), len(places)


def _line(content: str, place: int) -> int:
    return content.count("\n", 0, place) + 1


def _places(content: str, piece: str) -> list[int]:
    places: list[int] = []
    at = content.find(piece)
    while at >= 0:
        places.append(at)
        at = content.find(piece, at + len(piece))
    return places


def _nearest(text: Text, old: str, new: str) -> str:
    """Where something similar stands, for a model that copied imprecisely."""
    if new.strip() and new in text.content:
        return f"The new text is there, at line {_line(text.content, text.content.index(new))}"
    lines = text.lines
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    stripped = [line.strip() for line in lines]
    size = old.strip("\n").count("\n") + 1
    if wanted in stripped:
        at = stripped.index(wanted)
        why = "Only white space or a later line differs"
    else:
        near = get_close_matches(wanted, stripped[:5000], 1, 0.6) if wanted else []
        if not near:
            return "Nothing similar is there; read the file first"
        at, why = stripped.index(near[0]), "The nearest text is"
    return f"{why}, at line {at + 1}:\n{numbered(lines[at : at + min(size, 20)], at + 1)}"


def _diff(before: str, after: str, path: str) -> str:
    lines = list(unified_diff(before.split("\n"), after.split("\n"), path, path, lineterm="", n=2))
    more = [f"… {len(lines) - MOST_DIFF} more lines"] if len(lines) > MOST_DIFF else []
    return "\n".join(lines[2:][:MOST_DIFF] + more)

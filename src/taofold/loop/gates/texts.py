"""What the texts of changed source files tell, and what of them joins the proof."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import structs

from taofold.loop.check import Runner
from taofold.loop.gates.baseline import Baseline, Kept, content, store
from taofold.loop.gates.insource import replaces_assertions, spliced
from taofold.loop.gates.scope import allowed
from taofold.loop.gates.verdict import some
from taofold.loop.gates.work import Work

SILENCERS: Final[Mapping[Runner, re.Pattern[str]]] = {
    "ruff": re.compile(r"#\s*(?:(?:ruff|flake8)\s*:\s*)?noqa\b", re.IGNORECASE),
    "mypy": re.compile(r"#\s*(?:type:\s*ignore|mypy:)|@(?:typing\.)?no_type_check\b"),
    "tsc": re.compile(r"@ts-(?:ignore|nocheck|expect-error)\b"),
}
"""Comments that hide a finding from the tool that would report it."""
_LANGUAGES: Final = (".py", ".rs")


class Texts:
    """The changed source files of one piece of work. Blocks while it is made."""

    def __init__(self, baseline: Baseline, work: Work, objects: Path) -> None:
        self._baseline, self._work, self._objects = baseline, work, objects
        self._changed = {
            path: (self._text(baseline.files.get(path)), self._text(kept))
            for path, kept in work.now.items()
            if path not in work.left_out and not allowed(path, baseline.allow_edit)
        }

    def proof(self) -> dict[str, Kept]:
        """The files of the proof: in changed sources stand the baseline's tests."""
        files = self._work.proof(self._baseline)
        for path, (old, new) in self._changed.items():
            if path not in files or not path.endswith(_LANGUAGES):
                continue
            if path.endswith(".py") and not self._holds_tests(path):
                continue
            text = spliced(path, old, new)
            if text != new:
                data = text.encode("utf-8", "surrogateescape")
                digest = hashlib.sha256(data).hexdigest()
                store(self._objects, digest, data)
                files[path] = structs.replace(files[path], digest=digest)
        return files

    def doubts(self, runner: Runner) -> tuple[str, ...]:
        """What the changed texts say against a verdict of `runner`."""
        doubts: list[str] = []
        pattern = SILENCERS.get(runner)
        if pattern is not None:
            counts = {
                path: len(pattern.findall(new)) - len(pattern.findall(old))
                for path, (old, new) in self._changed.items()
            }
            if sum(counts.values()) > 0:
                where = some([path for path, count in counts.items() if count > 0])
                doubts.append(f"findings were silenced in place, not mended: {where}")
        if runner == "cargo":
            found = replaces_assertions(self._changed)
            doubts += [f"{path} replaces what tests assert with" for path in found]
        return tuple(doubts)

    def _holds_tests(self, path: str) -> bool:
        """Does a runner collect tests from this Python file?"""
        ids = [name for one in self._baseline.expected for name in (*one.checks, *one.names)]
        return any([name == path or name.startswith(f"{path}::") for name in ids])

    def _text(self, kept: Kept | None) -> str:
        if kept is None or not kept.digest or not kept.stored:
            return ""
        return content(self._objects, kept.digest).decode("utf-8", "surrogateescape")

"""What was done to a work root since the baseline, and which of it joins the proof."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from taofold.core.errors import ConfigError
from taofold.core.values import Value
from taofold.loop.check import Change, Did
from taofold.loop.gates.baseline import MOST, Baseline, Files, Kept, Walk
from taofold.loop.gates.scope import DECIDES, TEST_FOLDERS, TEST_ROOTS, allowed, excluded, role

LINK: Final = "links are not followed"


class Work(Value, frozen=True):
    """The difference between a work root and its baseline."""

    now: dict[str, Kept | None] = {}
    """What is at paths that differ; None = nothing any more."""
    left_out: dict[str, str] = {}
    """Of these what does not join the proof, and why."""
    tampering: tuple[str, ...] = ()
    """Of these what decides and was there before."""

    def proof(self, baseline: Baseline) -> dict[str, Kept]:
        """The baseline with the changes that join the proof."""
        joined = {path: kept for path, kept in self.now.items() if path not in self.left_out}
        return _with(baseline.files, joined)

    def delivery(self, baseline: Baseline) -> dict[str, Kept]:
        """The baseline with everything that was done, but for tampering."""
        rest = {path: kept for path, kept in self.now.items() if path not in self.tampering}
        return _with(baseline.files, rest)

    def new(self, baseline: Baseline) -> tuple[str, ...]:
        """Paths whose content is of now."""
        return tuple([path for path in self.now if path not in self.tampering])

    def changes(self, baseline: Baseline) -> tuple[Change, ...]:
        """What was left out or allowed, for the record; tampering is told elsewhere."""
        found = [
            Change(path, _did(path, kept, baseline), "kept", "a person allowed it", tampering=False)
            for path, kept in self.now.items()
            if path not in self.left_out and role(path, baseline.named) in DECIDES
        ]
        for path, why in self.left_out.items():
            new = path not in baseline.files
            if path not in self.tampering and not (new and role(path, baseline.named) == "test"):
                did = _did(path, self.now[path], baseline)
                found.append(Change(path, did, "left out", why, tampering=False))
        return tuple(found)


def _did(path: str, now: Kept | None, baseline: Baseline) -> Did:
    if path not in baseline.files:
        return "added"
    return "deleted" if now is None else "changed"


def observed(
    root: Path, baseline: Baseline, files: Files, snapshot: Collection[str] | None = None
) -> Work:
    """Look at the work root. New files count only if they are in `snapshot`, if one is given.

    Raises:
        ConfigError: there are too many files.
    """
    now: dict[str, Kept | None] = {}
    for path, was in baseline.files.items():
        found = files.kept(path)
        if found is None or not found.same(was):
            now[path] = found
    walk = Walk(root, (*baseline.environments, *baseline.outputs))
    if len(walk.files) > MOST:
        raise ConfigError(f"{len(walk.files):,} files below {str(root)!r}; gates take {MOST:,}")
    for path in walk.files:
        if path not in baseline.files and (snapshot is None or path in snapshot):
            found = files.kept(path)
            if found is not None:
                now[path] = found
    left_out, tampering = _sorted(now, baseline)
    return Work(now, left_out, tampering)


def linked(files: Mapping[str, Kept], root: Path, named: Collection[str]) -> frozenset[str]:
    """`named`, and where links among what decides lead to: folders or files of the tree."""
    found = set(named)
    links = {path: kept.link for path, kept in files.items() if kept.link}
    for _ in range(len(links) + 1):
        before = len(found)
        for path, link in links.items():
            folder = path.rpartition("/")[2].casefold() in TEST_FOLDERS | TEST_ROOTS
            if folder or role(path, found) in DECIDES:
                target = os.path.normpath((root / path).parent / link)
                if target.startswith(f"{root}/"):
                    found.add(target[len(str(root)) + 1 :])
        if len(found) == before:
            break
    return frozenset(found)


def _sorted(
    now: Mapping[str, Kept | None], baseline: Baseline
) -> tuple[dict[str, str], tuple[str, ...]]:
    rules = baseline.rules()
    left_out: dict[str, str] = {}
    tampering: list[str] = []
    for path, kept in now.items():
        was = baseline.files.get(path)
        why = excluded(path, new=was is None, rules=rules)
        if not baseline.whole and was is None and role(path, rules.named) not in DECIDES:
            why = ""  # an older release kept nothing else: it cannot be told from what was there
        link = (kept is not None and kept.link) or (was is not None and was.link)
        if not why and link and not allowed(path, rules.allow_edit):
            why = LINK
        if why:
            left_out[path] = why
            if was is not None and role(path, rules.named) in DECIDES:
                tampering.append(path)
    return left_out, tuple(tampering)


def _with(files: Mapping[str, Kept], changes: Mapping[str, Kept | None]) -> dict[str, Kept]:
    """A tree with changes; where a file took a folder's place, the folder's files are gone."""
    found = {**files, **{path: kept for path, kept in changes.items() if kept is not None}}
    for path, kept in changes.items():
        if kept is None:
            found.pop(path, None)
    blocked = {path for path in found for at in _above(path) if at in found}
    return {path: kept for path, kept in found.items() if path not in blocked}


def _above(path: str) -> list[str]:
    return [path[:at] for at, sign in enumerate(path) if sign == "/"]

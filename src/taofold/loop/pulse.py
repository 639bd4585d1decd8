"""Signs of life of whoever drives a loop, kept beside its stream.

A loop is lost if its process is certainly gone, or if nobody can say (another machine,
another container) and the last sign of life is older than `STALE` seconds.
"""

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from taofold.loop.state import LoopState
from taofold.loop.status import DRIVEN
from taofold.runtime import owner

BEAT: Final = 60.0
"""Seconds between two signs of life."""
STALE: Final = 300.0
"""Seconds after which a sign of life is too old to count."""


class Beat(NamedTuple):
    """A sign of life: who, and when (ms since the epoch)."""

    owner: str
    at: int


class Pulse(Protocol):
    """Where signs of life are kept."""

    def beat(self, loop: str, owner: str, at: int) -> None:
        """I am alive."""
        ...

    def last(self, loop: str) -> Beat | None:
        """The newest sign of life."""
        ...

    def stop(self, loop: str) -> None:
        """Nobody drives it any more."""
        ...


class FilePulse:
    """Signs of life as one small file for each loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def beat(self, loop: str, owner: str, at: int) -> None:
        """Write the file anew; readers see the old one or the new one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(loop)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps({"owner": owner, "at": at}), encoding="utf-8")
        fresh.replace(path)

    def last(self, loop: str) -> Beat | None:
        """What the file says, None if it is missing or damaged."""
        try:
            said: Any = json.loads(self._path(loop).read_text(encoding="utf-8"))
            return Beat(str(said["owner"]), int(said["at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def stop(self, loop: str) -> None:
        """Remove the file."""
        self._path(loop).unlink(missing_ok=True)

    def _path(self, loop: str) -> Path:
        return self._folder / f"{loop}.json"


class MemoryPulse:
    """Signs of life in this process only."""

    def __init__(self) -> None:
        self._beats: dict[str, Beat] = {}

    def beat(self, loop: str, owner: str, at: int) -> None:
        """Remember it."""
        self._beats[loop] = Beat(owner, at)

    def last(self, loop: str) -> Beat | None:
        """The newest one."""
        return self._beats.get(loop)

    def stop(self, loop: str) -> None:
        """Forget it."""
        self._beats.pop(loop, None)


def lost(state: LoopState, beat: Beat | None, now: int) -> str:
    """Why nobody drives the loop any more; "" if somebody does, or nobody should."""
    if state.status not in DRIVEN:
        return ""
    living = owner.alive(state.owner)
    if living:
        return ""
    if living is False:
        return "the process that drove it is gone"
    at = max(state.at, beat.at if beat is not None and beat.owner == state.owner else 0)
    silent = (now - at) / 1000
    if silent > STALE:
        return f"no sign of life for {silent:.0f} s, and its process cannot be seen from here"
    return ""


def stalled(state: LoopState, beat: Beat | None, now: int) -> bool:
    """Does its process live, but give no sign of life?"""
    at = max(state.at, beat.at if beat is not None and beat.owner == state.owner else 0)
    return state.status in DRIVEN and bool(owner.alive(state.owner)) and now - at > STALE * 1000

"""Translated mappings that keep the place of their source (`Made`), and the faults found.

This module does not know the meaning of keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip
from taofold.files.checked_yaml import Fault, KeyPath, YamlDocument


class Made(dict[str, Any]):
    """A mapping of our form. `source` is its place in the file, `places` those of its keys."""

    def __init__(self, source: KeyPath, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.source = source
        self.places: dict[str, KeyPath] = {}

    def put(self, key: str, value: Any, place: KeyPath) -> None:
        """Sets a key whose value is written at `place`."""
        self[key] = value
        self.places[key] = place

    def place(self, key: str) -> KeyPath:
        """Returns where the value of `key` is written, also after it was removed."""
        return self.places.get(key, self.source)


MOST_NODES: Final = 1_000
"""Maximum number of nodes in one list of a file."""
_MOST: Final = 100
"""Maximum number of faults, and of notes."""
_LONGEST: Final = 300
"""Maximum number of characters of a message, which may have a value of the file."""


@dataclass(slots=True)
class Findings:
    """Collects what a translation refuses, and what differs from the original."""

    document: YamlDocument
    faults: list[Fault] = field(default_factory=list[Fault])
    notes: list[Fault] = field(default_factory=list[Fault])

    def refuse(self, path: KeyPath, message: str, hint: str = "") -> None:
        """Records a construct that has no equivalent, once for each place."""
        self._add(self.faults, path, message, hint)

    def note(self, path: KeyPath, message: str, hint: str = "") -> None:
        """Records a difference that a user should know."""
        self._add(self.notes, path, message, hint)

    def _add(self, found: list[Fault], path: KeyPath, message: str, hint: str) -> None:
        if len(found) < _MOST:
            fault = self.document.fault(path, clip(message, _LONGEST), clip(hint, _LONGEST))
            if fault not in found:
                found.append(fault)


def plain(value: Any, path: KeyPath, places: dict[KeyPath, KeyPath]) -> Any:
    """Returns the value without `Made`, and records the places of its parts."""
    if isinstance(value, Made):
        places[path] = value.source
        for key, place in value.places.items():
            places[(*path, key)] = place
    if is_object(value):
        return {str(key): plain(inner, (*path, str(key)), places) for key, inner in value.items()}
    if is_array(value):
        return [plain(inner, (*path, index), places) for index, inner in enumerate(value)]
    return value

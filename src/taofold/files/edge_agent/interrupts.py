"""Reads where a file of The Edge Agent waits for an approval.

`interrupt_before` and `interrupt_after` name nodes of the file's top. `interrupt`, and the same two
keys, may stand at any node. Any other value is a fault, because a dropped approval lets a node run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.text import near
from taofold.files.checked_yaml import KeyPath
from taofold.files.edge_agent.made import Findings

BEFORE: Final = "interrupt_before"
AFTER: Final = "interrupt_after"
_SHORT: Final = "interrupt"
_MOMENTS: Final[Mapping[object, str]] = {True: BEFORE, "before": BEFORE, "after": AFTER}


@dataclass(frozen=True, slots=True)
class Waits:
    """The places that ask for an approval before and after a node, None without one."""

    before: KeyPath | None
    after: KeyPath | None


class Interrupts:
    """The interrupts of one file.

    Args:
        findings: Collects faults.
        value: The file.
    """

    def __init__(self, findings: Findings, value: Mapping[str, Any]) -> None:
        self.findings = findings
        self.listed: dict[str, dict[str, KeyPath]] = {BEFORE: {}, AFTER: {}}
        """The nodes that the file's top names, with their places."""
        config = value.get("config")
        sections: tuple[tuple[Any, KeyPath], ...] = ((value, ()), (config, ("config",)))
        for section, path in sections:
            if is_object(section):
                for key, found in self.listed.items():
                    self._list(found, section.get(key), (*path, key))

    def _list(self, found: dict[str, KeyPath], written: Any, path: KeyPath) -> None:
        if written is None or written is False:
            return
        names = written if is_array(written) else [written]
        for index, name in enumerate(names):
            place = (*path, index) if is_array(written) else path
            if isinstance(name, str | int) and not isinstance(name, bool) and name != "":
                found.setdefault(str(name), place)
            else:
                self.findings.refuse(place, f"must be the name of a node, not {name!r}")

    def check(self, nodes: Mapping[str, Any]) -> None:
        """Refuses interrupts at nodes that are not in `nodes`, the names of the file's top."""
        for found in self.listed.values():
            for name, place in found.items():
                if name not in nodes:
                    hint = near(name, nodes) or "write `interrupt` at a node inside another one"
                    self.findings.refuse(place, f"there is no node {name!r} under 'nodes'", hint)

    def of(self, raw: Mapping[str, Any], path: KeyPath, name: str) -> Waits:
        """Returns where a node waits. `name` is its name in the file's top, "" if it is inside."""
        places = {key: found.get(name) for key, found in self.listed.items()}
        written = raw.get(_SHORT)
        if not _is_off(written):
            # A list, as a key of a mapping, raises.
            moment = _MOMENTS.get(written) if isinstance(written, bool | str) else None
            if moment is None:
                text = f"must be 'before' or 'after', not {written!r}"
                self.findings.refuse((*path, _SHORT), text)
            else:
                places[moment] = (*path, _SHORT)
        for key in (BEFORE, AFTER):
            if raw.get(key) is True:
                places[key] = (*path, key)
            elif not _is_off(raw.get(key)):
                text = f"must be true or false, not {raw[key]!r}"
                self.findings.refuse((*path, key), text)
        return Waits(places[BEFORE], places[AFTER])


def _is_off(written: object) -> bool:
    return written is None or written is False

"""Patterns to files and back: what the registry does with files that were read."""

from collections.abc import Mapping

import msgspec

from taofold.learning import events as e
from taofold.learning.exchange.incoming import Imported, Incoming, read
from taofold.learning.exchange.outgoing import bundle, files, loop_state
from taofold.learning.patterns.identity import fresh
from taofold.learning.patterns.values import Pattern
from taofold.learning.state import Writing

__all__ = ["bundle", "files", "loop_state", "take"]


def take(tx: Writing, given: Mapping[str, bytes], at: int) -> Imported:
    """Take in the patterns of exported files. The same files again change nothing.

    A pattern that says word for word what a known one says is that one. An id that somebody
    else has here is replaced by a fresh one.
    """
    reading = read(given, at)
    added: list[str] = []
    known: list[str] = []
    renamed: list[tuple[str, str]] = []
    for one in reading.found:
        there = _known(tx, one)
        if there:
            known.append(there)
            continue
        pattern = one.pattern
        if tx.pattern(pattern.id) is not None or tx.archived(pattern.id) is not None:
            pattern = msgspec.structs.replace(pattern, id=fresh(pattern, tx.ids))
            renamed.append((one.pattern.id, pattern.id))
        tx.emit(e.Imported(pattern, one.claim, one.file))
        if one.month:
            tx.emit(e.Archived(pattern.id, "it came from an archive", one.month))
        added.append(pattern.id)
    return Imported(tuple(added), tuple(known), tuple(renamed), reading.faults, reading.broken)


def _known(tx: Writing, one: Incoming) -> str:
    same = tx.same(one.pattern)
    if same:
        return same
    old = tx.archived(one.pattern.id)
    return one.pattern.id if old is not None and _says(old) == _says(one.pattern) else ""


def _says(pattern: Pattern) -> tuple[object, ...]:
    return pattern.name, pattern.body

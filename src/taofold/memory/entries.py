"""The entries of a notebook, and the fold of the facts from which they are made. Pure.

A notebook belongs to one principal and one agent (`NotebookOwner`). Its facts are in a stream of
the journal beside the runs. `NotebookCopied` replaces everything before it, so the facts before it
can be deleted, and with them the text of forgotten entries. A position in a notebook is the number
of a fact; `NotebookPage.at` returns the entries of an earlier position.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from taofold.core.errors import LogError
from taofold.core.values import Value
from taofold.log.journal import Fact

PREFIX: Final = "memory/"
"""Prefix of the stream names; digests of the principal and of the agent follow."""
VERSIONS: Final = 3
"""Number of earlier versions of a corrected entry that forks of earlier runs can read."""
_VERIFIED: Final = frozenset({"user", "model", "correction"})
"""Origins of texts that nothing foreign has shaped."""

Author: TypeAlias = Literal["model", "principal"]


@dataclass(frozen=True, slots=True)
class NotebookOwner:
    """The principal and the agent to which a notebook belongs.

    Args:
        principal: The id of the principal, as the caller or the server established it.
        agent: The name of the agent.
    """

    principal: str
    agent: str

    @property
    def stream(self) -> str:
        """The name of the notebook's stream. No id of a principal can form another's name."""
        return f"{streams_of(self.principal)}{_digest(self.agent)}"


def streams_of(principal: str) -> str:
    """Returns the prefix of the streams of all notebooks of a principal."""
    return f"{PREFIX}{_digest(principal)}/"


def _digest(name: str) -> str:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class NotebookEntry(Value, frozen=True):
    """One entry of a notebook.

    Attributes:
        id: Its id, unique in the notebook.
        text: The text, on one line, without secrets.
        origin: `"user"` for a whole message of the user, `"correction"` for a text that a user
            wrote or confirmed, `"model"` for a text of a model that had read nothing foreign, and
            `"mixed"` for all others.
        author: The writer: a model or a principal.
        by: The name of the model, or the id of the principal that corrected the entry.
        at: Time in milliseconds since the epoch.
        run: The id of the run that wrote it.
        step: The step of that run, counted from 1.
        after: Names of the foreign texts that the run had read before: tools, files, earlier
            notes. They may have shaped the text.
        pinned: A user keeps the entry in the digest.
        since: The position from which the text applies.
        earlier: The entry before its corrections, the oldest version first.
    """

    id: str
    text: str
    origin: str = "model"
    author: Author = "model"
    by: str = ""
    at: int = 0
    run: str = ""
    step: int = 0
    after: tuple[str, ...] = ()
    pinned: bool = False
    since: int = 0
    earlier: "tuple[NotebookEntry, ...]" = ()

    @property
    def foreign(self) -> bool:
        """True if a text that is neither the user's nor the model's may have shaped it."""
        return self.origin not in _VERIFIED

    @property
    def source(self) -> str:
        """The origin as models and users read it."""
        if not self.foreign:
            return self.origin
        after = f", after reading {', '.join(self.after)}" if self.after else ""
        return f"model{after}, unverified"

    def at_position(self, position: int) -> "NotebookEntry | None":
        """Returns the entry as it was at a position. None if it was not yet written."""
        versions = [each for each in (*self.earlier, self) if each.since <= position]
        return versions[-1] if versions else None

    def as_written(self) -> "NotebookEntry | None":
        """Returns the entry as its run wrote it. None if that version is no longer kept."""
        first = (*self.earlier, self)[0]
        return first if first.author == "model" else None


class EntryAdded(msgspec.Struct, frozen=True, tag="added", tag_field="e"):
    """An entry was written."""

    entry: NotebookEntry


class EntryCorrected(msgspec.Struct, frozen=True, tag="corrected", tag_field="e"):
    """A user changed the text of an entry, or pinned it. None keeps the value."""

    id: str
    by: str
    text: str | None = None
    pinned: bool | None = None


class NotebookCopied(msgspec.Struct, frozen=True, tag="copied", tag_field="e"):
    """The whole notebook. The facts before it are no longer needed."""

    principal: str
    agent: str
    entries: tuple[NotebookEntry, ...] = ()


NotebookFact: TypeAlias = EntryAdded | EntryCorrected | NotebookCopied
_DECODER: Final[msgspec.json.Decoder[NotebookFact]] = msgspec.json.Decoder(NotebookFact)
encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class NotebookPage:
    """The entries of a notebook at one position, the oldest first."""

    entries: tuple[NotebookEntry, ...] = ()
    position: int = -1

    def at(self, position: int, also: Collection[str] = ()) -> "tuple[NotebookEntry, ...]":
        """Returns the entries as they were at `position`, and those of `also` as written.

        An entry of `also` is one that the reader wrote later. The reader knows no correction of it.
        """
        found = [
            entry.at_position(position) or (entry.as_written() if entry.id in also else None)
            for entry in self.entries
        ]
        return tuple([entry for entry in found if entry is not None])

    def entry(self, identity: str) -> NotebookEntry | None:
        """Returns the entry with this id."""
        return next((entry for entry in self.entries if entry.id == identity), None)


def fold(facts: Iterable[Fact]) -> NotebookPage:
    """Returns the notebook after the facts.

    Raises:
        LogError: A fact cannot be read.
    """
    entries: dict[str, NotebookEntry] = {}
    position = -1
    for fact in facts:
        position = fact.seq
        match event := _read(fact):
            case NotebookCopied():
                entries = {entry.id: entry for entry in event.entries}
            case EntryAdded():
                entry = replace(event.entry, at=fact.at, since=fact.seq)
                entries.setdefault(entry.id, entry)
            case EntryCorrected():
                if event.id in entries:
                    entries[event.id] = _corrected(entries[event.id], event, fact)
    return NotebookPage(tuple(entries.values()), position)


def _read(fact: Fact) -> NotebookFact:
    try:
        return _DECODER.decode(fact.body)
    except msgspec.MsgspecError as error:
        raise LogError(
            f"fact {fact.seq} of a notebook cannot be read: a later release may have written it "
            f"({error})"
        ) from error


def _corrected(entry: NotebookEntry, event: EntryCorrected, fact: Fact) -> NotebookEntry:
    if event.pinned is not None:
        entry = replace(entry, pinned=event.pinned)
    # A text that stays the same is confirmed.
    if event.text is None:
        return entry
    earlier = (*entry.earlier, replace(entry, earlier=()))[-VERSIONS:]
    return replace(
        entry,
        text=event.text,
        origin="correction",
        author="principal",
        by=event.by,
        at=fact.at,
        after=(),
        since=fact.seq,
        earlier=earlier,
    )


def owner_of(facts: Iterable[Fact]) -> NotebookOwner | None:
    """Returns the owner of the notebook with these facts."""
    for fact in facts:
        event = _read(fact)
        if isinstance(event, NotebookCopied):
            return NotebookOwner(event.principal, event.agent)
    return None

"""Notebooks in the journal beside the log, and `NotebookStore`, the interface of other stores.

`LogNotebooks` works with every log that keeps a journal. Each change appends to the notebook's
stream; a conflict with another process is decided again. Deleting an entry replaces all facts by a
copy of the rest, in one transaction. Knows nothing about agents, tools and prompts.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from taofold.clocks import clock
from taofold.core.errors import Conflict, Refused
from taofold.core.text import near, times
from taofold.log.journal import Fact, Journal
from taofold.log.log import Log
from taofold.log.open import journal_beside
from taofold.memory.entries import (
    PREFIX,
    EntryAdded,
    EntryCorrected,
    NotebookCopied,
    NotebookEntry,
    NotebookFact,
    NotebookOwner,
    NotebookPage,
    encode,
    fold,
    owner_of,
    streams_of,
)
from taofold.tools.threads import WORKERS
from taofold.tools.word_index import WordIndex, words

_ATTEMPTS: Final = 20
LONGEST_STREAM: Final = 500
"""Number of facts after which a notebook is copied, so that reading it costs no more."""


class NotebookStore(Protocol):
    """A place for notebooks. Each method sees one owner's notebook only."""

    async def read(self, owner: NotebookOwner) -> NotebookPage:
        """Returns the entries, the oldest first, and the position."""
        ...

    async def add(self, owner: NotebookOwner, entry: NotebookEntry, most: int) -> NotebookEntry:
        """Writes the entry, or returns the entry that already has its id.

        Raises:
            Refused: The notebook has `most` entries.
        """
        ...

    async def correct(
        self,
        owner: NotebookOwner,
        identity: str,
        *,
        by: str,
        text: str | None = None,
        pinned: bool | None = None,
    ) -> NotebookEntry:
        """Changes an entry.

        Raises:
            Refused: There is no such entry.
        """
        ...

    async def forget(self, owner: NotebookOwner, identity: str) -> None:
        """Deletes an entry and all of its texts.

        Raises:
            Refused: There is no such entry.
        """
        ...

    async def search(
        self, owner: NotebookOwner, query: str, entries: Sequence[NotebookEntry]
    ) -> Sequence[str]:
        """Returns ids out of `entries`, the most similar to `query` first."""
        ...


class LogNotebooks:
    """The notebooks in the journal beside a log. Every method may raise `LogError`.

    Args:
        log: The log of the runs.
        now: The clock, in milliseconds since the epoch.
    """

    def __init__(self, log: Log, *, now: Callable[[], int] = clock) -> None:
        self._log, self._now = log, now

    @asynccontextmanager
    async def _journal(self) -> AsyncGenerator[Journal]:
        journal = journal_beside(self._log)
        try:
            yield journal
        finally:
            await journal.close()

    async def read(self, owner: NotebookOwner) -> NotebookPage:
        """Returns the entries, the oldest first, and the position."""
        async with self._journal() as journal:
            return await _page(journal, owner)

    async def add(self, owner: NotebookOwner, entry: NotebookEntry, most: int) -> NotebookEntry:
        """Writes the entry, or returns the entry that already has its id."""

        def decide(page: NotebookPage) -> NotebookFact | None:
            if page.entry(entry.id) is not None:
                return None
            if len(page.entries) >= most:
                raise Refused(
                    f"the notebook is full ({times(most, 'entry', 'entries')}): forget one first"
                )
            return EntryAdded(entry)

        return _known(await self._write(owner, decide), entry.id)

    async def correct(
        self,
        owner: NotebookOwner,
        identity: str,
        *,
        by: str,
        text: str | None = None,
        pinned: bool | None = None,
    ) -> NotebookEntry:
        """Changes an entry."""

        def decide(page: NotebookPage) -> NotebookFact:
            _known(page, identity)
            return EntryCorrected(identity, by, text, pinned)

        return _known(await self._write(owner, decide), identity)

    async def forget(self, owner: NotebookOwner, identity: str) -> None:
        """Deletes an entry and all of its texts."""

        def decide(page: NotebookPage) -> NotebookFact:
            _known(page, identity)
            kept = tuple([entry for entry in page.entries if entry.id != identity])
            return NotebookCopied(owner.principal, owner.agent, kept)

        await self._write(owner, decide)

    async def search(
        self, owner: NotebookOwner, query: str, entries: Sequence[NotebookEntry]
    ) -> Sequence[str]:
        """Returns ids of entries that share words with `query`, the most similar first."""
        found: Sequence[str] = await WORKERS.run(ranked, query, entries)
        return found

    async def owners(self, principal: str | None = None) -> list[NotebookOwner]:
        """Returns the owners of notebooks, the newest notebook first; of one principal if given."""
        found: list[NotebookOwner] = []
        async with self._journal() as journal:
            prefix = PREFIX if principal is None else streams_of(principal)
            for row in await journal.streams(prefix):
                owner = owner_of(await journal.facts(row.stream, limit=1))
                # The name is derived from the owner, so a fact cannot claim another's notebook.
                if owner is not None and owner.stream == row.stream:
                    found.append(owner)
        return found

    async def _write(
        self, owner: NotebookOwner, decide: Callable[[NotebookPage], NotebookFact | None]
    ) -> NotebookPage:
        """Appends the fact that `decide` makes of the present notebook, and returns the new one."""
        async with self._journal() as journal:
            for _ in range(_ATTEMPTS):
                facts = await journal.facts(owner.stream)
                page = fold(facts)
                fact = decide(page)
                if fact is None:
                    return page
                written = [fact] if facts else [_empty(owner), fact]
                if len(facts) >= LONGEST_STREAM:
                    pending = Fact(page.position + 1, self._now(), encode(fact))
                    entries = fold([*facts, pending]).entries
                    written = [NotebookCopied(owner.principal, owner.agent, entries)]
                try:
                    now = self._now()
                    await journal.write(
                        owner.stream,
                        page.position,
                        [(now, encode(each)) for each in written],
                        disk=True,
                        # A copy and the deletion of the facts before it are one transaction.
                        alone=isinstance(written[0], NotebookCopied),
                    )
                except Conflict:  # another process wrote in between: decide again
                    continue
                return await _page(journal, owner)
        raise Conflict("too many processes write to this notebook at this moment: try again")


def ranked(query: str, entries: Sequence[NotebookEntry]) -> list[str]:
    """Returns ids of entries that share words with `query`; of equal ones the newer is first.

    A query without words, such as an emoji, finds the entries that contain it.
    """
    newest = list(reversed(entries))
    literal = query.strip()
    if literal and not words(literal):
        return [entry.id for entry in newest if literal in entry.text]
    found = WordIndex([(entry.text,) for entry in newest]).find(query)
    return [newest[position].id for position in found]


def _empty(owner: NotebookOwner) -> NotebookFact:
    return NotebookCopied(owner.principal, owner.agent)


async def _page(journal: Journal, owner: NotebookOwner) -> NotebookPage:
    return fold(await journal.facts(owner.stream))


def _known(page: NotebookPage, identity: str) -> NotebookEntry:
    entry = page.entry(identity)
    if entry is None:
        hint = near(identity, [each.id for each in page.entries])
        raise Refused(f"the notebook has no entry {identity!r}" + (f"; {hint}" if hint else ""))
    return entry

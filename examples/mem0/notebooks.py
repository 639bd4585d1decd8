"""Notebooks in mem0 (https://docs.mem0.ai): `Mem0Notebooks` is a `NotebookStore` over its client.

It works with objects that have the methods of `mem0.Memory` (open source, 1.x): `add`, `get_all`,
`search`, `update`, `delete`. Texts are stored as they are (`infer=False`). The other fields of an
entry are in `metadata`. mem0 keeps no earlier texts, so a fork does not see an entry that was
corrected since. Knows nothing about the log.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.clocks import clock
from taofold.core.errors import Refused
from taofold.core.json_values import is_array, is_object
from taofold.core.text import times
from taofold.memory.entries import NotebookEntry, NotebookOwner, NotebookPage

_KEY: Final = "taofold"
"""Key in the metadata of mem0: an entry without its text, as JSON text."""
_READ: Final = 1_000


class Mem0Notebooks:
    """Notebooks in mem0.

    Example:
        ```python
        from mem0 import Memory as Mem0

        from notebooks import Mem0Notebooks
        from taofold import Agent, Memory

        agent = Agent("openai:gpt-5", log="runs.db", memory=Memory(store=Mem0Notebooks(Mem0())))
        ```

    Args:
        client: A `mem0.Memory`, or an object with the same methods. They are called in threads.
        now: The clock, in milliseconds since the epoch.
    """

    def __init__(self, client: Any, *, now: Callable[[], int] = clock) -> None:
        self._client, self._now = client, now

    async def read(self, owner: NotebookOwner) -> NotebookPage:
        """Returns the entries, the oldest first. The position is a time."""
        return NotebookPage(tuple((await self._ids(owner)).values()), self._now())

    async def add(self, owner: NotebookOwner, entry: NotebookEntry, most: int) -> NotebookEntry:
        """Writes the entry, or returns the entry that already has its id."""
        known = {each.id: each for each in (await self._ids(owner)).values()}
        if entry.id in known:
            return known[entry.id]
        if len(known) >= most:
            raise Refused(f"the notebook is full ({times(most, 'entry', 'entries')}): forget one")
        now = self._now()
        # After the position of runs that began in the same millisecond.
        entry = replace(entry, at=now, since=now + 1)
        await self._write(owner, entry)
        return entry

    async def correct(
        self,
        owner: NotebookOwner,
        identity: str,
        *,
        by: str,
        text: str | None = None,
        pinned: bool | None = None,
    ) -> NotebookEntry:
        """Changes an entry. Another one replaces it, since mem0 does not update metadata."""
        memory, entry = await self._find(owner, identity)
        if pinned is not None:
            entry = replace(entry, pinned=pinned)
        if text is not None and text != entry.text:
            now = self._now()
            entry = replace(
                entry,
                text=text,
                origin="correction",
                author="principal",
                by=by,
                at=now,
                since=now + 1,
                after=(),
            )
        # Deleted first: a failure in between must not leave the uncorrected text.
        await asyncio.to_thread(self._client.delete, memory)
        await self._write(owner, entry)
        return entry

    async def forget(self, owner: NotebookOwner, identity: str) -> None:
        """Deletes an entry."""
        memory, _ = await self._find(owner, identity)
        await asyncio.to_thread(self._client.delete, memory)

    async def search(
        self, owner: NotebookOwner, query: str, entries: Sequence[NotebookEntry]
    ) -> Sequence[str]:
        """Returns ids of entries that mem0 finds similar to `query`."""
        found = await asyncio.to_thread(
            self._client.search, query, user_id=_user(owner), limit=len(entries) or 1
        )
        return [entry.id for _, entry in _entries(found, owner)]

    async def _ids(self, owner: NotebookOwner) -> dict[str, NotebookEntry]:
        """Returns the owner's entries by mem0's ids, the oldest first."""
        found = await asyncio.to_thread(self._client.get_all, user_id=_user(owner), limit=_READ)
        return dict(sorted(_entries(found, owner), key=lambda pair: pair[1].at))

    async def _find(self, owner: NotebookOwner, identity: str) -> tuple[str, NotebookEntry]:
        for memory, entry in (await self._ids(owner)).items():
            if entry.id == identity:
                return memory, entry
        raise Refused(f"the notebook has no entry {identity!r}")

    async def _write(self, owner: NotebookOwner, entry: NotebookEntry) -> None:
        rest = msgspec.json.encode(replace(entry, text="")).decode()
        await asyncio.to_thread(
            self._client.add,
            [{"role": "user", "content": entry.text}],
            user_id=_user(owner),
            metadata={_KEY: rest},
            infer=False,
        )


def _user(owner: NotebookOwner) -> str:
    # mem0 filters by this id, so it names principal and agent unambiguously.
    return owner.stream


def _entries(found: Any, owner: NotebookOwner) -> list[tuple[str, NotebookEntry]]:
    """Returns mem0's ids and the entries of an answer of `get_all` or `search`."""
    rows: Any = found.get("results") if is_object(found) else found
    entries: list[tuple[str, NotebookEntry]] = []
    for row in rows if is_array(rows) else ():
        metadata: Any = row.get("metadata") if is_object(row) else None
        if not is_object(metadata) or not isinstance(metadata.get(_KEY), str):
            continue  # another program wrote it
        # The filter is the store's: an entry of another user is left out here too.
        if row.get("user_id", _user(owner)) != _user(owner):
            continue
        entry = msgspec.json.decode(metadata[_KEY], type=NotebookEntry)
        entries.append((str(row.get("id")), replace(entry, text=str(row.get("memory", "")))))
    return entries

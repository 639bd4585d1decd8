"""A notebook is a fold of its stream, the same in every log, and what is deleted is gone."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import Conflict, LogError, Refused
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.log.open import journal_beside, open_log
from taofold.memory import notebook as storage
from taofold.memory.entries import (
    NotebookCopied,
    NotebookEntry,
    NotebookOwner,
    encode,
    streams_of,
)
from taofold.memory.notebook import LogNotebooks, ranked

ADA, BEN = NotebookOwner("ada", "desk"), NotebookOwner("ben", "desk")


def entry(identity: str, text: str = "", **fields: Any) -> NotebookEntry:
    return NotebookEntry(identity, text or f"text of {identity}", **fields)


async def texts(store: LogNotebooks, owner: NotebookOwner) -> list[str]:
    return [each.text for each in (await store.read(owner)).entries]


async def stream(log: Log, owner: NotebookOwner) -> bytes:
    journal = journal_beside(log)
    facts = await journal.facts(owner.stream)
    await journal.close()
    return b"\n".join([fact.body for fact in facts])


def test_entries_are_added_corrected_and_forgotten(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log, now=lambda: 7)
        added = await store.add(ADA, entry("a", origin="mixed"), 10)
        assert (added.at, added.since) == (7, 1)
        await store.add(ADA, entry("b"), 10)
        changed = await store.correct(ADA, "a", by="eve", text="better")
        assert (changed.text, changed.origin, changed.by) == ("better", "correction", "eve")
        assert (await store.correct(ADA, "b", by="eve", pinned=True)).pinned
        assert await texts(store, ADA) == ["better", "text of b"]
        await store.forget(ADA, "a")
        assert await texts(store, ADA) == ["text of b"]
        for wrong in (
            store.forget(ADA, "a"),
            store.correct(ADA, "a", by="eve", text="x"),
            store.forget(BEN, "b"),
        ):
            with pytest.raises(Refused, match="no entry"):
                await wrong

    asyncio.run(main())


def test_a_page_shows_an_earlier_position(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "first"), 10)
        before = (await store.read(ADA)).position
        await store.add(ADA, entry("b"), 10)
        await store.correct(ADA, "a", by="eve", text="second")
        page = await store.read(ADA)
        assert [each.text for each in page.at(before)] == ["first"]
        assert [each.text for each in page.at(before, {"b"})] == ["first", "text of b"]
        assert page.at(-1) == ()
        # The reader sees its own entry as it wrote it, without a later correction.
        [seen] = page.at(-1, {"a"})
        assert (seen.text, seen.origin) == ("first", "model")
        assert page.at(page.position) == page.entries

    asyncio.run(main())


def test_an_earlier_version_keeps_its_origin(log: Log) -> None:
    """Mutant: an earlier text with the origin of the correction."""

    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "of a page", origin="mixed", after=("web",)), 10)
        before = (await store.read(ADA)).position
        await store.correct(ADA, "a", by="eve", text="of Eve")
        page = await store.read(ADA)
        [earlier] = page.at(before)
        assert (earlier.text, earlier.origin, earlier.by) == ("of a page", "mixed", "")
        assert earlier.source == "model, after reading web, unverified"
        [now] = page.at(page.position)
        assert (now.text, now.source, now.by) == ("of Eve", "correction", "eve")

    asyncio.run(main())


def test_a_user_confirms_a_text_by_writing_it_again(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "of a page", origin="mixed"), 10)
        assert (await store.correct(ADA, "a", by="eve", pinned=True)).foreign
        confirmed = await store.correct(ADA, "a", by="eve", text="of a page")
        assert (confirmed.foreign, confirmed.source) == (False, "correction")

    asyncio.run(main())


def test_a_version_of_a_run_that_is_no_longer_kept_is_not_shown_as_its_text(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "first"), 10)
        for number in range(4):
            await store.correct(ADA, "a", by="eve", text=f"text {number}")
        assert (await store.read(ADA)).at(0, {"a"}) == ()

    asyncio.run(main())


def test_a_forgotten_text_is_in_no_fact_also_not_an_earlier_one(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "ORIGINAL"), 10)
        before = (await store.read(ADA)).position
        await store.correct(ADA, "a", by="eve", text="CORRECTED")
        await store.add(ADA, entry("b"), 10)
        await store.forget(ADA, "a")
        kept = await stream(log, ADA)
        assert b"text of b" in kept
        assert b"ORIGINAL" not in kept
        assert b"CORRECTED" not in kept
        assert (await store.read(ADA)).at(before) == ()

    asyncio.run(main())


def test_a_forgotten_text_is_not_in_the_file_after_a_scrub(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def main() -> None:
        log: Any = open_log(path)
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "FORGETTABLE"), 10)
        await store.add(ADA, entry("b", "KEEPABLE"), 10)
        await store.forget(ADA, "a")
        await log.scrub()
        await log.close()

    asyncio.run(main())
    content = b"".join([file.read_bytes() for file in tmp_path.glob("log.db*")])
    assert b"KEEPABLE" in content
    assert b"FORGETTABLE" not in content
    assert sqlite3.connect(path).execute("select count(*) from facts").fetchone() == (1,)


def test_a_process_that_is_killed_while_it_forgets_leaves_all_or_nothing(log: Log) -> None:
    """Mutant: the facts before the copy are deleted by a second write."""

    class Killed(BaseException):
        pass

    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "LEFTOVER"), 10)
        await store.add(ADA, entry("b"), 10)
        journal = journal_beside(log)
        kind: Any = type(journal)
        writes: list[str] = []

        async def write(self: Any, *values: Any, **named: Any) -> int:
            await original(self, *values, **named)
            writes.append(values[0])
            raise Killed

        original = kind.write
        kind.write = write
        try:
            with pytest.raises(Killed):
                await store.forget(ADA, "a")
        finally:
            kind.write = original
        await journal.close()
        assert len(writes) == 1
        assert b"LEFTOVER" not in await stream(log, ADA)
        assert await texts(store, ADA) == ["text of b"]

    asyncio.run(main())


def test_a_full_notebook_refuses_and_a_repeated_write_is_one_entry(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log)
        for _ in range(3):
            await store.add(ADA, entry("a"), 2)
        await store.add(ADA, entry("b"), 2)
        with pytest.raises(Refused, match="full"):
            await store.add(ADA, entry("c"), 2)
        assert len(await texts(store, ADA)) == 2

    asyncio.run(main())


def test_writers_at_once_lose_nothing(log: Log) -> None:
    async def main() -> None:
        store = LogNotebooks(log)
        names = [f"e{number}" for number in range(8)]
        await asyncio.gather(*[store.add(ADA, entry(name), 20) for name in names])
        assert sorted([each.id for each in (await store.read(ADA)).entries]) == names

    asyncio.run(main())


def test_a_long_stream_is_copied_and_positions_stay(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LONGEST_STREAM", 6)

    async def main() -> None:
        store = LogNotebooks(log)
        await store.add(ADA, entry("a", "first"), 10)
        before = (await store.read(ADA)).position
        for number in range(12):
            await store.correct(ADA, "a", by="eve", text=f"text {number}")
        journal = journal_beside(log)
        facts = await journal.facts(ADA.stream)
        await journal.close()
        assert len(facts) <= 7
        page = await store.read(ADA)
        assert page.entries[0].text == "text 11"
        assert len(page.entries[0].earlier) == 3
        # The text of that time was dropped: the entry counts as unwritten, not as its later text.
        assert page.at(before) == ()

    asyncio.run(main())


def test_each_owner_has_a_notebook_of_its_own_whatever_its_name(log: Log) -> None:
    owners = [
        NotebookOwner(principal, agent)
        for principal in ("ada", "ada/desk", "../ada", "ad", "", "%", "ada\n", "ａｄａ")
        for agent in ("desk", "desk/x", "x")
    ]
    assert len({owner.stream for owner in owners}) == len(owners)

    async def main() -> None:
        store = LogNotebooks(log)
        for number, owner in enumerate(owners):
            await store.add(owner, entry("a", f"text {number}"), 10)
        for number, owner in enumerate(owners):
            assert await texts(store, owner) == [f"text {number}"]
        assert set(await store.owners()) == set(owners)
        assert {owner.agent for owner in await store.owners("ada")} == {"desk", "desk/x", "x"}
        assert await store.owners("ad/") == []

    asyncio.run(main())


def test_a_fact_that_names_another_owner_shows_no_notebook_of_it() -> None:
    async def main() -> None:
        log = MemoryLog()
        journal = journal_beside(log)
        forged = encode(NotebookCopied("ada", "desk", (entry("a"),)))
        await journal.write(f"{streams_of('ben')}x", -1, [(1, forged)])
        assert await LogNotebooks(log).owners() == []
        assert await texts(LogNotebooks(log), ADA) == []

    asyncio.run(main())


def test_a_fact_of_a_later_release_is_an_error_not_an_empty_notebook() -> None:
    async def main() -> None:
        log = MemoryLog()
        await journal_beside(log).write(ADA.stream, -1, [(1, b'{"e":"moved"}')])
        with pytest.raises(LogError, match="later release"):
            await LogNotebooks(log).read(ADA)
        with pytest.raises(LogError, match="later release"):
            await LogNotebooks(log).add(ADA, entry("a"), 10)

    asyncio.run(main())


def test_endless_conflicts_end_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        log = MemoryLog()
        journal = journal_beside(log)

        async def outrun(*values: Any, **named: Any) -> int:
            raise Conflict("another process wrote")

        monkeypatch.setattr(journal, "write", outrun)
        with pytest.raises(Conflict, match="at this moment"):
            await LogNotebooks(log).add(ADA, entry("a"), 10)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("favourite tea", "a"),
        ("TEA!", "a"),
        ("invoice", "b"),
        ("東京", "c"),
        ("café", "d"),
        ("🦊", "e"),
    ],
)
def test_a_search_finds_the_entry_that_shares_rare_words(query: str, best: str) -> None:
    entries = [
        entry("a", "The user's favourite drink is tea."),
        entry("b", "The invoice goes to the user's office."),
        entry("c", "会社は東京にあります"),
        entry("d", "Meets Ben in the cafe\u0301."),
        entry("e", "Signs with 🦊 only."),
    ]
    assert ranked(query, entries)[0] == best


def test_a_search_without_a_shared_word_finds_nothing() -> None:
    assert ranked("zebra", [entry("a"), entry("b")]) == []
    assert ranked("", [entry("a")]) == []
    assert ranked("x", []) == []
    assert ranked("a" * 100_000, [entry("a", "a")]) == []

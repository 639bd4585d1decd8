"""A registry that release 0.1 wrote opens, reads on, and keeps its counts."""

import asyncio
import json
from pathlib import Path

from taofold.learning.events import STREAM
from taofold.learning.patterns.kinds import ErrorFix
from taofold.learning.patterns.pattern import Rate
from taofold.learning.settings import Injection
from taofold.log.journal import MemoryJournal
from taofold.log.patterns.stores import memory_registry, open_registry
from taofold.log.sqlite.journal import SqliteJournal

from .make import case

FACTS = [
    (row["at"], json.dumps(row["body"]).encode())
    for row in map(
        json.loads,
        (Path(__file__).parent / "data" / "registry_of_0_1.jsonl").read_text().splitlines(),
    )
]
COUNTS = {
    "pat-error-attributeerror-add-null-check-001": (3, 3, 0),
    "pat-success-debugging-by-one-change-to-what-the-chec-001": (5, 5, 0),
    "tmpl-check-for-a-missing-value-before-it-is-u-001": (3, 3, 0),
    "pat-error-assertionerror-swap-comparison-001": (2, 2, 0),
    "pat-anti-repeating-changes-while-assertionerror-a-001": (1, 0, 1),
    "pat-anti-making-a-change-again-that-was-taken-bac-001": (1, 0, 1),
    "pat-error-null-check-015": (0, 0, 0),
}


def test_every_pattern_is_there_with_its_counts_and_its_lesson_is_told() -> None:
    async def story() -> None:
        journal = MemoryJournal()
        await journal.write(STREAM, -1, FACTS)
        registry = memory_registry(journal)
        assert await registry.faults() == []
        found = {pattern.id: pattern for pattern in await registry.patterns()}
        assert {
            name: (one.counts.usage, one.counts.successes, one.counts.failures)
            for name, one in found.items()
        } == COUNTS
        old = found["pat-error-attributeerror-add-null-check-001"]
        assert isinstance(old.body, ErrorFix)
        assert old.body.fix.diff.startswith("+if {{variable}} is None:")
        message = "'NoneType' object has no attribute 'mail'"
        asked = case("Fix it", message, "AttributeError", language="python")
        told = await registry.inject("new", asked, Injection(control_share=0.0))
        assert old.id in told.ids

    asyncio.run(story())


def test_the_tables_on_disk_are_built_from_it(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "taofold.db"
        journal = SqliteJournal(path)
        await journal.write(STREAM, -1, FACTS)
        await journal.close()
        registry = open_registry(path)
        assert {pattern.id for pattern in await registry.patterns()} == COUNTS.keys()
        assert (await registry.rates()).by_key == {}
        await registry.close()

    asyncio.run(story())


DATA = Path(__file__).parent / "data"
RELEASED = [
    (row["at"], json.dumps(row["body"]).encode())
    for row in map(json.loads, (DATA / "registry_2026_11.jsonl").read_text().splitlines())
]
"""Every kind of event and of pattern, as release 2026-11 stored them."""
EXPORTED = json.loads((DATA / "registry_2026_11.export.json").read_text())
"""The export of that registry in today's layout."""


def test_every_kind_of_event_of_november_2026_is_read_and_folds_to_the_same_export() -> None:
    async def story() -> None:
        journal = MemoryJournal()
        await journal.write(STREAM, -1, RELEASED)
        registry = memory_registry(journal)
        assert await registry.faults() == []
        exported = await registry.export()
        assert exported == EXPORTED
        rates = await registry.rates()
        assert rates.by_key["s0123456789ab"] == Rate(1.0, 0.25)

    asyncio.run(story())


def test_a_file_of_november_2026_opens_and_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "taofold.db"
        journal = SqliteJournal(path)
        await journal.write(STREAM, -1, RELEASED)
        await journal.close()
        registry = open_registry(path)
        exported = await registry.export()
        assert exported == EXPORTED
        asked = case("Fix it", "'FR'", "KeyError", language="python")
        told = await registry.inject("new", asked, Injection(control_share=0.0))
        assert "pat-error-keyerror-missing-key-001" in told.ids
        await registry.ended("new", iterations=1, solved=True)
        shown = await registry.show("pat-error-keyerror-missing-key-001")
        assert shown.shown.loops == 1
        await registry.close()

    asyncio.run(story())

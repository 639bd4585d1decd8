"""Behaviour of the registry for patterns and loops, in memory and on disk."""

import asyncio
from pathlib import Path

import pytest

from taofold.core.errors import Refused
from taofold.core.json_values import plain
from taofold.learning.patterns.kinds import Avoidance, ErrorFix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.registry import Query, Registry, UnknownPattern
from taofold.learning.settings import Extraction, Injection, Pruning
from taofold.log.journal import MemoryJournal
from taofold.log.patterns.stores import memory_registry, open_registry
from tests.learning.make import (
    ALWAYS,
    APART,
    DAY,
    EXTRACT,
    NEVER,
    Clock,
    Opener,
    anti,
    approach,
    case,
    error,
    looped,
    on_both,
    template,
)


@on_both
@pytest.mark.scenario("XTL-02")
@pytest.mark.document_item("001.extract.once")
async def test_the_same_loop_extracted_twice_changes_nothing(opener: Opener, clock: Clock) -> None:
    registry = opener()
    drafts = [error(), approach("Approach", "Fix types one file after another")]
    first = await registry.discover("loop-a", drafts, EXTRACT)
    assert [one.new for one in first] == [True, True]
    before = await registry.patterns()
    clock.at += 1000
    again = await registry.discover("loop-a", drafts, EXTRACT)
    assert [one.new for one in again] == [False, False]
    assert await registry.patterns() == before
    assert [p.counts.usage for p in before] == [1, 1]
    await registry.discover("loop-a", drafts, APART)
    assert await registry.patterns() == before, "not even where nothing is merged"


@on_both
@pytest.mark.scenario("XTL-03")
@pytest.mark.document_item(
    "001.extract.compare", "001.extract.duplicate", "001.key.extraction.merge"
)
async def test_a_pattern_seen_again_merges_and_another_stays(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (one,) = await registry.discover("loop-a", [error(tags=("null",))], EXTRACT, by="ann")
    clock.at += 1000
    near = error(pattern="Cannot read property '.*' of null value", tags=("ts",))
    (two,) = await registry.discover("loop-b", [near], EXTRACT, by="bob")
    far = error("Off by one", "list index out of range", kind="IndexError", code="x + 1", fix="y")
    (three,) = await registry.discover("loop-c", [far], EXTRACT)
    assert (two.id, two.new) == (one.id, False)
    assert three.new
    merged = await registry.show(one.id)
    assert (merged.counts.usage, merged.counts.successes, merged.counts.rate) == (2, 2, 1.0)
    assert [(s.loop, s.by) for s in merged.sources] == [("loop-a", "ann"), ("loop-b", "bob")]
    assert merged.tags == ("null", "ts")
    assert [point.size for point in merged.trend] == [1, 2]
    assert len(await registry.patterns()) == 2


@on_both
async def test_patterns_of_other_kinds_do_not_hinder_a_merge(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (one,) = await registry.discover("loop-a", [error()], EXTRACT)
    near = error(pattern="Cannot read property '.*' of null value")
    assert isinstance(near.body, ErrorFix)
    # They name the same error, and share more words with it than the pattern of its own kind.
    words = "if variable null, cannot read null value: add null check before property access"
    for number in range(25):
        approach = f"throw{number} new ValidationError message {words}, TypeError typescript"
        body = Avoidance(approach, "repeated_same_error", signature=near.body.signature)
        draft = Pattern("", near.name, body)
        (mistake,) = await registry.discover(f"loop-{number}", [draft], APART)
        assert mistake.new
    (again,) = await registry.discover("loop-b", [near], EXTRACT)
    assert (again.id, again.new) == (one.id, False)


@on_both
@pytest.mark.document_item("001.key.extraction.merge")
async def test_without_merging_each_loop_has_its_own(opener: Opener, clock: Clock) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], APART)
    await registry.discover("loop-b", [error(pattern="Cannot read property '.*' of null!")], APART)
    assert len(await registry.patterns()) == 2


@on_both
@pytest.mark.scenario("XTL-14", "XTL-26")
@pytest.mark.document_item(
    "001.apply.usage",
    "001.apply.success",
    "001.apply.once",
    "001.apply.trend",
    "001.apply.source",
    "001.apply.last-used",
    "001.capability.loops",
    "001.source.loop",
)
async def test_a_use_that_helped_counts_once_when_the_loop_ends(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    clock.at += 1000
    lessons = await registry.inject("loop-b", case(), ALWAYS)
    assert lessons.ids == (found.id,)
    for won in (False, True, True, False):
        await registry.applied("loop-b", found.id, won=won, iteration=2, by="fixer")
    assert (await registry.show(found.id)).counts.usage == 1, "not before the end"
    clock.at += 1000
    assert await registry.ended("loop-b", iterations=3, solved=True)
    assert not await registry.ended("loop-b", iterations=9, solved=False)
    assert not await registry.applied("loop-b", found.id, won=False)
    pattern = await registry.show(found.id)
    assert (pattern.counts.usage, pattern.counts.successes, pattern.counts.failures) == (2, 2, 0)
    assert pattern.trend[-1].size == 2
    assert pattern.last_used == clock.at
    assert [source.loop for source in pattern.sources] == ["loop-a", "loop-b"]
    assert not pattern.probation
    note = await registry.loop("loop-b")
    assert note is not None
    assert [(use.id, use.won, use.iteration) for use in note.uses] == [(found.id, True, 2)]
    await registry.discover("loop-b", [error()], EXTRACT)
    assert (await registry.show(found.id)).counts.usage == 2, "found in a loop that counted"
    clock.at += 1000
    await looped(registry, "loop-c", case(), won=False)
    line = [(s.role, s.loop, s.won) for s in (await registry.show(found.id)).lineage]
    assert line == [
        ("discovered", "loop-a", None),
        ("applied", "loop-b", True),
        ("applied", "loop-c", False),
    ]


@on_both
@pytest.mark.scenario("XTL-15")
@pytest.mark.document_item("001.aggregate.rate")
async def test_seventeen_of_eighteen_is_0_94(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-0", [error()], EXTRACT)
    for n in range(1, 18):
        await looped(registry, f"loop-{n}", case(), won=n != 9)
    pattern = await registry.show(found.id)
    assert round(pattern.counts.rate or 0, 2) == 0.94
    lessons = await registry.inject("loop-x", case(), ALWAYS)
    assert "(shown to 17, followed by 17, right in 16)" in lessons.text
    assert "- It was no cure in 1 of 17 that followed it" in lessons.text


@on_both
@pytest.mark.scenario("XTL-17")
@pytest.mark.document_item("001.apply.shown")
async def test_a_pattern_that_was_only_shown_keeps_its_counts(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    before = await registry.show(found.id)
    assert await looped(registry, "loop-b", case(), won=None, iterations=7) == (found.id,)
    after = await registry.show(found.id)
    assert (after.counts, after.trend) == (before.counts, before.trend)
    assert (after.shown.loops, after.shown.iterations) == (1, 7), "exposure is counted apart"


@on_both
async def test_what_a_loop_was_not_shown_it_cannot_have_used(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    assert not await registry.applied("loop-b", found.id, won=True), "never started"
    await registry.inject("loop-c", case(), NEVER)
    assert await registry.applied("loop-c", found.id, won=True), "a control loop, by itself"
    await registry.ended("loop-c", iterations=5, solved=True)
    pattern = await registry.show(found.id)
    assert pattern.counts.usage == 1
    assert (pattern.held.loops, pattern.held.iterations) == (1, 5)


@on_both
@pytest.mark.scenario("PEER-20")
async def test_a_loop_asked_twice_is_told_the_same(opener: Opener, clock: Clock) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], EXTRACT)
    first = await registry.inject("loop-b", case(), ALWAYS)
    await registry.discover("loop-c", [error("Another", "of null and void '.*'", fix="Z")], APART)
    again = await opener().inject("loop-b", case(), ALWAYS)
    assert first.text
    assert (again.text, again.ids) == (first.text, first.ids), "frozen at the start"


@on_both
async def test_a_person_may_add_to_a_running_loop(opener: Opener, clock: Clock) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], EXTRACT)
    await registry.inject("loop-b", case(), NEVER)
    lessons = await registry.inject("loop-b", case(), NEVER, manual=True)
    assert lessons.ids
    assert not lessons.control
    await registry.ended("loop-b", iterations=3, solved=True)
    stats = await registry.stats()
    assert (stats.manual.loops, stats.held.loops, stats.shown.loops) == (1, 0, 0)
    note = await registry.loop("loop-b")
    assert note is not None
    assert note.manual


@on_both
@pytest.mark.document_item("001.key.injection.enabled")
async def test_injection_that_is_switched_off_shows_and_notes_nothing(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], EXTRACT)
    off = Injection(enabled=False, control_share=0.0)
    assert (await registry.inject("loop-b", case(), off)).text == ""
    assert await registry.loop("loop-b") is None
    assert (await registry.inject("loop-b", case(), off, manual=True)).text, "by hand it works"


@on_both
@pytest.mark.scenario("XTL-22")
async def test_filters_hold_together(opener: Opener, clock: Clock) -> None:
    registry = opener()
    await registry.discover("loop-a", [error(tags=("a", "b"))], EXTRACT)
    other = error("Key", "no key '.*'", kind="KeyError", fix="k", code="k", tags=("a",))
    await registry.discover("loop-b", [other, anti("Guess", "Guess again")], EXTRACT)
    await looped(registry, "loop-c", case("x", "no key 'y'", "KeyError"), won=False)

    async def names(query: Query) -> list[str]:
        return [pattern.name for pattern in await registry.patterns(query)]

    first, second = error().name, other.name
    assert await names(Query()) == [first, second, "Guess"]
    assert await names(Query(kind="error", tags=("a",))) == [first, second]
    assert await names(Query(tags=("a", "b"))) == [first]
    assert await names(Query(loop="loop-c")) == [second]
    assert await names(Query(kind="error", min_rate=0.5, max_rate=0.6)) == [second]
    assert await names(Query(kind="error", tags=("a",), loop="loop-b", max_rate=0.4)) == []


@on_both
@pytest.mark.scenario("XTL-18", "XTL-19")
@pytest.mark.document_item("001.cli.prune.rate", "001.practice.uses")
async def test_pruning_archives_what_failed_after_enough_uses(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    await looped(registry, "loop-b", case(), won=False)
    strict = Pruning(min_success_rate=0.6)
    assert await registry.prune(strict) == [], "0.5 after two uses"
    await registry.inject("loop-c", case(), ALWAYS, manual=True)
    await registry.applied("loop-c", found.id, won=False)
    await registry.ended("loop-c", iterations=2, solved=False)
    before = await registry.patterns()
    planned = await registry.prune(dry_run=True)
    assert [one.id for one in planned] == [found.id]
    assert "0.33 after 3 uses" in planned[0].reason
    assert await registry.patterns() == before, "a dry run changes nothing"
    assert await registry.prune() == planned
    assert await registry.patterns() == []
    assert [(p.id, month) for p, month in await registry.archive()] == [(found.id, "2026-02")]
    with pytest.raises(UnknownPattern, match="restore it first"):
        await registry.show(found.id)
    assert not (await registry.inject("loop-d", case(), ALWAYS)).ids, "nor is it found any more"


@on_both
@pytest.mark.scenario("XTL-20")
@pytest.mark.document_item("001.cli.prune.age")
async def test_pruning_archives_what_is_old_and_it_comes_back(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    before = await registry.show(found.id)
    clock.at += 90 * DAY
    assert await registry.prune() == []
    clock.at += DAY
    (gone,) = await registry.prune()
    assert "91 days" in gone.reason
    clock.at += DAY
    back = await registry.restore(found.id)
    assert (back.counts, back.body) == (before.counts, before.body)
    assert await registry.archive() == []
    assert await registry.prune() == [], "it has a new trial"
    assert (await registry.inject("loop-b", case(), ALWAYS)).ids == (found.id,)
    with pytest.raises(Refused, match="no archived or retired pattern"):
        await registry.restore(found.id)


@on_both
async def test_a_pattern_is_rewritten_within_its_kind_and_judged_anew(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error(tags=("null",))], EXTRACT)
    await looped(registry, "loop-b", case(), won=False)
    before = await registry.show(found.id)
    assert before.shown.loops == 1
    body = plain(before.body)
    renamed = await registry.edit(found.id, name=" Nobody there ", tags=("a", "a", "b"), body=body)
    assert (renamed.name, renamed.tags) == ("Nobody there", ("a", "b"))
    assert renamed.shown == before.shown

    body["fix"]["description"] = "Ask first whether somebody is there"
    edited = await registry.edit(found.id, name="Nobody there", tags=(), body=body, by="ann")
    assert plain(edited.body) == body
    assert edited == await registry.show(found.id)
    assert edited.counts == before.counts, "what people were told of it stays"
    assert edited.shown.loops == 0, "what other words did says nothing about these"
    lessons = await registry.inject("loop-c", case(), ALWAYS)
    assert "Ask first whether somebody is there" in lessons.text


@on_both
async def test_what_would_be_no_pattern_is_not_saved(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    before = await registry.show(found.id)
    body = plain(before.body)
    for name, changed, complaint in (
        ("", body, "needs a name"),
        ("x", {**body, "fix": 1}, r"\$\.fix"),
        ("x", {**body, "signature": {**body["signature"], "type": "Odd"}}, r"signature\.type"),
        ("x", {**body, "fix": {**body["fix"], "descripton": "?"}}, r"\$\.body\.fix\.descripton"),
        ("x", {**body, "fix": {**body["fix"], "description": "a" * 20_001}}, "length"),
        ("x", {**body, "fix": {**body["fix"], "description": "\ud800"}}, "surrogate"),
    ):
        with pytest.raises(ValueError, match=complaint):
            await registry.edit(found.id, name=name, tags=(), body=changed)
    with pytest.raises(UnknownPattern):
        await registry.edit("pat-error-nothing-001", name="x", tags=(), body=body)
    assert await registry.show(found.id) == before


@on_both
async def test_an_id_is_given_once_even_after_archiving(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (first,) = await registry.discover("loop-a", [error()], EXTRACT)
    clock.at += 100 * DAY
    await registry.prune()
    (second,) = await registry.discover("loop-b", [error()], EXTRACT)
    assert first.id == "pat-error-typeerror-null-property-access-001"
    assert second.id == "pat-error-typeerror-null-property-access-002"


@on_both
@pytest.mark.document_item("001.key.extraction.templates")
async def test_templates_are_taken_in_only_where_they_are_wanted(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    draft = template("Guard", "if {{name}} is None:\n    return", "Guard an argument")
    assert await registry.discover("a", [draft], Extraction(extract_code_templates=False)) == []
    (found,) = await registry.discover("a", [draft], EXTRACT)
    assert found.id == "tmpl-guard-001"


def test_two_registries_over_one_journal_count_both() -> None:
    async def main() -> None:
        journal = MemoryJournal()
        one, two = memory_registry(journal), memory_registry(journal)
        (found,) = await one.discover("loop-0", [error()], EXTRACT)
        await asyncio.gather(
            *(looped(r, f"{n}-{i}", case(), won=True) for i in range(10) for n, r in
              (("one", one), ("two", two)))
        )  # fmt: skip
        assert (await one.show(found.id)).counts.usage == 21
        assert await one.patterns() == await two.patterns()

    asyncio.run(main())


def test_the_tables_on_disk_are_rebuilt_from_the_facts(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        registry = open_registry(tmp_path / "log.db", now=clock)
        await registry.discover("loop-a", [error()], EXTRACT)
        await looped(registry, "loop-b", case(), won=True)
        (known,) = await registry.patterns()
        await registry.edit(known.id, name="In other words", tags=(), body=plain(known.body))
        wanted = (await registry.patterns(), await registry.stats(), await registry.loops())
        await registry.close()
        for damage in (
            "drop table pattern_state",
            "update pattern_state set value = 0 where key = 'form'",
        ):
            import sqlite3

            with sqlite3.connect(tmp_path / "log.db") as db:
                db.execute(damage)
                db.execute("delete from pattern_rows")
            db.close()
            registry = open_registry(tmp_path / "log.db", now=clock)
            found = (await registry.patterns(), await registry.stats(), await registry.loops())
            assert found == wanted
            assert (await registry.inject(f"loop-{len(damage)}", case(), ALWAYS)).ids
            wanted = (await registry.patterns(), await registry.stats(), await registry.loops())
            await registry.close()

    asyncio.run(main())


@pytest.mark.scenario("XTL-24")
def test_a_damaged_fact_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    async def main() -> None:
        import sqlite3

        registry = open_registry(tmp_path / "log.db")
        await registry.discover("loop-a", [error()], EXTRACT)
        await registry.discover("loop-b", [anti("Guess", "Guess again")], EXTRACT)
        await registry.close()
        with sqlite3.connect(tmp_path / "log.db") as db:
            db.execute('update facts set body = \'{"e":"nonsense\' where id & 4294967295 = 0')
            db.execute("drop table pattern_state")
        db.close()
        registry = open_registry(tmp_path / "log.db")
        assert [pattern.name for pattern in await registry.patterns()] == ["Guess"]
        (fault,) = await registry.faults()
        assert fault.startswith("fact 0 of 'patterns' is damaged and was left out")
        await registry.close()

    asyncio.run(main())


async def _everything(registry: Registry) -> tuple[object, ...]:
    """Returns everything that a loop's end changes, except for the time."""
    patterns = [
        (p.id, p.counts, p.shown, p.held, [(t.rate, t.size, t.loops) for t in p.trend],
         [(s.loop, s.role, s.won, s.iterations) for s in p.sources])
        for p in await registry.patterns()
    ]  # fmt: skip
    stats = await registry.stats()
    chances = [
        round(one.effectiveness, 9)
        for one in (await registry.candidates(case(), Injection(min_success_rate=0.0))).chosen
    ]
    return patterns, [stats.shown, stats.held, stats.plain, stats.manual], chances


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["told", "control"])
@pytest.mark.parametrize("first", [None, False], ids=["unused", "lost"])
def test_a_loop_that_goes_on_after_its_end_counts_once_with_its_last_outcome(
    share: float, first: bool | None
) -> None:
    about = Injection(control_share=share)

    async def end(registry: Registry, won: bool | None, iterations: int) -> None:
        found = (await registry.patterns())[0].id
        if won is not None:
            await registry.applied("loop-b", found, won=won, iteration=iterations, by="fixer")
        await registry.ended("loop-b", iterations=iterations, solved=won is True)

    async def story(*, resumed: bool) -> tuple[object, ...]:
        registry = memory_registry(now=Clock())
        await registry.discover("loop-a", [error(diff="-a.b\n+a and a.b")], EXTRACT)
        await looped(registry, "loop-0", case(), won=True)
        await registry.inject("loop-b", case(), about)
        if resumed:
            start = await _everything(registry)
            await end(registry, first, 10)
            assert await registry.reopened("loop-b", iterations=14, solved=True)
            assert await _everything(registry) == start
            assert not await registry.reopened("loop-b", iterations=14, solved=True)
        await end(registry, True, 14)
        assert not await registry.reopened("loop-b", iterations=14, solved=True), "it is known"
        return await _everything(registry)

    assert asyncio.run(story(resumed=True)) == asyncio.run(story(resumed=False))


@on_both
async def test_what_other_loops_counted_stays_when_one_goes_on(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    for n, won in enumerate((True, False, True)):
        await looped(registry, f"loop-{n}", case(), won=won, iterations=3 + n)
    assert await registry.reopened("loop-1", iterations=9, solved=True)
    await registry.applied("loop-1", found.id, won=True, iteration=9)
    await registry.ended("loop-1", iterations=9, solved=True)
    pattern = await registry.show(found.id)
    assert (pattern.counts.usage, pattern.counts.successes, pattern.counts.failures) == (4, 4, 0)
    assert (pattern.shown.loops, pattern.shown.iterations, pattern.shown.solved) == (3, 17, 3)
    assert (await registry.stats()).shown == pattern.shown
    assert sorted(source.loop for source in pattern.sources) == [
        "loop-0", "loop-1", "loop-2", "loop-a",
    ]  # fmt: skip


@on_both
async def test_a_person_who_adds_to_an_ended_loop_wants_it_to_go_on(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], EXTRACT)
    await registry.inject("loop-b", case(message="strange"), ALWAYS)
    await registry.ended("loop-b", iterations=5, solved=False)
    assert (await registry.inject("loop-b", case(), ALWAYS, manual=True)).text
    stats = await registry.stats()
    assert (stats.plain.loops, stats.manual.loops) == (0, 0)
    await registry.ended("loop-b", iterations=7, solved=False)
    assert await registry.reopened("loop-b", iterations=8, solved=True)
    await registry.ended("loop-b", iterations=8, solved=True)
    stats = await registry.stats()
    assert (stats.plain.loops, stats.manual.loops, stats.manual.iterations) == (0, 1, 8)


@pytest.mark.anyio
async def test_a_silencing_change_of_a_file_or_an_older_release_is_not_told() -> None:
    registry = memory_registry(now=Clock())
    quiet = error(diff="-  return user.name;\n+  return (user as any).name;")
    await registry.discover("loop-a", [quiet], EXTRACT)
    choice = await registry.candidates(case(), ALWAYS)
    assert choice.chosen == ()
    assert "only silences the check: it casts" in choice.refused[0][1]

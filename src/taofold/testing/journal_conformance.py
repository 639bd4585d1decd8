"""Numbered contracts that every journal must pass.

    @pytest.mark.parametrize("contract", contracts(persistent=True), ids=lambda c: c.__name__)
    def test_my_journal_keeps(contract, tmp_path):
        asyncio.run(contract(lambda: MyJournal(tmp_path / "log")))

A contract gets a function that opens the journal of one store, which is empty at first. A
persistent store is opened again, or twice at the same time. A contract raises `Broken` if it is not
kept. Knows nothing about the implementation of a journal.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from taofold.core.errors import Conflict
from taofold.log.journal import Fact, Journal
from taofold.testing.log_conformance.checks import Broken, expect_error, numbered, same

__all__ = ["Broken", "Contract", "Opener", "contracts"]

Opener: TypeAlias = Callable[[], Journal]
Contract: TypeAlias = Callable[[Opener], Awaitable[None]]

_ONE: Final = [(10, b'{"n":1}')]
# A journal keeps bytes: escapes and UTF-8 must come back unchanged.
_TWO: Final = [(20, b'{"n":2}'), (30, b'"\\u0000 \xc3\xa9"')]


async def c01_facts_come_back_as_written_and_in_order(opened: Opener) -> None:
    journal = opened()
    same(await journal.write("s", -1, _ONE), 0, "the first write returns")
    same(await journal.write("s", 0, _TWO, disk=True), 2, "the second write returns")
    facts = [Fact(n, at, body) for n, (at, body) in enumerate([*_ONE, *_TWO])]
    same(await journal.facts("s"), facts, "what was written")


async def c02_reading_starts_after_and_stops_at_a_limit(opened: Opener) -> None:
    journal = opened()
    many = [(n, b"%d" % n) for n in range(5000)]
    same(await journal.write("s", -1, many), 4999, "a long write returns")
    seqs = [fact.seq for fact in await journal.facts("s", after=1, limit=2)]
    same(seqs, [2, 3], "after=1, limit=2")
    same(len(await journal.facts("s")), 5000, "all of a long stream")
    same(len(await journal.facts("s", limit=3000)), 3000, "limit=3000")
    same([f.at for f in await journal.facts("s", after=4998)], [4999], "the last one")
    same(await journal.facts("s", after=4999), [], "after the last one")
    same(await journal.facts("s", after=2**40), [], "long after the last one")


async def c03_who_has_not_seen_the_last_fact_gets_a_conflict(opened: Opener) -> None:
    journal = opened()
    await expect_error(Conflict, journal.write("s", 0, _ONE), "behind a fact that is not there")
    await journal.write("s", -1, _ONE)
    for head in (-1, 1, 7):
        await expect_error(Conflict, journal.write("s", head, _TWO), f"seen {head}")
    same(len(await journal.facts("s")), 1, "facts after refused writes")
    same(await journal.write("s", 0, _TWO), 2, "who read on may write")


async def c04_writing_nothing_makes_nothing(opened: Opener) -> None:
    journal = opened()
    same(await journal.write("s", -1, []), -1, "no facts to a new stream")
    same(await journal.streams(), [], "the streams")
    await journal.write("s", -1, _ONE)
    same(await journal.write("s", 0, []), 0, "no facts to a stream")


async def c05_one_of_many_writers_wins_each_number(opened: Opener) -> None:
    journal = opened()
    calls = [journal.write("s", -1, [(n, b"1")]) for n in range(8)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    same(outcomes.count(0), 1, "winners")
    same(sum(isinstance(outcome, Conflict) for outcome in outcomes), 7, "conflicts")
    same(len(await journal.facts("s")), 1, "the facts")


async def c06_streams_are_listed_by_prefix_the_newest_first(opened: Opener) -> None:
    journal = opened()
    # `%` and another case: SQL's LIKE would read them as a pattern, or as equal.
    for n, name in enumerate(("loop/a", "loop/b", "patterns", "loop/c%", "LOOP/d")):
        await journal.write(name, -1, [(n, b"1")])
    await journal.write("loop/a", 0, [(9, b"2")])
    rows = await journal.streams("loop/")
    same([row.stream for row in rows], ["loop/c%", "loop/b", "loop/a"], "the prefix loop/")
    last = rows[-1]
    same((last.head, last.created_at, last.updated_at), (1, 0, 9), "a row")
    same([row.stream for row in await journal.streams("loop/c%")], ["loop/c%"], "no wildcards")
    same(len(await journal.streams()), 5, "all streams")


async def c07_a_dropped_stream_is_gone_and_may_begin_again(opened: Opener) -> None:
    journal = opened()
    await journal.write("s", -1, _TWO)
    await journal.write("other", -1, _ONE)
    await journal.drop("s")
    await journal.drop("never")
    same(await journal.facts("s"), [], "the dropped stream")
    same([row.stream for row in await journal.streams()], ["other"], "the streams")
    same(await journal.write("s", -1, _ONE), 0, "a new beginning")
    same([f.body for f in await journal.facts("s")], [_ONE[0][1]], "its facts")


async def c08_an_unknown_stream_is_empty(opened: Opener) -> None:
    same(await opened().facts("never"), [], "a stream that nobody wrote")


async def c09_names_are_data(opened: Opener) -> None:
    journal = opened()
    names = ["../x", "a b", "é", "'", "%", "x" * 1000, "n\nl"]
    for name in names:
        await journal.write(name, -1, _ONE)
    for name in names:
        same(len(await journal.facts(name)), 1, f"facts of {name[:9]!r}")


async def c10_everything_survives_and_two_openers_see_one_journal(opened: Opener) -> None:
    first, two = opened(), opened()
    await first.write("s", -1, _ONE, disk=True)
    same(await two.facts("s"), await first.facts("s"), "what the other opener sees")
    await two.write("s", 0, _TWO)
    await expect_error(Conflict, first.write("s", 0, _ONE), "the opener that fell behind")
    same(await first.facts("s"), await opened().facts("s"), "what a third one sees")


async def c11_facts_that_replace_all_others_keep_the_numbers(opened: Opener) -> None:
    journal = opened()
    same(await journal.write("new", -1, _TWO, alone=True), 1, "a new stream")
    await journal.write("s", -1, _TWO)
    await journal.write("s", 1, _ONE)
    await journal.write("other", -1, _TWO)
    behind = journal.write("s", 1, _ONE, alone=True)
    await expect_error(Conflict, behind, "a writer that fell behind")
    same(len(await journal.facts("s")), 3, "the facts after a conflict")
    same(await journal.write("s", 2, [], alone=True), 2, "no facts")
    same(len(await journal.facts("s")), 3, "the facts that nothing replaced")
    same(await journal.write("s", 2, _TWO, alone=True), 4, "the last number")
    same([f.seq for f in await journal.facts("s")], [3, 4], "the facts that are left")
    same([f.seq for f in await journal.facts("s", after=3)], [4], "the facts after 3")
    same(await journal.write("s", 4, _ONE), 5, "the next number")
    same([f.seq for f in await journal.facts("s")], [3, 4, 5], "a later fact deletes none")
    same(len(await journal.facts("other")), 2, "another stream")


_CONTRACTS: Final[dict[int, Contract]] = numbered(globals())
_PERSISTENT: Final = (10,)


def contracts(*, persistent: bool) -> tuple[Contract, ...]:
    """Returns the contracts for a journal; a `persistent` one must also outlive its opener."""
    return tuple([c for n, c in _CONTRACTS.items() if persistent or n not in _PERSISTENT])

"""Totals of spending equal the sum over the appended replies, on every log and in any order."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from taofold.core.events import Noted, Record, Replied
from taofold.core.values import Usage
from taofold.log.log import Log, RunRow, Spending, Window
from taofold.log.memory import MemoryLog
from taofold.log.spending import HOUR_MS, charges, nano_usd, scopes
from taofold.log.sqlite.log import SqliteLog
from tests import postgres

KINDS = ("memory", "sqlite", "postgres")


def opened(kind: str, folder: Path) -> Log:
    if kind == "memory":
        return MemoryLog()
    if kind == "sqlite":
        return SqliteLog(folder / "log.db", sync=lambda _: None)
    pytest.importorskip("psycopg", reason="psycopg is not installed (taofold[postgres])")
    from taofold.log.postgres import open_postgres

    return open_postgres(postgres.server().url())


def reply(run: str, seq: int, at: int, usage: Usage) -> Record:
    return Record(run, seq, at, Replied(key=str(seq), prompt="p", content="x", usage=usage))


USAGES = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**6),
    usd=st.none() | st.floats(0, 50),
)
NAMES = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=6)
TAGS = st.dictionaries(
    st.sampled_from(["team", "a.b", "x-1"]), st.sampled_from(["x", "y=z", "tag:team=x", "é"])
)
RUNS = st.lists(
    st.tuples(
        NAMES,
        st.sampled_from(["a", "b:c", "principal:ann"]),
        TAGS,
        st.lists(st.tuples(st.integers(0, 5 * HOUR_MS), USAGES), max_size=4),
        st.lists(st.tuples(st.integers(0, 5 * HOUR_MS), USAGES), max_size=4),
    ),
    max_size=4,
)


@pytest.mark.parametrize("kind", KINDS)
def test_totals_are_the_sum_over_the_appended_replies(kind: str) -> None:
    async def check(runs: list[Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = opened(kind, Path(folder))
            expected: dict[tuple[str, int], Spending] = {}
            for place, (principal, agent, tags, old, new) in enumerate(runs):
                run = f"r{place}"
                row = RunRow(run, agent=agent, principal=principal, tags=tags)
                history = [reply(run, seq, at, usage) for seq, (at, usage) in enumerate(old)]
                await log.create(row, records=history, owner="me")
                appended = [
                    reply(run, seq, at, usage) for seq, (at, usage) in enumerate(new, len(old))
                ]
                await log.append(run, 1, appended)
                for record in appended:
                    assert isinstance(record.event, Replied)
                    usage = record.event.usage
                    unpriced = usage.tokens if usage.usd is None else 0
                    cost = Spending(usage.tokens, unpriced, nano_usd(usage.usd or 0.0))
                    for scope in scopes(row):
                        at = scope, record.at // HOUR_MS
                        expected[at] = expected.get(at, Spending()) + cost
                if place % 2:
                    await log.delete(run)  # the money stays spent
            known = sorted({scope for scope, _ in expected})
            for since, until in ((0, 6), (1, 3), (2, 2)):
                sums = [
                    sum(
                        (expected.get((scope, hour), Spending()) for hour in range(since, until)),
                        Spending(),
                    )
                    for scope in known
                ]
                windows = [Window(scope, since, until) for scope in known]
                assert await log.spent([*windows, Window("no", 0, 9)]) == [*sums, Spending()]
                listed = await log.spenders("", since, until)
                assert {s: v for s, v in listed.items() if v != Spending()} == {
                    scope: spent
                    for scope, spent in zip(known, sums, strict=True)
                    if spent != Spending()
                }
            if kind == "postgres":
                inner: Any = log
                before = await log.spenders("tag:", 0, 9)
                await inner.compact()
                assert await log.spenders("tag:", 0, 9) == before
            await log.close()

    @given(RUNS)
    @settings(max_examples=60 if kind != "postgres" else 12, deadline=None)
    def holds(runs: list[Any]) -> None:
        asyncio.run(check(runs))

    holds()


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_append_costs_nothing(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        log = opened(kind, tmp_path)
        await log.create(RunRow("r", principal="ann"), owner="me")
        paid = reply("r", 0, 5, Usage(3, 4, usd=0.5))
        assert await log.append("r", 1, [paid])
        for epoch, record in ((1, paid), (2, replace(paid, seq=1)), (1, replace(paid, seq=5))):
            with pytest.raises(Exception, match="Nothing was written"):
                await log.append("r", epoch, [record])
        free = reply("r", 1, 5, Usage())
        note = Record("r", 2, 5, Noted(key="0", kind="x"))
        assert await log.append("r", 1, [free, note])
        spent = await log.spenders("", 0, 1)
        assert set(spent) == {"all", "principal:ann", "agent:"}
        assert set(spent.values()) == {Spending(7, 0, 500_000_000)}
        await log.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_no_reply_overflows_a_total(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        log = opened(kind, tmp_path)
        await log.create(RunRow("r"), owner="me")
        for seq in range(3):
            await log.append("r", 1, [reply("r", seq, 5, Usage(2**62, 2**62, usd=1e300))])
        (spent,) = await log.spent([Window("all", 0, 1)])
        assert spent == Spending(3 * 10**12, 0, 3 * 10**15)
        await log.close()

    asyncio.run(main())


def test_charges_are_summed_by_hour() -> None:
    records = [reply("r", seq, at, Usage(seq + 1)) for seq, at in enumerate((0, 1, HOUR_MS))]
    assert [charge[:2] for charge in charges(records)] == [(0, 3), (1, 3)]

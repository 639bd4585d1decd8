"""Measures what the chain adds to an appended record.

    python bench/evidence/cost.py [--rounds N]

Two SQLite logs in one process take the same records in turn: one chains them, the other stores
them without leaf and link. A figure is CPU time. The difference is the median of pairs of batches,
because a busy machine slows both batches of a pair.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from taofold.core import events as e
from taofold.core.events import Record
from taofold.core.values import Action, Observation, Thought, Usage
from taofold.evidence import chain
from taofold.log.log import RunRow
from taofold.log.sqlite import statements
from taofold.log.sqlite.log import SqliteLog

APPENDS, RECORDS = 100, 5
"""Appends in a batch, and records in an append."""


def records(run: str, first: int) -> list[Record]:
    """One turn of an agent: five records of together about 1.3 kB."""
    turn = (
        e.Replied(
            key="1",
            prompt="77db" * 5,
            content="Thought: " + "I should look this up. " * 15,
            usage=Usage(input_tokens=1200, output_tokens=33, usd=0.00123),
            model="openai:gpt",
            ms=812.4,
        ),
        e.Proposed(
            key="2",
            thought=Thought(content="I think so. " * 8),
            actions=(Action("search", {"q": "x", "n": 3}, rationale="because"),),
        ),
        e.Decided(key="2", verdict="allow", reason="read"),
        e.Started(key="2"),
        e.Observed(
            key="2",
            observation=Observation(
                {"a": [1, 2, 3], "text": "hello " * 30, "ok": True}, duration_ms=12.3
            ),
        ),
    )
    return [Record(run, seq, 1_769_337_000_000 + seq, each) for seq, each in enumerate(turn, first)]


class UnchainedLog(SqliteLog):
    """A log that stores records without links. Append only within `unchained`."""

    def _last_link(self, *_: object) -> bytes:
        return b""


@contextmanager
def unchained() -> Generator[None]:
    """Computes no leaf and no link in the block."""
    leaves, links = statements.leaves, chain.links
    statements.leaves = lambda run, records, bodies: [b""] * len(records)
    chain.links = lambda previous, leaves: leaves
    try:
        yield
    finally:
        statements.leaves, chain.links = leaves, links


async def cost(log: SqliteLog, turns: Sequence[list[Record]]) -> float:
    """Returns the CPU microseconds per record of appending `turns`."""
    with unchained() if isinstance(log, UnchainedLog) else nullcontext():
        start = time.process_time()
        for turn in turns:
            await log.append("r", 1, turn)
        return (time.process_time() - start) / sum(map(len, turns)) * 1e6


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    pairs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        logs = [kind(Path(folder) / kind.__name__, sync=id) for kind in (SqliteLog, UnchainedLog)]
        for log in logs:
            await log.create(RunRow("r", "running"), owner="me")
        seq = 0
        for number in range(rounds):
            turns = [records("r", seq + RECORDS * turn) for turn in range(APPENDS)]
            seq += RECORDS * APPENDS
            # Each side is first in every second pair.
            costs = {log: await cost(log, turns) for log in logs[:: 1 - 2 * (number % 2)]}
            pairs.append((costs[logs[0]], costs[logs[1]]))
        for log in logs:
            await log.close()
    added = [on - off for on, off in pairs]
    low, middle, high = statistics.quantiles(added)
    print(f"without chain {statistics.median([off for _, off in pairs]):6.2f} µs per record")
    print(f"with chain    {statistics.median([on for on, _ in pairs]):6.2f} µs per record")
    print(f"difference    {middle:6.2f} µs per record (quartiles {low:.2f} to {high:.2f})")
    print(f"ratio         {statistics.median([on / off for on, off in pairs]):6.2f}")
    print(f"{rounds} pairs of {APPENDS} appends, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())

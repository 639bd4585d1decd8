"""A process that writes to a log until it is stopped or killed: `worker.py FILE RUN COUNT`.

It prints each sequence number after the append has returned. If another process took the run, it
prints "conflict" and continues with a new claim.
"""

import asyncio
import sys

from taofold.core.errors import Conflict
from taofold.core.events import Record, Updated
from taofold.log.sqlite.log import SqliteLog


async def main(path: str, run: str, count: int) -> None:
    log = SqliteLog(path)
    epoch = (await log.claim(run, "worker")).epoch
    head = (await log.row(run)).events
    done = 0
    while done < count:
        records = [Record(run, head + i, 1, Updated(name="n", value=done)) for i in range(3)]
        try:
            await log.append(run, epoch, records, disk=done % 10 == 9)
        except Conflict:
            print("conflict", flush=True)
            epoch = (await log.claim(run, "worker")).epoch
            head = (await log.row(run)).events
            continue
        head += len(records)
        done += 1
        print(head - 1, flush=True)
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

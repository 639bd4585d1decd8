"""Measures our part of a LangChain tool call: `python -m bench.bridges.langchain_calls`.

The same tool is called directly (`ainvoke` with a tool call, `invoke` in a thread) and through our
wrapper, alternately. The figures are medians of the times of single calls.
"""

import asyncio
import statistics
import time

from langchain_core.tools import tool

from taofold.bridges.langchain import tool_of
from taofold.tools import RunContext

ROUNDS = 1000


@tool
def count(text: str, times: int = 1) -> int:
    """Count characters."""
    return len(text) * times


@tool
async def count_async(text: str, times: int = 1) -> int:
    """Count characters."""
    return len(text) * times


async def main() -> None:
    given = {"text": "some words", "times": 3}
    for thing in (count, count_async):
        ours, direct, bridged = tool_of(thing), [], []
        request = {"type": "tool_call", "name": thing.name, "args": given, "id": "1"}
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            await thing.ainvoke(request)
            direct.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            await ours.bind(given).run(RunContext(deps=None))
            bridged.append(time.perf_counter() - begin)
        one, other = statistics.median(direct) * 1e6, statistics.median(bridged) * 1e6
        print(
            f"{thing.name:12} direct {one:6.0f} µs, through us {other:6.0f} µs, {other - one:+.0f}"
        )


if __name__ == "__main__":
    asyncio.run(main())

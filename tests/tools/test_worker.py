"""The pool of threads for synchronous tools."""

import asyncio
import threading

import pytest

from taofold.tools.worker import Workers

pytestmark = pytest.mark.anyio


async def test_hanging_calls_do_not_starve_others() -> None:
    pool, release = Workers(), threading.Event()
    hanging = [asyncio.ensure_future(pool.run(release.wait, 30)) for _ in range(40)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(pool.run(lambda: 7), 5) == 7
    release.set()
    assert await asyncio.gather(*hanging) == [True] * 40


async def test_threads_are_reused() -> None:
    pool = Workers(idle_seconds=30)
    names = {await pool.run(threading.get_ident) for _ in range(50)}
    assert len(names) < 25  # a result may arrive before its thread counts as free again


async def test_threads_retire_when_idle() -> None:
    pool = Workers(idle_seconds=0.05)
    assert await pool.run(lambda: 1) == 1
    for _ in range(200):
        if pool.threads == 0:
            break
        await asyncio.sleep(0.01)
    assert pool.threads == 0
    assert await pool.run(lambda: 1) == 1


@pytest.mark.scenario("PEER-24")
async def test_a_call_cancelled_before_it_began_never_begins() -> None:
    pool, release, begun = Workers(most=1), threading.Event(), threading.Event()
    busy = asyncio.ensure_future(pool.run(release.wait, 30))
    waiting = asyncio.ensure_future(pool.run(begun.set))
    await asyncio.sleep(0)
    waiting.cancel()
    release.set()
    assert await busy is True
    assert await pool.run(lambda: 1) == 1  # the one thread has passed the cancelled call
    assert not begun.is_set()


async def test_beyond_the_most_threads_calls_wait_their_turn() -> None:
    pool = Workers(most=2)
    assert await asyncio.gather(*(pool.run(int, n) for n in range(50))) == list(range(50))
    assert pool.threads <= 2

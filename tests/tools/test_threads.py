"""The pool of threads for synchronous tools."""

import asyncio
import subprocess
import sys
import threading

import pytest

from taofold.tools.threads import Exhausted, Workers
from tests.ports import PATIENCE

pytestmark = pytest.mark.anyio


async def test_hanging_calls_do_not_starve_others() -> None:
    pool, release = Workers(), threading.Event()
    hanging = [asyncio.ensure_future(pool.run(release.wait, PATIENCE)) for _ in range(40)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(pool.run(lambda: 7), PATIENCE / 2) == 7
    release.set()
    assert await asyncio.gather(*hanging) == [True] * 40


async def test_threads_are_reused() -> None:
    pool = Workers(idle_seconds=30)
    names = {await pool.run(threading.get_ident) for _ in range(50)}
    assert len(names) < 25  # a result may arrive before its thread counts as free again


async def test_threads_retire_when_idle() -> None:
    pool = Workers(idle_seconds=0.05)
    assert await pool.run(lambda: 1) == 1
    async with asyncio.timeout(PATIENCE):
        while pool.threads:  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(0.01)
    assert await pool.run(lambda: 1) == 1


@pytest.mark.scenario("PEER-24")
async def test_a_call_cancelled_before_it_began_never_begins() -> None:
    pool, release, begun = Workers(most=1), threading.Event(), threading.Event()
    busy = asyncio.ensure_future(pool.run(release.wait, PATIENCE))
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


async def test_calls_that_hang_are_counted_and_said() -> None:
    """Mutants: they are not counted; their end is not counted; others wait for them for ever."""
    pool, release = Workers(most=2), threading.Event()
    begun = [threading.Event(), threading.Event()]

    def hang(number: int) -> None:
        begun[number].set()
        release.wait(PATIENCE)

    for number in range(2):
        call = asyncio.ensure_future(pool.run(hang, number))
        await asyncio.to_thread(begun[number].wait, PATIENCE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert pool.hanging == number + 1
    with pytest.raises(Exhausted, match="all 2 threads for tools hang"):
        await pool.run(lambda: 7)
    release.set()
    async with asyncio.timeout(PATIENCE):
        while pool.hanging:  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(0.001)
    assert await pool.run(lambda: 7) == 7


_SCRIPT = """
import asyncio, signal
from taofold.tools.threads import run_now

async def work():
    try:
        {interrupt}
        await asyncio.sleep(60)
    finally:
        print("cleaned up", flush=True)

async def caller():
    run_now(work())

{call}
"""
_FROM_THE_LOOP = "signal.raise_signal(signal.SIGINT)"
_FROM_A_THREAD = "import os; os.kill(os.getpid(), signal.SIGINT)"


@pytest.mark.parametrize(
    ("interrupt", "call"),
    [
        (_FROM_THE_LOOP, "run_now(work())"),
        # Inside of a running loop the work is in another thread than the signal.
        (_FROM_A_THREAD, "asyncio.run(caller())"),
        # As in a notebook: only KeyboardInterrupt ends the wait.
        (
            _FROM_A_THREAD,
            "loop = asyncio.new_event_loop(); loop.run_until_complete(caller())",
        ),
    ],
    ids=["alone", "in a loop", "in a notebook"],
)
def test_ctrl_c_cancels_the_work_and_ends_the_call(interrupt: str, call: str) -> None:
    """Mutant: the thread of a call inside of a loop goes on after Ctrl-C."""
    code = _SCRIPT.format(interrupt=interrupt, call=call)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == "cleaned up\n"
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    if call == "run_now(work())":
        assert "CancelledError" not in done.stderr, "the cancelled tasks are no news"

"""The one bridge from code that is not async."""

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end. Inside a running loop it gets a thread and a loop of its own."""
    if not _in_loop():
        # Two loops cannot run in one thread, so inside a loop another thread gets its own.
        return asyncio.run(work)
    values: list[T] = []
    errors: list[BaseException] = []

    def drive() -> None:
        try:
            values.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    # A thread begins with an empty context: the caller's trace and settings go along.
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: context.run(drive), name="taofold-run-sync", daemon=True
    )
    thread.start()
    # Blocks the caller's loop: that is what a call that is not async does.
    thread.join()
    if errors:
        raise errors[0]
    return values[0]

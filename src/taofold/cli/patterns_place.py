"""Opens the registry of the project for one command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from taofold.cli.outcome import say

if TYPE_CHECKING:
    from taofold.patterns.registry import Registry

T = TypeVar("T")


def with_registry(work: "Callable[[Registry], Awaitable[T]]", *, create: bool = False) -> T:
    """Do `work` with the project's registry.

    Raises:
        ConfigError: there is no store yet, and it is not to be created.
        LogError: it cannot be used.
    """
    from taofold.cli import place
    from taofold.logs.registry import open_registry

    async def done() -> T:
        log = place.open_store(create=create, kind="patterns")
        registry = open_registry(place.home() / place.FILE)
        try:
            result = await work(registry)
            for fault in await registry.faults():
                say(f"warning: {fault}")
            return result
        finally:
            await registry.close()
            await log.close()

    return asyncio.run(done())

"""Opens the registry of the project for one command."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from taofold.cli.outcome import say
from taofold.core.errors import ConfigError

if TYPE_CHECKING:
    from taofold.learning.registry import Registry
    from taofold.learning.retrieval.meaning import Embedder

T = TypeVar("T")

EMBEDDINGS: Final = "TAOFOLD_EMBEDDINGS"
"""Names a model of sentences: `minilm`, or `MODEL@URL` for a server with `/embeddings`."""


def embedder() -> "Embedder | None":
    """The model of sentences that the environment names, if it names one.

    Raises:
        ConfigError: it names none that there is, with what to install or to write.
    """
    said = os.environ.get(EMBEDDINGS, "").strip()
    if not said:
        return None
    from taofold.bridges.embeddings import Embedding, minilm, served

    if said == "minilm":
        return Embedding(minilm(), said)
    model, _, url = said.partition("@")
    if not model or not url:
        raise ConfigError(
            f"{EMBEDDINGS} must be minilm or MODEL@URL, as in "
            f"nomic-embed-text@http://127.0.0.1:11434/v1, not {said[:100]!r}"
        )
    return Embedding(served(model, base_url=url), said)


def with_registry(work: "Callable[[Registry], Awaitable[T]]", *, create: bool = False) -> T:
    """Do `work` with the project's registry.

    Raises:
        ConfigError: there is no store yet, and it is not to be created.
        LogError: it cannot be used.
    """
    from taofold.cli import place
    from taofold.log.adapters import registry_beside

    async def done() -> T:
        log = place.open_store(create=create, kind="patterns")
        registry = registry_beside(log)
        try:
            result = await work(registry)
            for fault in await registry.faults():
                say(f"warning: {fault}")
            return result
        finally:
            await registry.close()
            await log.close()

    return asyncio.run(done())

"""A registry with a model of sentences: meaning brings forward what words alone leave behind."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import json
from tests.learning.make import ALWAYS, EXTRACT, Clock, case, error

from taofold.core.errors import ConfigError, ModelError
from taofold.learning.registry import Registry
from taofold.learning.retrieval.meaning import sense
from taofold.learning.settings import Injection
from taofold.log.patterns.stores import memory_registry, open_registry

SIDES = ("payment", "refund"), ("parser", "token")
"""Words that mean the same to the model below."""


class Meaning:
    """A model that knows two meanings; it counts what it is asked."""

    def __init__(self, name: str = "two", more: int = 0, fault: str = "") -> None:
        self.name, self.more, self.fault = name, more, fault
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fault:
            raise ModelError(self.fault, kind="network")
        self.asked += texts
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> list[float]:
        found = [float(any(word in text for word in side)) for side in SIDES]
        length = sum(found) ** 0.5 or 1.0
        return [*(x / length for x in found), *([0.0] * self.more)]


ABOUT = case("The refund is wrong in the invoice of a late customer")
DRAFTS = [
    error(name, "Cannot read property '.*' of null", fix=f"{what} {name}", code=f"{what} {name}")
    for name, what in (("Order", "parser"), ("Sign", "payment"))
]


async def filled(registry: Registry) -> Registry:
    await registry.discover("loop-a", DRAFTS, EXTRACT)
    return registry


async def figures(registry: Registry) -> dict[str, float]:
    choice = await registry.candidates(ABOUT, Injection())
    return {one.pattern.name: one.relevance for one in choice.chosen}


def opened(tmp_path: Path, store: str, model: Meaning | None) -> Registry:
    if store == "memory":
        return memory_registry(now=Clock(), embedder=model)
    return open_registry(tmp_path / "log.db", now=Clock(), embedder=model)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_of_patterns_that_words_find_alike_the_one_that_means_the_same_comes_first(
    tmp_path: Path, store: str
) -> None:
    async def main() -> None:
        plain = await filled(memory_registry(now=Clock()))
        without = await figures(plain)
        model = Meaning()
        registry = await filled(opened(tmp_path, store, model))
        found = await figures(registry)
        assert [*found] == ["Sign", "Order"]
        assert found["Sign"] > without["Sign"] == without["Order"] > found["Order"]
        told = await registry.inject("loop-b", ABOUT, ALWAYS)
        assert told.ids[0].startswith("pat-error-sign")
        await registry.close()

    asyncio.run(main())


def test_each_text_is_asked_about_once_also_by_another_process(tmp_path: Path) -> None:
    async def ask(model: Meaning) -> list[str]:
        registry = open_registry(tmp_path / "log.db", now=Clock(), embedder=model)
        await filled(registry)
        await figures(registry)
        await registry.close()
        return model.asked

    assert len(asyncio.run(ask(Meaning()))) == 3, "the case and two patterns"
    assert len(asyncio.run(ask(Meaning()))) == 1, "the case"
    assert len(asyncio.run(ask(Meaning("other")))) == 3, "another model has its own vectors"


def test_a_loop_that_was_told_is_told_the_same_without_asking_the_model() -> None:
    async def main() -> None:
        model = Meaning()
        registry = await filled(memory_registry(now=Clock(), embedder=model))
        first = await registry.inject("loop-b", ABOUT, ALWAYS)
        model.asked.clear()
        again = await registry.inject("loop-b", ABOUT, ALWAYS)
        assert (again.text, model.asked) == (first.text, [])
        await registry.inject("loop-c", ABOUT, Injection(enabled=False))
        assert model.asked == []

    asyncio.run(main())


def test_a_model_that_fails_costs_its_signal_and_says_so() -> None:
    async def main() -> None:
        plain = await filled(memory_registry(now=Clock()))
        broken = Meaning(fault="cannot talk to 127.0.0.1")
        registry = await filled(memory_registry(now=Clock(), embedder=broken))
        assert await figures(registry) == await figures(plain)
        told = await registry.inject("loop-b", ABOUT, ALWAYS)
        assert told.ids
        assert told.reasons == (("two", "meanings were not compared: cannot talk to 127.0.0.1"),)

    asyncio.run(main())


def test_vectors_of_two_models_under_one_name_are_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        registry = open_registry(tmp_path / "log.db", now=Clock(), embedder=Meaning())
        await figures(await filled(registry))
        await registry.close()
        other = open_registry(tmp_path / "log.db", now=Clock(), embedder=Meaning(more=3))
        with pytest.raises(ConfigError, match="'two' has 5 dimensions"):
            await figures(other)
        await other.close()

    asyncio.run(main())


def test_a_model_that_leaves_texts_out_is_an_error() -> None:
    class Lazy(Meaning):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return (await super().embed(texts))[:-1]

    async def main() -> None:
        registry = await filled(memory_registry(now=Clock(), embedder=Lazy()))
        with pytest.raises(ConfigError, match="gave 2 vectors to 3 texts"):
            await figures(registry)

    asyncio.run(main())


def test_vectors_are_no_facts_and_leave_with_no_export(tmp_path: Path) -> None:
    async def exported(model: Meaning | None, name: str) -> bytes:
        registry = open_registry(tmp_path / name, now=Clock(), embedder=model)
        await figures(await filled(registry))
        made = json.encode(await registry.export())
        await registry.close()
        return made

    assert asyncio.run(exported(Meaning(), "a.db")) == asyncio.run(exported(None, "b.db"))


@pytest.mark.parametrize(
    ("cosine", "part"),
    [(-1.0, 0.0), (0.2, 0.0), (0.5, 0.5), (0.8, 1.0), (1.0, 1.0), (float("nan"), 0.0)],
)
def test_a_cosine_counts_from_where_texts_are_related(cosine: float, part: float) -> None:
    assert sense(cosine) == pytest.approx(part)

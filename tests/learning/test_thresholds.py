"""Each threshold of the settings decides something: on one side of it this, on the other that."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from taofold.learning.retrieval.relevance import likeness
from taofold.learning.settings import Extraction, Injection, Learning
from taofold.log.patterns.stores import memory_registry
from taofold.loop.learner import CrossLoopLearner
from taofold.loop.state import LoopState
from taofold.loop.values import LoopRequest

from .make import ALWAYS, APART, EXTRACT, case, error, looped, several


@pytest.mark.scenario("XTL-29")
@pytest.mark.document_item("001.extract.merge", "001.key.extraction.similarity")
def test_patterns_merge_above_the_similarity_threshold_and_not_at_it() -> None:
    one = error(diff="-return user.name\n+return user and user.name")
    other = error("Null again", diff="-return item.size\n+return item and item.size and 1")
    value = likeness(one, other)
    assert 0.5 < value < 1.0

    async def kept(threshold: float) -> int:
        registry = memory_registry()
        for loop, draft in (("loop-a", one), ("loop-b", other)):
            await registry.discover(loop, [draft], Extraction(similarity_threshold=threshold))
        return len(await registry.patterns())

    assert asyncio.run(kept(value - 0.01)) == 1
    assert asyncio.run(kept(value)) == 2
    assert Extraction().similarity_threshold == 0.80


@pytest.mark.scenario("XTL-29")
@pytest.mark.parametrize(("uses", "told"), [(2, False), (3, True)])
@pytest.mark.document_item("001.key.extraction.uses")
def test_a_rate_is_judged_after_so_many_uses(uses: int, told: bool) -> None:
    """One discovery and one failure: two uses, half of them successful."""

    async def story() -> bool:
        extraction = Extraction(min_usage_count_for_evaluation=uses)
        mind = CrossLoopLearner(memory_registry(), Learning(extraction, ALWAYS))
        await mind.registry.discover("loop-a", [error()], extraction)
        await looped(mind.registry, "loop-b", case(), won=False)
        return bool((await mind.inject("loop-c", case(), ALWAYS)).patterns)

    assert asyncio.run(story()) is told


@pytest.mark.scenario("XTL-29")
@pytest.mark.parametrize(
    ("top", "most", "shown"), [(3, 10, 3), (9, 4, 4), (5, 10, 5), (50, 10, 10)]
)
@pytest.mark.document_item("001.key.injection.top", "001.key.injection.most")
def test_the_smaller_of_two_limits_says_how_many_are_shown(top: int, most: int, shown: int) -> None:
    async def story() -> int:
        registry = memory_registry()
        drafts, failing = several([chr(ord("a") + n) * 5 for n in range(12)])
        await registry.discover("loop-a", drafts, APART)
        limits = Injection(top_k_patterns=top, max_patterns_injected=most, control_share=0.0)
        return len((await registry.inject("loop-b", failing, limits)).ids)

    assert asyncio.run(story()) == shown


@pytest.mark.scenario("XTL-08")
@pytest.mark.document_item("001.key.extraction.auto")
def test_without_automatic_extraction_a_loop_that_ends_writes_nothing() -> None:
    class Nothing:
        async def records(self, run: str) -> tuple[()]:
            return ()

        async def text(self, snapshot: str, path: str) -> None:
            return None

    async def loops(extraction: Extraction) -> int:
        mind = CrossLoopLearner(memory_registry(), Learning(extraction))
        ended = LoopState("completed", LoopRequest("Fix it", ("make test",), str(Path("/nowhere"))))
        await mind.learn("loop-1", replace(ended), Nothing())
        return len(await mind.registry.loops())

    assert asyncio.run(loops(Extraction(auto_extract_on_completion=False))) == 0
    assert asyncio.run(loops(EXTRACT)) == 1

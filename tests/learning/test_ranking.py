"""Selection of lessons: relevance x local evidence, and only lessons expected to help."""

import pytest
from msgspec.structs import replace

from taofold.learning.patterns.pattern import ImportClaim, PatternSource, UseCounts
from taofold.learning.retrieval.choice import effectiveness
from taofold.learning.settings import Injection
from tests.learning.make import (
    ALWAYS,
    APART,
    EXTRACT,
    Clock,
    Opener,
    anti,
    approach,
    case,
    error,
    looped,
    on_both,
    several,
    template,
)

FIXES = (
    "guard the argument", "parse it earlier", "default to empty", "raise on absence",
    "await the promise", "rename the field", "narrow the union", "copy the record",
    "cache the lookup", "drop the cast", "load the schema", "bind the method", "freeze the map",
    "sort the rows", "skip blanks", "retry the fetch", "close the stream", "split the batch",
    "trim the tail", "lock the row",
)  # fmt: skip


@on_both
@pytest.mark.scenario("XTL-09")
@pytest.mark.document_item(
    "001.capability.matching",
    "001.inject.signatures",
    "001.inject.effectiveness",
    "001.inject.rank",
    "001.inject.top",
    "001.key.injection.top",
)
async def test_the_best_few_are_shown_in_order_and_none_twice(opener: Opener, clock: Clock) -> None:
    registry = opener()
    drafts, failing = several(FIXES)
    await registry.discover("loop-a", drafts, APART)
    assert len(await registry.patterns()) == 20
    for top, most in ((5, 5), (50, 10), (0, 0)):
        wanted = Injection(top_k_patterns=top, control_share=0.0)
        choice = await registry.candidates(failing, wanted)
        assert len(choice.chosen) == most
        scores = [one.relevance * one.effectiveness for one in choice.chosen]
        assert scores == sorted(scores, reverse=True)
        ids = [one.pattern.id for one in choice.chosen]
        assert len({*ids}) == len(ids)
        lessons = await registry.inject(f"loop-{top}", failing, wanted)
        assert lessons.ids == tuple(ids)
        assert not any(identity in lessons.text for identity in ids)


@on_both
@pytest.mark.document_item("001.inject.duplicates")
async def test_two_names_of_one_lesson_are_shown_once(opener: Opener, clock: Clock) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], APART)
    await registry.discover("loop-b", [error("The same again")], APART)
    lessons = await registry.inject("loop-c", case(), ALWAYS)
    assert len(lessons.ids) == 1
    assert [why for _, why in lessons.reasons] == [f"it has the same content as {lessons.ids[0]}"]


@on_both
@pytest.mark.scenario("XTL-09")
async def test_where_none_is_expected_to_help_none_is_shown(opener: Opener, clock: Clock) -> None:
    registry = opener()
    drafts, failing = several(FIXES[:5])
    found = await registry.discover("loop-a", drafts, APART)
    every = Injection(min_success_rate=0.0, control_share=0.0)
    for n in range(3):
        shown = await registry.inject(f"loop-{n}", failing, every, manual=True)
        assert {*shown.ids} == {one.id for one in found}
        for one in found:
            await registry.applied(f"loop-{n}", one.id, won=False)
        await registry.ended(f"loop-{n}", iterations=3, solved=False)
    wanted = Injection(top_k_patterns=50, control_share=0.0)
    choice = await registry.candidates(failing, wanted)
    assert choice.chosen == ()
    assert {why for _, why in choice.refused} == {"its success rate 0.25 after 4 uses is below 0.6"}
    lessons = await registry.inject("loop-x", failing, wanted)
    assert (lessons.ids, lessons.text) == ((), "")


@on_both
@pytest.mark.scenario("XTL-10")
@pytest.mark.document_item("001.inject.min-rate", "001.key.injection.rate", "001.trouble.reasons")
async def test_a_low_rate_counts_only_after_enough_uses(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    await looped(registry, "loop-b", case(), won=False)
    choice = await registry.candidates(case(), ALWAYS)
    assert [one.pattern.counts.rate for one in choice.chosen] == [0.5], (
        "two uses are too few to judge"
    )
    any_rate = Injection(min_success_rate=0.0, control_share=0.0)
    for n, won in enumerate((True, False, True, False)):
        await registry.inject(f"loop-{n}", case(), any_rate)
        await registry.applied(f"loop-{n}", found.id, won=won)
        await registry.ended(f"loop-{n}", iterations=3, solved=won)
    refused = dict((await registry.candidates(case(), ALWAYS)).refused)
    assert refused == {found.id: "its success rate 0.50 after 6 uses is below 0.6"}
    lower = Injection(min_success_rate=0.5, control_share=0.0)
    assert (await registry.inject("loop-x", case(), lower)).ids == (found.id,)


@on_both
@pytest.mark.scenario("XTL-11")
@pytest.mark.document_item("001.inject.anti")
async def test_anti_patterns_come_by_failure_rate_and_are_never_filtered(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    drafts = [
        anti("Casting", "Cast the property away in user validation", "Narrow the type"),
        anti("Guessing", "Guess the type of the property in user validation", "Read the schema"),
    ]
    first, second = await registry.discover("loop-a", drafts, EXTRACT)
    for n in range(4):  # the first one worked out after all, and is still a warning
        await registry.inject(f"loop-{n}", case(message=""), ALWAYS, manual=True)
        assert await registry.applied(f"loop-{n}", first.id, won=n % 2 == 0)
        await registry.ended(f"loop-{n}", iterations=3, solved=True)
    lessons = await registry.inject("loop-x", case(message=""), ALWAYS)
    assert {*lessons.ids} == {first.id, second.id}
    text = lessons.text[lessons.text.index("### Anti-Patterns to Avoid") :]
    assert text.index("Guessing") < text.index("Casting")
    assert "(shown to 4)" in text
    assert "(60% failure rate, 3/5; shown to 4)" in text
    assert "- Better alternative: Narrow the type" in text


@on_both
@pytest.mark.scenario("XTL-12")
@pytest.mark.document_item(
    "001.key.injection.errors",
    "001.key.injection.successes",
    "001.key.injection.anti",
    "001.key.injection.templates",
    "001.trouble.reasons",
    "001.inject.templates",
)
async def test_kinds_can_be_switched_off(opener: Opener, clock: Clock) -> None:
    registry = opener()
    about = case("Guard the validation of user names", "", language="python")
    drafts = [
        template("Guard", "if {{name}} is None: raise", "Guard the validation of a user name"),
        approach("Guarding", "Guard the validation of user names first"),
        anti("Skipping", "Skip the validation of user names"),
        error("Validation", "user names lack validation guard", language="python"),
    ]
    found = [
        one
        for n, draft in enumerate(drafts)  # an approach beside its own loop's lesson adds nothing
        for one in await registry.discover(f"taught-{n}", [draft], EXTRACT)
    ]
    wide = Injection(control_share=0.0)
    ids = (await registry.inject("loop-0", about, wide)).ids
    assert {*ids} == {one.id for one in found}
    for n, name in enumerate(
        ("code_templates", "success_patterns", "anti_patterns", "error_patterns")
    ):
        without = Injection(**{f"include_{name}": False}, control_share=0.0)  # type: ignore[arg-type]
        lessons = await registry.inject(f"off-{n}", about, without)
        assert {*ids} - {*lessons.ids} == {found[n].id}
        assert (found[n].id, "its kind is switched off") in lessons.reasons


@on_both
@pytest.mark.scenario("XTL-13")
@pytest.mark.document_item("001.inject.quicker")
async def test_of_equal_approaches_the_quicker_comes_first(opener: Opener, clock: Clock) -> None:
    registry = opener()
    drafts = [
        approach(f"Way {n}", "Split the validation of users by type", average=average)
        for n, average in enumerate((4.0, 2.5, 3.0))
    ]
    for n, draft in enumerate(drafts):
        await registry.discover(f"loop-{n}", [draft], APART)
    about = case("Split the validation of users by type", "")
    choice = await registry.candidates(about, Injection(top_k_patterns=1, control_share=0.0))
    assert [one.pattern.name for one in choice.chosen] == ["Way 1"]


@on_both
@pytest.mark.scenario("XTL-25")
@pytest.mark.document_item("001.capability.matching", "001.inject.embedding")
async def test_generic_words_alone_bring_nothing(opener: Opener, clock: Clock) -> None:
    registry = opener()
    drafts = [
        error(
            "Fix the failing tests", "the test failed with an error", kind="", fix="Fix the code"
        ),
        approach("Make the tests pass", "Run the tests, fix the code, run the tests again"),
        template("Function", "def {{name}}(value):\n    return value", "Add a new function"),
        anti("Change the tests", "Change the test file until the tests pass"),
    ]
    await registry.discover("loop-a", drafts, EXTRACT)
    about = case("Make the failing tests of the invoice ledger pass", "", language="")
    lessons = await registry.inject("loop-b", about, ALWAYS)
    assert lessons.text == ""
    assert lessons.reasons == ()
    for n in range(20):  # where loops take long, little is needed to beat doing without
        await looped(registry, f"plain-{n}", case("Paint", ""), won=None, iterations=90)
    other = case(
        "Repair", "the test of the ledger failed with an error", "LedgerError", language=""
    )
    lessons = await registry.inject("loop-c", other, ALWAYS)
    assert lessons.text == ""
    assert lessons.reasons == (), "of what is about something else there is nothing to say"


@on_both
@pytest.mark.scenario("XTL-27")
async def test_one_lucky_use_does_not_outrank_seventeen_of_eighteen(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    proven, lucky = several(FIXES)[0][:2]
    (old,) = await registry.discover("loop-a", [proven], APART)
    for n in range(1, 18):
        await looped(registry, f"loop-{n}", case(), won=n != 9)
    (new,) = await registry.discover("loop-b", [lucky], APART)
    assert (await registry.show(new.id)).counts.rate == 1.0
    assert round((await registry.show(old.id)).counts.rate or 0, 2) == 0.94
    choice = await registry.candidates(case(), ALWAYS)
    assert [one.pattern.id for one in choice.chosen] == [old.id, new.id]


PLACES = (
    "invoice ledger tax booking", "session cookie login token", "spreadsheet cell column row",
    "camera frame pixel lens", "recipe oven flour yeast", "train platform ticket gate",
)  # fmt: skip


@on_both
@pytest.mark.scenario("PEER-21")
async def test_a_lesson_that_failed_wherever_it_was_used_is_retired_with_the_reason(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    trusting = Injection(min_success_rate=0.0, control_share=0.0)
    for n, place in enumerate(PLACES):
        about = case(f"Repair the {place}")
        for k in range(20):  # others that help keep the trust in what is new
            await looped(registry, f"else-{n}-{k}", case("Paint", ""), won=None, iterations=60)
        await looped(registry, f"loop-{n}", about, won=False, iterations=6, injection=trusting)
    pattern = await registry.show(found.id)
    assert pattern.retired == "5 loops used it and it helped in none"
    assert pattern.counts.usage == 6, "the sixth loop did not see it"
    (reason,) = dict((await registry.candidates(case(), trusting)).refused).values()
    assert reason == f"retired: {pattern.retired}"
    assert (await registry.restore(found.id)).retired == ""
    assert (await registry.candidates(case(), trusting)).chosen, "a new trial"


@on_both
@pytest.mark.scenario("PEER-21")
async def test_poison_that_nobody_takes_is_retired_by_its_exposure(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    # A warning is never "used", but the loops that read it take longer.
    (found,) = await registry.discover(
        "loop-a", [anti("Poison", "Read the property of a user in validation")], EXTRACT
    )
    about = case(message="")
    for n in range(10):
        await looped(registry, f"plain-{n}", case("Paint the shed", ""), won=None, iterations=3)
    for n in range(10):
        await looped(registry, f"loop-{n}", about, won=None, iterations=6 + n % 2)
    pattern = await registry.show(found.id)
    assert "it never helped, and the 8 loops that saw it took" in pattern.retired
    assert "against 3.0 without it" in pattern.retired
    assert pattern.counts.usage == 1


def test_the_control_share_is_drawn_by_the_loops_id() -> None:
    from taofold.learning.injection import in_control

    drawn = [in_control(f"ralph-fix-{n:08x}", 0.15) for n in range(4000)]
    assert 0.13 < sum(drawn) / 4000 < 0.17
    assert drawn == [in_control(f"ralph-fix-{n:08x}", 0.15) for n in range(4000)]
    assert not any(in_control(f"x{n}", 0.0) for n in range(1000))


def test_what_a_file_claims_neither_raises_a_pattern_nor_lets_it_pass_for_our_own() -> None:
    own = error()
    glorious = replace(own, claim=ImportClaim(UseCounts(50, 50, 0), 1.0))
    poor = replace(own, claim=ImportClaim(UseCounts(50, 0, 50), 0.0))
    assert effectiveness(glorious) == effectiveness(poor) < effectiveness(own)
    used = PatternSource("loop", 1, "applied", "fixer", True)
    helped = replace(glorious, sources=(used,))
    assert effectiveness(helped) == effectiveness(replace(helped, claim=None)), "it has helped here"

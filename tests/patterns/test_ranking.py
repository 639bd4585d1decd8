"""What is shown, and what is not: relevance × our own evidence, and only what should help."""

import asyncio
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from tests.patterns.make import (
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
    template,
)

from taofold.logs.registry import memory_registry
from taofold.learning.retrieval.question import context_of
from taofold.learning.patterns.bodies import ErrorFix
from taofold.learning.attribution.diffs_fit import Fit, fit
from taofold.learning.attribution.judge import Record, Records, baseline, chance, needed
from taofold.learning.patterns.notes import Stats, Tally
from taofold.learning.attribution.promise import odds
from taofold.learning.registry import Registry
from taofold.learning.settings import Injection
from taofold.learning.patterns.values import Arm, Evidence, Outcome, Pattern

FIXES = (
    "guard the argument", "parse it earlier", "default to empty", "raise on absence",
    "await the promise", "rename the field", "narrow the union", "copy the record",
    "cache the lookup", "drop the cast", "load the schema", "bind the method", "freeze the map",
    "sort the rows", "skip blanks", "retry the fetch", "close the stream", "split the batch",
    "trim the tail", "lock the row",
)  # fmt: skip


def many() -> list[Pattern]:
    return [
        error(
            f"Null {n}",
            f"Cannot read property '.*' of null in {fix}",
            fix=f"{fix}, to fix the error",
            code=fix,
        )
        for n, fix in enumerate(FIXES)
    ]


@on_both
@pytest.mark.scenario("XTL-09")
async def test_the_best_few_are_shown_in_order_and_none_twice(opener: Opener, clock: Clock) -> None:
    registry = opener()
    drafts = [error(f"Null {n}", fix=fix, code=fix) for n, fix in enumerate(FIXES)]
    await registry.discover("loop-a", drafts, APART)
    assert len(await registry.patterns()) == 20
    for top, most in ((5, 5), (50, 10), (0, 0)):
        wanted = Injection(top_k_patterns=top, control_share=0.0)
        choice = await registry.candidates(case(), wanted)
        assert len(choice.chosen) == most
        scores = [one.relevance * one.effectiveness for one in choice.chosen]
        assert scores == sorted(scores, reverse=True)
        ids = [one.pattern.id for one in choice.chosen]
        assert len({*ids}) == len(ids)
        lessons = await registry.inject(f"loop-{top}", case(), wanted)
        assert lessons.ids == tuple(ids)
        assert all(lessons.text.count(f"[{identity}]") == 1 for identity in ids)


@on_both
async def test_two_names_of_one_lesson_are_shown_once(opener: Opener, clock: Clock) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], APART)
    await registry.discover("loop-b", [error("The same again")], APART)
    lessons = await registry.inject("loop-c", case(), ALWAYS)
    assert len(lessons.ids) == 1
    assert [why for _, why in lessons.reasons] == [f"it says the same as {lessons.ids[0]}"]


@on_both
@pytest.mark.scenario("XTL-10")
async def test_a_low_rate_counts_only_after_enough_uses(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    await looped(registry, "loop-b", case(), won=False)
    choice = await registry.candidates(case(), ALWAYS)
    assert [one.pattern.rate for one in choice.chosen] == [0.5], "two uses are too few to judge"
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
    assert "(100% failure rate, 1/1)" in text
    assert "(60% failure rate, 3/5)" in text
    assert "- Better alternative: Narrow the type" in text


@on_both
@pytest.mark.scenario("XTL-12")
async def test_kinds_can_be_switched_off(opener: Opener, clock: Clock) -> None:
    registry = opener()
    about = case("Guard the validation of user names", "", language="python")
    drafts = [
        template("Guard", "if {{name}} is None: raise", "Guard the validation of a user name"),
        approach("Guarding", "Guard the validation of user names first"),
        anti("Skipping", "Skip the validation of user names"),
        error("Validation", "user names lack validation guard", language="python"),
    ]
    found = await registry.discover("loop-a", drafts, EXTRACT)
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
    assert {why for _, why in lessons.reasons} <= {"it has nothing to do with this task"}
    for n in range(20):  # where loops take long, little is needed to beat doing without
        await looped(registry, f"plain-{n}", case("Paint", ""), won=None, iterations=90)
    other = case(
        "Repair", "the test of the ledger failed with an error", "LedgerError", language=""
    )
    lessons = await registry.inject("loop-c", other, ALWAYS)
    assert lessons.text == ""
    assert "it has nothing to do with this task" in {why for _, why in lessons.reasons}


@on_both
@pytest.mark.scenario("XTL-27")
async def test_one_lucky_use_does_not_outrank_seventeen_of_eighteen(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    proven, lucky = many()[:2]
    (old,) = await registry.discover("loop-a", [proven], APART)
    for n in range(1, 18):
        await looped(registry, f"loop-{n}", case(), won=n != 9)
    (new,) = await registry.discover("loop-b", [lucky], APART)
    assert (await registry.show(new.id)).rate == 1.0
    assert round((await registry.show(old.id)).rate or 0, 2) == 0.94
    choice = await registry.candidates(case(), ALWAYS)
    assert [one.pattern.id for one in choice.chosen] == [old.id, new.id]


@on_both
@pytest.mark.scenario("PEER-21")
async def test_a_lesson_that_failed_here_is_not_shown_here_again(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    await registry.discover("loop-a", [error()], EXTRACT)
    trusting = Injection(min_success_rate=0.0, control_share=0.0)
    shown = [
        await looped(registry, f"loop-{n}", case(), won=False, iterations=6, injection=trusting)
        for n in range(12)
    ]
    assert [*map(bool, shown)] == [*[True] * 4, *[False] * 8]
    (reason,) = dict((await registry.candidates(case(), trusting)).refused).values()
    assert reason.startswith("it is not expected to help here, it helped in 0 of 4 loops that used")


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
        about = case(f"Repair the {place}", code=place)
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
    # it warns of something, so it is never "used"; but the loops that read it take longer
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


@on_both
async def test_a_failure_elsewhere_does_not_count_here(opener: Opener, clock: Clock) -> None:
    registry = opener()
    (found,) = await registry.discover("loop-a", [error()], EXTRACT)
    far = case("Import rows", "Cannot read property 'cell' of null", code="spreadsheet xlsx row")
    near = case(code="session cookie login token")
    for n in range(2):
        await looped(registry, f"near-{n}", near, won=True)
    for n in range(2):
        await looped(registry, f"far-{n}", far, won=False)
    pattern, stats = await registry.show(found.id), await registry.stats()
    here, there = (
        chance(0.5, Records(context_of(c)).of(pattern, ()), stats.own.trust) for c in (near, far)
    )
    assert here > there


@dataclass
class World:
    """Loops that take 10 iterations, or fewer if a pattern that is shown is right."""

    registry: Registry
    taken: int = 0
    shown: int = 0

    async def loop(self, name: str, about: object, right: set[str]) -> int:
        lessons = await self.registry.inject(name, about, ALWAYS)  # type: ignore[arg-type]
        took, done = 0, False
        for identity in lessons.ids:
            took += 1
            done = identity in right
            await self.registry.applied(name, identity, won=done, iteration=took)
            if done:
                break
        took = took if done else took + 10
        await self.registry.ended(name, iterations=took, solved=True)
        self.shown += len(lessons.ids)
        self.taken += took
        return took


async def stream(registry: Registry, right: set[str], loops: int, first: int = 0) -> list[int]:
    world = World(registry)
    return [await world.loop(f"loop-{first + n}", case(), right) for n in range(loops)]


def test_a_registry_full_of_junk_costs_little_and_then_nothing() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        await registry.discover("loop-a", many(), APART)
        took = await stream(registry, set(), 60)
        assert took[-40:].count(10) >= 37, "seldom one is tried again"
        assert sum(took) / 60 <= 10.3, "three per cent, where lessons are tried first of all"

    asyncio.run(main())


def test_where_some_patterns_are_right_they_are_found_and_kept() -> None:
    async def main() -> None:
        registry = memory_registry(now=Clock())
        found = await registry.discover("loop-a", many(), APART)
        right = {one.id for one in found[::3]}
        took = await stream(registry, right, 60)
        assert sum(took[-40:]) / 40 < 2

    asyncio.run(main())


def test_claims_of_a_file_are_shown_and_cost_no_more_than_an_iteration() -> None:
    async def main() -> None:
        honest = memory_registry(now=Clock())
        (true,) = await honest.discover("loop-a", [many()[0]], APART)
        await stream(honest, {true.id}, 5)
        lies = memory_registry(now=Clock())
        await lies.discover("liar", many()[1:6], APART)
        for n in range(49):
            await lies.inject(f"liar-{n}", case(), ALWAYS, manual=True)
            for pattern in await lies.patterns():
                await lies.applied(f"liar-{n}", pattern.id, won=True)
            await lies.ended(f"liar-{n}", iterations=1, solved=True)
        assert all(p.told.usage == 50 and p.rate == 1.0 for p in await lies.patterns())
        import msgspec

        files = {k: msgspec.json.encode(v) for k, v in (await lies.export()).items()}
        before = await stream(honest, {true.id}, 10, first=100)
        done = await honest.import_(files)
        assert len(done.added) == 5
        shown = await honest.show(done.added[0])
        assert (shown.told.usage, shown.counts.usage, shown.probation) == (50, 0, True)
        (own,) = await honest.discover("loop-b", [many()[9]], APART)
        chances = {
            one.pattern.id: one.effectiveness
            for one in (await honest.candidates(case(), Injection(top_k_patterns=10))).chosen
        }
        assert chances[true.id] > chances[own.id] > max(chances.get(i, 0.0) for i in done.added)
        await honest.retire(own.id, "it was only here to be compared")
        after = await stream(honest, {true.id}, 20, first=200)
        assert max(after[:10]) - max(before) <= 1
        assert after[10:] == before

    asyncio.run(main())


def test_the_baseline_is_what_loops_without_patterns_do() -> None:
    assert baseline(Stats()) == pytest.approx(0.05), "the usual"
    often = Stats(tries=sum_of([2] * 90_000))
    assert baseline(often) == pytest.approx(2 / 3, abs=0.01), "of two tries that are left, one"
    always = Stats(tries=sum_of([n for n in range(1, 60) for _ in range(round(4000 * 0.8**n))]))
    assert baseline(always) == pytest.approx(0.2, abs=0.01), "one that is always the same"
    seldom = Stats(tries=sum_of([1] * 3000 + [60] * 1000))
    assert baseline(seldom) < 0.05, "half of the loops are easy: who still tries has a hard one"
    assert needed(seldom, "error") < needed(always, "error") < needed(often, "error")
    assert needed(always, "error") < baseline(always) < needed(always, "template")


@on_both
async def test_loops_are_compared_by_their_tries_where_these_are_known(
    opener: Opener, clock: Clock
) -> None:
    registry = opener()
    for n in range(50):
        await registry.ended(f"loop-{n}", iterations=1, solved=True, tries=40)
    await registry.ended("unknown", iterations=3, solved=True)
    stats = await registry.stats()
    assert (stats.plain.iterations, stats.tries.iterations) == (53, 2003)
    assert baseline(stats) < 0.06
    assert await registry.reopened("loop-0", iterations=2, solved=True)
    assert (await registry.stats()).tries.iterations == 1963
    await registry.ended("loop-0", iterations=2, solved=True, tries=41)
    assert (await registry.stats()).tries.iterations == 2004


def test_a_promise_is_worth_what_was_kept_of_it_here_then_anywhere_then_by_all() -> None:
    here, there = context_of(case()), context_of(case("Paint", "far", "KeyError", code="fence"))

    def worth(*outcomes: tuple[Outcome, object], trust: float = 1.0, start: float = 0.5) -> float:
        seen = tuple(
            Evidence(outcome, f"loop-{n}", n, where, 0.5)  # type: ignore[arg-type]
            for n, (outcome, where) in enumerate(outcomes)
        )
        pattern = error()
        own = chance(start, Records(here).of(replace(pattern, evidence=seen), ()), trust)
        assert own == chance(start, Records(here).of(pattern, seen), trust), "so does its change's"
        return own

    assert worth() == 0.5
    assert worth(trust=0.2) == pytest.approx(0.1), "nothing is known but what all came to"
    assert worth(("won", here)) > worth(("won", there)) > worth() > worth(("lost", there))
    assert worth(("lost", there)) > worth(("lost", here)) == worth(("other", here))
    assert worth(("other", here)) < worth(("ignored", here)) < worth() == worth(("found", here))
    assert worth(*[("won", here)] * 9, start=0.9) <= 0.95
    assert worth(("won", here), trust=0.2) > 2 * worth(trust=0.2)


def test_the_more_is_known_of_a_change_the_less_it_says_of_others() -> None:
    assert Record().unproven == 1.0
    assert Record(anywhere=Tally(0.0, 6.0)).unproven < 0.3
    assert Tally(9.0, 1.0).trust == 1.0
    assert Tally(0.0, 5.0).trust < 0.4


def sum_of(tries: list[int]) -> Arm:
    return Arm(len(tries), sum(tries), sum(n * n for n in tries), len(tries))


def test_a_fix_promises_the_more_the_more_its_line_and_the_signs_suit_the_case() -> None:
    there, alike = Fit(1.0, 8), Fit(0.4, 8)
    assert odds(0.3, there, 1.0) > 2 * odds(0.3, there, 0.0)
    assert odds(0.4, there, None) > 2 * odds(0.4, alike, None)
    assert odds(0.4, None, None) > odds(0.2, None, None)
    assert odds(0.4, Fit(0.4, 8, swaps=True), None) > odds(0.4, alike, None)
    assert odds(0.4, Fit(0.8, 8, possible=False), None) < odds(0.4, Fit(0.1, 8), None) / 10


def test_a_line_of_few_words_says_little_by_being_there() -> None:
    assert odds(0.4, Fit(1.0, 2), None) < odds(0.4, Fit(1.0, 8), None) / 4
    assert odds(0.4, Fit(0.9, 3), None) < odds(0.4, Fit(0.4, 8), None)


@pytest.mark.parametrize(
    ("diff", "code", "fits"),
    [
        ("-return {{variable}}\n+return str({{variable}})", "return x", Fit(1.0, 2)),
        ("-return {{variable}} - {{variable_2}}\n+return 0", "return y - x", Fit(1.0, 4)),
        ("+return 0", "return x", None),
        ("-if {{a}} < {{b}}:\n+if {{a}} <= {{b}}:", "while i < n: step()", (True, False)),
        ("-if {{a}} < {{b}}:\n+if {{a}} <= {{b}}:", "while i > n: step()", (False, False)),
        ("-return {{a}} - {{b}}\n+return {{b}} - {{a}}", "rows.append(y - x)", (True, True)),
        ("-return {{a}} - {{b}}\n+return {{b}} - {{a}}", "rows.append(y + x)", (False, True)),
        ("-while {{a}}:\n+while {{b}}:", "if x: step()", (False, False)),
    ],
)
def test_a_change_suits_code_where_what_it_takes_out_stands(
    diff: str, code: str, fits: object
) -> None:
    found = fit(replace_fix(error(), diff), code)
    if isinstance(fits, Fit) or fits is None:
        assert found == fits
    else:
        assert found is not None
        assert found.share < 1.0
        assert (found.possible, found.swaps) == fits


def replace_fix(pattern: Pattern, diff: str) -> Pattern:
    assert isinstance(pattern.body, ErrorFix)
    fixed = replace(pattern.body.fix, diff=diff)
    return replace(pattern, body=replace(pattern.body, fix=fixed))


def test_the_control_share_is_drawn_by_the_loops_id() -> None:
    from taofold.learning.commands import in_control

    drawn = [in_control(f"ralph-fix-{n:08x}", 0.15) for n in range(4000)]
    assert 0.13 < sum(drawn) / 4000 < 0.17
    assert drawn == [in_control(f"ralph-fix-{n:08x}", 0.15) for n in range(4000)]
    assert not any(in_control(f"x{n}", 0.0) for n in range(1000))

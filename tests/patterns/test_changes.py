"""What is known of a change, whatever error it was stored for, and of lines like those replaced."""

import asyncio

import pytest
from msgspec import json
from msgspec.structs import replace
from tests.patterns.make import (
    ALWAYS,
    APART,
    EXTRACT,
    Clock,
    Opener,
    anti,
    case,
    error,
    looped,
    on_both,
)

from taofold.core.checks import Check, Place
from taofold.logs.registry import memory_registry
from taofold.learning.retrieval.question import context_of
from taofold.learning.patterns.bodies import ErrorFix
from taofold.learning.patterns.case import Case, Context
from taofold.learning.extraction.diffs import RENAMED, change_key, line_term, shape
from taofold.learning.events import Shown
from taofold.learning.exchange.incoming import Imported
from taofold.learning.extraction.extract import extract
from taofold.learning.extraction.history import Attempt, Change, History
from taofold.learning.attribution.judge import its_own
from taofold.learning.retrieval.likeness import likeness
from taofold.learning.patterns.notes import FixNote, LoopNote, Stats, Tally
from taofold.learning.retrieval.choice import Ranked
from taofold.learning.registry import Registry
from taofold.learning.settings import Injection
from taofold.learning.attribution.settle import summed
from taofold.learning.patterns.values import Counts, Evidence, Outcome, Pattern

COPY = "-{{variable}} = {{variable_2}}\n+{{variable}} = list({{variable_2}})"
CODE = "def grown(rows):\n    known = rows\n    return known\n"
LONG = "assert [1, 2, 3] == [1, 2]"
LESS = "assert 3 == 7"


def copying(message: str = "assert .* == .*", kind: str = "AssertionError") -> Pattern:
    return error(
        "Copy it", message, kind=kind, fix="Make a copy of it first", code="", diff=COPY,
        language="python",
    )  # fmt: skip


def signed(pattern: Pattern, *signs: str) -> Pattern:
    body = pattern.body
    assert isinstance(body, ErrorFix)
    return replace(pattern, body=replace(body, signature=replace(body.signature, signs=signs)))


def about(message: str, kind: str = "AssertionError", code: str = CODE) -> Case:
    return case("Make the tests pass", message, kind, language="python", code=code)


async def slow(registry: Registry) -> Registry:
    """A registry that knows how long loops take without help, so that little help is welcome."""
    for n in range(6):
        await registry.ended(f"plain-{n}", iterations=60, solved=True)
    return registry


@on_both
async def test_what_a_change_did_for_one_error_counts_where_it_is_stored_for_another(
    opener: Opener, clock: Clock
) -> None:
    registry = await slow(opener())
    (first,) = await registry.discover("loop-a", [signed(copying(), "long-end")], EXTRACT)
    other = signed(copying("list index out of range", "IndexError"))
    (second,) = await registry.discover("loop-b", [other], EXTRACT)
    asked = about("list index out of range", "IndexError")

    async def expected() -> float:
        choice = await registry.candidates(asked, ALWAYS)
        return next(o.effectiveness for o in choice.chosen if o.pattern.id == second.id)

    before = await expected()
    for n in range(3):
        shown = await looped(registry, f"won-{n}", about(LONG), won=True)
        assert first.id in shown
    after = await expected()
    assert after > before
    assert await registry.show(second.id) == await opener().show(second.id)
    assert (await registry.show(second.id)).counts == Counts(1, 1, 0), "its own figures stay"


@on_both
async def test_a_change_that_nobody_took_for_one_error_is_worth_less_for_another(
    opener: Opener, clock: Clock
) -> None:
    registry = await slow(opener())
    (first,) = await registry.discover("loop-a", [signed(copying(), "long-end")], EXTRACT)
    other = signed(copying("list index out of range", "IndexError"))
    assert isinstance(other.body, ErrorFix)
    put = "if not {{variable_2}}:\n+    return None, {{text}}"
    diff = COPY.partition("+")[0] + f"+{put}"
    fix = replace(other.body.fix, diff=diff, category="add_null_check")
    third = replace(other, name="Freeze it", body=replace(other.body, fix=fix))
    same, new = await registry.discover("loop-b", [other, third], APART)
    asked = about("list index out of range", "IndexError")

    async def expected() -> tuple[float, float]:
        choice = await registry.candidates(asked, ALWAYS)
        found = {one.pattern.id: one.effectiveness for one in choice.chosen}
        return found[same.id], found[new.id]

    before = await expected()
    shown = await looped(registry, "left", about(LONG), won=None)
    assert first.id in shown
    assert not {same.id, new.id} & {*shown}
    after = await expected()
    assert before[0] == before[1]
    assert after[0] < after[1], "what is new shares in the loss, but has no part in it"
    assert (await registry.show(same.id)).evidence[-1].outcome == "found", "its own stays"


async def worth(registry: Registry) -> dict[str, float]:
    """What each pattern that would be shown is given here."""
    choice = await registry.candidates(about(LESS), Injection(control_share=0.0))
    return {each.pattern.id: each.effectiveness for each in choice.chosen}


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["told", "control"])
def test_what_ends_a_loop_speaks_of_the_changes_it_was_not_shown_too(share: float) -> None:
    asyncio.run(_beside(share))


async def _beside(share: float) -> None:
    registry = await slow(memory_registry(now=Clock()))
    right, wrong = copying(), replace_diff(copying(), "-return {{a}}\n+return sorted({{a}})")
    one, other = await registry.discover("loop-a", [right, wrong], APART)
    most = Injection(top_k_patterns=1, control_share=share)

    before = await worth(registry)
    lessons = await registry.inject("loop-b", about(LESS), most)
    assert lessons.control == (share == 1.0)
    beside = min({one.id, other.id} - {*lessons.ids}, key=before.__getitem__)
    assert await registry.applied("loop-b", beside, won=True), "it found that by itself"
    await registry.ended("loop-b", iterations=4, solved=True)
    after = await worth(registry)
    (better,) = {one.id, other.id} - {beside}
    assert after[beside] > 1.5 * before[beside]
    assert after.get(better, 0.0) < 0.9 * before[better]
    for identity in (one.id, other.id):
        assert (await registry.show(identity)).counts == Counts(1, 1, 0), "no use of it"
    seen = [each.outcome for each in (await registry.show(beside)).evidence]
    assert seen == ["found"], "its own history is of loops that saw it"
    assert await registry.reopened("loop-b", iterations=9, solved=True)
    assert await worth(registry) == pytest.approx(before), "taken back, as it goes on"


@on_both
async def test_a_loop_that_nothing_ended_says_nothing_of_what_it_was_not_shown(
    opener: Opener, clock: Clock
) -> None:
    registry = await slow(opener())
    wrong = replace_diff(copying(), "-return {{a}}\n+return sorted({{a}})")
    await registry.discover("loop-a", [copying(), wrong], APART)

    before = await worth(registry)
    none = Injection(top_k_patterns=0, control_share=0.0)
    assert (await registry.inject("loop-b", about(LESS), none)).ids == ()
    await registry.ended("loop-b", iterations=4, solved=False)
    assert await worth(registry) == pytest.approx(before, rel=0.2), "only the loop's length counts"


def test_of_all_changes_only_one_is_what_is_needed() -> None:
    async def main(drafts: int) -> list[float]:
        registry = await slow(memory_registry(now=Clock()))
        puts = ("list(rows)", "sorted(rows)", "rows[:]", "rows or []")[:drafts]
        found = [replace_diff(copying(), f"-known = rows\n+known = {put}") for put in puts]
        for n, draft in enumerate(found):
            await registry.discover(f"loop-{n}", [draft], APART)
        choice = await registry.candidates(about(LESS), Injection(control_share=0.0))
        return [one.start for one in (*choice.chosen, *choice.beside)]

    (alone,) = asyncio.run(main(1))
    many = asyncio.run(main(4))
    assert len(many) == 4
    assert all(start < alone for start in many)
    assert alone < sum(many) < 1.0


def test_of_what_was_left_out_the_twenty_best_are_noted() -> None:
    async def main() -> tuple[Ranked, ...]:
        registry = memory_registry(now=Clock())
        for n in range(30):
            draft = replace_diff(copying(), f"-known = rows\n+known = rows + {n}")
            await registry.discover(f"loop-{n}", [draft], APART)
        return (await registry.candidates(about(LESS), Injection(top_k_patterns=0))).beside

    beside = asyncio.run(main())
    assert len(beside) == len({one.pattern.change for one in beside}) == 20


@on_both
async def test_what_a_person_adds_to_is_looked_at_once(opener: Opener, clock: Clock) -> None:
    registry = await slow(opener())
    wrong = replace_diff(copying(), "-return {{a}}\n+return sorted({{a}})")
    found = await registry.discover("loop-a", [copying(), wrong], APART)
    first = await registry.inject("loop-b", about(LESS), ALWAYS)
    none = Injection(top_k_patterns=0, control_share=0.0)
    await registry.inject("loop-b", about(LESS), none, manual=True)
    note = await registry.loop("loop-b")
    assert note is not None
    assert {*first.ids} == {one.id for one in found}
    assert [one.id for one in note.looked] == [*first.ids]


@on_both
async def test_a_fix_whose_very_line_is_here_is_looked_at_whatever_the_error_says(
    opener: Opener, clock: Clock
) -> None:
    registry = await slow(opener())
    line = "{{a}} = {{a}} + {{b}} * (1 - {{c}}) / 100"
    far = error(
        "Round it", "ledger closed", kind="LedgerError", fix="Round", code="",
        diff=f"-{line}\n+{{{{a}}}} = round({{{{b}}}})", language="python",
    )  # fmt: skip
    (found,) = await registry.discover("loop-a", [far], EXTRACT)
    there = about(LESS, code="def bill(x, y, z):\n    x = x + y * (1 - z) / 100\n    return x\n")
    (chosen,) = (await registry.candidates(there, ALWAYS)).chosen
    assert chosen.pattern.id == found.id
    assert chosen.relevance < 0.12
    without = (await registry.candidates(about(LESS, code="x = 1"), ALWAYS)).refused
    assert dict(without).get(found.id, "it has nothing").startswith("it has nothing")


def test_what_is_known_well_says_little_of_what_all_patterns_come_to() -> None:
    shown = (Shown("new", 0.5, 0.4, start=0.5), Shown("known", 0.5, 0.1, start=0.5, unproven=0.1))
    note = LoopNote("loop", shown=shown, ended=1, iterations=3, solved=True)
    told = {one.id: Evidence("other", "loop", 1, Context(), one.start) for one in shown}
    assert summed(Stats(), note, told).own == Tally(0.0, pytest.approx(0.55))  # type: ignore[arg-type]


def replace_diff(pattern: Pattern, diff: str) -> Pattern:
    assert isinstance(pattern.body, ErrorFix)
    fix = replace(pattern.body.fix, diff=diff, description=f"Do {diff}")
    return replace(pattern, body=replace(pattern.body, fix=fix), name=f"Do {diff}")


@on_both
async def test_a_warning_that_is_heeded_is_not_held_against_it(
    opener: Opener, clock: Clock
) -> None:
    registry = await slow(opener())
    (found,) = await registry.discover("loop-a", [anti("Casting", "Cast the rows")], EXTRACT)
    assert await looped(registry, "loop-b", case("Cast the rows", ""), won=None) == (found.id,)
    assert [one.outcome for one in (await registry.show(found.id)).evidence] == ["found"]


def test_of_what_a_loop_did_with_a_change_the_most_counts() -> None:
    def seen(outcome: Outcome, loop: str = "loop") -> Evidence:
        return Evidence(outcome, loop, 1, Context())

    def outcomes(*found: Evidence) -> list[str]:
        note = FixNote("change")
        for one in found:
            note = note.plus(one)
        return [one.outcome for one in note.evidence]

    assert outcomes(seen("won"), seen("ignored"), seen("lost")) == ["won"]
    assert outcomes(seen("ignored"), seen("lost"), seen("ignored")) == ["lost"]
    assert outcomes(seen("lost"), seen("won", "other"), seen("won")) == ["won", "won"]


@on_both
async def test_one_change_is_shown_once_whatever_it_was_stored_for(
    opener: Opener, clock: Clock
) -> None:
    registry = await slow(opener())
    drafts = [signed(copying(), "long-end"), signed(copying(), "less")]
    one, two = await registry.discover("loop-a", drafts, EXTRACT)
    lessons = await registry.inject("loop-b", about(LESS), ALWAYS)
    assert one.id != two.id
    assert len({one.id, two.id} & {*lessons.ids}) == 1
    kept = next(identity for identity in lessons.ids if identity in (one.id, two.id))
    assert f"{kept} holds the same change" in dict(lessons.reasons).values()


@on_both
async def test_a_rate_is_about_failures_of_its_own_kind(opener: Opener, clock: Clock) -> None:
    registry = await slow(opener())
    (found,) = await registry.discover("loop-a", [signed(copying(), "long-end")], EXTRACT)
    await looped(registry, "far", about(LESS), won=False)
    pattern = await registry.show(found.id)
    assert pattern.counts == Counts(1, 1, 0), "other failures say nothing of its rate"
    assert [one.outcome for one in pattern.evidence] == ["found", "lost"]
    assert [one.won for one in pattern.sources] == [None, False]
    await looped(registry, "near", about(LONG), won=False)
    assert (await registry.show(found.id)).counts == Counts(2, 1, 1)


def test_its_own_kind_is_the_class_with_all_the_signs() -> None:
    def kind(pattern: Pattern, message: str, name: str = "AssertionError") -> bool:
        return its_own(pattern, context_of(about(message, name)))

    longer = signed(copying(), "long-end")
    assert kind(longer, LONG)
    assert not kind(longer, LESS)
    assert not kind(longer, LONG, "ValueError")
    assert kind(copying(), LESS), "without signs any failure of the class is its own"
    assert kind(longer, ""), "where nothing is known of the failure"


@on_both
async def test_a_fix_is_found_by_the_line_that_it_replaced(opener: Opener, clock: Clock) -> None:
    registry = await slow(opener())
    others = [
        error(
            f"Other {n}", "assert .* == .*", kind="AssertionError", fix="", code="",
            diff=f"-if {{{{variable}}}} > {n}:\n+if {{{{variable}}}} >= {n}:", language="python",
        )
        for n in range(80)
    ]  # fmt: skip
    for n, draft in enumerate([*others[:40], copying(), *others[40:]]):
        await registry.discover(f"loop-{n}", [draft], APART)
    lessons = await registry.inject("loop-x", about(LESS), ALWAYS)
    shown = [await registry.show(identity) for identity in lessons.ids]
    assert [p for p in shown if isinstance(p.body, ErrorFix) and p.body.fix.diff == COPY]


@on_both
async def test_a_new_trial_forgets_what_the_change_lost(opener: Opener, clock: Clock) -> None:
    registry = await slow(opener())
    (found,) = await registry.discover("loop-a", [copying()], EXTRACT)
    await looped(registry, "lost", about(LESS), won=False)
    any_rate = Injection(min_success_rate=0.0, control_share=0.0)
    (before,) = (await registry.candidates(about(LESS), any_rate)).chosen
    await registry.retire(found.id, "it did not help")
    await registry.restore(found.id)
    (again,) = (await registry.candidates(about(LESS), any_rate)).chosen
    assert before.effectiveness < 0.7 * again.effectiveness
    trust = (await registry.stats()).own.trust
    assert again.effectiveness == pytest.approx(again.start * trust), "as if it were new"


@on_both
async def test_signs_are_exported_and_come_back(opener: Opener, clock: Clock) -> None:
    registry = await slow(opener())
    (found,) = await registry.discover("loop-a", [signed(copying(), "less", "negated")], EXTRACT)
    files = await registry.export()
    other = memory_registry(now=clock)
    done = await other.import_({name: json.encode(content) for name, content in files.items()})
    assert isinstance(done, Imported)
    assert (await other.show(found.id)).body == (await registry.show(found.id)).body


def test_a_fix_keeps_how_found_and_expected_differed() -> None:
    change = Change("rows.py", "    known = rows", "    known = list(rows)")
    failing = (
        Check("t::one", "failed", "AssertionError", LESS, (Place("rows.py", 2),)),
        Check("t::two", "failed", "AssertionError", LONG, (Place("rows.py", 2),)),
    )
    history = History("loop", "Fix it", "python", "completed", (Attempt(1, failing, (change,)),), 1)
    (pattern,) = extract(history, ["error"])
    assert isinstance(pattern.body, ErrorFix)
    assert pattern.body.signature.signs == ("less", "long-end")


def test_fixes_of_failures_that_differ_in_other_ways_are_not_one_pattern() -> None:
    one, other = signed(copying(), "less", "nothing"), signed(copying(), "negated")
    assert likeness(one, other) == 0
    assert likeness(one, signed(copying(), "less")) == likeness(one, one) == 1


def test_a_change_has_one_name_whatever_names_are_in_it() -> None:
    same = "-{{variable_7}} = {{attribute}}\n+{{variable_7}} = list({{attribute}})"
    assert change_key(COPY) == change_key(same) != ""
    assert change_key(COPY) != change_key(COPY.replace("list", "tuple"))
    assert change_key("\n".join(reversed(COPY.split("\n")))) != change_key(COPY)
    assert change_key("") == ""


def test_lines_alike_but_for_names_have_one_term_and_bare_ones_none() -> None:
    assert line_term("    known = rows") == line_term("a = b") != line_term("a == b")
    assert line_term("else") == line_term("") == ""


def test_taking_another_name_is_a_shape_that_says_where() -> None:
    assert shape("if x not in rows:", "if x not in seen:") == ((RENAMED, "4"), ())
    assert shape("return rows", "return seen") == ((RENAMED, "1"), ())
    assert shape("rows = seen", "a = b") == ((), ()), "two names: it cannot be told which"

"""Selects the lessons for an iteration by its current errors, once; control loops get none.

Pure except for `emit`: the same state and the same question give the same events.
"""

from hashlib import blake2b
from typing import NamedTuple

from msgspec.structs import replace

from taofold.learning.attribution import counted_in
from taofold.learning.book import View, Writing
from taofold.learning.events import LoopReopened, PatternsInjected, ShownPattern
from taofold.learning.loops import LoopNote
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.choice import PatternChoice, choose, rank
from taofold.learning.retrieval.question import ask, context_of
from taofold.learning.retrieval.render import render
from taofold.learning.settings import Injection


class ChosenLessons(NamedTuple):
    """The lessons for a loop: `text` is the section for its prompt, "" for none.

    A `control` loop, chosen by its id's digest, gets none. `reasons` are the rejected ids, each
    with the reason.
    """

    text: str = ""
    ids: tuple[str, ...] = ()
    control: bool = False
    reasons: tuple[tuple[str, str], ...] = ()


def candidates(view: View, case: LoopCase, settings: Injection, min_uses: int) -> PatternChoice:
    """Returns the patterns that a loop about `case` would be shown now."""
    question = ask(case)
    # Two stages: the search by words is cheap and rough, the comparison field by field is
    # expensive.
    hits = {hit.id: hit for terms in question.searches for hit in view.search(terms)}
    project, stats = case.repository, view.stats()
    found = [
        (counted_in(project, pattern, stats), hit.stems)
        for hit in hits.values()
        if (pattern := view.pattern(hit.id)) is not None and told_in(project, pattern, settings)
    ]
    return choose(rank(found, question, settings, min_uses=min_uses), settings)


def told_in(project: str, pattern: Pattern, settings: Injection) -> bool:
    """Returns whether `pattern` may be shown in `project`.

    False if another project does not share it, or if `project` uses only its own lessons.
    """
    return pattern.only_in in ("", project) and (
        not settings.within_project or project in pattern.finders
    )


def inject(
    tx: Writing,
    loop: str,
    case: LoopCase,
    settings: Injection,
    *,
    min_uses: int,
    manual: bool,
) -> ChosenLessons:
    """Decides once which lessons the loop gets; a user may add to them later."""
    note = tx.loop(loop) or LoopNote(loop)
    start = case.after == 0
    if note.decided and (start or case.after <= note.after) and not manual:
        # A loop that crashed after the choice asks again: its choice is frozen.
        if note.control:
            return ChosenLessons(control=True)
        ids = [choice.id for choice in note.shown if start or choice.after == case.after]
        return ChosenLessons(note.text, tuple(ids))
    if not settings.enabled and not manual:
        return ChosenLessons()
    if note.ended:  # a user wants it to continue
        tx.emit(LoopReopened(loop))
    case = replace(case, told=tuple([choice.id for choice in note.shown]))
    choice = candidates(tx, case, settings, min_uses)
    rendered = render(choice.chosen)
    injected = tuple(
        [
            ShownPattern(
                ranked.pattern.id,
                round(ranked.relevance, 3),
                round(ranked.effectiveness, 3),
                ranked.pattern.claimed,
                case.after,
            )
            for ranked in choice.chosen
            if ranked.pattern.id in rendered.ids
        ]
    )
    # A control loop records the choice as well, so that each pattern is compared with loops that
    # did not get it. Without a pattern to show, no control is drawn.
    by_hand = manual or note.manual
    held = not by_hand and bool(injected) and in_control(loop, settings.control_share)
    text = "" if held else rendered.text
    if injected or start:
        tx.emit(PatternsInjected(loop, injected, text, held, manual, context_of(case)))
    return ChosenLessons(text, () if held else rendered.ids, held, choice.refused)


def in_control(loop: str, share: float) -> bool:
    """Returns whether `loop` belongs to the `share` of control loops, decided by its id."""
    # A digest, not a random number: repeated calls and a replay agree.
    drawn = blake2b(f"control {loop}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64 < share

"""What an iteration is told: chosen for the errors that stand, kept with it; by lot nothing.

Pure but for `emit`: the same state and the same question give the same events.
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
    """What a loop is told: `text` is the section for its prompt, "" for nothing.

    In a `control` loop nothing is told, by lot. `reasons` are ids that were looked at and left
    out, each with why.
    """

    text: str = ""
    ids: tuple[str, ...] = ()
    control: bool = False
    reasons: tuple[tuple[str, str], ...] = ()


def candidates(view: View, case: LoopCase, settings: Injection, min_uses: int) -> PatternChoice:
    """What a loop about `case` would be shown now."""
    question = ask(case)
    # Two stages: the search by words is cheap and rough, the comparison field by field is not.
    hits = {hit.id: hit for terms in question.searches for hit in view.search(terms)}
    project, stats = case.repository, view.stats()
    found = [
        (counted_in(project, pattern, stats), hit.stems)
        for hit in hits.values()
        if (pattern := view.pattern(hit.id)) is not None and told_in(project, pattern, settings)
    ]
    return choose(rank(found, question, settings, min_uses=min_uses), settings)


def told_in(project: str, pattern: Pattern, settings: Injection) -> bool:
    """False for what another project keeps to itself, or what is not of `project` if it does."""
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
    """Decide what the loop is told, once; a person may add to it later."""
    note = tx.loop(loop) or LoopNote(loop)
    start = case.after == 0
    if note.decided and (start or case.after <= note.after) and not manual:
        # A loop that crashed behind its choice asks again: what it was shown is frozen.
        if note.control:
            return ChosenLessons(control=True)
        ids = [choice.id for choice in note.shown if start or choice.after == case.after]
        return ChosenLessons(note.text, tuple(ids))
    if not settings.enabled and not manual:
        return ChosenLessons()
    if note.ended:  # a person wants it to go on
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
    # A control loop notes the choice as well, so that each pattern is compared with loops that
    # were kept from it. Where there is nothing to show there is no lot to draw.
    by_hand = manual or note.manual
    held = not by_hand and bool(injected) and in_control(loop, settings.control_share)
    text = "" if held else rendered.text
    if injected or start:
        tx.emit(PatternsInjected(loop, injected, text, held, manual, context_of(case)))
    return ChosenLessons(text, () if held else rendered.ids, held, choice.refused)


def in_control(loop: str, share: float) -> bool:
    """Is `loop` one of the `share` that is told nothing? A lot, drawn from its id."""
    # A digest, no random number: asked again the lot falls the same way, and a replay agrees.
    drawn = blake2b(f"control {loop}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64 < share

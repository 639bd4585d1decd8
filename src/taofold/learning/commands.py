"""What can be done with the registry: each looks at the state and emits the events that follow.

Pure but for `emit`: the same state and the same question give the same events. A store runs a
command as one transaction, and again if somebody else was quicker.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from taofold.core.errors import Refused
from taofold.core.text import iso
from taofold.learning.events import (
    LoopReopened,
    PatternArchived,
    PatternDiscovered,
    PatternMerged,
    PatternRestored,
    PatternsInjected,
    ShownPattern,
)
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.pattern import Pattern, fresh
from taofold.learning.retrieval.choice import PatternChoice, Ranked, choose, rank
from taofold.learning.retrieval.index import entry
from taofold.learning.retrieval.relevance import ask, context_of, likeness
from taofold.learning.retrieval.render import render
from taofold.learning.settings import Extraction, Injection, Pruning
from taofold.learning.state import View, Writing

_COMPARED: Final = 20
_DAY_MS: Final = 86_400_000


class UnknownPattern(Refused, LookupError):
    """No pattern has this id."""


class ChosenLessons(NamedTuple):
    """What a loop is told: `text` is the section for its prompt, "" for nothing.

    In a `control` loop nothing is told, by lot. `reasons` are ids that were looked at and left
    out, each with why.
    """

    text: str = ""
    ids: tuple[str, ...] = ()
    control: bool = False
    reasons: tuple[tuple[str, str], ...] = ()


class FoundPattern(NamedTuple):
    """A pattern that a loop's end gave: new, or another sight of a known one."""

    id: str
    new: bool
    rate: float | None


class PrunedPattern(NamedTuple):
    """A pattern that leaves the registry, or would: why, and to which month's archive."""

    id: str
    reason: str
    month: str


def candidates(
    view: View,
    case: LoopCase,
    settings: Injection,
    *,
    min_uses: int = 3,
) -> PatternChoice:
    """What a loop about `case` would be shown now."""
    question = ask(case)
    # Two stages: the search by words is cheap and rough, the comparison field by field is not.
    hits = {hit.id: hit for terms in question.searches for hit in view.search(terms)}
    found = [
        (pattern, hit.stems)
        for hit in hits.values()
        if (pattern := view.pattern(hit.id)) is not None
    ]
    return choose(rank(found, question, settings, min_uses=min_uses), settings)


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
    note = tx.loop(loop)
    start = case.after == 0
    if note is not None and note.decided and (start or case.after <= note.after) and not manual:
        # A loop that crashed behind its choice asks again: what it was shown is frozen.
        newest = [choice.id for choice in note.shown if start or choice.after == case.after]
        ids = tuple([identity for identity in newest if identity in note.ids])
        return ChosenLessons("" if note.control else note.text, ids, note.control)
    if not settings.enabled and not manual:
        return ChosenLessons()
    if note is not None and note.ended:  # a person wants it to go on
        tx.emit(LoopReopened(loop))
    choice = candidates(tx, case, settings, min_uses=min_uses)
    told = [e.id for e in note.shown if not e.after] if note is not None and not start else ()
    # The loop's instructions hold already what it was told at its start.
    rendered = render([ranked for ranked in choice.chosen if ranked.pattern.id not in told])
    injected = tuple(
        [
            _shown(ranked, case.after)
            for ranked in choice.chosen
            if ranked.pattern.id in rendered.ids
        ]
    )
    # A control loop notes the choice as well, so that each pattern is compared with loops that
    # were kept from it. Where there is nothing to show there is no lot to draw.
    seen = manual or (note is not None and note.manual)
    held = not seen and bool(injected) and in_control(loop, settings.control_share)
    text = "" if held else rendered.text
    if injected or start:
        tx.emit(PatternsInjected(loop, injected, text, held, manual, context_of(case)))
    return ChosenLessons(text, () if held else rendered.ids, held, choice.refused)


def _shown(ranked: Ranked, after: int) -> ShownPattern:
    return ShownPattern(
        ranked.pattern.id,
        round(ranked.relevance, 3),
        round(ranked.effectiveness, 3),
        ranked.pattern.claimed,
        after,
    )


def in_control(loop: str, share: float) -> bool:
    """Is `loop` one of the `share` that is told nothing? A lot, drawn from its id."""
    # A digest, no random number: asked again the lot falls the same way, and a replay agrees.
    drawn = blake2b(f"control {loop}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2**64 < share


def discover(
    tx: Writing,
    loop: str,
    drafts: Sequence[Pattern],
    settings: Extraction,
    by: str,
) -> list[FoundPattern]:
    """Take in what a loop's end gave. The same loop again changes nothing."""
    results: dict[str, FoundPattern] = {}
    for draft in map(tx.clean, drafts):
        if draft.kind == "template" and not settings.extract_code_templates:
            continue
        same = tx.same(draft)
        original = tx.pattern(same) if same else alike(tx, draft, settings.similarity_threshold)
        if (
            original is not None
            and not settings.merge_similar_patterns
            and loop not in original.loops
        ):
            original = None
        if original is None:
            # The id is given here, within the transaction: two loops that end at once get two.
            new = msgspec.structs.replace(draft, id=fresh(draft, tx.ids))
            tx.emit(PatternDiscovered(loop, new, by))
            identity = new.id
        else:
            identity = original.id
            # Once per loop, so that taking a loop in again changes nothing.
            if loop not in original.loops or not _noted(tx, loop, identity):
                tx.emit(PatternMerged(loop, identity, draft, by))
        stored = tx.pattern(identity)
        first = results.get(identity)
        is_new = original is None or (first is not None and first.new)
        results[identity] = FoundPattern(identity, is_new, stored.rate if stored else None)
    return list(results.values())


def _noted(view: View, loop: str, identity: str) -> bool:
    note = view.loop(loop)
    return note is not None and any(extract.id == identity for extract in note.extracts)


def alike(view: View, draft: Pattern, threshold: float) -> Pattern | None:
    """The pattern most like `draft`, if that is more than `threshold`."""
    best, most = None, threshold
    # Likeness compares tokens and costs; only the nearest by rare words are compared.
    for hit in view.search(entry(draft).split(), _COMPARED):
        other = view.pattern(hit.id)
        if other is not None and (value := likeness(draft, other)) > most:
            best, most = other, value
    return best


def doomed(view: View, policy: Pruning, now: int) -> list[PrunedPattern]:
    """What is to be pruned `now`."""
    month = iso(now)[:7]
    pruned: list[PrunedPattern] = []
    for pattern in view.patterns():
        reason = _doom(pattern, policy, now)
        if reason:
            pruned.append(PrunedPattern(pattern.id, reason, month))
    return pruned


def _doom(pattern: Pattern, policy: Pruning, now: int) -> str:
    rate, uses = pattern.rate, pattern.total.usage
    judged = pattern.kind != "anti" and rate is not None and uses >= policy.min_usage_count
    if judged and (rate or 0.0) < policy.min_success_rate:
        least = policy.min_success_rate
        return f"its success rate {rate:.2f} after {uses} uses is below {least:g}"
    # The dates in an imported file may be years old: its age here begins with the import.
    arrived = pattern.claim.at if pattern.claim else 0
    last = max(pattern.last_used, pattern.first_discovered, arrived)
    days = (now - last) / _DAY_MS
    if days > policy.max_age_days:
        day = iso(last)[:10]
        return f"it was last used on {day}, {int(days)} days ago: over {policy.max_age_days}"
    return ""


def prune(tx: Writing, policy: Pruning, now: int) -> list[PrunedPattern]:
    """Archive what is to be pruned."""
    pruned = doomed(tx, policy, now)
    for pattern in pruned:
        tx.emit(PatternArchived(pattern.id, pattern.reason, pattern.month))
    return pruned


def restore(tx: Writing, identity: str) -> Pattern:
    """Bring a pattern back from the archive, or from retirement.

    Raises:
        UnknownPattern: it is neither archived nor retired.
    """
    pattern = tx.pattern(identity)
    if tx.archived(identity) is None and (pattern is None or not pattern.retired):
        raise missing(tx, identity, "archived or retired ")
    tx.emit(PatternRestored(identity))
    back = tx.pattern(identity)
    if back is None:
        raise missing(tx, identity)
    return back


def missing(view: View, identity: str, kind: str = "") -> UnknownPattern:
    """What to raise for an id that leads nowhere."""
    near = (
        [candidate for candidate in view.ids(identity[:12]) if candidate != identity][:3]
        if identity
        else []
    )
    hint = f"; known are {', '.join(near)}" if near else ""
    there = " (it is archived: restore it first)" if not kind and view.archived(identity) else ""
    return UnknownPattern(f"no {kind}pattern {identity!r}{there}{hint}")

"""Extracts patterns from loops that AIWG ran, as its files describe them (`foreign_loops`).

A course with diffs goes through the same extraction as our own loops, with the same rules. If
only a sentence describes a fix, the pattern has the error and that sentence. Nothing in a file was
observed here, so the patterns carry claims, and no count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from taofold.core.failing_checks import Check
from taofold.core.text import clip
from taofold.learning.exchange.foreign_loops import ForeignLoop, LoopRound
from taofold.learning.extraction.categories import category_of, gist, task_category
from taofold.learning.extraction.generalisation import language_of
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt
from taofold.learning.extraction.lessons import extract, signature_of
from taofold.learning.extraction.settled_errors import sign_of
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    ErrorFix,
    Fix,
    FixCategory,
    IterationSpread,
)
from taofold.learning.patterns.pattern import (
    ImportClaim,
    Pattern,
    PatternScope,
    PatternSource,
    UseCounts,
)
from taofold.learning.retrieval.relevance import likeness

_SHORTEST: Final = 20
"""The fewest characters of a fix's description, by the schema."""
_REPEATED: Final = 3
"""The rounds with the same error that make an anti-pattern."""
_ALIKE: Final = 0.80
_SUCCESS: Final = frozenset({"completed", "success", "passed"})


def claimed_patterns(loops: Iterable[ForeignLoop]) -> tuple[Pattern, ...]:
    """Returns the patterns of the loops, without ids. One of several loops names all of them."""
    patterns: list[Pattern] = []
    for loop in loops:
        _add(patterns, _patterns(loop))
    return tuple(patterns)


class _Attempt(NamedTuple):
    """Rounds between two reports: the attempt, and the sentences about it."""

    attempt: RepairAttempt
    text: str
    cause: str
    category: FixCategory
    at: int


def _attempts(rounds: Mapping[int, LoopRound]) -> list[_Attempt]:
    """Returns the attempts of a course."""
    known: list[Check] | None = None
    attempts: list[_Attempt] = []
    changes: list[FileChange] = []
    text, cause, at = "", "", 0
    category: FixCategory = "other"
    for number in sorted(rounds):
        now = rounds[number]
        known = now.before if now.before is not None else known
        changes += now.changes
        text, cause, at = now.text or text, now.cause or cause, now.at or at
        category = now.category if now.category != "other" else category
        if now.after is None:
            continue
        if known is not None and (changes or text):
            place = next((check.place.path for check in known if check.place.path), "")
            placed = [replace(change, path=change.path or place) for change in changes]
            placed = [change for change in placed if change.path]
            attempt = RepairAttempt(number, tuple(known), tuple(placed), tuple(now.after))
            attempts.append(_Attempt(attempt, text, cause, category, at))
        known, changes, text, cause, category = now.after, [], "", "", "other"
    return attempts


def _patterns(loop: ForeignLoop) -> list[Pattern]:
    """Returns the patterns of one loop, each once."""
    found: list[Pattern] = []
    for rounds in loop.courses.values():
        attempts = _attempts(rounds)
        history = LoopHistory(
            loop.id,
            loop.task,
            next((language for each in attempts if (language := _language(each))), ""),
            "completed" if loop.status in _SUCCESS else loop.status,
            tuple([each.attempt for each in attempts]),
            sum(each.after is not None or bool(each.text) for each in rounds.values()),
            max([each.at for each in attempts], default=0),
            agent=loop.agent,
        )
        lessons = [_with_cause(lesson, attempts) for lesson in extract(history)]
        lessons += _described(history, attempts, lessons)
        lessons += _repeated(history, attempts)
        lessons += _ways(history, rounds)
        found += [_claimed(history, lesson, _when(lesson, attempts)) for lesson in lessons]
    once: list[Pattern] = []
    for pattern in found:
        if not any(likeness(pattern, other) > _ALIKE for other in once):
            once.append(pattern)
    return once


def _with_cause(pattern: Pattern, attempts: Iterable[_Attempt]) -> Pattern:
    """Returns a fix with the sentence of its file: the cause, or the description of the change."""
    body = pattern.body
    if not isinstance(body, ErrorFix):
        return pattern
    sentences = [
        each.cause or each.text
        for each in attempts
        if body.signature.example in [check.message[:300] for check in each.attempt.before]
    ]
    cause = next(filter(None, reversed(sentences)), "")
    return replace(pattern, body=replace(body, fix=replace(body.fix, cause=cause)))


def _language(attempt: _Attempt) -> str:
    paths = [change.path for change in attempt.attempt.changes]
    paths += [check.place.path for check in attempt.attempt.before]
    return next((name for path in paths if (name := language_of(path)) != "other"), "")


def _described(
    history: LoopHistory, attempts: Iterable[_Attempt], lessons: Sequence[Pattern]
) -> Iterator[Pattern]:
    """Yields the fixes that only a sentence describes."""
    covered = {
        each.signature.example for each in lessons if each.signature and each.kind == "error"
    }
    for each in attempts:
        left = {sign_of(check) for check in each.attempt.after}
        for check in each.attempt.before:
            over = sign_of(check) not in left and check.message[:300] not in covered
            if not over or len(each.text) < _SHORTEST:
                continue
            covered.add(check.message[:300])
            language = language_of(check.place.path)
            category = each.category
            if each.attempt.changes:
                category = category_of(each.attempt.changes)
            fix = Fix(each.text, category, language=language, cause=each.cause)
            body = ErrorFix(signature_of(check, history), fix)
            yield _pattern(gist(*sign_of(check)), body, language, category, check.error_type)


def _repeated(history: LoopHistory, attempts: Sequence[_Attempt]) -> Iterator[Pattern]:
    """Yields an error that stayed after several described attempts, in a loop that failed."""
    if history.succeeded:
        return
    tries: dict[tuple[str, str], list[tuple[Check, str]]] = {}
    for each in attempts:
        for check in each.attempt.after:
            if each.text and sign_of(check) in map(sign_of, each.attempt.before):
                tries.setdefault(sign_of(check), []).append((check, each.text))
    for stayed in tries.values():
        texts = dict.fromkeys([clip(text, 200) for _, text in stayed])
        if len(stayed) < _REPEATED:
            continue
        check, category = stayed[0][0], task_category(history.task)
        body = Avoidance(
            "; ".join([*texts][:4]),
            "repeated_same_error",
            (f"the same error stayed after {len(stayed)} attempts",),
            category=category,
            signature=signature_of(check, history),
        )
        language = language_of(check.place.path)
        yield _pattern(gist(*sign_of(check)), body, language, "repeated_same_error")


def _ways(history: LoopHistory, rounds: Mapping[int, LoopRound]) -> Iterator[Pattern]:
    """Yields the steps of a loop that succeeded after several rounds."""
    texts = [rounds[number].text for number in sorted(rounds)]
    steps = tuple(dict.fromkeys([clip(text, 300) for text in texts if text]))
    if not history.succeeded or len(steps) < 2 or not history.task:
        return
    category, count = task_category(history.task), len(rounds)
    body = Approach(
        category,
        f"The steps of a loop that ended as completed: {clip(history.task, 200)}",
        steps[:12],
        (),
        IterationSpread(float(count), count, count),
        "",
        float(count),
    )
    yield _pattern(clip(history.task, 72), body, history.language, category)


def _pattern(name: str, body: Any, language: str, *words: str) -> Pattern:
    plain = [word.lower().replace("_", "-") for word in (language, *words)]
    tags = dict.fromkeys([word for word in plain if word and word != "other"])
    return Pattern("", name, body, PatternScope("", language), tuple(tags))


def _when(pattern: Pattern, attempts: Sequence[_Attempt]) -> int:
    """Returns the time of the attempt that ended the pattern's error; 0 if it is unknown."""
    example = pattern.signature.example if pattern.signature is not None else ""
    times = [
        each.at
        for each in attempts
        if not example or example in [check.message[:300] for check in each.attempt.before]
    ]
    return max(times, default=0)


def _claimed(history: LoopHistory, pattern: Pattern, at: int) -> Pattern:
    """Returns the pattern as a claim of the loop's files."""
    source = PatternSource(
        history.loop, at, "discovered", history.agent, iterations=history.iterations, claimed=True
    )
    won = pattern.kind != "anti"
    counts = UseCounts(1, int(won), int(not won))
    return replace(
        pattern,
        sources=(source,),
        first_discovered=at,
        last_used=at,
        claim=ImportClaim(counts),
    )


def _add(known: list[Pattern], new: Iterable[Pattern]) -> None:
    """Adds patterns. One that another loop has too becomes a second source of that one."""
    for pattern in new:
        for n, other in enumerate(known):
            if likeness(pattern, other) > _ALIKE and other.claim and pattern.claim:
                known[n] = replace(
                    other,
                    sources=(*other.sources, *pattern.sources),
                    first_discovered=min(
                        filter(None, (other.first_discovered, pattern.first_discovered)), default=0
                    ),
                    last_used=max(other.last_used, pattern.last_used),
                    claim=ImportClaim(other.claim.counts + pattern.claim.counts),
                )
                break
        else:
            known.append(pattern)

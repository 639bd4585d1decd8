"""What a finished loop teaches: fixes of errors, approaches, code templates, and what failed.

`pairs` are the errors that a loop settled, each with the changes after which it was gone, from its
first text to its last; all rules but those for failures stand on them. A loop that failed teaches
no success, only what to avoid (D18). Nothing is taught where the log does not say what a file held.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple, get_args

from msgspec.structs import replace

from taofold.core.failing_checks import Check, is_assertion, is_foreign, is_test
from taofold.diagnostics import causes_of
from taofold.learning.extraction.blame import blame
from taofold.learning.extraction.categories import (
    category_of,
    gist,
    task_category,
)
from taofold.learning.extraction.diffs import (
    MOST_SHOWN,
    SEPARATOR,
    ChangedLines,
    Line,
    added_lines,
    changed_lines,
    code_lines,
    defines,
    excerpt,
    indent,
    joined,
    lines_of,
    lost_lines,
    spans,
)
from taofold.learning.extraction.generalisation import (
    error_type_of,
    hints_of,
    language_of,
    pattern_of,
    raised_at,
    seen_at,
    template_code,
)
from taofold.learning.extraction.history import (
    FileChange,
    LoopHistory,
    RepairAttempt,
    same_finding,
    stops,
)
from taofold.learning.extraction.silencing import silences
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    Body,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
    FailureMode,
    Fix,
    IterationSpread,
    Kind,
    Language,
)
from taofold.learning.patterns.pattern import Pattern, PatternScope

REPEATED: Final = 3
"""Times that one error must stay for it to be a pattern."""
_STUB: Final = re.compile(r"(?i)not ?(?:yet )?implemented")
_MOST_EDITS: Final = 4
_MOST_EDIT: Final = 160
_MOST_EXAMPLE: Final = 300

Sign = tuple[str, str]
"""An error's class and its generalised message."""


def avoidances(history: LoopHistory) -> Iterator[Pattern]:
    """The mistakes in a loop; of an error that it settled its lesson tells what failed before."""
    settled = {
        _sign_of(check)
        for settling in pairs(history)
        for check in (settling.first, *settling.alike)
    }
    judged = [attempt for attempt in history.attempts if attempt.judged and attempt.changes]
    for sign in [sign for sign in _signs(judged) if sign not in settled]:
        stayed = [attempt for attempt in judged if _in_vain(attempt, sign)]
        rounds = len({attempt.iteration for attempt in stayed})
        # In a loop that got there in the end, several tries in one iteration are how one works.
        times = rounds if history.succeeded else max(rounds, len(stayed))
        edits = _edits(stayed)
        if times < REPEATED or not edits:
            continue
        check = next(f for attempt in stayed for f in attempt.after if _sign_of(f) == sign)
        yield _avoidance(
            history,
            check,
            "; ".join(edits),
            "repeated_same_error",
            f"the same error stayed after {times} of {times} edits",
        )
    for attempt in () if history.succeeded else history.attempts:
        broken = next(filter(_told, attempt.broke), None)
        if broken is not None and attempt.kept and (edits := _edits([attempt])):
            approach = f"{'; '.join(edits)}: {gist(*_sign_of(broken))} was new after it"
            symptom = f"{len(attempt.broke)} checks that passed failed after it"
            yield _avoidance(history, broken, approach, "breaking_change", symptom)
            return


def _avoidance(
    history: LoopHistory, check: Check, approach: str, mode: FailureMode, symptom: str
) -> Pattern:
    language = history.language or language_of(check.place.path)
    signature, category = signature_of(check, history), task_category(history.task)
    body = Avoidance(approach, mode, (symptom,), category=category, signature=signature)
    return _pattern(history, gist(*_sign_of(check)), body, language, mode)


def _pattern(history: LoopHistory, name: str, body: Body, language: str, *words: str) -> Pattern:
    """A pattern without an id, with the language and the `words` as its tags."""
    words = tuple([word.lower().replace("_", "-") for word in (language, *words)])
    tags = dict.fromkeys([word for word in words if word and word != "other"])
    return Pattern("", name, body, PatternScope(history.repository, language), tuple(tags))


def _sign_of(check: Check) -> Sign:
    return check.error_type, pattern_of(check.message)


def _signs(attempts: Sequence[RepairAttempt]) -> list[Sign]:
    signs = [_sign_of(check) for attempt in attempts for check in attempt.after if _told(check)]
    return [sign for sign, _ in Counter(signs).most_common(3)]


def _in_vain(attempt: RepairAttempt, sign: Sign) -> bool:
    """Did it leave the error where it was, and settle no other one either?"""
    # By error and not by check: a compiler's finding is named after its message, names and all.
    left = {_sign_of(check) for check in attempt.after}
    settled = {_sign_of(check) for check in attempt.before} - left
    return attempt.judged and not settled and sign in left and _in(sign, attempt.before)


def _in(sign: Sign, checks: Sequence[Check]) -> bool:
    return any(_sign_of(check) == sign for check in checks)


def _edits(attempts: Sequence[RepairAttempt]) -> list[str]:
    """The different edits that were made, each in one line."""
    changes = [c for attempt in attempts for c in attempt.changes if not is_test(c.path)]
    edits = dict.fromkeys([_shortly(*lines_of([change])) for change in changes])
    return list(filter(None, edits))[:_MOST_EDITS]


def signature_of(check: Check, history: LoopHistory) -> ErrorSignature:
    """What the error looked like in this loop."""
    return ErrorSignature(
        error_type_of(check.error_type),
        pattern_of(check.message),
        hints_of(check),
        check.error_type,
        check.message[:_MOST_EXAMPLE],
        seen_at(check),
        history.callers.get(check.signature, ""),
        raised_at(check),
        tuple([f"{error}: {said}"[:_MOST_EXAMPLE] for error, said in causes_of(check)]),
    )


KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MOST: Final = 8
"""Patterns of a kind that one loop may teach: a long loop should not flood the registry."""
LEAST: Final = 0.6
"""The default of `extract`."""


def extract(
    history: LoopHistory, kinds: Collection[Kind] = KINDS, least: float = LEAST
) -> tuple[Pattern, ...]:
    """Every pattern that the loop teaches, without ids; the same for the same history.

    Args:
        least: The share of the loop's tries that must have settled a check for its way of working
            to be an approach (`min_success_rate_threshold`).
    """
    rules: dict[Kind, Callable[[LoopHistory], Iterator[Pattern]]] = {
        "error": _errors,
        "success": lambda history: approaches(history, least),
        "anti": avoidances,
        "template": _templates,
    }
    patterns: list[Pattern] = []
    for kind, rule in rules.items():
        if kind in kinds:
            patterns += list(rule(history))[:MOST]
    return tuple(patterns)


def _errors(history: LoopHistory) -> Iterator[Pattern]:
    for settled in pairs(history):
        body, error = _error_fix(settled, history), settled.first.error_type
        fix, name = body.fix, gist(error, body.signature.pattern)
        yield _pattern(history, name, body, fix.language, fix.category, error)


class SettledError(NamedTuple):
    """Failing checks of one error, and what made them pass.

    `first` is the error as it was reported first; `changes` lead from the text that the report was
    about to the one in which it was gone; `vain` are lines tried between that left it; `partial`:
    it was made with others, for other errors perhaps.
    """

    alike: list[Check]
    first: Check
    changes: tuple[FileChange, ...]
    vain: tuple[str, ...]
    partial: bool


def pairs(history: LoopHistory) -> Iterator[SettledError]:
    """Failing checks of one error with the changes after which these same checks passed.

    Changes to tests prove nothing, and what was taken back or replaced, broke other checks, or only
    silenced this one, is no fix; what stayed to the end is no failure. An edit of several files
    settled those errors that lead into one of them; which of several others nobody can say. An
    error in whose edited lines a compiler found another one was settled with that one.
    """
    lost = lost_lines(history.attempts)
    settled_signs: set[Sign] = set()
    replaced: list[SettledError] = []
    moved: list[_Moved] = []
    for number, attempt in enumerate(history.attempts):
        edits = [c for c in attempt.changes if not is_test(c.path)]
        # What broke another check may have moved the fault: it is no example to follow, unless it
        # is known which lines did.
        harm = [(check, _lines_at(check, edits)) for check in attempt.broke]
        if not (attempt.kept and attempt.judged and all(lines for _, lines in harm)):
            continue
        after = history.attempts[number + 1 :]
        settled = [*attempt.turned, *_settled(attempt, after)]
        settled = [check for check in settled if not _came_back(check, after)]
        groups = [group for group in _distinct(settled) if _told(group[0])]
        searched = [
            (group, *_search(history.attempts[:number], group[0], attempt)) for group in groups
        ]
        ended = {check.id for check in settled}
        for alike, start, became in moved:
            if any(check.id in ended for check in became):
                signs = {_sign_of(check) for check in became}
                searched.append((alike, history.attempts[start:number], alike[0], signs))
        for alike, earlier, check, later_signs in searched if edits else ():
            changes = joined([c for past in earlier for c in past.changes], edits)
            # As it was reported first: its lines are those of the first text.
            reported = earlier[0].before if earlier else ()
            alike_then = [past for past in reported if _alike(past, check)]
            first = next((past for past in alike_then if past.id == check.id), None)
            first = first or next(iter(alike_then), check)
            # Of errors that stayed as well: what was changed where they point was meant for them.
            own = {_sign_of(first), _sign_of(alike[0]), *later_signs}
            others = [other for other in attempt.before if _sign_of(other) not in own]
            several = len(groups) > 1
            fix = blame(changes, first, others, edits, several=several)
            added = {*added_lines(fix.changes)}
            became = [broken for broken, lines in harm if not added.isdisjoint(lines)]
            if became:
                moved.append(_Moved(alike, number - len(earlier), became))
                continue
            stayed = lost.isdisjoint(added)
            if not stayed:
                # A part was replaced: what stayed is the fix if it is where the error was raised.
                raised = blame(fix.changes, _raised(first), ())
                stayed = raised.pointed and lost.isdisjoint(added_lines(raised.changes))
                paths = {change.path for change in fix.changes}
                later = [past for past in after if past.kept]
                more = [c for past in later for c in past.changes if c.path in paths]
                last = blame(joined((), [*changes, *more]), _raised(first), others)
                fix = raised if stayed else last
                if not fix.pointed or not lost.isdisjoint(added_lines(fix.changes)):
                    continue
            if _readable(fix.changes) and not silences(*lines_of(fix.changes)):
                # The same check by all its messages: an edit may have changed only these.
                states = [state for past in earlier for state in (*past.before, *past.after)]
                forms = {*own, *[_sign_of(c) for c in states if c.id == alike[0].id]}
                vain = [added_lines(_in_vain_for(past, forms)) for past in earlier]
                tried = _tried(vain, added_lines(fix.changes), lost)
                lesson = SettledError(alike, first, fix.changes, tried, fix.partial)
                if stayed:
                    settled_signs.add(_sign_of(first))
                    yield lesson
                else:
                    replaced.append(lesson)
    # Unless it was the way to what settled the error in the end.
    yield from [lesson for lesson in replaced if _sign_of(lesson.first) not in settled_signs]


class _Moved(NamedTuple):
    """Failing checks that became others, in the lines that were edited from attempt `start` on."""

    alike: list[Check]
    start: int
    became: list[Check]


def _lines_at(check: Check, edits: Iterable[FileChange]) -> list[Line]:
    """The lines that the edits put in where the finding stands, or under the head where it does.

    None if that is not known. Of a function that returns nothing the head is reported.
    """
    path, line = check.place.path, check.place.line
    if not line or stops(check):
        return []
    return code_lines(
        [
            (path, text.strip())
            for change in edits
            if change.path == path and not change.part
            for span in spans(change)
            if span.new_start < line <= span.new_end or _heads(change, line, span)
            for text in change.after.splitlines()[span.new_start : span.new_end]
        ]
    )


def _heads(change: FileChange, line: int, span: ChangedLines) -> bool:
    """Does this line of the text after the change begin the block that the span lies in?"""
    block = [text for text in change.after.splitlines()[line - 1 : span.new_end] if text.strip()]
    if line > span.new_start or len(block) < 2:
        return False
    return min(map(indent, block[1:])) > indent(block[0])


def _search(
    attempts: Sequence[RepairAttempt], check: Check, ending: RepairAttempt
) -> tuple[tuple[RepairAttempt, ...], Check, set[Sign]]:
    """The attempts at the error that `ending` settled, the check as it failed at first, and what
    else it was on the way.

    An edit after which the same check failed otherwise, and which was undone, did not settle the
    first error: it moved it, and whoever made it was still looking for the fix of that one.
    """
    earlier, signs = _since(attempts, _sign_of(check)), set[Sign]()
    while len(earlier) < len(attempts):
        rest = attempts[: len(attempts) - len(earlier)]
        moved = next((c for c in rest[-1].before if same_finding(c, check)), None)
        moved = moved or _exchanged(rest[-1], check)
        if moved is None or _supplied(rest[-1], moved, check):
            break
        if not _undone(rest[-1], moved, (*earlier, ending)):
            break
        check, earlier = moved, (*_since(rest, _sign_of(moved)), *earlier)
        signs.add(_sign_of(check))
    return earlier, check, signs


def _exchanged(attempt: RepairAttempt, check: Check) -> Check | None:
    """The finding that the attempt ended by lines in which this one stands, if that is certain."""
    edits = [change for change in attempt.changes if not is_test(change.path)]
    return attempt.turned[0] if len(attempt.turned) == 1 and _lines_at(check, edits) else None


def _supplied(attempt: RepairAttempt, missing: Check, now: Check) -> bool:
    """Did the attempt write what was missing, so that what fails `now` is an error of its own?"""
    if is_assertion(missing) or _STUB.search(f"{missing.error_type} {missing.message}"):
        return not is_assertion(now)
    return defines(*lines_of(attempt.changes), missing.message)


def _undone(attempt: RepairAttempt, check: Check, later: Iterable[RepairAttempt]) -> bool:
    """Was a line taken out again that the attempt put in for the check?"""
    others = [other for other in attempt.before if not _alike(other, check)]
    edits = [change for change in attempt.changes if not is_test(change.path)]
    gone = {line for past in later for change in past.changes for line in changed_lines(change)[0]}
    return not gone.isdisjoint(added_lines(blame(edits, _raised(check), others).changes))


def _raised(check: Check) -> Check:
    """The check where it was raised: callers' lines may have been changed for other reasons."""
    inside = [place for place in check.places if not is_foreign(place.path)]
    return replace(check, places=tuple(inside[-1:]))


def _in_vain_for(attempt: RepairAttempt, own: Collection[Sign]) -> tuple[FileChange, ...]:
    """What the attempt changed for an error that it left or moved: of what it settled nothing."""
    left = {_sign_of(check) for check in attempt.after}
    check = next((check for check in attempt.before if _sign_of(check) in own), None)
    if not attempt.judged or check is None or left.isdisjoint(own):
        return ()
    changes = joined((), [c for c in attempt.changes if not is_test(c.path)])
    others = [other for other in attempt.before if _sign_of(other) not in own]
    part = blame(changes, check, others)
    if part.pointed:
        return part.changes
    # Of an attempt that settled nothing it is not known which error it was meant for, unless the
    # report of another one points at it.
    settled = [other for other in others if _sign_of(other) not in left]
    meant = any(blame(changes, other, (check,)).pointed for other in others)
    return () if settled or meant else changes


def _alike(one: Check, other: Check) -> bool:
    return _sign_of(one) == _sign_of(other)


def _since(attempts: Sequence[RepairAttempt], sign: Sign) -> tuple[RepairAttempt, ...]:
    """The newest of `attempts`, from the one at which the error was first there."""
    start = len(attempts)
    while start and _in(sign, attempts[start - 1].before):
        start -= 1
    return tuple(attempts[start:])


def _told(check: Check) -> bool:
    """Is it known what the error was? A command of which only its exit code is known is not."""
    # What stands first in a command's output may be anything.
    if check.error_type in ("command", "timeout"):
        return False
    return bool(check.message or check.error_type)


def _readable(changes: Collection[FileChange]) -> bool:
    """Is it known of each what it was, and can it be shown whole?"""
    lengths = [sum(map(len, lines_of([change]))) for change in changes]
    return bool(lengths) and min(lengths) > 0 and max(lengths) <= MOST_SHOWN


def _settled(attempt: RepairAttempt, later: tuple[RepairAttempt, ...]) -> Iterator[Check]:
    """Checks that failed for another reason afterwards, and passed while the edit stood."""
    now = {check.id: check for check in attempt.after}
    passed = {f.id for following in later if following.kept for f in following.turned}
    for check in attempt.before:
        if check.id not in now or check.id not in passed:
            continue
        if _alike(now[check.id], check):
            continue
        # Other words of one class may be the same fault: the edit must be where it was raised.
        same = now[check.id].error_type == check.error_type
        if not same or blame(attempt.changes, _raised(check), ()).pointed:
            yield check


def _came_back(check: Check, later: Iterable[RepairAttempt]) -> bool:
    """Does it fail again just so, in the same function, though nothing was taken back?"""
    return any(
        other.id == check.id and _alike(other, check) and seen_at(other) == seen_at(check)
        for attempt in later
        if attempt.kept
        for other in (*attempt.before, *attempt.after)
    )


def _distinct(checks: list[Check]) -> list[list[Check]]:
    """The checks by error and generalised message, the commonest first."""
    ordered = sorted(checks, key=_sign_of)
    groups = [list(group) for _, group in groupby(ordered, key=_sign_of)]
    return sorted(groups, key=lambda g: (-len(g), _sign_of(g[0])))


def _error_fix(settled: SettledError, history: LoopHistory) -> ErrorFix:
    check, changes = settled.first, settled.changes
    gone, new = lines_of(changes)
    language = language_of(changes[0].path)
    return ErrorFix(
        signature_of(check, history),
        Fix(
            f"The error was gone after {_shortly(gone, new)}",
            category_of(changes),
            code=template_code(new)[0],
            language=language,
            diff=difference(changes),
            files=tuple(dict.fromkeys([change.path for change in changes])),
            vain=settled.vain,
            partial=settled.partial,
        ),
    )


def _tried(
    vain: Sequence[Sequence[Line]], fix: Sequence[Line], lost: Collection[Line]
) -> tuple[str, ...]:
    """Of each attempt the lines that left the error and were given up, or those of the fix."""
    other = [_quoted([line for line in lines if line in lost]) for lines in vain]
    # A part of what was right in the end was not enough.
    part = [_quoted([line for line in lines if line in fix], " alone") for lines in vain]
    return tuple(dict.fromkeys(filter(None, other if any(other) else part)))[:_MOST_EDITS]


def _quoted(lines: Sequence[Line], end: str = "") -> str:
    texts = dict.fromkeys([f"`{text[:_MOST_EDIT]}`" for _, text in lines])
    return " and ".join(list(texts)[:_MOST_EDITS]) + end * bool(texts)


def difference(changes: tuple[FileChange, ...]) -> str:
    """Lines with `-` and `+`, under their own names; of several files each under its path."""
    texts = [(change.path, text) for change in changes if (text := excerpt(change))]
    if len(texts) == 1:
        return texts[0][1]
    return "\n".join([f"{SEPARATOR} {path}\n{text}" for path, text in texts])


def approaches(history: LoopHistory, least: float = LEAST) -> Iterator[Pattern]:
    """The chain of errors of a loop that succeeded: which came to light after which was settled.

    One edit that settled everything is told by its error; an approach says nothing beside it. Nor
    is a way to be recommended on which fewer than `least` of the tries settled a check.
    """
    tried = sum(attempt.judged for attempt in history.attempts)
    useful = sum(
        attempt.kept and bool(attempt.turned or [*_settled(attempt, history.attempts[number:])])
        for number, attempt in enumerate(history.attempts, 1)
    )
    if useful < least * tried:
        return
    settled = list(pairs(history))
    first = {_sign_of(check) for check in (history.attempts[0].before if history.attempts else ())}
    steps: list[str] = []
    for each in settled:
        error, where = gist(*each.alike[0].error), seen_at(each.first)
        place = f" in {where}" if where else ""
        steps.append(f"{error}{place}: {_shortly(*lines_of(each.changes))}")
    steps = list(dict.fromkeys(steps))
    # An error that was not there at first came to light after another one was settled; errors that
    # were all there from the start are no chain.
    later = any(_sign_of(each.alike[0]) not in first for each in settled)
    if not history.succeeded or len(steps) < 2 or not later:
        return
    category, language = task_category(history.task), language_of(settled[0].changes[0].path)
    spread = IterationSpread(float(history.iterations), history.iterations, history.iterations)
    body = Approach(
        category,
        "Settling one error brought the next to light; this was the order",
        tuple(steps[:MOST]),
        tuple(dict.fromkeys([tool for attempt in history.attempts for tool in attempt.tools])),
        spread,
        pattern_of(history.task),
        float(history.iterations),
        benefits=(f"{len(steps)} errors settled",),
    )
    name = f"{len(steps)} errors one after another, the first {steps[0].partition(': ')[0]}"
    yield _pattern(history, name, body, language, category)


def _shortly(removed: Iterable[str], added: Iterable[str]) -> str:
    """A difference in one line: the first line that went, and the first that came."""
    gone = next((line.strip()[:_MOST_EDIT] for line in removed if line.strip()), "")
    new = next((line.strip()[:_MOST_EDIT] for line in added if line.strip()), "")
    if gone and new:
        return f"`{gone}` became `{new}`"
    return f"`{new}` was added" if new else f"`{gone}` was taken out" if gone else ""


def _templates(history: LoopHistory) -> Iterator[Pattern]:
    for settled in pairs(history):
        check, changes = settled.first, settled.changes
        gone, new = [[line for line in side if line.strip()] for side in lines_of(changes)]
        # An exchange of words, or a line alone, is no template: the lesson shows it.
        if len(new) - len(gone) < 2:
            continue
        code, holes = template_code(new)
        language = language_of(changes[0].path)
        error = gist(check.error_type, pattern_of(check.message))
        body = CodeTemplate(
            code,
            next((name for name in get_args(Language) if name == language), "other"),
            f"It was put in where this was gone after it: {error}",
            holes,
            task_category(history.task),
        )
        yield _pattern(history, f"Code after which this was gone: {error}", body, language)

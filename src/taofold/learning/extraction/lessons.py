"""Derives the lessons of a finished loop: fixes, approaches, code templates and failed approaches.

All except the failed approaches are based on the errors that the loop fixed (`settled_errors`). A
failed loop teaches no success, only what to avoid (D18). Nothing is taught if the log does not
contain a file's content.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, cast, get_args

from msgspec.structs import replace

from taofold.core.failing_checks import Check, is_test_id
from taofold.core.text import times
from taofold.diagnostics import causes_of
from taofold.learning.extraction.acts import acts, inert
from taofold.learning.extraction.categories import category_of, gist, task_category
from taofold.learning.extraction.diffs import (
    SEPARATOR,
    changed_lines,
    code_lines,
    excerpt,
    lines_of,
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
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt
from taofold.learning.extraction.settled_errors import (
    MOST_EDIT,
    MOST_EDITS,
    SettledError,
    Sign,
    code_changes,
    known,
    part_of,
    settled_by,
    settled_errors,
    sign_of,
)
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
from taofold.learning.patterns.pattern import MOST_TESTS, Pattern, PatternScope

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MOST: Final = 8
"""The most patterns of a kind per loop, so that a long loop does not flood the registry."""
LEAST: Final = 0.6
"""The default of `least` in `extract`."""
REPEATED: Final = 3
"""The number of repetitions that make a persistent error a pattern."""
_MOST_EXAMPLE: Final = 300


def extract(
    history: LoopHistory, kinds: Collection[Kind] = KINDS, least: float = LEAST
) -> tuple[Pattern, ...]:
    """Returns every pattern that the loop teaches, without ids; deterministic.

    Args:
        history: The loop.
        kinds: The kinds of patterns to return.
        least: The minimum share of attempts that fixed a check, for the loop to teach an approach
            (`min_success_rate_threshold`).
    """
    history = history.without_comments()
    settled = settled_errors(history)
    rules: dict[Kind, Iterator[Pattern]] = {
        "error": _errors(history, settled),
        "success": _approaches(history, settled, least),
        "anti": _avoidances(history, settled),
        "template": _templates(history, settled),
    }
    patterns: list[Pattern] = []
    for kind, rule in rules.items():
        if kind in kinds:
            patterns += list(rule)[:MOST]
    return tuple(patterns)


def _pattern(history: LoopHistory, name: str, body: Body, language: str, *words: str) -> Pattern:
    """Returns a pattern without an id, with the language and the `words` as its tags."""
    words = tuple([word.lower().replace("_", "-") for word in (language, *words)])
    tags = dict.fromkeys([word for word in words if word and word != "other"])
    return Pattern("", name, body, PatternScope(history.repository, language), tuple(tags))


def _errors(history: LoopHistory, settled: Iterable[SettledError]) -> Iterator[Pattern]:
    for each in settled:
        gone, new = lines_of(each.changes)
        language, category = language_of(each.changes[0].path), category_of(each.changes)
        fix = Fix(
            f"The error was gone after {_shortly(gone, new)}",
            category,
            code=template_code(new)[0],
            language=language,
            diff=difference(each.changes),
            files=tuple(dict.fromkeys([change.path for change in each.changes])),
            vain=each.vain,
            partial=each.partial,
        )
        body, name = ErrorFix(signature_of(each.first, history), fix), gist(*sign_of(each.first))
        found = _pattern(history, name, body, language, category, each.first.error_type)
        yield replace(found, tests=_tests([each.first, *each.alike]))


def _tests(checks: Iterable[Check]) -> tuple[str, ...]:
    """Returns the ids of the first tests among the checks, without their parameters.

    A shortened id could not be run, so a long one is omitted.
    """
    parts = [check.id.partition("::") for check in checks if is_test_id(check.id)]
    ids = [f"{path}{mark}{name.partition('[')[0]}" for path, mark, name in parts]
    return tuple(dict.fromkeys([name for name in ids if len(name) <= _MOST_EXAMPLE]))[:MOST_TESTS]


def signature_of(check: Check, history: LoopHistory) -> ErrorSignature:
    """Returns the signature of the error in this loop."""
    return ErrorSignature(
        error_type_of(check.error_type),
        pattern_of(check.message),
        hints_of(check),
        check.error_type,
        check.message[:_MOST_EXAMPLE],
        seen_at(check),
        "\n".join(inert(history.callers.get(check.signature, "").split("\n"))),
        "".join(inert([raised_at(check)])),
        tuple([f"{error}: {said}"[:_MOST_EXAMPLE] for error, said in causes_of(check)]),
    )


def difference(changes: tuple[FileChange, ...]) -> str:
    """Returns lines with `-` and `+` and original names; several files each under its path."""
    texts = [(change.path, text) for change in changes if (text := _shown(change))]
    if len(texts) == 1:
        return texts[0][1]
    return "\n".join([f"{SEPARATOR} {path}\n{text}" for path, text in texts])


def _shown(change: FileChange) -> str:
    """Returns the excerpt without context lines that act themselves."""
    lines = excerpt(change).split("\n")
    return "\n".join([line for line in lines if line[:1] != " " or inert([line])])


def _shortly(removed: Iterable[str], added: Iterable[str]) -> str:
    """Returns a difference in one line: the first removed line and the first inserted one."""
    gone = next((line.strip()[:MOST_EDIT] for line in removed if line.strip()), "")
    new = next((line.strip()[:MOST_EDIT] for line in added if line.strip()), "")
    if gone and new:
        return f"`{gone}` became `{new}`"
    return f"`{new}` was added" if new else f"`{gone}` was taken out" if gone else ""


def _approaches(
    history: LoopHistory, settled: Sequence[SettledError], least: float
) -> Iterator[Pattern]:
    """Yields the chain of errors of a successful loop: the order in which they appeared and were
    fixed.

    A single edit that fixed everything is already described by its error. A way in which fewer than
    `least` of the attempts fixed a check is not recommended.
    """
    tried = sum(attempt.judged for attempt in history.attempts)
    useful = sum(bool(settled_by(history.attempts, n)) for n in range(len(history.attempts)))
    steps: dict[str, None] = {}
    for each in settled:
        error, where = gist(*each.alike[0].error), seen_at(each.first)
        steps[f"{error}{where and f' in {where}'}: {_shortly(*lines_of(each.changes))}"] = None
    # A later error appeared after an earlier one was fixed. Errors that were all present from the
    # start, or ended together, are no chain.
    first = {sign_of(check) for attempt in history.attempts[:1] for check in attempt.before}
    later = any(sign_of(each.alike[0]) not in first for each in settled)
    chain = later and len(steps) > 1 and len({each.end for each in settled}) > 1
    if useful < least * tried or not history.succeeded or not chain:
        return
    category, language = task_category(history.task), language_of(settled[0].changes[0].path)
    spread = IterationSpread(float(history.iterations), history.iterations, history.iterations)
    body = Approach(
        category,
        "Settling one error brought the next to light; this was the order",
        tuple(steps)[:MOST],
        tuple(dict.fromkeys([tool for attempt in history.attempts for tool in attempt.tools])),
        spread,
        pattern_of(history.task),
        float(history.iterations),
        benefits=(f"{len(steps)} errors settled",),
    )
    opening = next(iter(steps)).partition(": ")[0]
    name = f"{len(steps)} errors one after another, the first {opening}"
    yield _pattern(history, name, body, language, category)


def _avoidances(history: LoopHistory, settled: Iterable[SettledError]) -> Iterator[Pattern]:
    """Yields the mistakes in a loop. Those before a fix name the fix as the better alternative."""
    settled = list(settled)
    for each in settled:
        tries = [
            (attempt, tried)
            for attempt in history.attempts[each.start : each.end]
            if attempt.judged and (tried := _tried(attempt, sign_of(each.first)))
        ]
        # The error before the first edit counts: two edits without effect show it three times.
        if len(tries) + 1 >= REPEATED:
            edits = _edits(change for _, tried in tries for change in tried)
            symptom = f"the same error stayed after {times(len(tries), 'edit')}"
            found = _avoidance(history, each.first, edits, "repeated_same_error", symptom)
            better = f"The error was gone after {_shortly(*lines_of(each.changes))}"
            body = replace(cast("Avoidance", found.body), better=better)
            yield replace(found, body=body)
    told = {sign_of(check) for each in settled for check in (each.first, *each.alike)}
    judged = [attempt for attempt in history.attempts if attempt.judged and attempt.changes]
    signs = Counter(sign_of(c) for attempt in judged for c in attempt.after if known(c))
    for sign in [sign for sign, _ in signs.most_common(3) if sign not in told]:
        tries = [(attempt, tried) for attempt in judged if (tried := _tried(attempt, sign))]
        stayed = [attempt for attempt, _ in tries]
        rounds = len({attempt.iteration for attempt in stayed})
        # In a loop that succeeded, several attempts in one iteration are normal.
        edited = rounds if history.succeeded else max(rounds, len(stayed))
        if edited < REPEATED:
            continue
        check = next(c for attempt in stayed for c in attempt.after if sign_of(c) == sign)
        symptom = f"the same error stayed after {edited} of {edited} edits"
        edits = _edits(change for _, tried in tries for change in tried)
        yield _avoidance(history, check, edits, "repeated_same_error", symptom)
    for attempt in () if history.succeeded else history.attempts:
        broken = next(filter(known, attempt.broke), None)
        if broken is not None and attempt.kept and (edits := _edits(code_changes([attempt]))):
            approach = f"{edits}: {gist(*sign_of(broken))} was new after it"
            symptom = f"{times(len(attempt.broke), 'check')} that passed failed after it"
            yield _avoidance(history, broken, approach, "breaking_change", symptom)
            return


def _tried(attempt: RepairAttempt, sign: Sign) -> list[FileChange]:
    """Returns the code changed near an error that stayed, if the attempt fixed no other error."""
    # By error and not by check: a compiler's finding is named after its message, names included.
    before, left = ({sign_of(check) for check in side} for side in (attempt.before, attempt.after))
    check = next((check for check in attempt.before if sign_of(check) == sign), None)
    if check is None or not before <= left:
        return []
    changes, paths = code_changes([attempt]), {place.path for place in check.places}
    # An edit elsewhere, or of a comment, is not an attempt that deserves a warning.
    near = part_of(changes, check, ())
    tried = near.changes if near.pointed else [c for c in changes if c.path in paths]
    return [c for c in tried if code_lines([*chain(*changed_lines(c))])]


def _edits(changes: Iterable[FileChange]) -> str:
    """Returns the distinct edits, each in one line."""
    kept = [c for c in changes if not acts(*lines_of([c]), path=c.path)]
    edits = dict.fromkeys([_shortly(*lines_of([change])) for change in kept])
    return "; ".join(list(filter(None, edits))[:MOST_EDITS])


def _avoidance(
    history: LoopHistory, check: Check, approach: str, mode: FailureMode, symptom: str
) -> Pattern:
    language = history.language or language_of(check.place.path)
    signature, category = signature_of(check, history), task_category(history.task)
    body = Avoidance(approach, mode, (symptom,), category=category, signature=signature)
    return _pattern(history, gist(*sign_of(check)), body, language, mode)


def _templates(history: LoopHistory, settled: Iterable[SettledError]) -> Iterator[Pattern]:
    for each in settled:
        gone, new = [[line for line in side if line.strip()] for side in lines_of(each.changes)]
        # A replacement of words, or a single line, is not a template: the lesson shows it.
        if len(new) - len(gone) < 2:
            continue
        code, holes = template_code(new)
        language, error = language_of(each.changes[0].path), gist(*sign_of(each.first))
        body = CodeTemplate(
            code,
            next((name for name in get_args(Language) if name == language), "other"),
            f"It was put in where this was gone after it: {error}",
            holes,
            task_category(history.task),
        )
        yield _pattern(history, f"Code after which this was gone: {error}", body, language)

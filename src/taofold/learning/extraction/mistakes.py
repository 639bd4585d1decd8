"""Edits that failed, so that they need not be tried again: which, for which error, and what helped.

Found in failed loops too. Nothing is said that holds of every failed loop: a mistake names the
edits under their own names.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from taofold.core.checks import Check
from taofold.learning.extraction.diffs import hunks
from taofold.learning.extraction.generalise import (
    error_type_of,
    hints_of,
    language_of,
    pattern_of,
)
from taofold.learning.extraction.history import Attempt, Change, History
from taofold.learning.extraction.words import gist, task_category
from taofold.learning.patterns.bodies import Avoidance, FailureMode, Signature
from taofold.learning.patterns.values import Pattern, Scope

REPEATED: Final = 3
"""Times that one error must stay for it to be a pattern."""
_MOST_EDITS: Final = 4
_MOST_EDIT: Final = 160
_EXAMPLE: Final = 300

Sign = tuple[str, str]
"""An error's class and its generalised message."""


def avoidances(history: History) -> Iterator[Pattern]:
    """The mistakes in a loop."""
    yield from _repeated(history)
    if not history.succeeded:
        yield from _broken(history)


def _sign(check: Check) -> Sign:
    return check.error_type, pattern_of(check.message)


def _repeated(history: History) -> Iterator[Pattern]:
    judged = [one for one in history.attempts if one.judged and one.changes]
    for sign in _signs(judged):
        stayed = [one for one in judged if _in(sign, one.before) and _in(sign, one.after)]
        rounds = len({one.iteration for one in stayed})
        times = rounds if history.succeeded else max(rounds, len(stayed))
        edits = _edits(stayed)
        if times < REPEATED or not edits:
            continue
        check = next(f for one in stayed for f in one.after if _sign(f) == sign)
        yield _pattern(
            history,
            "repeated_same_error",
            f"For {gist(*sign)}: " + "; ".join(edits),
            f"the same error stayed after {times} of {times} edits",
            "What was changed does not touch the cause of the error",
            _better(history, sign),
            check,
        )


def _signs(attempts: Sequence[Attempt]) -> list[Sign]:
    found = [_sign(check) for one in attempts for check in one.after]
    return [sign for sign, _ in Counter(found).most_common(3)]


def _in(sign: Sign, checks: Sequence[Check]) -> bool:
    return any(_sign(check) == sign for check in checks)


def _edits(attempts: Sequence[Attempt]) -> list[str]:
    """The different edits that were made, each in one line."""
    lines = [text for one in attempts for change in one.changes if (text := edit_line(change))]
    return list(dict.fromkeys(lines))[:_MOST_EDITS]


def edit_line(change: Change) -> str:
    """`old` to `new`, of the first place; "" where that is not known."""
    found = hunks(change) if not change.unsure else ()
    if not found:
        return ""
    gone = next((line.strip() for line in found[0].removed if line.strip()), "")
    new = next((line.strip() for line in found[0].added if line.strip()), "")
    text = f"`{gone}` to `{new}`" if gone and new else f"adding `{new}`" if new else f"no `{gone}`"
    return text[:_MOST_EDIT]


def _better(history: History, sign: Sign) -> str:
    """What settled the error in the end, if something did."""
    for one in history.attempts:
        if one.kept and one.judged and _in(sign, one.before) and not _in(sign, one.after):
            edits = _edits([one])
            return f"What settled it: {'; '.join(edits)}" if edits else ""
    return ""


def _broken(history: History) -> Iterator[Pattern]:
    """Kept changes that broke what passed."""
    for one in history.attempts:
        edits = _edits([one])
        if one.broke and one.kept and edits:
            check = one.broke[0]
            yield _pattern(
                history,
                "breaking_change",
                f"{'; '.join(edits)}: {gist(*_sign(check))} was new after it",
                f"{len(one.broke)} checks that passed failed after it",
                "It moves the fault instead of removing it",
                "",
                check,
            )
            return


def _pattern(
    history: History,
    mode: FailureMode,
    approach: str,
    symptom: str,
    why: str,
    better: str,
    check: Check,
) -> Pattern:
    language = history.language or language_of(check.place.path)
    signature = Signature(
        error_type_of(check.error_type), pattern_of(check.message), hints_of(check),
        check.error_type, check.message[:_EXAMPLE],
    )  # fmt: skip
    return Pattern(
        "",
        gist(check.error_type, pattern_of(check.message)),
        Avoidance(
            approach, mode, (symptom,), why, better,
            category=task_category(history.task), signature=signature,
        ),
        Scope(history.repository, language),
        tuple([tag for tag in (language, mode.replace("_", "-")) if tag and tag != "other"]),
    )  # fmt: skip

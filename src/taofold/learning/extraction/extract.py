"""What a finished loop teaches: errors and their fixes, approaches, mistakes, templates.

Deterministic rules over a `History`; a failed loop teaches mistakes and the fixes that
held, never an approach. Knows nothing about what is known already: the registry merges.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import Final, get_args

from taofold.core.checks import Check, is_test
from taofold.learning.patterns.bodies import ErrorFix, Fix, Kind, Language, Signature, Template
from taofold.learning.attribution.contrast import contrast
from taofold.learning.extraction.diffs import Hunk, hunks
from taofold.learning.extraction.repair_kind import category_of, template_of
from taofold.learning.extraction.mistakes import avoidances
from taofold.learning.extraction.approaches import approaches
from taofold.learning.extraction.words import DOES, gist, task_category
from taofold.learning.extraction.generalise import (
    error_type_of,
    hints_of,
    language_of,
    pattern_of,
    template_code,
    template_diff,
)
from taofold.learning.extraction.history import Attempt, Change, History
from taofold.learning.patterns.values import Pattern, Scope

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MOST: Final = 8
"""Patterns of a kind that one loop may teach: a long loop should not flood the registry."""
_PER_FIX: Final = 3
"""Different errors that one fix may be stored for."""


def extract(history: History, kinds: Collection[Kind] = KINDS) -> tuple[Pattern, ...]:
    """Every pattern that the loop teaches, without ids; the same for the same history."""
    found: list[Pattern] = []
    for kind, rule in _RULES.items():
        if kind in kinds:
            found += list(rule(history))[:MOST]
    return tuple(found)


def _errors(history: History) -> Iterator[Pattern]:
    seen: set[tuple[str, str, str]] = set()
    for alike, changes in pairs(history):
        fault, body = alike[0], _fix(alike, changes)
        key = (body.signature.name, body.signature.pattern, body.fix.diff)
        if body.fix.diff and key not in seen:
            seen.add(key)
            yield Pattern(
                "",
                _name(body),
                body,
                Scope(history.repository, body.fix.language),
                _tags(body.fix.language, body.fix.template, fault.error_type),
            )


def _name(body: ErrorFix) -> str:
    """The error and its cure in a few words; the message says more, in its own place."""
    error, template = body.signature.name, body.fix.template
    if template:
        return f"{error or 'failing check'}: {template.replace('_', ' ')}"
    return gist(error, body.signature.pattern)


def _tags(*words: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys([w.lower().replace("_", "-") for w in words if w and w != "other"]))


def pairs(history: History) -> Iterator[tuple[list[Check], tuple[Change, ...]]]:
    """Check checks of one error with the changes after which these same checks passed.

    Changes to tests prove nothing, and what was taken back, or broke other checks, is no fix.
    """
    for number, attempt in enumerate(history.attempts):
        if not (attempt.kept and attempt.judged) or attempt.broke:
            continue
        changes = tuple([c for c in attempt.changes if not is_test(c.path)])
        settled = [*attempt.turned, *_settled(attempt, history.attempts[number + 1 :])]
        for alike in _distinct(settled)[:_PER_FIX] if changes else ():
            near = tuple([c for c in changes if c.path and c.path == alike[0].place.path])
            yield alike, near or changes


def _settled(attempt: Attempt, later: tuple[Attempt, ...]) -> Iterator[Check]:
    """Checks that failed for another reason afterwards, and passed in the end."""
    if not attempt.judged:
        return
    now = {fault.id: fault for fault in attempt.after}
    passed = {f.id for one in later if one.kept for f in one.turned}
    for fault in attempt.before:
        if fault.id in now and fault.id in passed and now[fault.id].error_type != fault.error_type:
            yield fault


def _distinct(faults: list[Check]) -> list[list[Check]]:
    """The faults by error and generalised message, the commonest first."""
    ordered = sorted(faults, key=_sign)
    groups = [list(group) for _, group in groupby(ordered, key=_sign)]
    return sorted(groups, key=lambda g: (-len(g), _sign(g[0])))


def _sign(fault: Check) -> tuple[str, str]:
    return fault.error_type, pattern_of(fault.message)


def _fix(alike: list[Check], changes: tuple[Change, ...]) -> ErrorFix:
    fault = alike[0]
    language = language_of(changes[0].path)
    found = [hunk for change in changes for hunk in hunks(change)]
    template = next(filter(None, [template_of(one, fault.error_type) for one in changes]), "")
    return ErrorFix(
        Signature(
            error_type_of(fault.error_type),
            pattern_of(fault.message),
            hints_of(fault),
            fault.error_type,
            tuple(sorted({sign for one in alike for sign in contrast(one.message)})),
        ),
        Fix(
            _described(template, found),
            category_of(template),
            template,
            template_code(found)[0],
            language,
            template_diff(found),
        ),
    )


def _described(template: str, found: list[Hunk]) -> str:
    does = DOES.get(template, "Change the code as the difference shows")
    lines = sum(len(hunk.removed) + len(hunk.added) for hunk in found)
    return f"{does} ({lines} changed line{'s' if lines != 1 else ''})"


def _templates(history: History) -> Iterator[Pattern]:
    seen: set[str] = set()
    for (fault, *_), changes in pairs(history):
        found = [hunk for change in changes for hunk in hunks(change)]
        code, holes = template_code(found)
        new = sum(len(h.added) - len(h.removed) for h in found)
        if new < 1 or code in seen:  # An exchange of words is no template.
            continue
        seen.add(code)
        language = language_of(changes[0].path)
        template = next(filter(None, [template_of(one, fault.error_type) for one in changes]), "")
        does = DOES.get(template, "Code that settled a failing check")
        yield Pattern(
            "",
            does,
            Template(
                code,
                _language(language),
                f"{does}, after {fault.error_type or 'a failing check'}",
                holes,
                task_category(history.task),
            ),
            Scope(history.repository, language),
            _tags(language, template),
        )


def _language(name: str) -> Language:
    return next((known for known in get_args(Language) if known == name), "other")


_RULES: Final[dict[Kind, Callable[[History], Iterator[Pattern]]]] = {
    "error": _errors,
    "success": approaches,
    "anti": avoidances,
    "template": _templates,
}

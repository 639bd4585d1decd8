"""Are two patterns the same thing? A number between 0 and 1; above 0.80 they merge.

The measure: Dice's coefficient, the shared part of two bags of tokens, of each field, weighed
together. An error pattern is its signature (0.45), the change that fixes it (0.45) and its
description (0.1), where of a change only the tokens count that it takes out and puts in: an
edit and its reverse have nothing in common. Patterns of different kinds, error classes,
categories of approaches or modes of failure are never the same.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from taofold.learning.extraction.diffs import HOLE, abstracted, tokens
from taofold.learning.patterns.bodies import Approach, Avoidance, ErrorFix, Fix, Signature, Template
from taofold.learning.patterns.values import Pattern
from taofold.learning.retrieval.signature import literal
from taofold.learning.retrieval.words import words

_UNLIKE: Final = 0.5
"""What is left of the likeness of fixes that have different names."""
_LONGEST: Final = 4000


def likeness(one: Pattern, other: Pattern) -> float:
    """How alike two patterns are, 0 to 1."""
    match one.body, other.body:
        case ErrorFix() as a, ErrorFix() as b:
            if not _same_class(a.signature, b.signature):
                return 0.0
            return _parts(
                (0.45, _signatures(a.signature, b.signature)),
                (0.45, _fixes(a.fix, b.fix)),
                (0.10, _texts(a.fix.description, b.fix.description)),
            )
        case Approach() as a, Approach() as b:
            steps = _texts("\n".join(a.steps), "\n".join(b.steps))
            return _parts(
                (0.55, steps),
                (0.30, _texts(a.description, b.description)),
                (0.15, _bags(a.tools, b.tools)),
            ) * (a.category == b.category)
        case Avoidance() as a, Avoidance() as b:
            if a.signature is None or b.signature is None:
                same = float(a.signature is b.signature)
            else:
                same = _signatures(a.signature, b.signature)
                same *= _same_class(a.signature, b.signature)
            return _parts((0.6, _texts(a.approach, b.approach)), (0.4, same)) * (a.mode == b.mode)
        case Template() as a, Template() as b:
            return _parts(
                (0.8, _bags(_signs(a.code), _signs(b.code))), (0.2, _texts(a.use, b.use))
            ) * (a.language == b.language)
        case _:
            return 0.0


def _parts(*parts: tuple[float, float]) -> float:
    return sum([weight * value for weight, value in parts])


def _same_class(one: Signature, other: Signature) -> bool:
    return (one.name or one.type) == (other.name or other.type)


def _signatures(one: Signature, other: Signature) -> float:
    if one.pattern == other.pattern:
        return 1.0
    return _texts(literal(one.pattern), literal(other.pattern))


def _fixes(one: Fix, other: Fix) -> float:
    if one.diff and other.diff:
        value = _bags(_delta(one.diff), _delta(other.diff))
    else:
        value = _bags(_tokens(one.code or one.diff), _tokens(other.code or other.diff))
    same = (one.template, one.category) == (other.template, other.category)
    return value if same else value * _UNLIKE


def _delta(diff: str) -> list[str]:
    """The tokens a change takes out and puts in, each with its sign; all, if these are none."""
    out: Counter[str] = Counter()
    put: Counter[str] = Counter()
    for line in diff[:_LONGEST].splitlines():
        if line.startswith("-"):
            out.update(_tokens(line[1:]))
        elif line.startswith("+"):
            put.update(_tokens(line[1:]))
    taken = [f"-{token}" for token in (out - put).elements()]
    given = [f"+{token}" for token in (put - out).elements()]
    if taken or given:
        return [*taken, *given]
    return [*(f"-{token}" for token in out.elements()), *(f"+{t}" for t in put.elements())]


def _tokens(code: str) -> list[str]:
    """Names are left out of account, as the same fix has others elsewhere, unless all are names."""
    lines = code[:_LONGEST].splitlines()
    kinds = [token for line in lines for token in abstracted(line)]
    if any(kind not in ("ID", "STR") for kind in kinds):
        return kinds
    return [token for line in lines for token in tokens(line)]


def _signs(template: str) -> list[str]:
    """The tokens of a template: holes are all the same, the names that stayed are what it is."""
    return tokens(HOLE.sub("ID", template[:_LONGEST]))


def _texts(one: str, other: str) -> float:
    return 1.0 if one == other else _bags(words(one[:_LONGEST]), words(other[:_LONGEST]))


def _bags(one: Iterable[str], other: Iterable[str]) -> float:
    """Dice's coefficient of two bags; 1 if both are empty."""
    left, right = Counter(one), Counter(other)
    size = left.total() + right.total()
    return 2 * (left & right).total() / size if size else 1.0

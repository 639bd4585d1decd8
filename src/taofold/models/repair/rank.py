"""Orders candidate edits: where the tests point, what the failure looks like, what was learnt.

A candidate's score is prior x fit x place, made comparable between failures by dividing by
the sum for that failure, and added up over them. What learnt patterns speak for comes in
between, as soon as it is likelier to be right, each time after twice as many of its own.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import ceil, sqrt
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from taofold.core.checks import Check, Place
from taofold.models.repair.clue import Clue, clue_of
from taofold.models.repair.hints import Boost, Hint, boost
from taofold.models.repair.project import Project, Unit, is_test
from taofold.models.repair.site import Site
from taofold.models.repair.source import Change, Edit, Source
from taofold.models.repair.templates import TEMPLATES
from taofold.parsing.pytest_report import Report

_FADE: Final = 0.75
"""What a call further away from the test takes from a function's suspicion."""
_LINE: Final = 3.0
"""What a line gains by standing in the traceback."""
_RIGHT: Final = 0.2
"""The chance that its own first two candidates are taken to have; the n-th has 0.2 / (n - 1)."""
_UNSAID: Final = 0.5
"""The chance of a pattern that does not say how likely it is to help."""
_LOCAL: Final = frozenset({"name", "attribute", "key", "index", "none", "zero", "empty", "concat",
                           "call", "callable", "unbound"})  # fmt: skip
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An edit worth trying, and the failure and learnt pattern that speak for it."""

    edit: Edit
    failure: Check
    score: float
    pattern: str


class _Order:
    """Candidates found so far, and where the next ones come from; many may read it."""

    def __init__(self, found: Iterator[Candidate]) -> None:
        self._found, self._known, self._lock = found, list[Candidate](), Lock()

    def at(self, place: int) -> Candidate | None:
        with self._lock:
            while place >= len(self._known):
                following = next(self._found, None)
                if following is None:
                    return None
                self._known.append(following)
            return self._known[place]


def ranked(project: Project, report: Report, hints: Sequence[Hint]) -> Iterator[Candidate]:
    """Every candidate, best first. Each edit comes once.

    A search comes back to the same state after every candidate that did not help, so the
    newest orders are remembered.
    """
    texts = tuple([(source.path, source.text) for source in project.sources.values()])
    order = _order(texts, project.paths, replace(report, seconds=0.0), tuple(hints))
    for place in count():
        candidate = order.at(place)
        if candidate is None:
            return
        yield candidate


@lru_cache(maxsize=4)
def _order(
    texts: tuple[tuple[str, str], ...],
    paths: tuple[str, ...],
    report: Report,
    hints: tuple[Hint, ...],
) -> _Order:
    project = Project([Source(path, text) for path, text in texts], paths)
    return _Order(_found(project, report, hints))


class _Scored(NamedTuple):
    """A change before it is an edit: how good it looks, and how good to the learnt patterns."""

    score: float
    told: float
    source: Source
    change: Change
    failure: Check
    by: str


def _found(project: Project, report: Report, hints: Sequence[Hint]) -> Iterator[Candidate]:
    seen: set[str] = set()
    for one in _woven(_all(project, report, hints), hints):
        edit = one.source.edit(one.change)
        if edit is not None and edit.key not in seen:
            seen.add(edit.key)
            yield Candidate(edit, one.failure, one.score, one.by)


def _woven(found: Sequence[_Scored], hints: Sequence[Hint]) -> Iterator[_Scored]:
    """Its own judgement and what patterns speak for, whichever is likelier to be right.

    The n-th of what patterns speak for comes after 2^n - 1 of its own at the earliest: however
    sure they are said to be, misleading ones cost no more than the logarithm of the search.
    """
    own = sorted(found, key=lambda one: (-one.score, *_place(one)))
    tried = 0
    for n, (chance, learnt) in enumerate(_told(found, hints)):
        until = max(2**n - 1, 0 if chance >= _RIGHT else ceil(_RIGHT / chance))
        yield from own[tried:until]
        tried = until
        yield learnt
    yield from own[tried:]


def _told(found: Sequence[_Scored], hints: Sequence[Hint]) -> list[tuple[float, _Scored]]:
    """What patterns speak for with its chance of being right, the likeliest first.

    The chance that a pattern helps is shared out among the changes that it speaks for.
    """
    chances = {hint.key: _UNSAID if hint.chance is None else hint.chance for hint in hints}
    spoken = [one for one in found if one.told > 0 and chances[one.by] > 0]
    sums = defaultdict[str, float](float)
    for one in spoken:
        sums[one.by] += one.told
    shared = [(chances[one.by] * one.told / sums[one.by], one) for one in spoken]
    return sorted(shared, key=lambda turn: (-turn[0], *_place(turn[1])))


def _place(one: _Scored) -> tuple[str, int, int, str]:
    return one.source.path, one.change.start, one.change.end, one.change.text


def _all(project: Project, report: Report, hints: Sequence[Hint]) -> list[_Scored]:
    """Every change once, its scores added up over the failures that suggest it."""
    passing = _passing(project, report)
    sums: dict[tuple[str, int, int, str], _Scored] = {}
    for raw in report.failures:
        failure = settled(raw, project)
        scored = list(_scored(project, failure, hints, passing))
        total = sum([score for score, *_ in scored]) or 1.0
        for score, learnt, source, change in scored:
            part = min(learnt.gain, 1.0) * score / total
            told = learnt.gain * score / total if learnt.gain > 1 else 0.0
            one = _Scored(part, told, source, change, failure, learnt.by)
            known = sums.get(_place(one))
            if known is not None:
                one = (one if part > known.score else known)._replace(
                    score=known.score + part,
                    told=known.told + told,
                    by=(one if told > known.told else known).by,
                )
            sums[_place(one)] = one
    return list(sums.values())


def settled(failure: Check, project: Project) -> Check:
    """The failure with the project's own names for its files."""
    places: list[Place] = []
    for place in failure.places:
        path = next((p for p in project.paths if place.path == p), "") or max(
            [p for p in project.paths if place.path.endswith(f"/{p}")], key=len, default=place.path
        )
        places.append(msgspec.structs.replace(place, path=path))
    return msgspec.structs.replace(failure, places=tuple(places))


def _passing(project: Project, report: Report) -> list[dict[Key, int]]:
    """What each passing test reaches."""
    failing = {(f.test_path, f.test_function) for f in report.failures}
    broken = {f.test_path for f in report.failures if f.collecting}
    return [
        project.reach(_with_helpers(project, path, node))
        for path, node in project.tests()
        if (path, node.name) not in failing and path not in broken
    ]


def _with_helpers(project: Project, path: str, test: ast.AST) -> list[ast.AST]:
    """A test and the functions of its file that it uses, fixtures too."""
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    names |= {n.arg for n in ast.walk(test) if isinstance(n, ast.arg)}
    used: list[ast.AST] = [test]
    for place, source in project.sources.items():
        if place == path or place.endswith("conftest.py"):
            used += [
                node for _, node in source.functions() if node.name in names and node is not test
            ]
    return used


def _scored(
    project: Project, failure: Check, hints: Sequence[Hint], passing: list[dict[Key, int]]
) -> Iterator[tuple[float, Boost, Source, Change]]:
    test = project.test(failure.test_path, failure.test_function)
    clue = clue_of(failure, test)
    weights = _suspicion(project, clue, test, passing)
    for unit, weight in weights:
        site = Site(unit, clue, project)
        for template in TEMPLATES:
            fit = template.prior * clue.factors.get(template.name, 1.0)
            if fit <= 0:
                continue
            for change in template.propose(site):
                line = unit.source.line_of(change.start)
                learnt = boost(hints, clue, unit.source, change)
                score = fit * weight * change.weight * _near(site, line, change)
                yield score, learnt, unit.source, change


def _near(site: Site, line: int, change: Change) -> float:
    if not site.broken_lines or site.clue.kind not in _LOCAL:
        return 1.0
    inserted = change.start == change.end or "\n" in change.text
    return (
        _LINE if line in site.broken_lines or (inserted and line + 1 in site.broken_lines) else 1.0
    )


def _suspicion(
    project: Project, clue: Clue, test: ast.AST | None, passing: list[dict[Key, int]]
) -> list[tuple[Unit, float]]:
    failure = clue.failure
    weights: dict[Key, float] = {}
    own = [
        place
        for place in failure.places
        if place.path in project.sources and not is_test(place.path)
    ]
    for age, place in enumerate(reversed(own)):
        for unit in project.units:
            if unit.holds(place.path, place.line):
                weights[unit.key] = max(weights.get(unit.key, 0), 1.5 * _FADE**age)
    fallen = 0.5 if own else 1.0
    for nodes, share in _looked_at(project, failure, test):
        for key, depth in project.reach(nodes).items():
            weights[key] = max(weights.get(key, 0), fallen * share * _FADE**depth)
    found = [
        (unit, weights[unit.key] * _spectrum(unit.key, passing))
        for unit in project.units
        if unit.key in weights
    ]
    return found + _modules(project, failure, found)


def _looked_at(
    project: Project, failure: Check, test: ast.AST | None
) -> Iterator[tuple[list[ast.AST], float]]:
    if test is None:
        return
    yield _with_helpers(project, failure.test_path, test), 0.7
    lines = {p.line for p in failure.places if p.path == failure.test_path}
    there = [
        node
        for node in ast.walk(test)
        if isinstance(node, ast.stmt) and node is not test
        and any(node.lineno <= line <= (node.end_lineno or line) for line in lines)
    ]  # fmt: skip
    yield list(there), 1.0


def _spectrum(key: Key, passing: list[dict[Key, int]]) -> float:
    """Less suspicion for what passing tests reach too, the more of them (after Ochiai)."""
    innocent = sum(1 for reached in passing if key in reached)
    return 0.3 + 0.7 / sqrt(1 + 0.5 * innocent)


def _modules(
    project: Project, failure: Check, found: list[tuple[Unit, float]]
) -> list[tuple[Unit, float]]:
    """The modules' own lines: constants that a suspicious function uses, or a broken import."""
    named = {p.path for p in failure.places if p.function in ("", "<module>")}
    modules: list[tuple[Unit, float]] = []
    for path, source in project.sources.items():
        if is_test(path):
            continue
        inside = max([weight for unit, weight in found if unit.source is source], default=0.0)
        weight = 1.0 if path in named else 0.35 * inside
        if weight:
            modules.append((Unit(source, None), weight))
    return modules

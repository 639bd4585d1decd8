"""Orders candidate edits by place, kind of failure and learnt rates.

A candidate's score is prior × fit × place, divided by the sum for the failure to make failures
comparable, and added up over them. It is then multiplied by the rates at which earlier searches
found such edits correct (`LearntOrder`). A place is more suspicious the nearer it is to a failing
test, and the fewer passing tests reach it. Rates are kept by the *shape* of an edit: the tokens
that it removes and inserts, without names. They reach a search as a section of its prompt. That
section is data: a line is a key and a number. It can change the order of candidates, not the set.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import count
from keyword import iskeyword
from math import log, prod, sqrt
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

import msgspec

from taofold.core.failing_checks import Check, Location
from taofold.diagnostics import PytestReport
from taofold.learning.extraction.diffs import HOLE, abstracted, kind_of, tokens
from taofold.learning.rates import MOST_KEYS, EditRates, key_of, learnt_order
from taofold_repair.clue import Clue, clue_of
from taofold_repair.site import Site
from taofold_repair.source import Change, Edit, Project, Source, Unit, is_test
from taofold_repair.templates import TEMPLATES

HEADING: Final = "## Search Rates"
_ABOUT: Final = "Reference data of the search policy: kinds of edits, and how often each was right."
_RATE: Final = re.compile(r"(?m)^([a-z][0-9a-f]{12}) (\d{1,4}\.\d{1,4})$")
_WEIGHTS: Final = re.compile(r"(?m)^weights [01]\.\d{4} ([01]\.\d{4})$")
"""The weights of the policy's own order and of the learnt order."""
_TELLING: Final = 0.1
"""Rates closer to 1 than this, as a logarithm, are omitted."""
_MOST: Final = 50.0


class LearntOrder(NamedTuple):
    """The results of earlier searches in a prompt.

    `rates` are by the key of an edit, 1 for one that is not listed. `belief` is the weight of the
    learnt order against the policy's own.
    """

    rates: Mapping[str, float] = {}
    belief: float = 1.0

    def factor(self, keys: Sequence[str]) -> float:
        """Returns the factor for the score of an edit with these keys."""
        return prod(self.rates.get(key, 1.0) for key in keys)


def section(rates: EditRates) -> str:
    """Returns the prompt section with the `rates`; "" if they would change nothing."""
    lines: list[str] = []
    for key in list(rates.by_key)[:MOST_KEYS]:
        theta = rates.theta(key)
        if abs(log(theta)) >= _TELLING:
            lines.append(f"{key} {min(theta, _MOST):.4f}")
    weights = f"weights {1 - rates.belief:.4f} {rates.belief:.4f}"
    return "\n".join([HEADING, _ABOUT, weights, *lines]) if lines else ""


@lru_cache(maxsize=8)
def learnt_in(prompt: str) -> LearntOrder:
    """Returns the rates in a prompt.

    Without weights, as release 0.1 wrote it, all have weight 1.
    """
    start = prompt.find(HEADING)
    if start < 0:
        return LearntOrder()
    # A prompt is untrusted text: lines other than key and number are skipped, and the count is
    # bounded.
    rates = {key: float(text) for key, text in _RATE.findall(prompt[start:])[:MOST_KEYS]}
    weights = _WEIGHTS.search(prompt, start)
    return LearntOrder(rates, min(float(weights[1]), 1.0) if weights else 1.0)


def keys_of(source: Source, change: Change) -> tuple[str, str, str]:
    """Returns an edit's keys, the most general first: its shape, the kind of statement, the line.

    Names are abstracted. `n < len(xs)` to `n <= len(xs)` after `while` is the shape `<` to `<=`,
    the same in a `while`, and the same on a line `while ID < len(ID):`.
    """
    # Whole lines are compared: the tokens around a change are part of its shape.
    first, last = source.line_of(change.start), source.line_of(change.end)
    start, end = source.line_start(first), source.line_start(last + 1)
    old = source.text[start:end]
    new = old[: change.start - start] + change.text + old[change.end - start :]
    done = shape(old, new)
    line = tuple(abstracted(source.text[start : source.line_start(first + 1)]))
    return key_of("s", done), key_of("k", done, _statement(line)), key_of("l", done, line)


def _statement(line: tuple[str, ...]) -> str:
    """Returns the kind of statement that a line begins: its keyword, or "=" if it assigns."""
    if line and iskeyword(line[0]):
        return line[0]
    return "=" if "=" in line else ""


_FADE: Final = 0.75
"""The factor of a function's suspicion for each further call from the test."""
_LINE: Final = 3.0
"""The factor of a line in the traceback."""
_LOCAL: Final = frozenset(
    {
        "name",
        "attribute",
        "key",
        "index",
        "none",
        "zero",
        "empty",
        "concat",
        "call",
        "callable",
        "unbound",
    }
)
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An edit worth trying, the failure that suggests it, and its keys among learnt rates.

    `score` is the policy's own; `learnt` is the factor of the rates.
    """

    edit: Edit
    failure: Check
    score: float
    keys: tuple[str, ...]
    learnt: float = 1.0


class _Order:
    """The candidates found so far and an iterator of the next ones; safe for several readers."""

    def __init__(self, candidates: Iterator[Candidate]) -> None:
        self._found, self._known, self._lock = candidates, list[Candidate](), Lock()

    def at(self, index: int) -> Candidate | None:
        # Several runs of one process may search the same project at once (`lru_cache` shares the
        # order).
        with self._lock:
            while index >= len(self._known):
                following = next(self._found, None)
                if following is None:
                    return None
                self._known.append(following)
            return self._known[index]


def ranked(project: Project, report: PytestReport, learnt: LearntOrder) -> Iterator[Candidate]:
    """Yields every candidate, best first. Each edit comes once.

    A search returns to the same state after every failed candidate, so the newest orders are
    cached.
    """
    texts = tuple([(source.path, source.text) for source in project.sources.values()])
    order = _order(
        texts,
        project.paths,
        # Two runs with the same failures are one state, regardless of their duration.
        replace(report, seconds=0.0),
        tuple(learnt.rates.items()),
        learnt.belief,
    )
    for index in count():
        candidate = order.at(index)
        if candidate is None:
            return
        yield candidate


@lru_cache(maxsize=4)
def _order(
    texts: tuple[tuple[str, str], ...],
    paths: tuple[str, ...],
    report: PytestReport,
    rates: tuple[tuple[str, float], ...],
    belief: float,
) -> _Order:
    project = Project([Source(path, text) for path, text in texts], paths)
    return _Order(iter(ranking(project, report, LearntOrder(dict(rates), belief))))


class _Scored(NamedTuple):
    """A change before it is an edit, with its score."""

    score: float
    source: Source
    change: Change
    failure: Check

    @property
    def place(self) -> tuple[str, int, int, str]:
        """The identity of a change, which also breaks ties."""
        return self.source.path, self.change.start, self.change.end, self.change.text


def ranking(
    project: Project, report: PytestReport, learnt: LearntOrder = LearntOrder()
) -> list[Candidate]:
    """Returns all candidates, the likeliest first by their scores and the learnt rates."""
    by_edit: dict[str, Candidate] = {}
    # Ties are broken by place: the same conversation must give the same candidate.
    for scored in sorted(_all(project, report), key=lambda one: (-one.score, *one.place)):
        edit = scored.source.edit(scored.change)
        # Two templates may make the same edit: the one with the higher score keeps it.
        if edit is None or edit.key in by_edit:
            continue
        keys = keys_of(scored.source, scored.change)
        factor = learnt.factor(keys)
        by_edit[edit.key] = Candidate(edit, scored.failure, scored.score, keys, factor)
    candidates = list(by_edit.values())
    order = learnt_order(
        [candidate.score for candidate in candidates],
        [candidate.learnt for candidate in candidates],
        learnt.belief,
    )
    return [candidates[index] for index in order]


def _all(project: Project, report: PytestReport) -> list[_Scored]:
    """Returns every change once, its scores added up over the failures that suggest it."""
    passing = _passing(project, report)
    sums: dict[tuple[str, int, int, str], _Scored] = {}
    for raw in report.failures:
        failure = settled(raw, project)
        scored = list(_scored(project, failure, passing))
        # Each failure has one vote to divide, so one with many candidates does not outweigh the
        # others.
        total = sum([score for score, *_ in scored]) or 1.0
        for score, source, change in scored:
            entry = _Scored(score / total, source, change, failure)
            summed = sums.get(entry.place)
            if summed is not None:
                larger = entry if entry.score > summed.score else summed
                entry = larger._replace(score=summed.score + entry.score)
            sums[entry.place] = entry
    return list(sums.values())


def settled(failure: Check, project: Project) -> Check:
    """Returns the failure with the project's own names for its files."""
    places: list[Location] = []
    for frame in failure.places:
        # A traceback may have absolute paths. The longest path that is a suffix is the file's.
        path = next((p for p in project.paths if frame.path == p), "") or max(
            [p for p in project.paths if frame.path.endswith(f"/{p}")], key=len, default=frame.path
        )
        places.append(msgspec.structs.replace(frame, path=path))
    return msgspec.structs.replace(failure, places=tuple(places))


def _passing(project: Project, report: PytestReport) -> list[dict[Key, int]]:
    """Returns the functions that each passing test reaches."""
    failing = {(f.test_path, f.test_function) for f in report.failures}
    broken = {f.test_path for f in report.failures if f.collecting}
    return [
        project.reach(_with_helpers(project, path, node))
        for path, node in project.tests()
        if (path, node.name) not in failing and path not in broken
    ]


def _with_helpers(project: Project, path: str, test: ast.AST) -> list[ast.AST]:
    """Returns a test and the functions and fixtures of its file that it uses."""
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    names |= {n.arg for n in ast.walk(test) if isinstance(n, ast.arg)}
    used: list[ast.AST] = [test]
    for name, source in project.sources.items():
        if name == path or name.endswith("conftest.py"):
            used += [
                node for _, node in source.functions() if node.name in names and node is not test
            ]
    return used


def _scored(
    project: Project, failure: Check, passing: list[dict[Key, int]]
) -> Iterator[tuple[float, Source, Change]]:
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
                score = fit * weight * change.weight * _near(site, line, change)
                yield score, unit.source, change


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
        frame
        for frame in failure.places
        if frame.path in project.sources and not is_test(frame.path)
    ]
    for age, frame in enumerate(reversed(own)):
        for unit in project.units:
            if unit.holds(frame.path, frame.line):
                # The innermost frame is the most suspicious; each one further out is less so.
                weights[unit.key] = max(weights.get(unit.key, 0), 1.5 * _FADE**age)
    # With a traceback into the project, functions that the test only mentions count half.
    fallen = 0.5 if own else 1.0
    for nodes, share in _looked_at(project, failure, test):
        for key, depth in project.reach(nodes).items():
            weights[key] = max(weights.get(key, 0), fallen * share * _FADE**depth)
    suspects = [
        (unit, weights[unit.key] * _spectrum(unit.key, passing))
        for unit in project.units
        if unit.key in weights
    ]
    return suspects + _modules(project, failure, suspects)


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
        if isinstance(node, ast.stmt)
        and node is not test
        and any(node.lineno <= line <= (node.end_lineno or line) for line in lines)
    ]
    yield list(there), 1.0


def _spectrum(key: Key, passing: list[dict[Key, int]]) -> float:
    """Returns a factor that decreases with the number of passing tests that reach `key` (after
    Ochiai).
    """
    innocent = sum(1 for reached in passing if key in reached)
    # From 1.0 towards 0.3: a function that all tests use may still be wrong for one of them.
    return 0.3 + 0.7 / sqrt(1 + 0.5 * innocent)


def _modules(
    project: Project, failure: Check, units: list[tuple[Unit, float]]
) -> list[tuple[Unit, float]]:
    """Returns the modules' own lines: constants that a suspicious function uses, or a broken
    import.
    """
    named = {p.path for p in failure.places if p.function in ("", "<module>")}
    modules: list[tuple[Unit, float]] = []
    for path, source in project.sources.items():
        if is_test(path):
            continue
        inside = max([weight for unit, weight in units if unit.source is source], default=0.0)
        weight = 1.0 if path in named else 0.35 * inside
        if weight:
            modules.append((Unit(source, None), weight))
    return modules


RENAMED: Final = "rename"
"""The first token of the shape of a renaming, which is valid only for lines of the same form."""
SWAPPED: Final = "swap"
"""The first token of the shape of a swap of two pieces; the tokens between them follow."""
AROUND: Final = "around"
"""The placeholder if nothing nameable stands between the pieces."""
Shape: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The tokens that an edit removes and inserts, names abstracted."""


@lru_cache(maxsize=4096)
def shape(old: str, new: str) -> Shape:
    """Returns the change from `old` to `new`, with names abstracted.

    A swap of two pieces is one shape for any pieces: it holds the tokens between them.
    """
    # Checked first, on the original names: abstracted, `f(a, b)` equals `f(b, a)`.
    between = swap(tokens(HOLE.sub(r"\1", old)), tokens(HOLE.sub(r"\1", new)))
    if between is not None:
        signs = tuple(
            [kind_of(token) for token in between if not re.match(r"[\w.()\[\]\"']", token)]
        )
        return (SWAPPED, *(signs or [AROUND])), ()
    left, right = abstracted(old), abstracted(new)
    if left == right:
        return _renamed(tokens(HOLE.sub(r"\1", old)), tokens(HOLE.sub(r"\1", new))), ()
    out: list[str] = []
    put: list[str] = []
    for tag, a, b, c, d in _opcodes(left, right):
        if tag != "equal":
            out += left[a:b]
            put += right[c:d]
    return tuple(out), tuple(put)


def _renamed(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Returns the place of the only differing name or text; () for none, or for several."""
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return (RENAMED, str(places[0])) if len(places) == 1 else ()


def _opcodes(left: Sequence[str], right: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, left, right, autojunk=False).get_opcodes()


def swap(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the tokens between two pieces of `old` that are swapped in `new`."""
    if len(old) != len(new) or sorted(old) != sorted(new) or old == new:
        return None
    places = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    first, last = places[0], places[-1] + 1
    # Tries every way to cut the differing part into three and swap the outer two. Cubic, but the
    # part is short: outside of it both texts are equal.
    for again in range(first + 1, last):
        for cut in range(again, last):
            turned = [*old[cut:last], *old[again:cut], *old[first:again]]
            if turned == list(new[first:last]):
                return tuple(old[again:cut])
    return None

"""The state of a search for edits, folded from the actions so far, and the outcome of a search.

`search_state` has the kept and tried edits and those to revert; `better` defines progress. `SEARCH`
reports to code that keeps rates of edits (`taofold.loop.learner`) the edit that ended a run's
search and its rank. `model` and `rank` choose the next edit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from taofold.core.events import Observed, Proposed, Record
from taofold.core.failing_checks import Check
from taofold.core.values import FINISH
from taofold.diagnostics import PytestReport, parse_pytest
from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import EditRates, outcome
from taofold_repair.clue import clue_of
from taofold_repair.rank import ranking, section
from taofold_repair.source import Project, Source
from taofold_repair.transcript import PastAction, collect, flat

NAME: Final = "offline:repair"
"""The name of the model whose search this is."""


class Before(NamedTuple):
    """The state before an edit was kept."""

    report: PytestReport | None
    step: int
    tried: frozenset[str]


@dataclass(slots=True)
class SearchState:
    """The state of the search.

    `report` is the newest run of the files without `pending` and `undo`; `step` is the step that
    ran it.
    """

    report: PytestReport | None = None
    step: int = 0
    pending: PastAction | None = None
    """Applied, not tested yet."""
    undo: PastAction | None = None
    """Tested without progress: to be reverted."""
    tried: set[str] = field(default_factory=set[str])
    fruitless: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """Edits that did not help, each with the failures at that time.

    Untested edits are not included.
    """
    kept: list[PastAction] = field(default_factory=list[PastAction])
    unreadable: int = 0
    """Consecutive test runs without a report."""
    candidates: int = 0
    since: int = 0
    """Candidates tried since an edit was last kept."""
    further: dict[str, PastAction] = field(default_factory=dict[str, PastAction])
    """Reverted edits with partial progress in a test, which may be tried again."""
    earlier: list[Before] = field(default_factory=list[Before])
    """The states before each kept edit."""
    doubted: set[str] = field(default_factory=set[str])
    """Edits that were kept and given up once."""
    lost: bool = False
    """True if an edit could not be reverted: the files' content is unknown until they are read."""


def standing(report: PytestReport | None) -> str:
    """Returns the identity of the current failures, which distinguishes states of the code."""
    failures = report.failures if report is not None else ()
    return "\n".join(
        sorted([f"{failure.id}\0{failure.error_type}\0{failure.message}" for failure in failures])
    )


def key_of(parameters: Mapping[str, Any]) -> str:
    """Returns the identity of an edit from parameters; the counterpart of `Edit.key`."""
    path, old, new = (str(parameters.get(name, "")) for name in ("path", "old", "new"))
    return f"{path}\0{old}\0{new}"


def inverse(action: PastAction, other: PastAction) -> bool:
    """Returns whether `other` reverts `action`."""
    a, b = action.parameters, other.parameters
    return a.get("path") == b.get("path") and (a.get("old"), a.get("new")) == (
        b.get("new"),
        b.get("old"),
    )


def search_state(actions: Sequence[PastAction]) -> SearchState:
    """Folds the actions, oldest first."""
    state = SearchState()
    for number, action in enumerate(actions):
        if action.tool == "run_command":
            following = actions[number + 1] if number + 1 < len(actions) else None
            _ran(state, action, following)
        elif action.tool == "edit_file":
            _edited(state, action)
    return state


def _edited(state: SearchState, action: PastAction) -> None:
    undo = state.undo
    # Nothing is stored between calls: the purpose of an edit follows from the edit that it reverts.
    if undo is not None and inverse(undo, action):
        state.undo = None
        # The file's content is unknown now, so the tests have to run before the search continues.
        if action.failed:
            state.lost = True
            state.report = None
        return
    if state.kept and inverse(state.kept[-1], action) and not action.failed:
        _given_up(state, state.kept.pop(), state.earlier.pop())
        return
    state.tried.add(key_of(action.parameters))
    state.candidates += 1
    state.since += 1
    if action.failed:
        state.fruitless[key_of(action.parameters), standing(state.report)] = None
    else:
        state.pending = action


def _given_up(state: SearchState, edit: PastAction, before: Before) -> None:
    """Restores the state before `edit`: candidates that failed with it may succeed without it.

    The first time, the edit may be kept once more if nothing better is found.
    """
    key = key_of(edit.parameters)
    state.report, state.step, state.since = before.report, before.step, 0
    # Candidates tried on top of the edit are forgotten: without it they may help.
    state.tried = {*before.tried, key}
    state.fruitless[key, standing(before.report)] = None
    if key not in state.doubted:
        state.doubted.add(key)
        state.further[key] = edit


@lru_cache(maxsize=128)
def _report(text: str) -> PytestReport | None:
    """Cached: the whole search is folded again every turn, and each report parsed once."""
    return parse_pytest(text)


def _ran(state: SearchState, action: PastAction, following: PastAction | None) -> None:
    report = _report(action.text)
    pending, state.pending = state.pending, None
    if pending is None:
        state.unreadable = state.unreadable + 1 if report is None else 0
        state.report, state.step = report, action.step
        return
    # On its second trial partial progress is enough.
    again = state.further.pop(key_of(pending.parameters), None) is not None
    if following is not None:
        # The decision made then holds, even if the observation has been shortened since.
        keep = not inverse(pending, following)
    else:
        keep = report is not None and (
            better(state.report, report) or (again and _progress(state.report, report))
        )
    if keep:
        state.kept.append(pending)
        state.earlier.append(Before(state.report, state.step, frozenset(state.tried)))
        state.since = 0
        state.report, state.step = report, action.step
    else:
        state.undo = pending
        state.fruitless[key_of(pending.parameters), standing(state.report)] = None
        if report is not None and _progress(state.report, report) and not again:
            state.further[key_of(pending.parameters)] = pending


def better(before: PytestReport | None, after: PytestReport) -> bool:
    """Returns whether `after` is progress: fewer failures and no new ones, or code that finally
    loads.
    """
    if after.ok or before is None:
        return after.ok
    # Nothing could be imported, so the number of failures has no meaning yet.
    if before.collecting:
        loading = {f.id for f in before.failures if f.collecting}
        still = {f.id for f in after.failures if f.collecting}
        return still < loading or (still == loading and _settles(before, after))
    # A new failure is not progress, even if two others are gone.
    if after.collecting or not after.ids <= before.ids:
        return False
    # Fewer failures because fewer tests ran are not progress.
    if after.broken < before.broken and after.passed >= before.passed:
        return True
    return after.broken == before.broken and _settles(before, after)


def _pairs(before: PytestReport, after: PytestReport) -> list[tuple[Check, Check]]:
    then = {failure.id: failure for failure in before.failures}
    return [(then[now.id], now) for now in after.failures if now.id in then]


def _settles(before: PytestReport, after: PytestReport) -> bool:
    """Returns whether an undefined name or a broken import is gone, so that another error shows."""
    return any(
        clue_of(then).kind in ("name", "import", "syntax") and then.error != now.error
        for then, now in _pairs(before, after)
    )


def _progress(before: PytestReport | None, after: PytestReport) -> bool:
    """Returns whether a failing test gets further, none less far, and nothing new fails.

    This is a weak sign: an edit that satisfies one assertion by chance shows it too.
    """
    if before is None or after.collecting or after.ids != before.ids:
        return False
    moves = [
        now.test_line - then.test_line
        for then, now in _pairs(before, after)
        if now.test_line and then.test_line
    ]
    return any(move > 0 for move in moves) and all(move >= 0 for move in moves)


class RepairSearch:
    """The interface between the search policy and the code that keeps its rates."""

    def __init__(self, name: str) -> None:
        self.name = name

    def section(self, rates: EditRates) -> str:
        """See `section`."""
        return section(rates)

    def outcome(
        self, records: Sequence[Record], rates: EditRates
    ) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
        """See `search_outcome`."""
        return search_outcome(records, rates)


SEARCH: Final = RepairSearch(NAME)
"""The entry point of group `taofold.searches`."""


def search_outcome(
    records: Sequence[Record], rates: EditRates
) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
    """Returns the outcome of the edits that made a run's tests pass; None if none of them did."""
    return outcome_of(actions_of(records), rates)


def outcome_of(
    actions: Sequence[PastAction], rates: EditRates
) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
    """Returns the same from the run's actions. Each kept edit is the end of a separate search."""
    state = search_state(actions)
    # A run whose last report has failures proves none of its edits.
    if state.report is None or not state.report.ok:
        return None
    ends = [end for winner in state.kept if (end := _end(actions, winner, rates)) is not None]
    total: dict[str, Rate] = {}
    for ending, _ in ends:
        for key, rate in ending.items():
            total[key] = total.get(key, Rate()).plus(rate)
    costs = tuple([sum(column) for column in zip(*[costs for _, costs in ends], strict=True)])
    return (total, costs) if ends else None


def _end(
    actions: Sequence[PastAction], winner: PastAction, rates: EditRates
) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
    """Returns the outcome of the search that `winner` ended, from the ranking before it."""
    # By identity: the same edit may have been tried, reverted and kept later.
    before = actions[: max(n for n, action in enumerate(actions) if action is winner)]
    files, standing = collect(before), search_state(before)
    if standing.report is None:
        return None
    texts = {path: files.text(path) for path in files.known}
    sources = [Source(path, text) for path, text in texts.items() if text is not None]
    # Without learnt rates: they are to be measured against the policy's own order.
    candidates = ranking(Project(sources, files.listed), standing.report)
    edit_key = key_of(winner.parameters)
    index = next(
        (n for n, candidate in enumerate(candidates) if candidate.edit.key == edit_key), None
    )
    if index is None:
        return None
    return outcome(rates, [(candidate.score, candidate.keys) for candidate in candidates], index)


def actions_of(records: Sequence[Record]) -> list[PastAction]:
    """Returns the actions of a run with their observations, oldest first."""
    actions: dict[tuple[str, int], tuple[str, Mapping[str, object]]] = {}
    past: list[PastAction] = []
    for record in records:
        match record.event:
            case Proposed(key=key, actions=batch):
                for index, action in enumerate(batch):
                    actions[key, index] = action.tool, action.parameters
            case Observed(key=key, index=index, observation=seen):
                tool, parameters = actions.get((key, index), (FINISH, {}))
                if tool != FINISH:
                    past.append(PastAction(tool, parameters, seen.status, flat(seen.result), 0))
            case _:
                pass
    return past

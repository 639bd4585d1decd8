"""What a search came to, read from the log of its run: which edit ended it, how the ranking stood.

The seam between the search policy and those who keep its rates (`taofold.loop.learner`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from taofold.core.events import Observed, Proposed, Record
from taofold.core.values import FINISH
from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import EditRates, outcome
from taofold_repair.model import NAME
from taofold_repair.rank import ranking, section
from taofold_repair.source import Project, Source
from taofold_repair.state import key_of, search_state
from taofold_repair.transcript import PastAction, collect, flat


class RepairSearch:
    """The seam between the search policy and those who keep its rates."""

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
    """What a run says of the edits that made its tests pass; None if none of its edits did."""
    return outcome_of(actions_of(records), rates)


def outcome_of(
    actions: Sequence[PastAction], rates: EditRates
) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
    """The same of the run's actions. Each edit that was kept is the end of a search of its own."""
    state = search_state(actions)
    # A run that did not end green proves none of its edits.
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
    """What the search says that `winner` ended, from the ranking as it stood before."""
    # By identity: the same edit may have been tried, taken back and kept later.
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
    """The actions of a run with what came back, oldest first."""
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

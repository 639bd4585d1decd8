"""The audit of a run: for every call who asked, who decided, what happened and when (D10).

A projection of the log, so it holds for calls that ran, were refused, denied, expired or
are still open, and for decisions that somebody was not allowed to take. Pure; secrets were
taken out before anything was logged.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.state import live
from taofold.core.values import JSON, Value


class Entry(Value, frozen=True):
    """One call. Times are milliseconds since the epoch, 0 where it never came so far."""

    key: str
    index: int
    who: str
    tool: str
    parameters: dict[str, JSON]
    tier: int = 0
    decision: str = ""
    """The last verdict: allow, deny, expired, void, done, or ask while it waits."""
    resolver: str = ""
    """Who decided: "policy", a person's id, "clock"."""
    reason: str = ""
    outcome: str = "open"
    """success, failure, partial or timeout; why it was refused; or "open"."""
    proposed_at: int = 0
    decided_at: int = 0
    started_at: int = 0
    finished_at: int = 0


class Attempt(Value, frozen=True):
    """A decision that somebody tried to take and may not."""

    id: str
    who: str
    why: str
    at: int


def audit(records: Iterable[e.Record]) -> tuple[tuple[Entry, ...], tuple[Attempt, ...]]:
    """Every call of the run in order of proposal, and every refused attempt to decide."""
    who = ""
    entries: dict[tuple[str, int], Entry] = {}
    attempts: list[Attempt] = []
    for record in live(records):
        event = record.event
        match event:
            case e.RunStarted():
                who = event.principal.id
            case e.Proposed():
                for index, action in enumerate(event.actions):
                    entries[event.key, index] = Entry(
                        event.key,
                        index,
                        who,
                        action.tool,
                        action.parameters,
                        proposed_at=record.at,
                    )
            case e.Decided() | e.Started() | e.Observed():
                place = (event.key, event.index)
                entries[place] = _with(entries[place], event, record.at)
            case e.DecisionRefused():
                attempts.append(Attempt(event.id, event.by, event.why, event.at or record.at))
            case _:
                pass
    return tuple(entries.values()), tuple(attempts)


def _with(entry: Entry, event: e.Decided | e.Started | e.Observed, at: int) -> Entry:
    if isinstance(event, e.Started):
        return replace(entry, started_at=at)
    if isinstance(event, e.Observed):
        seen = event.observation
        return replace(entry, outcome=seen.refused or seen.status, finished_at=at)
    parameters = entry.parameters if event.action is None else event.action.parameters
    return replace(
        entry,
        parameters=parameters,
        tier=event.tier,
        decision=event.verdict,
        resolver=event.decider,
        reason=event.reason,
        decided_at=at,
    )

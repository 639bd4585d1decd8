"""Imported runs: what of one that came from a file is history, and what counts for nothing. Pure.

A file can claim anything: that a person approved, that a call was begun and only its outcome is
missing, that somebody with more rights asked. `as_import` refuses what cannot have happened, keeps
what is over, marked as a file's word, for whoever imports it; of a call without an outcome it keeps
the proposal alone. So whoever carries the run on is asked anew about everything that is not done,
under the policy of this place. `provenance_of` tells an imported run from one of our own.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.rules import fingerprint
from taofold.core.state import live
from taofold.core.values import Action, Principal

RUN_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""The id of a run as other programs read it: in paths, on command lines, on terminals."""
CallKey: TypeAlias = tuple[str, int]


def as_import(
    records: Sequence[e.Record], source: str, *, principal: Principal, at: int
) -> list[e.Record]:
    """The records of a foreign run as they may be written here. It belongs to `principal`.

    Raises:
        ValueError: they do not begin with a `RunStarted`, have no id of a run, or speak of a call
            that was never proposed.
    """
    first = records[0].event if records else None
    # Checked before anything is kept: what a file says must not be written half.
    if not isinstance(first, e.RunStarted):
        raise ValueError("a run begins with run_started")
    if not re.fullmatch(RUN_ID, records[0].run):
        raise ValueError(f"{records[0].run[:80]!r} is no id of a run")
    _check_calls(records)
    open_ = _unobserved(records)
    # A start without an outcome would make this place ask what became of a call that ran elsewhere,
    # or worse, take the file's approval for it as given here.
    history = [record for record in records if not _claimed(record.event, open_)]
    seqs = [record.seq for record in history]
    claims = tuple(_claim(position, action, records) for position, action in open_.items())
    origin = e.Provenance(
        source, len(history), first.principal.id, tuple(filter(_says_something, claims)), at
    )
    started = replace(
        first,
        principal=principal,
        settings={},  # could name any code to make the agent of
        session="",
        parent="",
        depth=max(0, first.depth),
        imported=origin,
    )
    return [
        replace(record, seq=seq, event=started if seq == 0 else _mark_imported(record.event, seqs))
        for seq, record in enumerate(history)
    ]


def provenance_of(started: e.RunStarted | None) -> e.Provenance | None:
    """Where the run came from, None if it was started here."""
    return started.imported if started is not None else None


def _check_calls(records: Sequence[e.Record]) -> None:
    """Is every decision and start about a call that was proposed before it, and the end the last?

    Raises:
        ValueError: one is not. It would lie in wait for a call to come.
    """
    # A decision that stands before its call would be taken for a person's word once it is proposed.
    proposed: set[CallKey] = set()
    for before, record in zip([None, *records], records, strict=False):
        ended = before is not None and isinstance(before.event, e.RunFinished)
        if ended and not isinstance(record.event, e.Resumed | e.Rewound):
            raise ValueError(f"record {record.seq} stands behind the end of the run")
        match record.event:
            case e.Proposed(key=key, actions=actions):
                proposed.update((key, index) for index in range(len(actions)))
            case e.Decided(key=key, index=index) | e.Started(key=key, index=index):
                if (key, index) not in proposed:
                    raise ValueError(f"record {record.seq} is about a call that was never proposed")
            case _:
                pass


def _unobserved(records: Sequence[e.Record]) -> dict[CallKey, Action]:
    """The calls that were proposed and have no outcome, on the live branch."""
    actions_by_place: dict[CallKey, Action] = {}
    for record in live(records):
        match record.event:
            case e.Proposed(key=key, actions=actions):
                actions_by_place.update(
                    {(key, index): action for index, action in enumerate(actions)}
                )
            case e.Observed(key=key, index=index):
                actions_by_place.pop((key, index), None)
            case _:
                pass
    return actions_by_place


def _claimed(event: e.Event, open_: dict[CallKey, Action]) -> bool:
    """Does it say that an open call was decided on or begun?"""
    return isinstance(event, e.Decided | e.Started) and (event.key, event.index) in open_


def _claim(place: CallKey, action: Action, records: Sequence[e.Record]) -> e.ForeignCall:
    decisions: list[str] = []
    started = False
    # Live only: what the file itself took back is no claim.
    for record in live(records):
        event = record.event
        if isinstance(event, e.Decided | e.Started) and (event.key, event.index) == place:
            started = started or isinstance(event, e.Started)
            if isinstance(event, e.Resolved):
                decisions.append(f"{event.verdict} by {event.by}")
    return e.ForeignCall(action.tool, fingerprint(action), tuple(decisions), started)


def _says_something(claim: e.ForeignCall) -> bool:
    return claim.started or bool(claim.decisions)


def _mark_imported(event: e.Event, seqs: Sequence[int]) -> e.Event:
    """The event, marked as what a file says, its references to records as they are numbered now."""
    if isinstance(event, e.Resolved):
        return replace(event, imported=True)
    if isinstance(event, e.Rewound):
        # `to` names a record by number, and dropping records above renumbered them: count those
        # that remain up to it.
        return replace(event, to=sum(seq <= event.to for seq in seqs) - 1)
    return event

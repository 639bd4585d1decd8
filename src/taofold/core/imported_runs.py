"""Imported runs: separates the history in a file from claims that must not count. Pure.

A file can claim anything: an approval, a started call without an outcome, a principal with more
rights, a time in the future. `as_import` rejects impossible records, sets later times to that of
the import, and keeps finished calls, marked as imported, for the
importing principal. For a call without an outcome it keeps only the proposal. The continued run is
therefore approved again, under the local policy, for everything that is not done. `provenance_of`
distinguishes an imported run from a local one.
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
"""Pattern of a run id that is safe in paths, on command lines and on terminals."""
CallKey: TypeAlias = tuple[str, int]


def as_import(
    records: Sequence[e.Record], source: str, *, principal: Principal, at: int
) -> list[e.Record]:
    """Returns the records of a foreign run in the form that may be written here.

    Args:
        records: The records of the file.
        source: Name of the source, kept in the provenance.
        principal: The principal to whom the run belongs from now on.
        at: Time of the import in milliseconds since the epoch.

    Raises:
        ValueError: The records do not begin with a `RunStarted`, have no valid run id, or refer to
            a call that was never proposed.
    """
    first = records[0].event if records else None
    # All checks precede the first write, so that no file is imported by half.
    if not isinstance(first, e.RunStarted):
        raise ValueError("a run begins with run_started")
    if not re.fullmatch(RUN_ID, records[0].run):
        raise ValueError(f"{records[0].run[:80]!r} is not a valid run id")
    _check_calls(records)
    open_ = _unobserved(records)
    # A start without an outcome would make this host verify a call that ran elsewhere, or accept
    # the file's approval as a local one.
    history = [record for record in records if not _claimed(record.event, open_)]
    seqs = [record.seq for record in history]
    claims = tuple(_claim(position, action, records) for position, action in open_.items())
    origin = e.Provenance(
        source, len(history), first.principal.id, tuple(filter(_says_something, claims)), at
    )
    started = replace(
        first,
        principal=principal,
        settings={},  # a setting could name any code to build the agent from
        session="",
        parent="",
        depth=max(0, first.depth),
        imported=origin,
    )
    return [
        replace(
            record,
            seq=seq,
            # A continued run spends in the period of its last record: it must not be in the future.
            at=min(max(record.at, 0), at),
            event=started if seq == 0 else _mark_imported(record.event, seqs),
        )
        for seq, record in enumerate(history)
    ]


def provenance_of(started: e.RunStarted | None) -> e.Provenance | None:
    """Returns the origin of the run, or None if it was started here."""
    return started.imported if started is not None else None


def _check_calls(records: Sequence[e.Record]) -> None:
    """Checks that decisions and starts follow their proposal, and that nothing follows the end.

    Raises:
        ValueError: A record violates this. It could take effect on a later call.
    """
    # A decision that precedes its call would count as an approval once the call is proposed.
    proposed: set[CallKey] = set()
    for before, record in zip([None, *records], records, strict=False):
        ended = before is not None and isinstance(before.event, e.RunFinished)
        if ended and not isinstance(record.event, e.Resumed | e.Rewound):
            raise ValueError(f"record {record.seq} follows the end of the run")
        match record.event:
            case e.Proposed(key=key, actions=actions):
                proposed.update((key, index) for index in range(len(actions)))
            case e.Decided(key=key, index=index) | e.Started(key=key, index=index):
                if (key, index) not in proposed:
                    raise ValueError(f"record {record.seq} is about a call that was never proposed")
            case _:
                pass


def _unobserved(records: Sequence[e.Record]) -> dict[CallKey, Action]:
    """Returns the proposed calls without an outcome, on the live branch."""
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
    """Returns whether the event claims a decision on an open call, or its start."""
    return isinstance(event, e.Decided | e.Started) and (event.key, event.index) in open_


def _claim(place: CallKey, action: Action, records: Sequence[e.Record]) -> e.ForeignCall:
    decisions: list[str] = []
    started = False
    # Live only: records that the file itself rewound are no claim.
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
    """Returns the event marked as imported, with references to the renumbered records."""
    if isinstance(event, e.Resolved):
        return replace(event, imported=True)
    if isinstance(event, e.Rewound):
        # `to` names a record by number, and dropping records renumbered them: count the remaining
        # ones up to it.
        return replace(event, to=sum(seq <= event.to for seq in seqs) - 1)
    return event

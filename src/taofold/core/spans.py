"""The run as a flat trace: one entry per span, ready for JSON lines and for telemetry.

Every entry has a version, an id, its parent's id, the step it belongs to and an ISO time,
and carries what a span needs: name, type, input, output, usage, start, end.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from taofold.core import events as e
from taofold.core.instant import iso
from taofold.core.state import live
from taofold.core.trace import Call, Turn, branch, turns
from taofold.core.values import Usage

VERSION: Final = 1


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A span. `step` is 0 outside of steps; `start` and `end` are ms since the epoch.

    Ids are `run:seq` with the record that opened the span, so they are the same each time.
    `key` is the effect's place in the strategy: what its branch was ("3.1.0": the second
    of the branches forked at "3"), whatever ran at the same time.
    """

    version: int
    id: str
    parent: str
    step: int
    timestamp: str
    type: Literal["run", "model", "step", "tool"]
    name: str
    input: Any
    output: Any
    status: str
    usage: Usage | None
    start: int
    end: int
    key: str = ""


def trace(records: Iterable[e.Record]) -> tuple[Entry, ...]:
    """The entries of a log in the order of their start; what is open ends with the log."""
    kept = live(records)
    if not kept:
        return ()
    told = turns(kept)
    root = f"{kept[0].run}:{kept[0].seq}"
    found = [_run(kept, root), *_replies(kept, told, root)]
    for turn in told:
        found += _turn(turn, kept[-1], root)
    return tuple(sorted(found, key=lambda entry: entry.start))


def _entry(id: str, parent: str, step: int, start: int, **rest: Any) -> Entry:  # noqa: A002
    return Entry(VERSION, id, parent, step, iso(start), start=start, **rest)


def _run(kept: Sequence[e.Record], root: str) -> Entry:
    first, last = kept[0].event, kept[-1].event
    opened = first if isinstance(first, e.RunStarted) else e.RunStarted(goal="")
    done = last if isinstance(last, e.RunFinished) else None
    return _entry(
        root,
        opened.parent,
        0,
        kept[0].at,
        type="run",
        name=opened.agent,
        input=opened.goal,
        output=done.output if done else None,
        status=done.status if done else "open",
        usage=None,
        end=kept[-1].at,
    )


def _replies(kept: Sequence[e.Record], told: Sequence[Turn], root: str) -> list[Entry]:
    """Model calls. A reply belongs to the next step of its branch."""
    numbers = {turn.seq: turn.number for turn in told}
    following: dict[str, int] = {}
    found: list[Entry] = []
    for record in reversed(kept):
        event = record.event
        if isinstance(event, e.Proposed):
            following[branch(event.key)] = numbers.get(record.seq, 0)
        elif isinstance(event, e.Replied):
            found.append(
                _entry(
                    f"{record.run}:{record.seq}",
                    root,
                    following.get(branch(event.key), 0),
                    record.at - round(event.ms),
                    type="model",
                    name=event.model,
                    input=event.prompt,
                    output=event.text or [msgspec.structs.asdict(call) for call in event.calls],
                    status="success",
                    usage=event.usage,
                    end=record.at,
                    key=event.key,
                )
            )
    found.reverse()
    return found


def _turn(turn: Turn, last: e.Record, root: str) -> list[Entry]:
    """A step and the calls in it."""
    own = f"{last.run}:{turn.seq}"
    ends = [call.observed_at or last.at for call in turn.calls]
    step = _entry(
        own,
        root,
        turn.number,
        turn.at,
        type="step",
        name=turn.thought.type,
        input=turn.thought.content,
        output=[call.observation.extraction for call in turn.calls if call.observation is not None],
        status="success" if turn.complete else "interrupted",
        usage=None,
        end=max(ends, default=turn.at),
        key=turn.key,
    )
    calls = [_call(call, f"{own}.{index}", turn, last.at) for index, call in enumerate(turn.calls)]
    return [step, *calls]


def _call(call: Call, own: str, turn: Turn, until: int) -> Entry:
    seen = call.observation
    return _entry(
        own,
        own.rpartition(".")[0],
        turn.number,
        call.started_at or turn.at,
        type="tool",
        name=call.action.tool,
        input=call.action.parameters,
        output=seen.result if seen else None,
        status=seen.status if seen else "interrupted",
        usage=None,
        end=call.observed_at or until,
        key=turn.key,
    )

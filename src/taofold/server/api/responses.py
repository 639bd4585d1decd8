"""Makes the API's responses (`schemas`) from the log's values.

Covers runs and their state, records, audit, spans of time, media, approvals and agents.
`taofold.views` has parts that the command line shows, too. `data` and tool results come from the
log, which contains no known secrets. Pure.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from taofold.agent import Agent
from taofold.core import events as e
from taofold.core.call_ids import child_id
from taofold.core.content import media_of
from taofold.core.json_values import plain
from taofold.core.metrics import measure
from taofold.core.state import fold, opening
from taofold.core.text import iso, line
from taofold.core.trace import audit, trace, turns
from taofold.log.log import RunRow
from taofold.policy.redaction.views import shown, shown_value
from taofold.runtime.model import Model
from taofold.runtime.setup import Approval
from taofold.runtime.tool_calls import facts
from taofold.server.api import schemas
from taofold.views import approval_json, counts_json, run_json, run_state_json

_SUMMARY: Final = 160
"""Maximum characters of an event's summary."""


def run(row: RunRow) -> schemas.RunView:
    """Returns a row of the list of runs."""
    return schemas.RunView(**run_json(row))


def fork(row: RunRow, files: schemas.ForkedFiles | None) -> schemas.ForkView:
    """Returns a fork with its files."""
    return schemas.ForkView(**run_json(row), files=files)


def detail(
    row: RunRow,
    records: Sequence[e.Record],
    children: Iterable[RunRow],
    pending: Iterable[schemas.ApprovalView],
) -> schemas.RunDetail:
    """Returns a run with its state."""
    state, started = fold(records), opening(records)
    return schemas.RunDetail(
        **{**run_json(row), "goal": shown_value(state.goal or row.goal)},
        active_agent=state.agent or row.agent,
        model=started.model if started else "",
        strategy=started.strategy if started else "",
        stop_reason=state.stop_reason,
        success=state.success,
        output=state.output,
        error=shown_value(state.error),
        steps=len(state.steps),
        **counts_json(state),
        metrics=measure(records).as_dict(),
        media=[schemas.MediaView.of(part) for part in media_of(started.content)] if started else [],
        children=[run(child) for child in children],
        pending=list(pending),
    )


def moment(name: str, records: Sequence[e.Record]) -> schemas.StateView:
    """Returns the state after the last of `records`."""
    return schemas.StateView(**run_state_json(name, records))


def record(entry: e.Record) -> schemas.RecordView:
    """Returns an event from the log, with guessed secrets masked."""
    event = shown(entry).event
    return schemas.RecordView(
        seq=entry.seq,
        at=iso(entry.at),
        event=msgspec.to_builtins(event),
        summary=line(event.summary, _SUMMARY),
        alarming=event.alarming,
    )


def audit_view(records: Iterable[e.Record]) -> schemas.AuditView:
    """Returns the run's audit."""
    entries, attempts = audit(map(shown, records))
    return schemas.AuditView(
        entries=[plain(entry) for entry in entries],
        attempts=[plain(attempt) for attempt in attempts],
    )


def spans(records: Sequence[e.Record], children: Container[str]) -> schemas.Spans:
    """Returns the spans of a run: its calls and its waiting times.

    Args:
        records: The run's events.
        children: The ids of the runs that its calls began.
    """
    calls = {
        (turn.seq, index): (turn.key, call)
        for turn in turns(records)
        for index, call in enumerate(turn.calls)
    }
    over = bool(records) and isinstance(records[-1].event, e.RunFinished)
    items: list[schemas.SpanView] = []
    for span in trace(records):
        if span.type == "run" or span.type == "step":
            continue
        usage, child, status = span.usage, "", span.status
        if span.type == "tool":
            run, _, place = span.id.rpartition(":")
            seq, _, index = place.partition(".")
            key, call = calls[int(seq), int(index)]
            if not call.started and call.observation is None:
                continue  # it waits, so it has used no time yet
            if call.observation is None and not over:
                status = "open"
            usage = call.usage
            # Usage is not enough: a tool that called the run's model has usage, too.
            child = child_id(run, key, int(index))
            child = child if child in children else ""
        items.append(
            schemas.SpanView(
                id=span.id,
                type=span.type,
                name=span.name,
                step=span.step,
                status=status,
                start=span.start,
                end=span.end,
                tokens=usage.tokens if usage else 0,
                usd=usage.usd if usage else 0.0,
                run=child,
            )
        )
    items += _waits(records)
    return schemas.Spans(items=sorted(items, key=lambda item: item.start))


def _waits(records: Sequence[e.Record]) -> Iterator[schemas.SpanView]:
    for record, after in zip(records, (*records[1:], None), strict=True):
        if isinstance(record.event, e.Parked):
            yield schemas.SpanView(
                id=f"{record.run}:{record.seq}",
                type="wait",
                name=record.event.reason,
                step=0,
                status="open" if after is None else "ended",
                start=record.at,
                end=record.at if after is None else after.at,
            )


def approval(question: Approval, row: RunRow) -> schemas.ApprovalView:
    """Returns a question for display. Times are ISO 8601."""
    return schemas.ApprovalView(
        **approval_json(question),
        agent=row.agent,
        goal=shown_value(row.goal),
    )


def agent(name: str, offered: Agent[Any, Any]) -> schemas.AgentShown:
    """Returns a served agent."""
    model = cast("Model", offered.model)
    strategy = offered.strategy if isinstance(offered.strategy, str) else "custom"
    # As in runs: rules for an alias apply to the tool.
    policy = offered.policy.covering(offered.toolset.aliases)
    tools = [
        schemas.ToolShown(
            name=tool.name,
            description=tool.description,
            # The policy may raise the tool's declared tier.
            tier=int(policy.tier(tool.name, facts(tool))),
            requires_confirmation=policy.asks(tool.name, facts(tool)),
            effect=tool.effect,
            role=policy.role(tool.name, tool.role),
            parameters=tool.schema,
            # The role is set above, because the policy may set it.
            options={name: value for name, value in tool.declared.items() if name != "role"},
        )
        for tool in offered.toolset.values()
    ]
    return schemas.AgentShown(
        name=name,
        description=offered.description,
        model=model.name,
        strategy=strategy,
        tools=tools,
    )

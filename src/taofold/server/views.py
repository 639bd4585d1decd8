"""From the log's values to the API's. Pure.

`data` and tool results are what the log holds, and it holds no secrets.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from taofold.agent import Agent
from taofold.core import events as e
from taofold.core.content import MediaPart, media_of
from taofold.core.metrics import measure
from taofold.core.state import RunState, fold
from taofold.core.text import iso
from taofold.core.trace import audit, opening
from taofold.core.value import plain
from taofold.core.values import Principal
from taofold.log.log import RunRow
from taofold.policy import Facts
from taofold.runtime.model import Model
from taofold.runtime.setup import Approval
from taofold.server.api import schemas

LOCAL = "local"
"""The principal of this machine: shares its sessions with the command line."""


def inner_session(principal: Principal, name: str) -> str:
    """The session as the log names it: what others call the same is another conversation."""
    if not name or principal.id == LOCAL:
        return name
    return f"{principal.id}/{name}"


def run(row: RunRow) -> schemas.RunView:
    """A row of the list."""
    return schemas.RunView(**_row(row))


def _row(row: RunRow) -> dict[str, Any]:
    return {
        "id": row.run,
        "status": row.status,
        "goal": row.goal,
        "agent": row.agent,
        "session": row.session.removeprefix(f"{row.principal}/"),
        "parent": row.parent,
        "principal": row.principal,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "events": row.events,
        "waiting_for": row.waiting_for,
    }


def detail(
    row: RunRow,
    records: Sequence[e.Record],
    children: Iterable[RunRow],
    pending: Iterable[schemas.ApprovalView],
) -> schemas.RunDetail:
    """A run with how it stands."""
    state, started = fold(records), opening(records)
    return schemas.RunDetail(
        **{**_row(row), "goal": state.goal or row.goal},
        model=started.model if started else "",
        strategy=started.strategy if started else "",
        stop_reason=state.stop_reason,
        success=state.success,
        output=state.output,
        error=state.error,
        steps=len(state.steps),
        **_counted(state),
        metrics=measure(records).as_dict(),
        media=[medium(part) for part in media_of(started.content)] if started else [],
        children=[run(child) for child in children],
        pending=list(pending),
    )


def medium(part: MediaPart) -> schemas.MediaView:
    """An image, document or sound."""
    return schemas.MediaView(
        kind=part.kind,
        media_type=part.media_type,
        digest=part.digest,
        size=part.size,
        name=part.name,
        url=part.url,
    )


def moment(name: str, records: Sequence[e.Record]) -> schemas.StateView:
    """The state after the last of `records`."""
    state = fold(records)
    return schemas.StateView(
        run_id=name,
        at=records[-1].seq if records else -1,
        goal=state.goal,
        status=state.status,
        stop_reason=state.stop_reason,
        waiting_for=state.waiting_for,
        success=state.success,
        output=state.output,
        error=state.error,
        data=dict(state.data),
        steps=[plain(step) for step in state.steps],
        open={key: plain(step) for key, step in state.open.items()},
        **_counted(state),
    )


def _counted(state: RunState) -> dict[str, Any]:
    return {
        "model_calls": state.model_calls,
        "tool_calls": state.tool_calls,
        "refused_calls": state.refused_calls,
        "tokens": state.usage.tokens,
        "usd": state.usage.usd,
        "seconds": state.active_ms / 1000,
    }


def record(one: e.Record) -> schemas.RecordView:
    """An event as the log keeps it."""
    event: dict[str, Any] = msgspec.to_builtins(e.public(one.event))
    return schemas.RecordView(seq=one.seq, at=iso(one.at), event=event)


def audited(records: Iterable[e.Record]) -> schemas.AuditView:
    """The run's audit."""
    entries, attempts = audit(records)
    return schemas.AuditView(
        entries=[plain(entry) for entry in entries],
        attempts=[plain(attempt) for attempt in attempts],
    )


def approval(one: Approval, row: RunRow) -> schemas.ApprovalView:
    """A question as a person sees it."""
    return schemas.ApprovalView(
        id=one.id,
        run=one.run,
        agent=row.agent,
        goal=row.goal,
        tool=one.action.tool,
        args=one.action.parameters,
        summary=one.preview,
        tier=int(one.tier),
        reason=one.reason,
        question=one.question,
        form=None if one.form is None else dict(one.form),
        digest=one.digest,
        requester=one.requester,
        asked_at=iso(one.asked_at),
        expires_at=iso(one.expires_at) if one.expires_at else None,
    )


def agent(name: str, known: Agent[Any, Any]) -> schemas.AgentShown:
    """An agent that is offered."""
    model = cast("Model", known.model)
    strategy = known.strategy if isinstance(known.strategy, str) else "custom"
    tools = [
        schemas.ToolShown(
            name=tool.name,
            description=tool.description,
            tier=int(known.policy.tier(tool.name, Facts(tool.tier, tool.effect))),
            effect=tool.effect,
            role=known.policy.required.get(tool.name, tool.role),
            parameters=tool.schema,
        )
        for tool in known.toolset.values()
    ]
    return schemas.AgentShown(
        name=name,
        description=known.description,
        model=model.name,
        strategy=strategy,
        tools=tools,
    )

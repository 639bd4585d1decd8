"""Runs, ratings and approvals as JSON, and the names of sessions, for the command line and HTTP.

A view is a dict of plain JSON values. An interface may add keys of its own (the command line a
session, HTTP a goal), but a key from here has one meaning everywhere:

    >>> run_state_json("r1", records)["status"]
    'finished'

Values from the log are shown with guessed secrets masked, except for the answer (`output`). Pure.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from taofold.core.content import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from taofold.core.events import Record
from taofold.core.json_values import plain
from taofold.core.state import RunState, fold, opening
from taofold.core.text import iso
from taofold.core.values import ASK_USER, Principal
from taofold.log.log import RunRow
from taofold.policy.redaction.views import shown, shown_value

if TYPE_CHECKING:
    # Their modules load the whole runtime, which a list of runs does not need.
    from taofold.agent.prompts import SentPrompt
    from taofold.runtime.ratings import Rating
    from taofold.runtime.setup import Approval

LOCAL: Final = Principal().id
"""The principal of this machine: its sessions are the same in a terminal and at a server."""


def inner_session(principal: Principal, name: str) -> str:
    """Returns the session's name in the log; equal names of other principals are other sessions."""
    # A principal's name has no slash (`server.auth`), so the results are unique. The names of this
    # machine's user have no principal before them unless they have a slash themselves.
    if not name or (principal.id == LOCAL and "/" not in name):
        return name
    return f"{principal.id}/{name}"


def run_state_json(run: str, records: Sequence[Record]) -> dict[str, Any]:
    """Returns the state of a run after the last of `records`; `at` is its number, -1 = none."""
    state, started = fold(map(shown, records)), opening(records)
    return {
        "id": run,
        "at": records[-1].seq if records else -1,
        "goal": state.goal,
        "agent": started.agent if started else "",
        "active_agent": state.agent,
        "model": started.model if started else "",
        "status": state.status,
        "stop_reason": state.stop_reason,
        "waiting_for": state.waiting_for,
        "success": state.success,
        "output": state.output,
        "error": state.error,
        "data": dict(state.data),
        "steps": [plain(step) for step in state.steps],
        "open": {key: plain(step) for key, step in state.open.items()},
        "usage": plain(state.usage),
        **counts_json(state),
    }


def counts_json(state: RunState) -> dict[str, Any]:
    """Returns the consumption of a run: calls, tokens, US dollars, and seconds of activity."""
    return {
        "model_calls": state.model_calls,
        "tool_calls": state.tool_calls,
        "refused_calls": state.refused_calls,
        "tokens": state.usage.tokens,
        "usd": state.usage.usd,
        # Milliseconds inside, seconds in displays.
        "seconds": state.active_ms / 1000,
    }


def run_json(row: RunRow) -> dict[str, Any]:
    """Returns a run for a list. Times are ISO 8601; the session is the name its principal gave."""
    return {
        "id": row.run,
        "status": row.status,
        "goal": shown_value(row.goal),
        "agent": row.agent,
        "session": row.session.removeprefix(f"{row.principal}/"),
        "parent": row.parent,
        "principal": row.principal,
        "tags": shown_value(row.tags),
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "events": row.events,
        "waiting_for": row.waiting_for,
    }


def prompt_json(prompt: "SentPrompt", before: "SentPrompt | None") -> dict[str, Any]:
    """Returns one prompt of a run, compared with the one `before` it.

    `same` counts the leading messages that both have, `dropped` the later messages of the one
    before, which are not sent any more.
    """
    same = 0 if before is None else prompt.shared_with(before)
    dropped = 0 if before is None or prompt.missing else before.length - same
    return {
        "number": prompt.number,
        "key": prompt.key,
        "model": prompt.model,
        "role": prompt.role,
        "digest": prompt.digest,
        "missing": prompt.missing,
        "system": prompt.system,
        "messages": [_message_json(message) for message in prompt.messages],
        "same": same,
        "dropped": dropped,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in prompt.tools
        ],
        "allowed": None if prompt.allowed is None else list(prompt.allowed),
        "schema": None if prompt.schema is None else dict(prompt.schema),
        "settings": msgspec.to_builtins(prompt.settings),
    }


def _message_json(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "parts": [part for each in message.parts if (part := _part_json(each)) is not None],
    }


def _part_json(part: Part) -> dict[str, Any] | None:
    """Returns a part of a message as JSON; None for one that only its provider can read."""
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            return {"type": "thinking", "text": part.text}
        case ToolCall():
            return {
                "type": "call", "id": part.id, "name": part.name, "arguments": part.arguments,
            }  # fmt: skip
        case ToolResult():
            return {"type": "result", "id": part.id, "text": part.text}
        case MediaPart():
            return {"type": "media", "text": part.line}
        case OpaquePart():
            return None
        case _:
            assert_never(part)


def rating_json(rating: "Rating") -> dict[str, Any]:
    """Returns a rating as JSON."""
    return {"by": rating.by, "value": rating.value, "note": rating.note, "at": iso(rating.at)}


def approval_json(approval: "Approval") -> dict[str, Any]:
    """Returns a pending approval as JSON. `digest` identifies the action that is decided on.

    `batch` is the same for all questions of one step.
    """
    return {
        "id": approval.id,
        "run": approval.run,
        "tool": approval.action.tool,
        "args": dict(approval.action.parameters),
        "summary": approval.preview,
        "asked_at": iso(approval.asked_at),
        "expires_at": iso(approval.expires_at) if approval.expires_at else None,
        "tier": int(approval.tier),
        "requires_confirmation": approval.form is None and approval.action.tool != ASK_USER,
        "reason": approval.reason,
        "question": approval.question,
        "form": None if approval.form is None else dict(approval.form),
        "digest": approval.digest,
        "requester": approval.requester,
        "batch": f"{approval.run}#{approval.key}",
    }

"""Sessions: the conversation so far, and a new message while a run of the session waits.

A session has one run at a time. A new message answers the question of a waiting run, or withdraws
what it waits for (`IfWaiting`). This module does not drive runs.
"""

from collections.abc import Collection
from typing import Final

from taofold.agent.options import IfWaiting
from taofold.clocks import clock
from taofold.core.content import media_of
from taofold.core.errors import Conflict
from taofold.core.json_values import render
from taofold.core.state import RunState, fold
from taofold.core.text import clip
from taofold.core.values import ASK_USER, Message, Principal
from taofold.log.log import Log, RunRow
from taofold.policy import Policy
from taofold.policy.redaction import Redactor
from taofold.runtime.control import children, decide, expire, pending, request_cancel
from taofold.runtime.endings import EXPIRED
from taofold.runtime.setup import Approval, Decision

TURNS: Final = 20
"""Turns of a session that a new run starts with."""
MEDIA_BYTES: Final = 8 << 20
"""Maximum bytes of the media in them. Older media are replaced by a line of text."""
WITHDRAWN: Final = "withdrawn: the session went on with another message"
_PERSON: Final = frozenset({"awaiting_approval", "awaiting_input", EXPIRED})
"""Reasons for waiting that a message of the session can settle."""


async def turns(log: Log, session: str) -> tuple[tuple[Message, ...], bool]:
    """Returns the last turns of the session, oldest first, and True if they may contain a mask."""
    messages: list[Message] = []
    attached, masked = 0, False
    for row in await log.rows(session=session, limit=TURNS):  # newest first
        state = fold(await log.read(row.run))
        masked = masked or state.masked
        messages.append(Message("assistant", _reply(state)))
        content = state.goal if state.started is None else state.started.content
        # Counted from the newest backwards, so the latest media are shown again.
        attached += sum([part.size for part in media_of(content)])
        messages.append(Message("user", content if attached <= MEDIA_BYTES else state.goal))
    return tuple(reversed(messages)), masked


async def active_agent(log: Log, session: str, names: Collection[str]) -> str:
    """Returns the agent that was active at the end of the session, "" if it is none of `names`."""
    if len(names) < 2:
        return ""
    rows = await log.rows(session=session, limit=1)
    agent = fold(await log.read(rows[0].run)).agent if rows else ""
    return agent if agent in names else ""


def _reply(state: RunState) -> str:
    if state.output is not None:
        return render(state.output)
    # The model must not assume that the request of this turn was fulfilled.
    return f"[no answer: {clip(state.error or state.stop_reason or state.status, 200)}]"


async def waiting_run(log: Log, session: str) -> RunRow | None:
    """Returns the waiting run of the session, after its overdue approvals have expired."""
    rows = await log.rows(session=session, status="waiting", limit=1)
    if not rows:
        return None
    [row] = rows
    # A scheduler may not be running.
    for run in [row.run, *await children(log, row.run)]:
        await expire(log, await log.row(run), clock())
    return await log.row(row.run)


async def settle(
    log: Log,
    row: RunRow,
    text: str,
    if_waiting: IfWaiting,
    *,
    by: Principal,
    policy: Policy,
    redactor: Redactor,
) -> bool:
    """Lets `text` answer the question of the waiting run `row`, or withdraws the run.

    Returns:
        True if `text` answers the question and the run can be resumed. False if it was withdrawn.

    Raises:
        Conflict: No message can settle what the run waits for, or `if_waiting` is "refuse".
        Refused: `by` may not answer the question.
    """
    question = await question_for(log, row, if_waiting)
    if question is not None:
        answer = Decision("answer", answer=text, by=by.id)
        await decide(log, question.id, answer, by=by, policy=policy, redactor=redactor)
        return True
    await request_cancel(log, row.run, by=by, redactor=redactor, why=WITHDRAWN)
    return False


async def question_for(log: Log, row: RunRow, if_waiting: IfWaiting) -> Approval | None:
    """Returns the question of the waiting run `row` that a message answers. None withdraws the run.

    Raises:
        Conflict: No message can settle what the run waits for, or `if_waiting` is "refuse".
    """
    requests = await pending(log, row.run)
    # Expired approvals can no longer be decided.
    over = not requests and row.waiting_for == EXPIRED
    settled = if_waiting == "withdraw" or (if_waiting == "answer" and row.waiting_for in _PERSON)
    if not (over or settled):
        raise Conflict(
            f"run {row.run!r} of session {row.session!r} has not ended, it waits "
            f"({row.waiting_for}): resume or cancel it first"
            + (", or pass if_waiting='withdraw'" if if_waiting == "answer" else "")
        )
    questions = [request for request in requests if request.action.tool == ASK_USER]
    return questions[0] if if_waiting == "answer" and questions else None

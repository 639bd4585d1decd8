"""Controls runs from outside: list pending questions, decide, answer, steer, cancel, and remove a
run that never began.

Also closes expired questions, orphans, and runs that wait for nothing, for the clock and engines.

Everything goes through the inbox of the run, once. The policy decides who may do it, and a refused
attempt is put on the run's record. Secrets are removed before a message is posted, because a log on
disk keeps written data for a while, even after the message was consumed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace as replace_fields
from hashlib import blake2b
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.errors import ConfigError, Conflict, LogError, Refused, UnknownRun
from taofold.core.state import ENDED, fold, live
from taofold.core.values import ASK_USER, Deciders, Principal
from taofold.log.log import AT_ONCE, Log, RunRow, Signal
from taofold.policy import Facts, Policy, digest
from taofold.policy.policy import refusal
from taofold.policy.redaction import Redactor
from taofold.runtime.approvals import VERDICTS, approval, flaw, is_bound, secret
from taofold.runtime.endings import EXPIRED, UNATTENDED, cancelled, interrupted
from taofold.runtime.inbox import environment_redactor
from taofold.runtime.ownership import driven
from taofold.runtime.redaction import is_masked
from taofold.runtime.setup import Approval, Decision
from taofold.tools import Tool

LOCAL = Principal()
_logger = logging.getLogger(__name__)
REFUSALS: Final = 64
"""Maximum number of refused attempts to decide that the log of one run keeps."""
REFUSALS_EACH: Final = 8
"""The same for one principal."""
_LONG: Final = 500
_DEEP: Final = 4
"""Maximum depth of nested agents that are searched."""
_NO_MORE: Final = "further refused attempts are not written here"


async def pending(log: Log, run: str = "") -> list[Approval]:
    """Returns the open questions: of `run` and its children, or of all unfinished runs."""
    approvals: list[Approval] = []
    if run:
        await log.row(run)
        approvals += pending_in(await log.read(run))
        for child in await _asking(log, parent=run):
            approvals += await pending(log, child.run)
        return approvals
    for row in await _asking(log):
        approvals += await pending_if_readable(log, row.run) or ()
    return approvals


async def pending_if_readable(log: Log, run: str) -> list[Approval] | None:
    """Returns the open questions of one run; None, with a warning, if its records are unreadable.

    A damaged run must not hide the questions of the others.
    """
    try:
        return pending_in(await log.read(run))
    except LogError as error:
        _logger.warning("the questions of run %r cannot be read: %s", run, error)
        return None


async def _asking(log: Log, parent: str = "") -> list[RunRow]:
    """Returns the runs that may have questions: waiting ones, and running ones with an approver."""
    waiting = await log.rows(status="waiting", parent=parent, limit=0)
    return waiting + await log.rows(status="running", parent=parent, limit=0)


def pending_in(records: list[e.Record]) -> list[Approval]:
    """Returns the open questions of one run, from its records. Pure."""
    counted = live(records)
    state = fold(counted)
    if state.status in ENDED or state.started is None:
        return []
    principal = state.started.principal.id
    # From the records alone, so that a console can show pending questions without the agent's code.
    approvals: list[Approval] = []
    for record in asking(counted):
        event = record.event
        assert isinstance(event, e.Decided)
        if event.key not in state.open:
            continue
        slot = state.open[event.key].slots[event.index]
        action = slot.action
        # A start before the question: it is about whether the call has happened.
        asks = action.tool == ASK_USER or slot.started or event.request is not None
        question = event.reason if asks else ""
        approvals.append(approval(record.run, record, action, principal, question))
    return approvals


def asking(records: Iterable[e.Record]) -> list[e.Record]:
    """Returns the records of unanswered questions. Pure."""
    # A later question about the same action replaces the earlier one.
    open_records: dict[tuple[str, int], e.Record] = {}
    for record in live(records):
        event = record.event
        if isinstance(event, e.Decided) and event.verdict == "ask":
            open_records[event.key, event.index] = record
        elif isinstance(event, e.Decided | e.Observed):
            open_records.pop((event.key, event.index), None)
    return list(open_records.values())


async def find(log: Log, action_id: str) -> Approval:
    """Returns the pending approval with this id.

    Raises:
        Refused: There is none: wrong id, already resolved, or its run has ended.
    """
    run, _, seq = action_id.rpartition(":")
    # Split from the right: ids of runs may hold colons.
    if not run or not seq.isdigit():
        raise Refused(f"{action_id!r} is not an action id: write RUN:SEQ")
    for request in pending_in(await log.read(run)):
        if request.id == action_id:
            return request
    raise Refused(f"action {action_id!r} is not pending: it was already resolved, or never asked")


async def decide(
    log: Log,
    action_id: str,
    decision: Decision,
    *,
    by: Principal | None = None,
    policy: Policy | None = None,
    facts: Facts | None = None,
    now: Callable[[], int] = clock,
    redactor: Redactor | None = None,
    tools: Mapping[str, Tool] | None = None,
) -> Approval:
    """Posts a decision on a pending action. The run applies it when it is resumed.

    Every refused attempt on a run that has not ended is kept for its record.

    Args:
        log: The log of the run.
        action_id: The id of the question, `run:seq`, as `Approval.id`.
        decision: The verdict, with edited parameters or an answer.
        by: The principal that a server established; its id is recorded instead of `decision.by`.
            Without it the owner of this process decides. `decision.by` is then only a recorded name
            and gives no further rights.
        policy: The policy that permits deciders. Default: `Policy()`.
        facts: The declaration of the tool. Default: the tier of the question.
        now: A clock in milliseconds since the epoch.
        redactor: Knows the secrets of the run's agent (`Agent.redactor`). Without it, secrets are
            found by shape and in the environment.
        tools: The tools of the agent (`Agent.toolset`). With them, edited parameters that do not
            fit are refused here. Without them the run detects that, and asks once more.

    Returns:
        The question that was decided.

    Raises:
        ConfigError: `decision` is no `Decision`.
        Refused: The decision is late, repeated, unusable, or not permitted to this principal.

    Example:
        ```python
        from taofold import Decision, decide, open_log
        from taofold.runtime.control import pending

        log = open_log("runs.db")
        for question in await pending(log):
            await decide(log, question.id, Decision("approve", by="ada"))
        ```
    """
    given: Any = decision
    if not isinstance(given, Decision):
        raise ConfigError(f"decide takes Decision('approve') or Decision('deny'), not {given!r}")
    redactor = redactor or environment_redactor()
    try:
        request = await find(log, action_id)
        policy = policy or Policy()
        principal = await _check(log, request, decision, by, policy, facts, now())
        sender = redactor.text(_decider(decision, by))
        request = replace_fields(request, tool=asked_tool(request, tools or {}))
        unusable = _unusable(request, decision, redactor)
        if unusable:
            raise Refused(unusable)
        data = {"seq": int(action_id.rpartition(":")[2]), **_message_data(decision, redactor)}
        data["principal"] = redactor.json(to_builtins(principal))
        data["deciders"] = to_builtins(_effective(request.deciders, policy))
        # The id is unique in the log: of two simultaneous decisions the second is refused here.
        if not await log.post(
            request.run, Signal(f"decide:{action_id}", "decide", sender, now(), data)
        ):
            raise Refused(f"action {action_id!r} was already resolved")
    except Refused as refusal:
        who = _decider(decision, by)
        await _record_refusal(log, action_id, who, str(refusal), now(), redactor)
        raise
    return request


async def _check(
    log: Log,
    request: Approval,
    decision: Decision,
    by: Principal | None,
    policy: Policy,
    facts: Facts | None,
    at: int,
) -> Principal:
    """Returns the principal whose rights permit the decision."""
    wrong = flaw(decision)
    if wrong:
        raise Refused(wrong)
    first = (await log.read(request.run, limit=1))[0].event
    requester = first.principal if isinstance(first, e.RunStarted) else LOCAL
    principal = by or _owner(decision.by, requester)
    why = _not_theirs(request, principal, requester, policy, facts or Facts(request.tier, "once"))
    if why:
        raise Refused(why)
    if decision.digest and decision.digest != request.digest:
        raise Refused(f"the decision is for another action than {request.id!r}: read it again")
    if request.expires_at and at > request.expires_at:
        # Recorded now, or the run would wait for the next sweep although no decision is possible.
        await expire(log, await log.row(request.run), at)
        raise Refused(f"EXPIRED: the time to approve {request.action.tool!r} is over")
    return principal


def _decider(decision: Decision, by: Principal | None) -> str:
    """Returns the id under which the decision is recorded."""
    if by is not None:
        return by.id
    named: Any = decision.by
    return named if isinstance(named, str) and named else LOCAL.id


def _owner(named: str, requester: Principal) -> Principal:
    """Returns the process owner, who decides under the name `named`.

    The rules for the requester and for agents also apply to decisions under their names.
    """
    return Principal(named, LOCAL.roles) if is_bound(named, requester) else LOCAL


def _effective(deciders: Deciders | None, policy: Policy) -> Deciders | None:
    """Returns the deciders of a question that is answered under the local policy."""
    if deciders is None:
        return None
    # A policy without approvers does not restrict others: then the local policy's role applies.
    return replace(deciders, others=deciders.others or policy.approvers)


def _not_theirs(
    request: Approval, by: Principal, requester: Principal, policy: Policy, facts: Facts
) -> str:
    """Returns why `by` may not decide, or "": by the local policy and by that of the question.

    The latter may be a child's, which is unknown here.
    """
    why = policy.may_decide(by, requester, facts, request.action.tool)
    deciders = _effective(request.deciders, policy)
    if why or deciders is None:
        return why
    return refusal(deciders, by, requester, policy.roles)


def _unusable(request: Approval, decision: Decision, redactor: Redactor) -> str:
    """Returns why the run could not use the decision, or ""."""
    if VERDICTS[decision.verdict] != "allow":
        return request.mismatch(decision)
    edits = decision.parameters is not None and request.form is None
    # Secrets first: the error about a misfit quotes the value.
    leak = secret(redactor, decision.parameters or {}) if edits else ""
    return leak or request.unfit(decision)


def asked_tool(request: Approval, tools: Mapping[str, Tool]) -> Tool | None:
    """Returns the tool of a question, from `tools` or from those of the agents among them.

    None if no tool has its name, or if several have it and none matches the question's digest.
    """
    named = list(_named(tools, request.action.tool, _DEEP))
    exact = [tool for tool in named if digest(request.action, tool.definition) == request.digest]
    if exact:
        return exact[0]
    return named[0] if len(named) == 1 else None


def _named(tools: Mapping[str, Tool], name: str, depth: int) -> Iterator[Tool]:
    if name in tools:
        yield tools[name]
    for tool in tools.values():
        agent = tool.agent or tool.successor
        if depth and agent is not None:
            yield from _named(agent.toolset, name, depth - 1)


def _message_data(decision: Decision, redactor: Redactor) -> dict[str, Any]:
    reason = redactor.text(decision.reason)
    data: dict[str, Any] = {"verdict": VERDICTS[decision.verdict], "reason": reason}
    if decision.parameters is not None:
        # Changes only a completed form: edited parameters with a secret were refused (`_unusable`).
        data["parameters"] = redactor.json(decision.parameters)
    if decision.answer is not None:
        data["text"] = redactor.text(decision.answer)
    written = [decision.reason, decision.parameters, decision.answer]
    if is_masked(written, [reason, data.get("parameters"), data.get("text")]):
        data["masked"] = True
    return data


async def sweep(log: Log, *, now: Callable[[], int] = clock) -> list[str]:
    """Closes expired approvals. Returns the runs that may be resumed.

    Only due runs are read: the row of a waiting run holds the time when its approvals expire.
    """
    touched: list[RunRow] = []
    after: RunRow | None = None
    # In pages: `after` continues behind the last row even if rows of this page stay due.
    while rows := await log.due(now(), after=after):
        after = rows[-1]
        touched += [row for row in rows if await expire(log, row, now())]
    # Two children of one root are one run to resume; the order of the rows is kept.
    return list(dict.fromkeys([(await root(log, row)).run for row in touched]))


async def root(log: Log, row: RunRow) -> RunRow:
    """Returns the root run of a row. Resuming it resumes its children."""
    while row.parent:
        try:
            row = await log.row(row.parent)
        except UnknownRun:
            break
    return row


async def expire(log: Log, row: RunRow, at: int) -> bool:
    """Records expired questions of a waiting run; no tool is called, no process needed."""
    if row.status != "waiting":
        return False
    records = await log.read(row.run)
    late = [
        request for request in pending_in(records) if request.expires_at and at > request.expires_at
    ]
    if not late:
        return False
    closed: list[e.Event] = [
        e.Resolved(
            key=request.key,
            index=request.index,
            verdict="expired",
            by="clock",
            tier=int(request.tier),
            digest=request.digest,
        )
        for request in late
    ]
    return await _write(log, row, records, [*closed, e.Parked(reason=EXPIRED)], at, "waiting")


async def _write(
    log: Log, row: RunRow, records: list[e.Record], new: list[e.Event], at: int, status: str
) -> bool:
    """Appends to a run without a driver. False if a process claimed it since `row` was read."""
    # Times in a log never run backwards, even if this machine's clock does.
    at = max(at, records[-1].at)
    # Nothing was active while it waited, so the time until now does not count for the run.
    idle = [replace(event, elapsed=0) for event in new]
    rows = [e.Record(row.run, len(records) + n, at, event) for n, event in enumerate(idle)]
    waits = status == "waiting"
    return await _append_undriven(
        log,
        row,
        rows,
        disk=True,
        status=status,
        waiting_for=EXPIRED if waits else "",
        wake_at=AT_ONCE if waits else 0,
    )


async def _append_undriven(log: Log, row: RunRow, records: list[e.Record], **changes: Any) -> bool:
    """Appends to a run without a driver. False if a process claimed it since `row` was read."""
    try:
        # `epoch` is the one that was read: if another owner has claimed since, this raises
        # `Conflict`.
        claim = await log.claim(row.run, "", epoch=row.epoch)
        await log.append(row.run, claim.epoch, records, **changes)
    except Conflict:
        return False
    return True


async def end_orphan(log: Log, row: RunRow, at: int) -> bool:
    """Ends a child run without a driver whose caller has ended before it."""
    records = await log.read(row.run)
    ended = interrupted()
    return await _write(log, row, records, [ended], at, ended.status)


async def settle_wake(log: Log, row: RunRow, at: int) -> bool:
    """Updates a waiting, due run that has nothing to do, with the next time it is due.

    Returns False if it has something to do: a message, or its turn.
    """
    if row.waiting_for in UNATTENDED or await log.inbox(row.run):
        return False
    ends = [
        request.expires_at for request in pending_in(await log.read(row.run)) if request.expires_at
    ]
    if any([at > end for end in ends]):
        return False
    # min of nothing gives -1 + 1 = 0, "not before a message". Else just after the first expiry.
    wake_at = min(ends, default=-1) + 1
    # `if_quiet` closes the race with a message posted since the check above: nothing is written.
    changes = {"status": "waiting", "waiting_for": row.waiting_for, "wake_at": wake_at}
    await _append_undriven(log, row, [], **changes, if_quiet=True)
    return True


async def steer(
    log: Log,
    run: str,
    text: str,
    *,
    by: Principal = LOCAL,
    message_id: str = "",
    redactor: Redactor | None = None,
) -> None:
    """Sends the model a message that it reads once, at its next turn.

    A waiting run reads it when it is resumed.

    Example:
        ```python
        from taofold import Agent, open_log, steer

        log = open_log("runs.db")
        run_id = await Agent("openai:gpt-5", log=log).begin("Where does Ada live?")
        await steer(log, run_id, "Ada has moved to Oslo.")
        ```

    Args:
        log: The log of the run.
        run: The id of the run.
        text: The message.
        by: The sender.
        message_id: Makes a repeated call harmless: the second one is refused.
        redactor: As in `decide`.

    Raises:
        UnknownRun: There is no such run.
        Refused: The run has ended, or the message was sent already.
    """
    redactor = redactor or environment_redactor()
    state = fold(await log.read(run))
    if state.status in ENDED:
        raise Refused(f"run {run!r} has ended as {state.status} and reads no messages")
    at = clock()
    # The sender's id makes a repeated POST harmless; without one each message is its own.
    name = message_id or f"steer:{at}:{abs(hash(text)) % 10**8}"
    redacted_name = redactor.text(name)
    if redacted_name != name:
        # Ids that hold secrets must stay different from each other.
        name = f"steer:{blake2b(name.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"
    data: dict[str, Any] = {"text": redactor.text(text)}
    if is_masked(text, data["text"]):
        data["masked"] = True
    if not await log.post(run, Signal(name, "steer", redactor.text(by.id), at, data)):
        raise Refused(f"message {redacted_name!r} was sent already")


async def request_cancel(
    log: Log,
    run: str,
    *,
    by: Principal = LOCAL,
    redactor: Redactor | None = None,
    why: str = "",
) -> None:
    """Requests that the run and its children stop: nothing starts afterwards, finished work is
    kept.

    A waiting run ends at once. A driven one ends before its next call, and one without a process
    when it is resumed. `redactor` as in `decide`; `why` is the recorded reason of a waiting run.
    """
    redactor = redactor or environment_redactor()
    sender = redactor.text(by.id)
    row = await log.row(run)
    records = await log.read(run)
    state = fold(records)
    if state.status in ENDED:
        raise Refused(f"run {run!r} has already ended as {state.status}")
    for child in await log.rows(parent=run, limit=0):
        if child.status not in ENDED:
            await request_cancel(log, child.run, by=by, redactor=redactor, why=why)
    if row.status == "waiting":
        # Children first, above: a parent that has ended could not end them.
        ended = cancelled(sender, why)
        if await _write(log, row, records, [ended], clock(), ended.status):
            return

    # Numbered by activation: a second cancellation is the same message, but a resumed run can be
    # cancelled again.
    await log.post(run, Signal(f"cancel:{run}:{state.wakes}", "cancel", sender, clock()))


async def _record_refusal(
    log: Log, action_id: str, by: str, why: str, at: int, redactor: Redactor
) -> None:
    """Posts a message about a refused attempt; the run's next activation records it in its log.

    A principal could retry forever. So a run keeps `REFUSALS_EACH` attempts of one principal and
    `REFUSALS` in all; the last one states that there may be more.
    """
    run = action_id.rpartition(":")[0]
    # Redacted before the cut: half of a secret has no shape.
    sender, action, text = [redactor.text(part) for part in (by, action_id, why)]
    action, text = action[:_LONG], text[:_LONG]
    try:
        if (await log.row(run)).status in ENDED:
            return
    except UnknownRun:
        return
    records, inbox = await log.read(run), await log.inbox(run)
    written = [r.event.by for r in records if isinstance(r.event, e.DecisionRefused)]
    consumed = written + [redactor.text(signal.by) for signal in inbox if signal.kind == "refused"]
    own = consumed.count(sender)
    if own >= REFUSALS_EACH:
        return
    # Numbered, not timed: simultaneous attempts cannot exceed the available numbers.
    for number in range(len(consumed), REFUSALS):
        last = own == REFUSALS_EACH - 1 or number == REFUSALS - 1
        data = {"id": action, "why": f"{text} ({_NO_MORE})" if last else text}
        if await log.post(run, Signal(f"refused:{number}", "refused", sender, at, data)):
            return


async def cancel(
    log: Log, run: str, *, by: Principal = LOCAL, redactor: Redactor | None = None
) -> bool:
    """Cancels a run and its children: nothing starts afterwards, finished work is kept.

    A run that waits, or whose process has ended, ends at once.

    Example:
        ```python
        from taofold import Agent, cancel, open_log

        log = open_log("runs.db")
        run_id = await Agent("openai:gpt-5", log=log).begin("Count all files.")
        await cancel(log, run_id)
        ```

    Args:
        log: The log of the run.
        run: The id of the run.
        by: The principal that cancels.
        redactor: As in `decide`.

    Returns:
        True if the run has ended. False if a process drives it: it ends before its next call.

    Raises:
        UnknownRun: There is no such run.
        Refused: It has ended already.
        Conflict: Another process claimed it at this moment; that process reads the message.
    """
    # The message first: a process that claims the run in the meantime reads it and ends the run.
    await request_cancel(log, run, by=by, redactor=redactor)
    try:
        row = await log.row(run)
    except UnknownRun:  # it had never begun
        return True

    if row.status in ENDED:
        return True
    if driven(row):
        return False
    # The epoch of the row: if another process claimed the run since, this raises Conflict.
    claim = await log.claim(run, "", epoch=row.epoch, force=True)
    records = await log.read(run)
    state = fold(records)
    sent = [signal.id for signal in await log.inbox(run) if signal.kind == "cancel"]
    # Times in a log never run backwards, even if the machine's clock did.
    at = max(clock(), state.at)
    # The time since the last record passed without a process, so it does not count for the run.
    sender = (redactor or environment_redactor()).text(by.id)
    event = replace(cancelled(sender), elapsed=0)
    record = e.Record(run, records[-1].seq + 1, at, event)
    await log.append(run, claim.epoch, [record], disk=True, consume=sent, status=event.status)
    for child in await log.rows(parent=run, limit=0):
        # A child with a live process reads the cancellation itself.
        if child.status in ("waiting", "running") and not driven(child):
            await cancel(log, child.run, by=by, redactor=redactor)
    return True


async def children(log: Log, run: str) -> list[str]:
    """Returns the runs that `run` started, and their descendants."""
    descendants: list[str] = []
    for row in await log.rows(parent=run, limit=0):
        descendants += [row.run, *await children(log, row.run)]
    return descendants

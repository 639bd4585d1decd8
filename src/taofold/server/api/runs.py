"""The routes of runs: start, list, read, follow, rate, cancel, steer, fork and resume.

Each idempotency key starts one run; a repeated request gets the same run. A session has one open
run at a time; another request may wait for its turn. The context of the user's page reaches the
model as one framed line (`framed_context`).
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec
from starlette.responses import JSONResponse, Response

from taofold.agent.options import IfWaiting, StartOptions
from taofold.agent.prompts import called_agent
from taofold.agent.sessions import WITHDRAWN, question_for, waiting_run
from taofold.core import events as e
from taofold.core.errors import ConfigError, Conflict, Refused, RunError, UnknownRun
from taofold.core.file_states import stored_states
from taofold.core.state import ENDED, opening
from taofold.core.text import times, visible
from taofold.evidence import verifier
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.log import RunRow
from taofold.log.signed import chain_of, chains
from taofold.runtime import control
from taofold.runtime import run as runs
from taofold.runtime.endings import RESUMABLE
from taofold.runtime.ratings import Rating, Ratings
from taofold.runtime.run import new_id
from taofold.runtime.setup import Approval
from taofold.runtime.shown_status import RUNNING, as_seen, shown_row
from taofold.runtime.time_travel import compared, keep_states
from taofold.server.api import approvals, responses, schemas
from taofold.server.api.approvals import pending_of
from taofold.server.api.attachments import prompt
from taofold.server.api.forks import fork_files
from taofold.server.api.schemas import (
    Decide,
    EventsQuery,
    FilesQuery,
    Following,
    ForkBody,
    NewRun,
    PromptQuery,
    RateBody,
    RecordsQuery,
    RunsQuery,
    StateQuery,
    Steer,
)
from taofold.server.catalog import SETTINGS, AnyAgent
from taofold.server.endpoint import ApiCall, Nothing, Problem, Routes, own_run, visible_run
from taofold.server.server import Server
from taofold.server.streams.response import stream
from taofold.views import prompt_json, rating_json

routes: Final = Routes("runs")

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_SSE: Final = "text/event-stream"
_VERDICTS: Final[dict[int, schemas.EvidenceStatus]] = {
    verifier.OK: "verified",
    verifier.UNSIGNED: "unsigned",
    verifier.NO_KEY: "no_key",
    verifier.BROKEN: "broken",
}
_BETWEEN_S: Final = 0.05
_LOOKS: Final = 40


@routes.post(
    "/runs",
    right="start",
    body=NewRun,
    status=201,
    answers={201: schemas.RunView, 200: schemas.RunView},
    headers={"Idempotency-Key": "A repeated request with this key returns the same run."},
    errors=(409,),
    upload=True,
)
async def create(call: ApiCall) -> Response:
    """Starts a run. With `Accept: text/event-stream` the response is its event stream."""
    body: NewRun = call.body
    server = call.server
    name, agent = offered_agent(server, body.agent)
    digest = blake2b(msgspec.json.encode(body.model_dump()), digest_size=8).hexdigest()
    changes = body.model_dump(include={"model", "limits"}, exclude_defaults=True)
    try:
        agent = server.catalog.changed(agent, changes)
    except ConfigError as error:
        raise Problem(422, "model", str(error)) from None
    run, keyed = _named(call)
    # The common case of a repeated request. Two concurrent ones end in `Conflict` below.
    if keyed and await _known(call, run, digest):
        return await _started(call, run, fresh=False)
    session = await server.session_to_continue(call.principal, body.session)
    options: StartOptions = {
        "session": session,
        "data": body.data,
        "tags": body.tags,
        "ui_context": framed_context(body.ui_context),
        "settings": {SETTINGS: {"agent": name, "request": digest, **changes}},
    }
    waits = bool(session) and body.on_busy == "wait"
    try:
        async with _turn(call, session) if waits else nullcontext():
            # An answer is text without files, and an idempotency key belongs to a run.
            plain = not keyed and not body.attachments
            answered = await _make_way(call, session, plain=plain) if session else ""
            if answered:
                return await _started(call, answered, fresh=False)
            # Decoded only now, because a repeated request needs no files.
            goal = prompt(body.goal, body.attachments)
            principal = call.principal
            await server.worker.begin(
                server.engine, agent, run, goal, principal=principal, **options
            )
    except Conflict as error:
        if keyed and await _twin(call, run, digest):
            return await _started(call, run, fresh=False)
        if session:
            raise Problem(409, "session_busy", "the session has a run that has not ended") from None
        # No session is busy, so the id is in use.
        raise error
    server.audit("start", call.principal.id, run=run, agent=name)
    return await _started(call, run, fresh=True)


def offered_agent(server: Server, said: str) -> tuple[str, AnyAgent]:
    """Returns the name and the agent for `said`.

    Raises:
        Problem: 422, the agent is unknown.
    """
    name = server.catalog.name(said)
    try:
        return name, server.catalog[name]
    except KeyError:
        raise Problem(422, "agent", f"no agent is called {name[:80]!r}") from None


def framed_context(context: str) -> str:
    """Returns the context of the user's page as one line that cannot close its frame."""
    # `[` and `]` are the frame in the prompt; line breaks could imitate a turn of the conversation.
    flat = " ".join(visible(context).split())
    return flat.replace("[", "(").replace("]", ")")


def _named(call: ApiCall) -> tuple[str, bool]:
    """Returns the run's id, derived from the idempotency key if there is one, and whether it is."""
    key = call.request.headers.get("idempotency-key")
    if key is None:
        return new_id(), False
    if not _KEY.fullmatch(key):
        raise Problem(400, "idempotency_key", "an idempotency key is 1 to 200 visible characters")
    # Neither part can contain a line break, so different pairs give different texts.
    identity = f"{call.principal.id}\n{key}".encode()
    return f"k{blake2b(identity, digest_size=12).hexdigest()}", True


async def _known(call: ApiCall, run: str, digest: str) -> bool:
    """Returns whether this request was made before.

    Raises:
        Problem: 422, the key was used for another request.
    """
    try:
        records = await call.server.log.read(run, limit=1)
    except UnknownRun:
        return False
    started = opening(records)
    if started is None:
        return False
    # The request's digest is stored with the run, so this works after a restart and on other
    # servers.
    if started.settings.get(SETTINGS, {}).get("request") != digest:
        raise Problem(422, "idempotency_key", "this key was used for another request")
    return True


async def _twin(call: ApiCall, run: str, digest: str) -> bool:
    """Waits for the run of a concurrent identical request. Returns whether it appeared."""
    # At most two seconds (40 polls of 50 ms): then the other request's first event is in the log or
    # lost.
    for _ in range(_LOOKS):
        if await _known(call, run, digest):
            return True
        await asyncio.sleep(_BETWEEN_S)
    return False


@asynccontextmanager
async def _turn(call: ApiCall, session: str) -> AsyncGenerator[None]:
    """Waits until the session has no open run, in the order of arrival at this server.

    The turn lasts until the run is in the log, so that the next request does not find the session
    free.

    Raises:
        Problem: 409, it took too long.
    """
    server = call.server
    until = asyncio.get_running_loop().time() + server.settings.wait_s
    # One queue for each session: `on_busy: wait` is served in the order of arrival.
    ticket = server.tickets.setdefault(session, [])
    me = object()
    ticket.append(me)
    try:
        # Polled, because the session's run may belong to another process, which sends no signal.
        while ticket[0] is not me or await _busy(call, session):
            if asyncio.get_running_loop().time() > until:
                raise Problem(409, "session_busy", "the session was busy for too long")
            await asyncio.sleep(_BETWEEN_S)
        yield
    finally:
        ticket.remove(me)
        if not ticket:
            server.tickets.pop(session, None)


async def _busy(call: ApiCall, session: str) -> bool:
    # A waiting run is answered or withdrawn by the message.
    free = ENDED if call.body.if_waiting == "refuse" else {*ENDED, "waiting"}
    rows = await call.server.log.rows(session=session, limit=5)
    return any(row.status not in free for row in rows)


async def _make_way(call: ApiCall, session: str, *, plain: bool) -> str:
    """Answers or withdraws the session's waiting run. Returns the run that was answered, or "".

    Raises:
        Problem: 403, the caller may not do that; 409, the run waits for something else.
    """
    body: NewRun = call.body
    if_waiting = "withdraw" if body.if_waiting == "answer" and not plain else body.if_waiting
    row = await waiting_run(call.server.log, session)
    if row is None:
        return ""
    question = await session_question(call, row, if_waiting)
    if question is None:
        await withdraw(call, row)
        return ""
    answer = Decide.model_validate({"decision": "answer", "answer": body.goal})
    await approvals.decide(replace(call, path={"action": question.id}, body=answer))
    return row.run


async def session_question(call: ApiCall, row: RunRow, if_waiting: IfWaiting) -> Approval | None:
    """Returns the waiting run's question that a message answers; None: withdraw the run.

    Raises:
        Problem: 409, it waits for something else, or `if_waiting` is "refuse".
    """
    try:
        return await question_for(call.server.log, row, if_waiting)
    except Conflict:
        raise Problem(409, "session_busy", "the session has a run that has not ended") from None


async def withdraw(call: ApiCall, row: RunRow) -> None:
    """Cancels a waiting run, because its session continues with another message.

    Raises:
        Problem: 403, the caller may not cancel runs.
    """
    server = call.server
    server.require(call.principal, "cancel")
    # If the run was answered or cancelled at this moment, nothing is left to do.
    with suppress(Refused):
        await control.request_cancel(
            server.log, row.run, by=call.principal, redactor=server.redactor, why=WITHDRAWN
        )
        server.audit("cancel", call.principal.id, run=row.run)
    server.hub.poke(row.run)


async def _started(call: ApiCall, run: str, *, fresh: bool) -> Response:
    if _SSE in call.request.headers.get("accept", ""):
        cancel = call.body.on_disconnect == "cancel"
        answer = await stream(call, run, "", cancel=cancel)
    else:
        view = responses.run(await call.server.log.row(run))
        answer = JSONResponse(view.model_dump(), 201 if fresh else 200)
    answer.headers["Location"] = f"/runs/{run}"
    return answer


@routes.get("/runs", right="read", query=RunsQuery)
async def page(call: ApiCall) -> schemas.Runs:
    """Lists your runs, newest first."""
    query: RunsQuery = call.query
    before = await _place(call, query.cursor) if query.cursor else 0
    session = await call.server.session(call.principal, query.session)
    rows_by_place: dict[int, RunRow] = {}
    for source in sources(call, query.agent):
        # One more row than shown reveals whether there is a next page.
        rows = await _visible_rows(
            call,
            before,
            query.limit + 1,
            **source,
            status=query.status,
            session=session,
            tag=query.tag,
        )
        # A run may come from several sources (own, and as approver); `place` is unique in the log.
        rows_by_place |= {row.place: row for row in rows}
    # Each source has its newest `limit + 1`, so the merged newest `limit` are complete.
    newest = [rows_by_place[number] for number in sorted(rows_by_place, reverse=True)]
    page_rows = newest[: query.limit]
    following = page_rows[-1].run if len(newest) > query.limit else None
    items = [responses.run(row) for row in page_rows]
    return schemas.Runs(items=items, next=following)


async def _visible_rows(
    call: ApiCall, before: int, count: int, *, status: str, **filters: str
) -> list[RunRow]:
    """Returns the newest `count` rows that the caller can see; fewer only if there are no more.

    Each row has its displayed `status`.
    """
    server = call.server
    stored = "running" if status in RUNNING else status
    visible: list[RunRow] = []
    while True:
        rows = await server.log.rows(**filters, status=stored, before=before, limit=count)
        # A child run of a visible agent may belong to a root run that is not visible.
        seen = [row for row in rows if await server.sees(call.principal, row)]
        shown = [await shown_row(server.log, row) for row in seen]
        visible += [row for row in shown if status in ("", row.status)]
        if len(rows) < count or len(visible) >= count:
            return visible[:count]
        before = rows[-1].place


def sources(call: ApiCall, agent: str) -> list[dict[str, str]]:
    """Returns filters for the visible runs: the caller's own, and those of agents that it approves
    for.
    """
    own = {"principal": call.principal.id}
    others = [{"agent": name} for name in call.server.approves(call.principal)]
    if not agent:
        return [own, *others]
    return [{**own, "agent": agent}, *[source for source in others if source["agent"] == agent]]


async def _place(call: ApiCall, cursor: str) -> int:
    """Returns the place at which the previous page ended.

    Raises:
        Problem: 422, the cursor is no visible run.
    """
    with suppress(UnknownRun):
        row = await call.server.log.row(cursor)
        # Otherwise a cursor would reveal whether another principal's run exists.
        if await call.server.sees(call.principal, row):
            return row.place
    raise Problem(422, "cursor", "no run of this list has the cursor")


@routes.get("/runs/{run}", right="read", errors=(404,))
async def detail(call: ApiCall) -> schemas.RunDetail:
    """Returns a run with its state."""
    row = await visible_run(call, call.path["run"])
    log = call.server.log
    records = await log.read(row.run)
    children = [await shown_row(log, child) for child in await log.rows(parent=row.run, limit=0)]
    pending = await pending_of(call, row.run) if row.status in ("running", "waiting") else []
    # In a thread, because the fold of a long run would block other clients.
    shown = msgspec.structs.replace(row, status=as_seen(row, records))
    return await asyncio.to_thread(responses.detail, shown, records, reversed(children), pending)


@routes.get("/runs/{run}/records", right="read", query=RecordsQuery, errors=(404,))
async def records(call: ApiCall) -> schemas.Records:
    """Returns the run's events from the log."""
    row = await visible_run(call, call.path["run"])
    query: RecordsQuery = call.query
    stored = await call.server.log.read(row.run, after=query.after, limit=query.limit)
    following = stored[-1].seq if len(stored) == query.limit else None
    return schemas.Records(items=[responses.record(record) for record in stored], next=following)


def _event_in(row: RunRow, at: int | None) -> int | None:
    """Checks the number of an event of the run; None = the last.

    Raises:
        Problem: 422, there is no such event.
    """
    if at is not None and at >= row.events:
        raise Problem(422, "at", f"the run has the events 0 to {row.events - 1}")
    return at


@routes.get("/runs/{run}/state", right="read", query=StateQuery, errors=(404,))
async def state(call: ApiCall) -> schemas.StateView:
    """Returns the run's state, now or after an event."""
    row = await visible_run(call, call.path["run"])
    at = _event_in(row, call.query.at)
    stored = await call.server.log.read(row.run, limit=0 if at is None else at + 1)
    return await asyncio.to_thread(responses.moment, row.run, stored)


@routes.get("/runs/{run}/audit", right="read", errors=(404,))
async def audit(call: ApiCall) -> schemas.AuditView:
    """Returns the audit: every call with its decision, and every refused attempt."""
    row = await visible_run(call, call.path["run"])
    return responses.audit_view(await call.server.log.read(row.run))


@routes.get("/runs/{run}/evidence", right="read", errors=(404,))
async def evidence(call: ApiCall) -> schemas.EvidenceView:
    """Checks the hash chain of the run and its signatures."""
    row = await visible_run(call, call.path["run"])
    log = call.server.log
    if not chains(log):
        return schemas.EvidenceView(status="none", text="this log does not chain its records")
    chain = await chain_of(log, row.run)
    keys = list(call.server.settings.evidence_keys)
    # In a thread: every record is hashed.
    report = await asyncio.to_thread(lambda: verifier.verify(dumps_chain(chain), keys))
    named = report.unproved if report.code == verifier.NO_KEY else report.keys
    return schemas.EvidenceView(
        status=_VERDICTS[report.code],
        text=report.text,
        records=report.records,
        signed=report.signed,
        first=report.seq if report.seq >= 0 else None,
        keys=[key[:16] for key in named],
    )


@routes.get("/runs/{run}/files", right="read", query=FilesQuery, errors=(404,))
async def files(call: ApiCall) -> schemas.FilesView:
    """Compares the last stored files of the run with those of another run."""
    log = call.server.log
    states: list[e.Snapshotted | e.Restored] = []
    for name in (call.path["run"], call.query.other):
        row = await visible_run(call, name)
        stored = stored_states(await log.read(row.run))
        if not stored:
            return schemas.FilesView(stored=False)
        states.append(stored[max(stored)])
    try:
        # In a thread: it reads a store of git.
        changes, patch = await asyncio.to_thread(compared, *states, patch=True)
    except RunError:
        return schemas.FilesView(stored=False)
    redact = call.server.redactor.text
    shown = [schemas.FileChangeView(kind=it.kind, path=visible(it.path)) for it in changes]
    return schemas.FilesView(stored=True, changes=shown, patch=redact(patch))


@routes.get("/runs/{run}/prompt", right="read", query=PromptQuery, errors=(404, 409))
async def prompt_of_call(call: ApiCall) -> schemas.PromptView:
    """Returns the prompt of one model call: messages, tools, schema and settings."""
    row = await visible_run(call, call.path["run"])
    server, query = call.server, call.query
    agent = await _stored_agent(server, row)
    if agent is None:
        raise Problem(409, "agent", "the agent of this run is not offered here")
    sent = await agent.replace(log=server.log).prompts(row.run)
    number = len(sent) if query.n is None else query.n
    if not 1 <= number <= len(sent):
        raise Problem(404, "not_found", f"this run has {times(len(sent), 'model call')}")
    before = sent[number - 2] if number > 1 else None
    view = server.redactor_for(agent).json(prompt_json(sent[number - 1], before))
    return schemas.PromptView(calls=len(sent), schema_=view.pop("schema"), **view)


async def _stored_agent(server: Server, row: RunRow) -> AnyAgent | None:
    """Returns the agent of a run; a child run's agent is one of its caller's tools."""
    if not row.parent:
        return await server.agent_of(row)
    caller = await _stored_agent(server, await server.log.row(row.parent))
    return None if caller is None else called_agent(caller, row.agent)


@routes.get("/runs/{run}/spans", right="read", errors=(404,))
async def spans(call: ApiCall) -> schemas.Spans:
    """Returns the run's model calls, tool calls and waits with times, tokens and dollars."""
    row = await visible_run(call, call.path["run"])
    log = call.server.log
    children = {child.run for child in await log.rows(parent=row.run, limit=0)}
    return responses.spans(await log.read(row.run), children)


@routes.get("/runs/{run}/ratings", right="read", errors=(404,))
async def ratings(call: ApiCall) -> schemas.RatingsView:
    """Returns the ratings of the run."""
    row = await visible_run(call, call.path["run"])
    if call.server.journal is None:
        return schemas.RatingsView(items=[], kept=False)
    return await _ratings(Ratings(call.server.journal), row.run)


@routes.post("/runs/{run}/ratings", right="start", body=RateBody, errors=(404, 409))
async def rate(call: ApiCall) -> schemas.RatingsView:
    """Rates a run. Ratings are not part of its log. Every principal that can see it may rate it."""
    row = await visible_run(call, call.path["run"])
    if call.server.journal is None:
        raise Problem(404, "not_found", "this server keeps no ratings")
    store = Ratings(call.server.journal)
    redactor = call.server.redactor_for(await call.server.agent_of(row))
    rating = Rating.create(call.body.value, call.body.note, by=call.principal, redactor=redactor)
    await store.add(row.run, rating)
    call.server.audit("rate", call.principal.id, run=row.run, detail=f"{rating.value:g}")
    return await _ratings(store, row.run)


async def _ratings(store: Ratings, run: str) -> schemas.RatingsView:
    return schemas.RatingsView(
        items=[schemas.RatingView(**rating_json(rating)) for rating in await store.of(run)]
    )


@routes.get(
    "/runs/{run}/events",
    right="read",
    query=EventsQuery,
    answers={200: _SSE, 204: ""},
    headers={"Last-Event-ID": "The `id:` of the last event that you got."},
    errors=(404,),
)
async def events(call: ApiCall) -> Response:
    """Streams the run's events. 204: the run has ended and you have read all events."""
    row = await visible_run(call, call.path["run"])
    # The header takes precedence: a browser's EventSource repeats the first URL with its old
    # `after`.
    after = call.request.headers.get("last-event-id", "") or call.query.after
    return await stream(call, row.run, after, cancel=False)


@routes.post(
    "/runs/{run}/events",
    right="read",
    body=Following,
    answers={200: _SSE, 204: ""},
    headers={"Last-Event-ID": "The `id:` of the last event that you got."},
    errors=(404,),
)
async def follow(call: ApiCall) -> Response:
    """Streams the events; `on_disconnect: cancel` cancels the run if you disconnect."""
    row = await visible_run(call, call.path["run"])
    after = call.request.headers.get("last-event-id", "") or call.body.after
    # Only the owner's disconnect cancels the run, not that of another watcher.
    cancel = call.body.on_disconnect == "cancel" and row.principal == call.principal.id
    if cancel:
        call.server.require(call.principal, "cancel")
    return await stream(call, row.run, after, cancel=cancel)


def _check_agent(server: Server, run: str, started: e.RunStarted) -> None:
    """Checks that this server can drive the run.

    Raises:
        Problem: 409, its agent is not served here or cannot be made.
    """
    try:
        server.catalog.of(run, started)
    except ConfigError as error:
        raise Problem(409, "agent", str(error)) from None


@routes.post("/runs/{run}/cancel", right="cancel", body=Nothing, status=202, errors=(403, 404, 409))
async def cancel(call: ApiCall) -> schemas.Accepted:
    """Stops a run. No further action starts; its log is kept."""
    row = await own_run(call)
    await control.request_cancel(
        call.server.log, row.run, by=call.principal, redactor=call.server.redactor
    )
    call.server.audit("cancel", call.principal.id, run=row.run)
    call.server.hub.poke(row.run)
    return schemas.Accepted(id=row.run)


@routes.post("/runs/{run}/steer", right="start", body=Steer, status=202, errors=(403, 404, 409))
async def steer(call: ApiCall) -> schemas.Accepted:
    """Sends a message to a run's model."""
    row = await own_run(call)
    body: Steer = call.body
    # The name includes the principal, so that message ids of two principals do not collide.
    name = f"steer:{call.principal.id}:{body.message_id}" if body.message_id else ""
    await control.steer(
        call.server.log,
        row.run,
        body.text,
        by=call.principal,
        message_id=name,
        redactor=call.server.redactor_for(await call.server.agent_of(row)),
    )
    call.server.audit("steer", call.principal.id, run=row.run)
    return schemas.Accepted(id=row.run)


@routes.post(
    "/runs/{run}/fork",
    right="start",
    body=ForkBody,
    status=201,
    answers={201: schemas.ForkView},
    errors=(403, 404, 409),
)
async def fork(call: ApiCall) -> Response:
    """Copies a run up to a step, with its files, and continues the copy."""
    row = await own_run(call)
    server, at = call.server, _event_in(row, call.body.at)
    started = opening(await server.log.read(row.run, limit=1))
    if started is None:
        raise Problem(409, "damaged", "the run has no start")
    # Checked before anything is written, so that no fork remains that this server cannot drive.
    _check_agent(server, row.run, started)
    new, agent = new_id(), server.catalog.of(row.run, started)
    files = await fork_files(server, agent, row.run, new, at, wanted=call.body.files)
    await runs.fork(
        server.log, row.run, new, at=at, now=server.now(), driven=True, restored=files.restored
    )
    await keep_states(server.log, new)
    await server.engine.wake(new)
    server.audit("fork", call.principal.id, run=row.run, detail=f"as {new}")
    view = responses.fork(await server.log.row(new), files.view)
    return JSONResponse(view.model_dump(), 201, {"Location": f"/runs/{new}"})


@routes.post("/runs/{run}/resume", right="start", body=Nothing, status=202, errors=(403, 404, 409))
async def resume(call: ApiCall) -> schemas.Accepted:
    """Continues a run that failed or was cancelled."""
    row = await own_run(call)
    server = call.server
    records = await server.log.read(row.run)
    last = records[-1].event if records else None
    # Runs that ended for another reason than their goal (a failed provider, a cancellation) can
    # continue.
    again = isinstance(last, e.RunFinished) and last.stop_reason in RESUMABLE
    if row.status in ENDED and not again:
        raise Problem(409, "ended", f"the run ended as {row.status}: fork it to try another way")
    # The engine skips runs that it could not continue; this request retries it.
    server.engine.stuck.pop(row.run, None)
    started = opening(records)
    if started is not None:
        _check_agent(server, row.run, started)
    await runs.reopen(server.log, row.run)
    await server.engine.wake(row.run)
    server.audit("resume", call.principal.id, run=row.run)
    return schemas.Accepted(id=row.run)

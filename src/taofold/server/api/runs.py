"""The routes of runs: start one; list, read, follow and rate them; change their course (cancel,
steer, fork, resume).

A run is started once for each idempotency key, and in a session one at a time: who asks for the
same again is given the run that there is, who asks for another waits for its turn. What the user
looks at reaches the model as one line in a frame (`framed_context`).
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from taofold.agent.options import IfWaiting, StartOptions
from taofold.agent.prompts import called_agent
from taofold.agent.sessions import WITHDRAWN, question_for, waiting_run
from taofold.core import events as e
from taofold.core.errors import ConfigError, Conflict, Refused, UnknownRun
from taofold.core.state import ENDED, opening
from taofold.core.text import times, visible
from taofold.log.log import RunRow
from taofold.runtime import control
from taofold.runtime import run as runs
from taofold.runtime.endings import RESUMABLE
from taofold.runtime.ratings import Rating, Ratings
from taofold.runtime.run import new_id
from taofold.runtime.setup import Approval
from taofold.server.api import approvals, responses, schemas
from taofold.server.api.approvals import pending_of
from taofold.server.api.attachments import prompt
from taofold.server.api.schemas import (
    Decide,
    EventsQuery,
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
from taofold.server.endpoint import ApiCall, ApiEndpoint, Nothing, Problem, own_run, visible_run
from taofold.server.server import Server
from taofold.server.streams.response import stream
from taofold.views import prompt_json, rating_json

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_SSE: Final = "text/event-stream"
_BETWEEN_S: Final = 0.05
_LOOKS: Final = 40


async def create(call: ApiCall) -> Response:
    """Start a run."""
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
    # The common case of a repeated request. The race of two at once ends in `Conflict` below.
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
            # An answer is text, and only a run has an id that a repeated request finds.
            plain = not keyed and not body.attachments
            answered = await _make_way(call, session, plain=plain) if session else ""
            if answered:
                return await _started(call, answered, fresh=False)
            # Decoded only now: a repeated request with files is answered without.
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
        # No session is busy, so the id itself is taken.
        raise error
    server.audit("start", call.principal.id, run=run, agent=name)
    return await _started(call, run, fresh=True)


def offered_agent(server: Server, said: str) -> tuple[str, AnyAgent]:
    """The name and the agent that `said` means.

    Raises:
        Problem: 422, there is none.
    """
    name = server.catalog.name(said)
    try:
        return name, server.catalog[name]
    except KeyError:
        raise Problem(422, "agent", f"no agent is called {name[:80]!r}") from None


def framed_context(context: str) -> str:
    """What the user looks at, as one line that cannot end its frame."""
    # `[` and `]` frame it in the prompt; line breaks could fake a turn of the conversation.
    flat = " ".join(visible(context).split())
    return flat.replace("[", "(").replace("]", ")")


def _named(call: ApiCall) -> tuple[str, bool]:
    """The run's id. An idempotency key makes it, so a repeated request finds the same run."""
    key = call.request.headers.get("idempotency-key")
    if key is None:
        return new_id(), False
    if not _KEY.fullmatch(key):
        raise Problem(400, "idempotency_key", "an idempotency key is 1 to 200 visible characters")
    # A line break can be in neither part, so two pairs never give the same text.
    identity = f"{call.principal.id}\n{key}".encode()
    return f"k{blake2b(identity, digest_size=12).hexdigest()}", True


async def _known(call: ApiCall, run: str, digest: str) -> bool:
    """Was this very request made before?

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
    # The digest of the request is stored with the run,
    # so this holds after a restart and elsewhere.
    if started.settings.get(SETTINGS, {}).get("request") != digest:
        raise Problem(422, "idempotency_key", "this key was used for another request")
    return True


async def _twin(call: ApiCall, run: str, digest: str) -> bool:
    """Is the same request being answered at this moment? Then its run begins any time now."""
    # Two seconds at most (40 looks of 50 ms): the
    # winner's first event is then in the log or lost.
    for _ in range(_LOOKS):
        if await _known(call, run, digest):
            return True
        await asyncio.sleep(_BETWEEN_S)
    return False


@asynccontextmanager
async def _turn(call: ApiCall, session: str) -> AsyncGenerator[None]:
    """Begins once the session has no run under way: first come, first served here.

    The turn lasts until the run is in the log. Else whoever comes next finds the session free.

    Raises:
        Problem: 409 it took too long.
    """
    server = call.server
    until = asyncio.get_running_loop().time() + server.settings.wait_s
    # A queue for each session: `on_busy: wait` is served in the order of arrival.
    ticket = server.tickets.setdefault(session, [])
    me = object()
    ticket.append(me)
    try:
        # Polled: the run that holds the session may belong
        # to another process, which wakes nobody here.
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
    # A run that waits is settled by the message itself.
    free = ENDED if call.body.if_waiting == "refuse" else {*ENDED, "waiting"}
    rows = await call.server.log.rows(session=session, limit=5)
    return any(row.status not in free for row in rows)


async def _make_way(call: ApiCall, session: str, *, plain: bool) -> str:
    """Makes way for the goal in its session. Returns the run whose question it answers, or "".

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
    """The question of the session's waiting run that a message answers; None: withdraw the run.

    Raises:
        Problem: 409, it waits for something else, or `if_waiting` is "refuse".
    """
    try:
        return await question_for(call.server.log, row, if_waiting)
    except Conflict:
        raise Problem(409, "session_busy", "the session has a run that has not ended") from None


async def withdraw(call: ApiCall, row: RunRow) -> None:
    """Ends a waiting run, because its session goes on with another message.

    Raises:
        Problem: 403, the caller may not cancel runs.
    """
    server = call.server
    server.require(call.principal, "cancel")
    # Who answered or cancelled it in this moment was first: then nothing is in the way.
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


async def page(call: ApiCall) -> BaseModel:
    """The caller's runs, newest first."""
    query: RunsQuery = call.query
    before = await _place(call, query.cursor) if query.cursor else 0
    session = await call.server.session(call.principal, query.session)
    rows_by_place: dict[int, RunRow] = {}
    for source in _sources(call, query.agent):
        # One more than shown tells whether there is a next page, without counting.
        rows = await _visible_rows(
            call,
            before,
            query.limit + 1,
            **source,
            status=query.status,
            session=session,
            tag=query.tag,
        )
        # A run may come from several sources (own, and
        # approved for): `place` is unique in the log.
        rows_by_place |= {row.place: row for row in rows}
    # Each source brought its newest `limit + 1`, so the merged newest `limit` are complete.
    newest = [rows_by_place[number] for number in sorted(rows_by_place, reverse=True)]
    page_rows = newest[: query.limit]
    following = page_rows[-1].run if len(newest) > query.limit else None
    return schemas.Runs(items=[responses.run(row) for row in page_rows], next=following)


async def _visible_rows(call: ApiCall, before: int, count: int, **filters: str) -> list[RunRow]:
    """The newest `count` of these rows that the caller sees; fewer only where there are no more."""
    visible: list[RunRow] = []
    while True:
        rows = await call.server.log.rows(**filters, before=before, limit=count)
        # Child runs in the name of an agent whose runs he sees may belong to others' runs.
        visible += [row for row in rows if await call.server.sees(call.principal, row)]
        if len(rows) < count or len(visible) >= count:
            return visible[:count]
        before = rows[-1].place


def _sources(call: ApiCall, agent: str) -> list[dict[str, str]]:
    """Whose runs the caller sees: its own, and those of agents that it approves for."""
    own = {"principal": call.principal.id}
    others = [{"agent": name} for name in call.server.approves(call.principal)]
    if not agent:
        return [own, *others]
    return [{**own, "agent": agent}, *[source for source in others if source["agent"] == agent]]


async def _place(call: ApiCall, cursor: str) -> int:
    """Where the page before ended.

    Raises:
        Problem: 422, no run that the caller sees has the cursor.
    """
    with suppress(UnknownRun):
        row = await call.server.log.row(cursor)
        # Else a cursor would tell whether a foreign run exists.
        if await call.server.sees(call.principal, row):
            return row.place
    raise Problem(422, "cursor", "no run of this list has the cursor")


async def detail(call: ApiCall) -> BaseModel:
    """One run."""
    row = await visible_run(call, call.path["run"])
    log = call.server.log
    records = await log.read(row.run)
    children = await log.rows(parent=row.run, limit=0)
    pending = await pending_of(call, row.run) if row.status in ("running", "waiting") else []
    # A long run takes a while to fold: the other clients are served meanwhile.
    return await asyncio.to_thread(responses.detail, row, records, reversed(children), pending)


async def records(call: ApiCall) -> BaseModel:
    """Events as they stand in the log."""
    row = await visible_run(call, call.path["run"])
    query: RecordsQuery = call.query
    stored = await call.server.log.read(row.run, after=query.after, limit=query.limit)
    following = stored[-1].seq if len(stored) == query.limit else None
    return schemas.Records(items=[responses.record(record) for record in stored], next=following)


def _event_in(row: RunRow, at: int | None) -> int | None:
    """The number of one of the run's events; None = the last.

    Raises:
        Problem: 422, it has no such event.
    """
    if at is not None and at >= row.events:
        raise Problem(422, "at", f"the run has the events 0 to {row.events - 1}")
    return at


async def state(call: ApiCall) -> BaseModel:
    """The state as it was after an event."""
    row = await visible_run(call, call.path["run"])
    at = _event_in(row, call.query.at)
    stored = await call.server.log.read(row.run, limit=0 if at is None else at + 1)
    return await asyncio.to_thread(responses.moment, row.run, stored)


async def audit(call: ApiCall) -> BaseModel:
    """Who asked, who decided, what came of it."""
    row = await visible_run(call, call.path["run"])
    return responses.audit_view(await call.server.log.read(row.run))


async def prompt_of_call(call: ApiCall) -> BaseModel:
    """What the model was sent."""
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
    """The agent of a run; that of a child run is found among its caller's tools."""
    if not row.parent:
        return await server.agent_of(row)
    caller = await _stored_agent(server, await server.log.row(row.parent))
    return None if caller is None else called_agent(caller, row.agent)


async def spans(call: ApiCall) -> BaseModel:
    """Where the run's time went."""
    row = await visible_run(call, call.path["run"])
    log = call.server.log
    children = {child.run for child in await log.rows(parent=row.run, limit=0)}
    return responses.spans(await log.read(row.run), children)


async def ratings(call: ApiCall) -> BaseModel:
    """What people think of the run."""
    row = await visible_run(call, call.path["run"])
    if call.server.journal is None:
        return schemas.RatingsView(items=[], kept=False)
    return await _ratings(Ratings(call.server.journal), row.run)


async def rate(call: ApiCall) -> BaseModel:
    """Say what you think of a run: whoever may see it may say so."""
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


async def events(call: ApiCall) -> Response:
    """The run's events, from where the client left off."""
    row = await visible_run(call, call.path["run"])
    # The header wins: a browser's EventSource repeats
    # the first URL, with its old `after`, each time.
    after = call.request.headers.get("last-event-id", "") or call.query.after
    return await stream(call, row.run, after, cancel=False)


async def follow(call: ApiCall) -> Response:
    """The run's events, and its end when they are left, if that is asked for."""
    row = await visible_run(call, call.path["run"])
    after = call.request.headers.get("last-event-id", "") or call.body.after
    # Who only watches, as an approver may, cannot end the run by closing a tab.
    cancel = call.body.on_disconnect == "cancel" and row.principal == call.principal.id
    if cancel:
        call.server.require(call.principal, "cancel")
    return await stream(call, row.run, after, cancel=cancel)


ENDPOINTS: Final = (
    ApiEndpoint(
        "POST",
        "/runs",
        create,
        "Start a run. With `Accept: text/event-stream` the answer is its stream.",
        body=NewRun,
        answers={201: schemas.RunView, 200: schemas.RunView},
        headers={"Idempotency-Key": "Repeating the request with it gives the same run."},
        errors=(409,),
        status=201,
        right="start",
        upload=True,
    ),
    ApiEndpoint(
        "GET",
        "/runs",
        page,
        "Your runs, newest first.",
        query=RunsQuery,
        answers={200: schemas.Runs},
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}",
        detail,
        "A run and how it stands.",
        answers={200: schemas.RunDetail},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/events",
        events,
        "The run's events as they happen. 204: it has ended and you have read it all.",
        query=EventsQuery,
        answers={200: _SSE, 204: ""},
        headers={"Last-Event-ID": "The `id:` of the last event that you got."},
        errors=(404,),
        right="read",
    ),
    # No request that only reads has an effect: an image of any page sends one.
    ApiEndpoint(
        "POST",
        "/runs/{run}/events",
        follow,
        "The same; with `on_disconnect: cancel` the run is cancelled when its stream is left.",
        body=Following,
        answers={200: _SSE, 204: ""},
        headers={"Last-Event-ID": "The `id:` of the last event that you got."},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/records",
        records,
        "The run's events as they stand in the log.",
        query=RecordsQuery,
        answers={200: schemas.Records},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/state",
        state,
        "The run's state, now or after one of its events.",
        query=StateQuery,
        answers={200: schemas.StateView},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/audit",
        audit,
        "Every call with who decided; every refused attempt.",
        answers={200: schemas.AuditView},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/ratings",
        ratings,
        "What people think of the run.",
        answers={200: schemas.RatingsView},
        errors=(404,),
        right="read",
    ),
    ApiEndpoint(
        "POST",
        "/runs/{run}/ratings",
        rate,
        "Say what you think of a run. Not part of its log.",
        body=RateBody,
        answers={200: schemas.RatingsView},
        errors=(404, 409),
        right="start",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/prompt",
        prompt_of_call,
        "What the model was sent in one call: messages, tools, schema and settings.",
        query=PromptQuery,
        answers={200: schemas.PromptView},
        errors=(404, 409),
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/runs/{run}/spans",
        spans,
        "Where the run's time went: model calls, tool calls and waits, with tokens and dollars.",
        answers={200: schemas.Spans},
        errors=(404,),
        right="read",
    ),
)


def _check_agent(server: Server, run: str, started: e.RunStarted) -> None:
    """Can this server drive the run?

    Raises:
        Problem: 409, its agent is not offered here, or cannot be made.
    """
    try:
        server.catalog.of(run, started)
    except ConfigError as error:
        raise Problem(409, "agent", str(error)) from None


async def cancel(call: ApiCall) -> BaseModel:
    """Stop a run: nothing starts afterwards, what was done is kept."""
    row = await own_run(call)
    await control.request_cancel(
        call.server.log, row.run, by=call.principal, redactor=call.server.redactor
    )
    call.server.audit("cancel", call.principal.id, run=row.run)
    call.server.hub.poke(row.run)
    return schemas.Accepted(id=row.run)


async def steer(call: ApiCall) -> BaseModel:
    """Tell a run something: its model reads it at its next turn, once."""
    row = await own_run(call)
    body: Steer = call.body
    # The principal is part of the name: two people's message ids do not collide in the inbox.
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


async def fork(call: ApiCall) -> Response:
    """Branch off at a step and go on from there."""
    row = await own_run(call)
    server, at = call.server, _event_in(row, call.body.at)
    started = opening(await server.log.read(row.run, limit=1))
    if started is None:
        raise Problem(409, "damaged", "the run has no start")
    # Asked before anything is written: a fork that nobody here can drive would be left behind.
    _check_agent(server, row.run, started)
    new = new_id()
    await runs.fork(server.log, row.run, new, at=at, now=server.now(), driven=True)
    await server.engine.wake(new)
    server.audit("fork", call.principal.id, run=row.run, detail=f"as {new}")
    view = responses.run(await server.log.row(new))
    return JSONResponse(view.model_dump(), 201, {"Location": f"/runs/{new}"})


async def resume(call: ApiCall) -> BaseModel:
    """Carry on a run that failed, was cancelled, or lost its process."""
    row = await own_run(call)
    server = call.server
    records = await server.log.read(row.run)
    last = records[-1].event if records else None
    # Some endings are no verdict on the goal (a failed
    # provider, a cancellation): those can go on.
    again = isinstance(last, e.RunFinished) and last.stop_reason in RESUMABLE
    if row.status in ENDED and not again:
        raise Problem(409, "ended", f"the run ended as {row.status}: fork it to try another way")
    # The engine leaves a run alone that it could not continue; a person asks for another try.
    server.engine.stuck.pop(row.run, None)
    started = opening(records)
    if started is not None:
        _check_agent(server, row.run, started)
    await runs.reopen(server.log, row.run)
    await server.engine.wake(row.run)
    server.audit("resume", call.principal.id, run=row.run)
    return schemas.Accepted(id=row.run)


COURSE: Final = (
    ApiEndpoint(
        "POST",
        "/runs/{run}/cancel",
        cancel,
        "Stop a run.",
        body=Nothing,
        answers={202: schemas.Accepted},
        errors=(403, 404, 409),
        status=202,
        right="cancel",
    ),
    ApiEndpoint(
        "POST",
        "/runs/{run}/steer",
        steer,
        "Tell a run something.",
        body=Steer,
        answers={202: schemas.Accepted},
        errors=(403, 404, 409),
        status=202,
        right="start",
    ),
    ApiEndpoint(
        "POST",
        "/runs/{run}/fork",
        fork,
        "Branch off at a step and go on from there.",
        body=ForkBody,
        answers={201: schemas.RunView},
        errors=(403, 404, 409),
        status=201,
        right="start",
    ),
    ApiEndpoint(
        "POST",
        "/runs/{run}/resume",
        resume,
        "Carry on a run that failed or was cancelled.",
        body=Nothing,
        answers={202: schemas.Accepted},
        errors=(403, 404, 409),
        status=202,
        right="start",
    ),
)

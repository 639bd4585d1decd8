"""The routes that look at runs: list them, see one, travel in it, follow it."""

import asyncio
from contextlib import suppress
from typing import Final

from pydantic import BaseModel
from starlette.responses import Response

from taofold.core.errors import UnknownRun
from taofold.log.log import RunRow
from taofold.server import shapes, views
from taofold.server.access import seen
from taofold.server.api_people import pending_of
from taofold.server.endpoint import Call, Endpoint
from taofold.server.problem import Problem
from taofold.server.shapes_asked import EventsQuery, RecordsQuery, RunsQuery, StateQuery
from taofold.server.streaming import stream

_STREAMED: Final = "text/event-stream"


async def page(call: Call) -> BaseModel:
    """The caller's runs, newest first."""
    query: RunsQuery = call.query
    before = await _place(call, query.cursor) if query.cursor else 0
    found: dict[int, RunRow] = {}
    for source in _sources(call, query.agent):
        rows = await call.server.log.rows(
            **source,
            status=query.status,
            session=views.inner_session(call.principal, query.session),
            before=before,
            limit=query.limit + 1,
        )
        found |= {row.place: row for row in rows}
    newest = [found[place] for place in sorted(found, reverse=True)]
    shown = newest[: query.limit]
    following = shown[-1].run if len(newest) > query.limit else None
    return shapes.Runs(items=[views.run(row) for row in shown], next=following)


def _sources(call: Call, agent: str) -> list[dict[str, str]]:
    """Whose runs the caller sees: its own, and those of agents that it approves for."""
    own = {"principal": call.principal.id}
    others = [{"agent": name} for name in call.server.approves(call.principal)]
    if not agent:
        return [own, *others]
    return [{**own, "agent": agent}, *[one for one in others if one["agent"] == agent]]


async def _place(call: Call, cursor: str) -> int:
    """Where the page before ended.

    Raises:
        Problem: 422, no run that the caller sees has the cursor.
    """
    with suppress(UnknownRun):
        row = await call.server.log.row(cursor)
        if call.server.sees(call.principal, row):
            return row.place
    raise Problem(422, "cursor", "no run of this list has the cursor")


async def detail(call: Call) -> BaseModel:
    """One run."""
    row = await seen(call, call.path["run"])
    log = call.server.log
    records = await log.read(row.run)
    children = await log.rows(parent=row.run, limit=0)
    pending = await pending_of(call, row.run) if row.status in ("running", "waiting") else []
    # A long run takes a while to fold: the other clients are served meanwhile.
    return await asyncio.to_thread(views.detail, row, records, reversed(children), pending)


async def records(call: Call) -> BaseModel:
    """Events as they stand in the log."""
    row = await seen(call, call.path["run"])
    query: RecordsQuery = call.query
    found = await call.server.log.read(row.run, after=query.after, limit=query.limit)
    following = found[-1].seq if len(found) == query.limit else None
    return shapes.Records(items=[views.record(one) for one in found], next=following)


async def state(call: Call) -> BaseModel:
    """The state as it was after an event."""
    row = await seen(call, call.path["run"])
    at: int | None = call.query.at
    if at is not None and at >= row.events:
        raise Problem(422, "at", f"the run has the events 0 to {row.events - 1}")
    found = await call.server.log.read(row.run, limit=0 if at is None else at + 1)
    return await asyncio.to_thread(views.moment, row.run, found)


async def audit(call: Call) -> BaseModel:
    """Who asked, who decided, what came of it."""
    row = await seen(call, call.path["run"])
    return views.audited(await call.server.log.read(row.run))


async def events(call: Call) -> Response:
    """The run's events, from where the client left off."""
    row = await seen(call, call.path["run"])
    after = call.request.headers.get("last-event-id", "") or call.query.after
    cancel = call.query.on_disconnect == "cancel" and row.principal == call.principal.id
    if cancel:
        call.server.require(call.principal, "cancel")
    return await stream(call, row.run, after, cancel=cancel)


ENDPOINTS: Final = (
    Endpoint(
        "GET", "/runs", page, "Your runs, newest first.",
        query=RunsQuery, answers={200: shapes.Runs},
        right="read",
    ),
    Endpoint(
        "GET", "/runs/{run}", detail, "A run and how it stands.",
        answers={200: shapes.Detail}, errors=(404,),
        right="read",
    ),
    Endpoint(
        "GET",
        "/runs/{run}/events",
        events,
        "The run's events as they happen. 204: it has ended and you have read it all.",
        query=EventsQuery,
        answers={200: _STREAMED, 204: ""},
        headers={"Last-Event-ID": "The `id:` of the last event that you got."},
        errors=(404,),
        right="read",
    ),
    Endpoint(
        "GET", "/runs/{run}/records", records, "The run's events as they stand in the log.",
        query=RecordsQuery, answers={200: shapes.Records}, errors=(404,),
        right="read",
    ),
    Endpoint(
        "GET", "/runs/{run}/state", state, "The run's state, now or after one of its events.",
        query=StateQuery, answers={200: shapes.Moment}, errors=(404,),
        right="read",
    ),
    Endpoint(
        "GET", "/runs/{run}/audit", audit, "Every call with who decided; every refused attempt.",
        answers={200: shapes.Audited}, errors=(404,),
        right="read",
    ),
)  # fmt: skip

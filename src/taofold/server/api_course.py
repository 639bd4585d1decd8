"""The routes that change the course of a run: cancel, steer, fork, resume."""

from typing import Final

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from taofold.agent.activation import new_id
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.trace import opening
from taofold.log.log import ENDED
from taofold.runtime import control as people
from taofold.runtime import run as runs
from taofold.runtime.endings import RESUMABLE
from taofold.server import shapes, views
from taofold.server.access import mine
from taofold.server.endpoint import Call, Endpoint, Nothing
from taofold.server.problem import Problem
from taofold.server.shapes_asked import Fork, Steer


async def cancel(call: Call) -> BaseModel:
    """Stop a run: nothing starts afterwards, what was done is kept."""
    row = await mine(call)
    await people.cancel(call.server.log, row.run, by=call.principal)
    call.server.audit("cancel", call.principal.id, run=row.run)
    call.server.hub.poke(row.run)
    return shapes.Accepted(id=row.run)


async def steer(call: Call) -> BaseModel:
    """Tell a run something: its model reads it at its next turn, once."""
    row = await mine(call)
    body: Steer = call.body
    name = f"steer:{call.principal.id}:{body.message_id}" if body.message_id else ""
    await people.steer(call.server.log, row.run, body.text, by=call.principal, message_id=name)
    call.server.audit("steer", call.principal.id, run=row.run)
    return shapes.Accepted(id=row.run)


async def fork(call: Call) -> Response:
    """Branch off at a step and go on from there."""
    row = await mine(call)
    server, at = call.server, call.body.at
    if at is not None and at >= row.events:
        raise Problem(422, "at", f"the run has the events 0 to {row.events - 1}")
    started = opening(await server.log.read(row.run, limit=1))
    if started is None:
        raise Problem(409, "damaged", "the run has no start")
    try:
        server.catalog.of(row.run, started)
    except ConfigError as error:
        raise Problem(409, "agent", str(error)) from None
    new = new_id()
    await runs.fork(server.log, row.run, new, at=at, now=server.now(), driven=True)
    await server.engine.wake(new)
    server.audit("fork", call.principal.id, run=row.run, detail=f"as {new}")
    shown = views.run(await server.log.row(new))
    return JSONResponse(shown.model_dump(), 201, {"Location": f"/runs/{new}"})


async def resume(call: Call) -> BaseModel:
    """Carry on a run that failed, was cancelled, or lost its process."""
    row = await mine(call)
    server = call.server
    records = await server.log.read(row.run)
    last = records[-1].event if records else None
    again = isinstance(last, e.RunFinished) and last.stop_reason in RESUMABLE
    if row.status in ENDED and not again:
        raise Problem(409, "ended", f"the run ended as {row.status}: fork it to try another way")
    server.engine.stuck.pop(row.run, None)
    started = opening(records)
    if started is not None:
        try:
            server.catalog.of(row.run, started)
        except ConfigError as error:
            raise Problem(409, "agent", str(error)) from None
    await runs.reopen(server.log, row.run)
    await server.engine.wake(row.run)
    server.audit("resume", call.principal.id, run=row.run)
    return shapes.Accepted(id=row.run)


ENDPOINTS: Final = (
    Endpoint(
        "POST", "/runs/{run}/cancel", cancel, "Stop a run.",
        body=Nothing, answers={202: shapes.Accepted}, errors=(403, 404, 409), status=202,
        right="cancel",
    ),
    Endpoint(
        "POST", "/runs/{run}/steer", steer, "Tell a run something.",
        body=Steer, answers={202: shapes.Accepted}, errors=(403, 404, 409), status=202,
        right="start",
    ),
    Endpoint(
        "POST", "/runs/{run}/fork", fork, "Branch off at a step and go on from there.",
        body=Fork, answers={201: shapes.Run}, errors=(403, 404, 409), status=201,
        right="start",
    ),
    Endpoint(
        "POST", "/runs/{run}/resume", resume, "Carry on a run that failed or was cancelled.",
        body=Nothing, answers={202: shapes.Accepted}, errors=(403, 404, 409), status=202,
        right="start",
    ),
)  # fmt: skip

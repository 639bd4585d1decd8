"""The routes about the server itself: the agents it offers, health, readiness and metrics."""

import asyncio
from typing import Final

from starlette.responses import JSONResponse, Response

import taofold
from taofold.core.errors import LogError
from taofold.server.api import responses, schemas
from taofold.server.endpoint import ApiCall, Routes
from taofold.server.middleware import MEDIA

routes: Final = Routes("server")

READY_S: Final = 3.0
"""Maximum seconds for a response of the log."""


@routes.get("/agents", right="read")
async def agents(call: ApiCall) -> schemas.Agents:
    """Lists the served agents."""
    catalog = call.server.catalog
    return schemas.Agents(items=[responses.agent(name, catalog[name]) for name in catalog.names])


@routes.get("/healthz", right="public")
async def health(call: ApiCall) -> schemas.Health:
    """Returns the health of the server."""
    engine = call.server.engine
    return schemas.Health(
        status="stopping" if engine.stopping else "ok",
        version=taofold.__version__,
        active_runs=engine.active,
        queued_runs=engine.queued,
        watchers=call.server.hub.watchers,
    )


@routes.get("/readyz", right="public", answers={200: schemas.Ready, 503: schemas.Ready})
async def ready(call: ApiCall) -> Response:
    """Returns the readiness of the server: 503 if it is not ready."""
    server = call.server
    problem = "stopping" if server.engine.stopping else ""
    if not problem:
        try:
            async with asyncio.timeout(READY_S):
                # One row of an index: cheap, but it must reach the database.
                await server.log.due(server.now(), limit=1)
        except (LogError, TimeoutError):
            problem = "log"
    return JSONResponse({"status": problem or "ok"}, 503 if problem else 200)


@routes.get("/metrics", right="metrics", answers={200: "text/plain"})
async def metrics(call: ApiCall) -> Response:
    """Returns metrics in Prometheus's text format."""
    server = call.server
    runs = await server.log.count()
    gauges = {
        "active_runs": ("Runs that this process drives.", float(server.engine.active)),
        "queued_runs": ("Runs that wait for their turn.", float(server.engine.queued)),
        "waiting_runs": (
            "Runs that wait for an answer or their turn.",
            float(runs.get("waiting", 0)),
        ),
        "streams": ("Open event streams.", float(server.streams)),
        "stuck_runs": ("Runs that cannot be continued here.", float(len(server.engine.stuck))),
    }
    text = server.counts.text(gauges, runs)
    return Response(text, media_type=MEDIA)

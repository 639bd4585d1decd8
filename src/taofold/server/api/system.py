"""The routes about the server itself: the agents it offers, health, readiness and metrics."""

import asyncio
from typing import Final

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

import taofold
from taofold.core.errors import LogError
from taofold.server.api import responses, schemas
from taofold.server.endpoint import ApiCall, ApiEndpoint
from taofold.server.middleware import MEDIA

READY_S: Final = 3.0
"""How long the log may take to answer."""


async def agents(call: ApiCall) -> BaseModel:
    """What can be given a goal."""
    catalog = call.server.catalog
    return schemas.Agents(items=[responses.agent(name, catalog[name]) for name in catalog.names])


async def health(call: ApiCall) -> BaseModel:
    """Is the server well?"""
    engine = call.server.engine
    return schemas.Health(
        status="stopping" if engine.stopping else "ok",
        version=taofold.__version__,
        active_runs=engine.active,
        queued_runs=engine.queued,
        watchers=call.server.hub.watchers,
    )


async def ready(call: ApiCall) -> Response:
    """May requests be sent here? Not while it stops, or cannot reach its log."""
    server = call.server
    problem = "stopping" if server.engine.stopping else ""
    if not problem:
        try:
            async with asyncio.timeout(READY_S):
                # One row of an index: cheap, and it still has to reach the database.
                await server.log.due(server.now(), limit=1)
        except (LogError, TimeoutError):
            problem = "log"
    return JSONResponse({"status": problem or "ok"}, 503 if problem else 200)


async def metrics(call: ApiCall) -> Response:
    """What a monitor wants to know."""
    server = call.server
    runs = await server.log.count()
    gauges = {
        "active_runs": ("Runs that this process drives.", float(server.engine.active)),
        "queued_runs": ("Runs that wait for their turn.", float(server.engine.queued)),
        "waiting_runs": (
            "Runs that wait for a person or their turn.",
            float(runs.get("waiting", 0)),
        ),
        "streams": ("Open event streams.", float(server.streams)),
        "stuck_runs": ("Runs that cannot be continued here.", float(len(server.engine.stuck))),
    }
    text = server.counts.text(gauges, runs)
    return Response(text, media_type=MEDIA)


ENDPOINTS: Final = (
    ApiEndpoint(
        "GET",
        "/agents",
        agents,
        "The agents that are offered.",
        "server",
        answers={200: schemas.Agents},
        right="read",
    ),
    ApiEndpoint(
        "GET",
        "/healthz",
        health,
        "Is the server well?",
        "server",
        answers={200: schemas.Health},
        right="public",
    ),
    ApiEndpoint(
        "GET",
        "/readyz",
        ready,
        "May requests be sent here? 503 if not.",
        "server",
        answers={200: schemas.Ready, 503: schemas.Ready},
        right="public",
    ),
    ApiEndpoint(
        "GET",
        "/metrics",
        metrics,
        "Counters in Prometheus's text format.",
        "server",
        answers={200: "text/plain"},
        right="metrics",
    ),
)

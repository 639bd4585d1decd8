"""The route that starts a run: once for each idempotency key, one at a time in a session."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from hashlib import blake2b
from typing import Final

import msgspec
from starlette.responses import JSONResponse, Response

from taofold.agent.activation import new_id
from taofold.core.errors import ConfigError, Conflict, UnknownRun
from taofold.core.state import ENDED
from taofold.core.text import visible
from taofold.core.trace import opening
from taofold.server import views
from taofold.server.api import schemas
from taofold.server.api.attachments import prompt
from taofold.server.api.schemas import NewRun
from taofold.server.catalog import SETTINGS, AnyAgent
from taofold.server.endpoint import ApiCall, ApiEndpoint, Problem
from taofold.server.server import Server
from taofold.server.streams.response import stream

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_SSE: Final = "text/event-stream"
_BETWEEN_S: Final = 0.05
_LOOKS: Final = 40


async def create(call: ApiCall) -> Response:
    """Start a run."""
    body: NewRun = call.body
    server = call.server
    name, agent = offered(server, body.agent)
    # Without what came later a request has the digest that earlier releases gave it.
    unset = {name for name in ("attachments", "model", "limits") if not getattr(body, name)}
    fields = body.model_dump(exclude=unset)
    digest = blake2b(msgspec.json.encode(fields), digest_size=8).hexdigest()
    changes = body.model_dump(include={"model", "limits"} - unset, exclude_none=True)
    try:
        agent = server.catalog.changed(agent, changes)
    except ConfigError as error:
        raise Problem(422, "model", str(error)) from None
    run, keyed = _named(call)
    session = views.inner_session(call.principal, body.session)
    # The common case of a repeated request. The race of two at once ends in `Conflict` below.
    if keyed and await _known(call, run, digest):
        return await _started(call, run, fresh=False)
    begin = {
        "principal": call.principal,
        "session": session,
        "data": body.data,
        "ui_context": framed(body.ui_context),
        "settings": {SETTINGS: {"agent": name, "request": digest, **changes}},
    }
    waits = bool(session) and body.on_busy == "wait"
    try:
        async with _turn(call, session) if waits else nullcontext():
            # Decoded only now: a repeated request with files is answered without.
            goal = prompt(body.goal, body.attachments)
            await server.worker.begin(server.engine, agent, run, goal, **begin)
    except Conflict as error:
        if keyed and await _twin(call, run, digest):
            return await _started(call, run, fresh=False)
        if session:
            raise Problem(409, "session_busy", "the session has a run that has not ended") from None
        # No session is busy, so the id itself is taken.
        raise error
    server.audit("start", call.principal.id, run=run, agent=name)
    return await _started(call, run, fresh=True)


def offered(server: Server, said: str) -> tuple[str, AnyAgent]:
    """The name and the agent that `said` means.

    Raises:
        Problem: 422, there is none.
    """
    name = server.catalog.name(said)
    try:
        return name, server.catalog[name]
    except KeyError:
        raise Problem(422, "agent", f"no agent is called {name[:80]!r}") from None


def framed(context: str) -> str:
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
    rows = await call.server.log.rows(session=session, limit=5)
    return any(row.status not in ENDED for row in rows)


async def _started(call: ApiCall, run: str, *, fresh: bool) -> Response:
    if _SSE in call.request.headers.get("accept", ""):
        cancel = call.body.on_disconnect == "cancel"
        answer = await stream(call, run, "", cancel=cancel)
    else:
        view = views.run(await call.server.log.row(run))
        answer = JSONResponse(view.model_dump(), 201 if fresh else 200)
    answer.headers["Location"] = f"/runs/{run}"
    return answer


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
)

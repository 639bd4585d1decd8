"""The ASGI application: all routes, and their handling of requests.

After `middleware`, a route authenticates the request, checks the endpoint's right, the rate and the
input, and then calls the handler. There are no other routes. Every error, also a bug, becomes
problem details.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from taofold.core.values import Principal
from taofold.foreign_code import contained
from taofold.server import console
from taofold.server.agui import endpoint as agui
from taofold.server.api import (
    approvals,
    attachments,
    budgets,
    learning,
    login,
    mcp_signins,
    memory,
    policies,
    runs,
    system,
)
from taofold.server.auth import Caller, unauthorized
from taofold.server.endpoint import (
    ApiCall,
    ApiEndpoint,
    Problem,
    check_body,
    check_path,
    check_query,
    problem_of,
    too_many_requests,
)
from taofold.server.middleware import AccessRecord, ProtectionMiddleware
from taofold.server.openapi import document
from taofold.server.server import Server

ENDPOINTS: Final[Sequence[ApiEndpoint]] = (
    *runs.routes,
    *attachments.routes,
    *approvals.routes,
    *budgets.routes,
    *policies.routes,
    *learning.routes,
    *memory.routes,
    *mcp_signins.routes,
    *login.routes,
    *system.routes,
    *agui.routes,
    *console.routes,
)

_LONGEST_NUMBER: Final = 16
NOBODY: Final = Principal("nobody", ())
"""The anonymous principal."""

_logger = logging.getLogger(__name__)


def create_app(server: Server) -> ASGIApp:
    """Makes the application of `server`."""
    published = document(ENDPOINTS, server.settings)

    async def openapi(call: ApiCall) -> Response:
        return JSONResponse(published)

    described = ApiEndpoint(
        "GET", "/openapi.json", openapi, "The API.", "server", hidden=True, right="public"
    )
    endpoints = (*ENDPOINTS, described)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        await server.start()
        try:
            yield
        finally:
            await server.stop()

    app = Starlette(
        routes=_routes(server, endpoints),
        lifespan=lifespan,
        exception_handlers={HTTPException: _http, Exception: _unexpected},
    )
    # A redirect would skip the checks of host and path of this request.
    app.router.redirect_slashes = False
    pages = frozenset(endpoint.path for endpoint in endpoints if endpoint.page)
    return ProtectionMiddleware(app, server, pages)


def _routes(server: Server, endpoints: Sequence[ApiEndpoint]) -> list[Route]:
    """Makes one route for each path, so that a wrong method gets a list of the right ones."""
    by_path: dict[str, dict[str, ApiEndpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [_route(server, path, methods) for path, methods in by_path.items()]


def _route(server: Server, path: str, endpoints: Mapping[str, ApiEndpoint]) -> Route:
    async def handle(request: Request) -> Response:
        access: AccessRecord = request.scope["taofold"]
        access.route = path
        try:
            with contained():
                return await _answered(server, endpoints[_method(request)], request, access)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            access.code, access.detail = problem.code, problem.detail
            return problem.response()

    return Route(path, handle, methods=list(endpoints))


def _method(request: Request) -> str:
    return "GET" if request.method == "HEAD" else request.method


async def _answered(
    server: Server, endpoint: ApiEndpoint, request: Request, access: AccessRecord
) -> Response:
    caller = _authenticated(server, endpoint, request)
    # The limit comes before the right, so that it also applies to callers without rights.
    if caller is not None:
        access.who = caller.principal.id
        _limit(server, access.who)
    _authorize(server, endpoint, caller)
    path = check_path(request.path_params)
    query = check_query(endpoint, request)
    settings = server.settings
    # A chunked body has no length and gets the smaller limit.
    upload = endpoint.upload and _length(request) > settings.body_bytes
    try:
        async with asyncio.timeout(settings.upload_s if upload else settings.body_s):
            # Only large bodies count as uploads, so that ordinary requests are not refused.
            with server.uploading() if upload else contextlib.nullcontext():
                most = settings.upload_bytes if upload else settings.body_bytes
                body = await check_body(endpoint, request, most)
    except TimeoutError:
        # The rest of the body may still arrive and would be read as the next request of the
        # connection.
        raise Problem(
            408, "timeout", "the body took too long to arrive", headers={"Connection": "close"}
        ) from None
    principal = caller.principal if caller is not None else NOBODY
    answer = await endpoint.handler(ApiCall(server, request, principal, path, query, body))
    if isinstance(answer, BaseModel):
        return Response(answer.model_dump_json(), endpoint.status, media_type="application/json")
    return answer


def _length(request: Request) -> int:
    """Returns the declared length of the body; 0 if there is none."""
    length = request.headers.get("content-length", "")
    return (
        # `isdigit` accepts `²`, on which `int` raises; 16 digits exceed every limit.
        int(length)
        if length.isascii() and length.isdigit() and len(length) < _LONGEST_NUMBER
        else 0
    )


def _authenticated(server: Server, endpoint: ApiEndpoint, request: Request) -> Caller | None:
    """Returns the caller; None without credentials, or with wrong ones at a public endpoint.

    Raises:
        Problem: 401, the credentials are wrong.
    """
    client = request.client.host if request.client else ""
    try:
        return server.authenticator.authenticate(request.headers, client)
    except Problem:
        if endpoint.right == "public":
            return None
        raise


def _authorize(server: Server, endpoint: ApiEndpoint, caller: Caller | None) -> None:
    """Checks that the caller has the endpoint's right.

    Raises:
        Problem: 401, there is no caller; 403, the caller's roles lack the right.
    """
    if endpoint.right == "public":
        return
    if caller is None:
        raise unauthorized()
    if endpoint.right != "signed_in":
        server.require(caller.principal, endpoint.right)


def _limit(server: Server, who: str) -> None:
    wait = server.rates.take(f"principal:{who}", asyncio.get_running_loop().time())
    if wait:
        raise too_many_requests(wait)


async def _http(request: Request, error: Exception) -> Response:
    """Returns the response to a request that the router refuses."""
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method"}
    code = codes.get(error.status_code, "refused")
    details = {404: "there is nothing here", 405: "this cannot be done here"}
    detail = details.get(error.status_code, str(error.detail))
    access: AccessRecord = request.scope["taofold"]
    access.code, access.detail = code, detail
    return Problem(error.status_code, code, detail, headers=error.headers).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    # The client gets no details, because a traceback may contain data of other principals.
    _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Problem(500, "internal", "internal error; the server has logged it").response()

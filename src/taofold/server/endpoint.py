"""Definition of routes (`ApiEndpoint`), checks of their input, and refusals (`Problem`).

A route has a handler, a right and models of its input. Every route must declare a right. The same
models make the OpenAPI document, so it matches the checks. `Problem` is a refusal as problem
details (RFC 9457); `problem_of` converts errors to refusals. A run that the caller may not see is
treated as missing (`visible_run`).
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Required,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

import msgspec
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from taofold.core.errors import ConfigError, Conflict, LogError, Refused, TaofoldError, UnknownRun
from taofold.core.imported_runs import RUN_ID
from taofold.core.json_values import not_finite
from taofold.core.values import Principal
from taofold.log.log import RunRow
from taofold.policy.roles import Right

if TYPE_CHECKING:
    from taofold.server.server import Server


MEDIA: Final = "application/problem+json"


class Problem(Exception):
    """A refused request. `code` is for programs, `detail` for users."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        faults: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers, self.faults = dict(headers or {}), faults

    def response(self) -> Response:
        """Returns the response."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.faults:
            body["faults"] = self.faults
        return Response(msgspec.json.encode(body), self.status, self.headers, media_type=MEDIA)


def too_many_requests(wait: float) -> Problem:
    """Returns the refusal of too many requests; the next one may come in `wait` seconds."""
    retry = {"Retry-After": f"{wait + 1:.0f}"}
    return Problem(429, "rate", "too many requests", headers=retry)


def problem_of(error: Exception) -> Problem | None:
    """Returns the refusal for an error, or None if it is a bug."""
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        # Only taofold's errors have texts for clients; other groups are bugs (500).
        faults = [str(fault) for fault in inner if isinstance(fault, TaofoldError)]
        return Problem(422, "invalid", "; ".join(faults)) if faults else None
    match error:
        case Problem():
            return error
        # `UnknownRun` and `Conflict` are `LogError`s, so they are matched first.
        case UnknownRun():
            return Problem(404, "not_found", "there is no such run, or it is not yours")
        case Conflict():
            return Problem(409, "conflict", str(error))
        case Refused():
            return Problem(409, "refused", str(error))
        case ConfigError():
            return Problem(422, "invalid", str(error))
        case LogError():
            retry = {"Retry-After": "5"}
            return Problem(503, "unavailable", str(error), headers=retry)
        case _:
            return None


PATHS: Final[Mapping[str, str]] = {
    "run": rf"^{RUN_ID}$",
    "action": rf"^{RUN_ID}:[0-9]{{1,10}}$",
    "loop": rf"^{RUN_ID}$",
    "pattern": rf"^{RUN_ID}$",
    "note": r"^[A-Za-z0-9_-]{1,64}$",
    "code": r"^[A-Za-z0-9_-]{16,64}$",
}
"""Patterns of path parameters, by name. Other values are not found."""
_JSON: Final = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)


class RequestModel(BaseModel):
    """Base of request models: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False, allow_inf_nan=False)


class Nothing(RequestModel):
    """An empty object."""


class NoQuery(RequestModel):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One checked request."""

    server: "Server"
    request: Request
    principal: Principal
    path: Mapping[str, str]
    query: Any
    body: Any


Access: TypeAlias = Right | Literal["public", "signed_in"]
"""A right (`taofold.policy.policy`), any credentials, or none."""
Handler: TypeAlias = Callable[[ApiCall], Awaitable[Response | BaseModel]]
HandlerFunction = TypeVar("HandlerFunction", bound=Handler)


class EndpointOptions(TypedDict, total=False):
    """Options of a route, as of `ApiEndpoint`."""

    right: Required[Access]
    body: type[BaseModel]
    query: type[BaseModel]
    status: int
    answers: Mapping[int, type[BaseModel] | str]
    headers: Mapping[str, str]
    errors: tuple[int, ...]
    upload: bool
    page: bool
    hidden: bool


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """A route."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    right: Access
    """The required right. The owner of a run is checked separately."""
    body: type[BaseModel] | None = None
    query: type[BaseModel] = NoQuery
    status: int = 200
    answers: Mapping[int, type[BaseModel] | str] = field(
        default_factory=dict[int, "type[BaseModel] | str"]
    )
    """A model or a media type for each status."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Supported request headers, with descriptions."""
    errors: tuple[int, ...] = ()
    upload: bool = False
    """True if the body may contain files, up to `Settings.upload_bytes`."""
    page: bool = False
    """True for a page that any link may open, because it contains no data of users."""
    hidden: bool = False
    """Not in the OpenAPI document."""


class Routes(list[ApiEndpoint]):
    """The routes of one module, in the order in which they are matched.

    A handler that returns a model declares it by its annotation. The first line of its docstring is
    the summary of the route.

        @routes.get("/runs/{run}", right="read", errors=(404,))
        async def detail(call: ApiCall) -> schemas.RunDetail:
    """

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def get(
        self, path: str, **options: Unpack[EndpointOptions]
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Declares the decorated function as the handler of GET requests."""
        return self._route("GET", path, options)

    def post(
        self, path: str, **options: Unpack[EndpointOptions]
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Declares the decorated function as the handler of POST requests."""
        return self._route("POST", path, options)

    def _route(
        self, method: str, path: str, options: EndpointOptions
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        def declare(handler: HandlerFunction) -> HandlerFunction:
            answer = handler.__annotations__["return"]
            if issubclass(answer, BaseModel):
                options.setdefault("answers", {options.get("status", 200): answer})
            summary = (handler.__doc__ or "").partition("\n")[0]
            self.append(ApiEndpoint(method, path, handler, summary, self._tag, **options))
            return handler

        return declare


def check_path(found: Mapping[str, Any]) -> dict[str, str]:
    """Returns the path's parameters.

    Raises:
        Problem: 404, a parameter does not match its pattern.
    """
    parameters = {name: str(value) for name, value in found.items()}
    for name, value in parameters.items():
        pattern = PATHS.get(name)
        if pattern is not None and not re.fullmatch(pattern, value):
            raise Problem(404, "not_found", "there is nothing of this name, or it is not yours")
    return parameters


def check_query(endpoint: ApiEndpoint, request: Request) -> Any:
    """Returns the query's parameters.

    Raises:
        Problem: 422, with all faults.
    """
    parameters: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        # Programs differ in which of two values they use, so duplicates are refused.
        if name in parameters:
            raise Problem(422, "invalid", f"{name[:40]!r} is given twice in the query")
        parameters[name] = value
    return _checked(endpoint.query, parameters, "query", strings=True)


async def check_body(endpoint: ApiEndpoint, request: Request, most: int) -> Any:
    """Returns the body.

    Raises:
        Problem: 415 not JSON, 413 too large, 400 malformed, 422 with all faults.
    """
    if endpoint.body is None:
        return None
    if not _JSON.fullmatch(request.headers.get("content-type", "")):
        raise Problem(415, "content_type", "the body must be application/json")
    parts, size = list[bytes](), 0
    # Counted while it arrives: a Content-Length may be wrong, and a chunked body has none.
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Problem(413, "too_large", f"the body is larger than {most} bytes")
        parts.append(part)
    try:
        # An empty body is an empty object: `POST …/cancel` needs no body.
        document = _ANY.validate_json(b"".join(parts) or b"{}")
    except ValidationError as error:
        why = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Problem(400, "malformed", f"the body is not JSON: {why}") from None
    # Pydantic reads NaN, Infinity and 1e999 as floats, and a model checks only its own fields. In
    # free JSON (`data`, `parameters`) such numbers would be stored as other values.
    wrong = list(islice(not_finite(document), _MOST_FAULTS))
    if wrong:
        named = [f"{wrong[0] or 'body'}: {_NO_NUMBER}"]
        raise faulty("body", [(path, _NO_NUMBER) for path in wrong], named)
    return _checked(endpoint.body, document, "body", strings=False)


_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)
_MOST_FAULTS: Final = 50
_NO_NUMBER: Final = "not a number of JSON: NaN, Infinity, or too large"


def _checked(model: type[BaseModel], document: Any, where: str, *, strings: bool) -> Any:
    try:
        # In a query "50" is a number. In a JSON body it is text, and is refused.
        return model.model_validate_strings(document) if strings else model.model_validate(document)
    except ValidationError as error:
        raise invalid(error, where) from None


def invalid(error: ValidationError, where: str) -> Problem:
    """Returns a 422 refusal with all faults and their paths."""
    # Without the input, so that a sent token or secret is not returned.
    found = error.errors(include_url=False, include_input=False, include_context=False)
    paths = ["/".join(map(str, fault["loc"])) for fault in found]
    texts = [fault["msg"] for fault in found]
    named = [f"{path or where}: {text}" for path, text in zip(paths, texts, strict=True)]
    return faulty(where, list(zip(paths, texts, strict=True)), named)


def faulty(where: str, faults: Sequence[tuple[str, str]], named: Sequence[str]) -> Problem:
    """Returns a 422 refusal with the path and text of each fault.

    The summary has the first of `named`.
    """
    rows = [{"where": where, "path": path, "fault": text} for path, text in faults]
    return Problem(422, "invalid", "; ".join(named[:5]), faults=rows[:_MOST_FAULTS])


async def visible_run(call: ApiCall, run: str) -> RunRow:
    """Returns the run if the caller may see it.

    Raises:
        Problem: 404, there is no such run, or it is not visible.
    """
    try:
        row = await call.server.log.row(run)
    except UnknownRun:
        # The same response as for a missing run, so that ids cannot be guessed by status.
        row = None
    if row is None or not await call.server.sees(call.principal, row):
        raise Problem(404, "not_found", "there is no such run, or it is not yours")
    return row


async def own_run(call: ApiCall) -> RunRow:
    """Returns the run of the path if the caller may change it.

    Raises:
        Problem: 404, or 403 if the caller may only read it.
    """
    row = await visible_run(call, call.path["run"])
    if row.principal != call.principal.id:
        raise Problem(403, "not_yours", "the run belongs to another principal")
    return row

"""What goes wrong, as problem details (RFC 9457): for whoever can act on it.

Knows which of our errors means which status, and nothing of what caused them.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, cast

import msgspec
from starlette.responses import Response

from taofold.core.errors import ConfigError, Conflict, LogError, Refused, TaofoldError, UnknownRun

MEDIA: Final = "application/problem+json"


class Problem(Exception):
    """A request that is refused. `code` is for programs, `detail` for people."""

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
        """The answer that says it."""
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


def hurried(wait: float) -> Problem:
    """Too many requests; `wait` seconds from now there may be one more."""
    retry = {"Retry-After": f"{wait + 1:.0f}"}
    return Problem(429, "rate", "too many requests", headers=retry)


def problem_of(error: Exception) -> Problem | None:
    """What an error of ours means for a client, None if it is a bug."""
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error).exceptions
        faults = [str(one) for one in inner if isinstance(one, TaofoldError)]
        return Problem(422, "invalid", "; ".join(faults)) if faults else None
    match error:
        case Problem():
            return error
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

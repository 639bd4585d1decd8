"""Converts a provider's error to a `ModelError` with a kind, advice, and the seconds to wait.

`failure` reads an answer's status, headers and body, `fault` an error in a body or a stream.
`reason` knows the providers' error formats. `_SORTINGS` maps words to kinds, the first match
counts. Providers' texts are data: they are shortened, made printable, and stripped of the key.
Pure.
"""

import re
from collections.abc import Container
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.errors import ModelError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.values import Usage
from taofold.models.transport import (
    HttpResponse,
)
from taofold.network import bare_url, bounded_wait, retry_after

_EXCERPT: Final = 300
_DELAY: Final = re.compile(rb'"retryDelay":\s*"(\d{1,12}(?:\.\d{1,12})?)s"')
_OVERFLOW: Final = (
    "context_length_exceeded",
    "maximum context length",
    "exceeds the available context size",
    "exceed_context_size",
    "prompt is too long",
    "context window",
    "context length",
    "too many tokens",
    "input is too long",
    "reduce the length",
    "too many input tokens",
    "exceeds the maximum number of tokens",
    "exceed context limit",
    "maximum prompt length",
    "exceeded model token limit",
    "token limit exceeded",
)
_BINDING: Final = (
    "invalid `signature`",
    "bound to a different conversation",
    "thought_signature",
    "corrupted thought signature",
    "encrypted content",
    "without its required",
    "items are not persisted",
    "expected `thinking`",
    "blocks in the latest assistant message",
    "must be passed back to the api",
)
"""Phrases of providers that refuse data which they signed or encrypted earlier."""
_NO_REASONING: Final = (
    "encrypted content is not supported",
    "encrypted_content is not supported",
    "reasoning.encrypted_content' is not supported",
)
_RATE: Final = ("rate_limit", "ratelimit", "rate limit", "resource_exhausted", "too_many_requests")
_FORBIDDEN: Final = (
    *("authentication_error", "permission_error", "permission_denied", "unauthenticated"),
    *("invalid_api_key", "unauthorized"),
)
_INVALID: Final = ("invalid_request", "invalid_argument", "badrequest", "bad_request", "not_found")
_QUOTA: Final = ("insufficient_quota", "billing_hard_limit", "credit balance is too low")
_ADVICE: Final = {
    "auth": "check the key, and that it may use this model",
    "quota": "the account has no credit left: top it up or use another model",
    "overflow": "the conversation is longer than the model's context window",
    "rate": "the account's rate limit is reached",
    "404": "check the model's name and `base_url`",
    "binding": "the provider does not accept its own earlier reasoning back",
    "3xx": "it redirects elsewhere, which is never followed: set `base_url` to the final address",
}


def failure(answer: HttpResponse, url: str, secret: str = "") -> ModelError:
    """Returns the error for an answer with a status other than 2xx."""
    code, message = reason(answer.body)
    wait = retry_after(answer.headers)
    if wait is None:
        wait = _delay_in(answer.body)
    error = fault(answer.status, code, message, url, secret=secret, wait=wait)
    error.usage = Usage()  # a refused request is not billed
    return error


def _delay_in(body: bytes) -> float | None:
    """Returns the delay in Google's error body: `"retryDelay": "1.5s"`."""
    match = _DELAY.search(body) if b"retryDelay" in body else None
    return bounded_wait(float(match[1])) if match else None


def fault(
    status: int, code: str, message: str, url: str, *, secret: str = "", wait: float | None = None
) -> ModelError:
    """Returns the error for a provider's report in a status, a body or a stream."""
    kind, advice = _sort(status, f"{code} {message}".lower())
    public = _printable(message if not secret else message.replace(secret, "***"))
    code = _printable(code)[:_EXCERPT]
    text = f"{bare_url(url)} answered {status}" if status else f"{bare_url(url)} reported an error"
    text += f" ({code})" if code and code != str(status) else ""
    text += f": {public[:_EXCERPT]}" if public else ""
    advice = _ADVICE.get(advice, "")
    return ModelError(
        f"{text} [{advice}]" if advice else text, kind=kind, status=status, retry_after=wait
    )


def _printable(text: str) -> str:
    """Returns the text without terminal control characters."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() or char == "\n" else " " for char in text])


class _Sorting(NamedTuple):
    """Errors of one kind: `always` with these statuses, `among` others if a mark is in the text."""

    kind: str
    advice: str
    always: Container[int] = ()
    among: Container[int] = ()
    marks: tuple[str, ...] = ()

    def fits(self, status: int, text: str) -> bool:
        if status in self.always:
            return True
        return status in self.among and any([mark in text for mark in self.marks])


_ANY: Final = range(1 << 16)
_SORTINGS: Final = (
    # Google answers 400 to a wrong key, so its text is checked too.
    _Sorting("auth", "auth", (401, 403), _ANY, ("api_key_invalid", "api key not valid")),
    # A model without reasoning of its own may have received another model's.
    _Sorting("request", "", (), (400, 404, 422), _NO_REASONING),
    _Sorting("binding", "binding", (), (400, 404, 422), _BINDING),
    # Before 429: OpenAI uses it for an empty account too, and waiting does not help there.
    _Sorting("auth", "quota", (402,), _ANY, _QUOTA),
    # Not from 429 on, because rate limits mention too many tokens as well.
    _Sorting("overflow", "overflow", (413,), range(429), _OVERFLOW),
    _Sorting("rate", "rate", (429,), (0,), _RATE),
    _Sorting("auth", "auth", (), (0,), _FORBIDDEN),
    _Sorting("server", "", (408,)),
    _Sorting("server", "", range(500, 1 << 16)),
    _Sorting("request", "", (), (0,), _INVALID),
    _Sorting("server", "", (0,)),
    _Sorting("request", "404", (404,)),
    _Sorting("request", "3xx", range(300, 400)),
    _Sorting("request", "", _ANY),
)
"""Ordered: the first match counts. 0 is the status of an error in a stream or a body."""


def _sort(status: int, text: str) -> tuple[str, str]:
    """Returns the kind of the error and its advice."""
    sorting = next(sorting for sorting in _SORTINGS if sorting.fits(status, text))
    return sorting.kind, sorting.advice


def reason(body: bytes) -> tuple[str, str]:
    """Returns the code and message of an error body in any provider's format."""
    try:
        report: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", body[:_EXCERPT].decode("utf-8", "replace").strip()
    # Google wraps the error of a stream in a list.
    while is_sequence(report) and report:
        report = report[0]
    if not is_object(report):
        return "", str(report)
    inner: Any = report.get("error", report)
    if not is_object(inner):
        return "", str(inner)
    code: Any = inner.get("code")
    # A number only repeats the status.
    code = code if isinstance(code, str) else inner.get("type") or inner.get("status")
    message: Any = inner.get("message") or inner.get("detail") or ""
    upstream = _upstream(inner)
    return str(code or ""), f"{message}: {upstream}" if upstream else str(message)


def _upstream(error: dict[str, Any]) -> str:
    """Returns the message of the provider behind a router, which has the actual reason."""
    metadata: Any = error.get("metadata")
    raw: Any = metadata.get("raw") if is_object(metadata) else None
    if not isinstance(raw, str) or not raw:
        return ""
    return reason(raw.encode())[1] if raw.lstrip().startswith(("{", "[")) else raw

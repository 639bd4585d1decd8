"""When to try again, and what a provider's error answer means. Pure but for the clock it is given.

Knows the shapes in which providers report errors, none of their formats for replies.
"""

import random
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.errors import ModelError
from taofold.core.value import is_object
from taofold.models.anyjson import is_sequence
from taofold.models.transport import Answer, place

AGAIN: Final = frozenset({"rate", "server", "network", "reply"})
"""The kinds that may pass by themselves. A timeout may not: it has cost its time already."""
_EXCERPT: Final = 300
_DELAY: Final = re.compile(rb'"retryDelay":\s*"([0-9.]+)s"')
_OVERFLOW: Final = (
    "context_length_exceeded", "maximum context length", "exceeds the available context size",
    "exceed_context_size", "prompt is too long", "context window", "context length",
    "too many tokens", "input is too long", "reduce the length", "too many input tokens",
    "exceeds the maximum number of tokens", "exceed context limit", "maximum prompt length",
    "exceeded model token limit", "token limit exceeded",
)  # fmt: skip
_BINDING: Final = (
    "invalid `signature`", "bound to a different conversation", "thought_signature",
    "corrupted thought signature", "encrypted content", "without its required",
    "items are not persisted", "expected `thinking`", "blocks in the latest assistant message",
    "must be passed back to the api",
)  # fmt: skip
"""How providers say that they will not have back what they once signed or encrypted."""
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


class Retry(NamedTuple):
    """How often and how long. `rate_attempts` counts answers 429, which waiting does cure."""

    attempts: int = 3
    rate_attempts: int = 6
    seconds: float = 300.0
    """No retry starts later than this after the first attempt."""
    first: float = 0.5
    longest: float = 20.0
    draw: Callable[[], float] = random.random
    """Jitter: uniform in [0, 1)."""

    def delay(self, error: ModelError, attempt: int, elapsed: float) -> float | None:
        """Seconds to wait after failed attempt number `attempt` (from 1), None to give up."""
        if error.kind not in AGAIN:
            return None
        if attempt >= (self.rate_attempts if error.kind == "rate" else self.attempts):
            return None
        delay = min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + self.draw() / 2)
        delay = max(delay, error.retry_after or 0.0)
        return delay if elapsed + delay <= self.seconds else None


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that the answer asks to wait (RFC 9110 10.2.3: seconds or a date), None if it
    does not say.
    """
    exact = headers.get("Retry-After-Ms") or headers.get("retry-after-ms")
    value = headers.get("Retry-After") or headers.get("retry-after")
    try:
        if exact:
            return max(0.0, float(exact) / 1000)
        if not value:
            return None
        if value.strip().replace(".", "", 1).isdigit():
            return float(value)
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now())
    except (ValueError, OverflowError):
        return None


def failure(answer: Answer, url: str, secret: str = "") -> ModelError:
    """The error that an answer with a status other than 2xx stands for."""
    code, message = reason(answer.body)
    wait = retry_after(answer.headers)
    if wait is None:
        wait = _delay_in(answer.body)
    return fault(answer.status, code, message, url, secret=secret, wait=wait)


def _delay_in(body: bytes) -> float | None:
    """The delay that Google writes into the body: `"retryDelay": "1.5s"`."""
    found = _DELAY.search(body) if b"retryDelay" in body else None
    return float(found[1]) if found else None


def fault(
    status: int, code: str, message: str, url: str, *, secret: str = "", wait: float | None = None
) -> ModelError:
    """The error for what a provider says, be it in a status, a body or a stream."""
    kind, advice = _sort(status, f"{code} {message}".lower())
    said = message if not secret else message.replace(secret, "***")
    text = f"{place(url)} answered {status}" if status else f"{place(url)} reported an error"
    text += f" ({code})" if code and code != str(status) else ""
    text += f": {said[:_EXCERPT]}" if said else ""
    advice = _ADVICE.get(advice, "")
    return ModelError(
        f"{text} [{advice}]" if advice else text, kind=kind, status=status, retry_after=wait
    )


def _sort(status: int, said: str) -> tuple[str, str]:
    if status in (401, 403) or "api_key_invalid" in said or "api key not valid" in said:
        return "auth", "auth"
    if status in (400, 404, 422) and any(mark in said for mark in _BINDING):
        return "binding", "binding"
    if any(mark in said for mark in _QUOTA) or status == 402:
        return "auth", "quota"
    if status == 413 or (status < 429 and any(mark in said for mark in _OVERFLOW)):
        return "overflow", "overflow"
    if status == 429 or (not status and "rate_limit" in said):
        return "rate", "rate"
    if status == 408 or status >= 500:
        return "server", ""
    if not status:
        return ("request", "") if "invalid_request" in said else ("server", "")
    return "request", "404" if status == 404 else "3xx" if 300 <= status < 400 else ""


def reason(body: bytes) -> tuple[str, str]:
    """Code and message of an error body, in any of the providers' shapes."""
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", body[:_EXCERPT].decode("utf-8", "replace").strip()
    while is_sequence(found) and found:
        found = found[0]
    if not is_object(found):
        return "", str(found)
    inner: Any = found.get("error", found)
    if not is_object(inner):
        return "", str(inner)
    code: Any = inner.get("code")
    code = code if isinstance(code, str) else inner.get("type") or inner.get("status")
    message: Any = inner.get("message") or inner.get("detail") or ""
    upstream = _upstream(inner)
    return str(code or ""), f"{message}: {upstream}" if upstream else str(message)


def _upstream(error: dict[str, Any]) -> str:
    """What the provider behind a router said, which alone says what is wrong."""
    metadata: Any = error.get("metadata")
    raw: Any = metadata.get("raw") if is_object(metadata) else None
    if not isinstance(raw, str) or not raw:
        return ""
    return reason(raw.encode())[1] if raw.lstrip().startswith(("{", "[")) else raw

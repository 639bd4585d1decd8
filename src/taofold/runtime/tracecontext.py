"""In which trace of the application a run is started.

A run notes it in its settings, so that its spans hang there whenever and wherever they are sent.
OpenTelemetry is asked only if the application has loaded it.
"""

import sys
from contextvars import ContextVar
from typing import Any, Final

from taofold.core.traceparent import TraceContext, parse

TRACEPARENT: Final[ContextVar[str]] = ContextVar("taofold_traceparent", default="")
"""A W3C `traceparent` for runs started in this context, as from a request's header."""
SETTING: Final = "traceparent"
"""The key of `RunStarted.settings`."""


def current() -> TraceContext | None:
    """The span in which this code runs: `TRACEPARENT`, else OpenTelemetry's current span."""
    if given := TRACEPARENT.get():
        return parse(given)
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return TraceContext(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", bool(context.trace_flags & 1)
    )

"""The position of a run in an application's trace, from a header or from the current context.

W3C Trace Context, as text and as ids. OpenTelemetry is never imported: it is used only if the
application has loaded it. The spans of runs are in `telemetry`.
"""

import re
import sys
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """A span of an application's trace: 32 and 16 hex digits, and whether it is recorded.

    Its text is the `traceparent` of W3C Trace Context, https://www.w3.org/TR/trace-context/:

        00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
    """

    trace: str
    span: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{int(self.sampled):02x}"

    @classmethod
    def parse(cls, text: str) -> "TraceContext | None":
        """Returns the context of a `traceparent` header, or None if it is malformed.

        A future version may have more fields after those of version 00.
        """
        match = _TRACEPARENT.fullmatch(text.strip())
        if match is None:
            return None
        version, trace, span, flags, more = match.groups()
        # W3C: version ff is forbidden, 00 ends after the flags, and ids of zeros are invalid.
        if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
            return None
        return cls(trace, span, bool(int(flags, 16) & _SAMPLED))


TRACEPARENT: Final[ContextVar[str]] = ContextVar("taofold_traceparent", default="")
"""A W3C `traceparent` for runs started in this context, for example from a request's header."""
TRACE_SETTING: Final = "traceparent"
"""The key of `RunStarted.settings`."""


def current_trace() -> TraceContext | None:
    """Returns the current span: `TRACEPARENT`, else OpenTelemetry's current span."""
    if traceparent := TRACEPARENT.get():
        return TraceContext.parse(traceparent)
    # Not imported: if the application has not loaded OpenTelemetry, there is no span to find.
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return TraceContext(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", bool(context.trace_flags & 1)
    )

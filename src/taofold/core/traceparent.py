"""W3C Trace Context: where in an application's trace something happens, as text.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01

Pure. https://www.w3.org/TR/trace-context/#traceparent-header
"""

import re
from typing import Final, NamedTuple

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """A span of somebody's trace: 32 and 16 hex digits, and whether it is recorded."""

    trace: str
    span: str
    sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{int(self.sampled):02x}"


def parse(text: str) -> TraceContext | None:
    """The context that a `traceparent` header says, None if it is malformed.

    A version of the future may have more fields behind those of version 00.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    version, trace, span, flags, more = match.groups()
    # W3C: version ff is forbidden, 00 ends after the flags, and ids of zeros are invalid.
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    return TraceContext(trace, span, bool(int(flags, 16) & _SAMPLED))

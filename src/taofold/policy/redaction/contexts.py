"""Secrets that the text around them gives away: keys in PEM, headers, addresses, command lines.

Pure, and linear in the length of the text.
"""

import re
from collections.abc import Iterator
from typing import Final

from taofold.policy.redaction.assignments import worded
from taofold.policy.redaction.tokens import Span, solid

_HEADER: Final = r"[0-9A-Za-z+/_\-.=~|:]"
# A plain `find` of the hint comes first: expressions this broad would be slow on every text. Bounds
# like {0,16384} keep the search linear where an end is missing.
_PLACES: Final = (
    # where to look, in lower case; what stands there, with the secret as its group; is it drawn?
    (
        "-----begin",
        r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
        r"(?:(?:[^()-]|-(?!----)){0,16384}-----END[ A-Z0-9]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
        r"|(?:\s|\\[rn])*[0-9A-Za-z+/=\s\\:,\-]{40,16384})",
        False,
    ),
    ("bearer", rf"(?i:bearer)[ \t]+(?P<s>{_HEADER}{{12,4096}})", True),
    ("basic", r"(?i:basic)[ \t]+(?P<s>[0-9A-Za-z+/_\-]{8,4096}={0,2})", True),
    (
        "authorization",
        r"(?i:authorization)\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"']?(?:[A-Za-z0-9\-]{2,24}[ \t]+)?"
        rf"(?P<s>{_HEADER}{{12,4096}})",
        True,
    ),
    (
        "://",
        r"://(?P<s>[^\s/:@\"'<>]{0,64}"
        r":(?!(?:[0-9]{1,5}|[Pp]ass(?:word|wd)?|pw|secret|token|REDACTED|x+|\*+|\.+)@)"
        r"[^\s/@\"'<>]{3,256})@",
        False,
    ),
    ("://", r"://(?P<s>[0-9A-Za-z_\-]{20,256})@", True),
    (
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[0-9A-Za-z+/_\-]{20,400})",
        False,
    ),
    ("/api/webhooks/", r"/api/webhooks/(?P<s>[0-9]{15,22}/[0-9A-Za-z_\-]{30,100})", False),
    (
        "webhook.office.com/",
        r"webhook\.office\.com/(?P<s>webhookb2/[0-9A-Za-z@\-/]{30,400})",
        False,
    ),
    ("/signin/", r"/signin/(?P<s>[0-9A-Za-z_\-]{20,64})", True),
    (
        "curl ",
        r"(?i:curl) (?:(?!curl )[^\n]|\\\n){0,400}?(?:-u ?|--user[ =])[\"']?"
        r"(?P<s>[^\s:\"']{1,64}:[\"']?[^\s\"']{3,128})",
        False,
    ),
    ("login ", r"(?i:login) +\S{1,64}\s+(?i:password)\s+(?P<s>\S{3,128})", False),
    ("sig=", r"sig=(?P<s>[0-9A-Za-z%+/=]{20,100})", True),
)
PLACES: Final = tuple((hint, re.compile(shape), drawn) for hint, shape, drawn in _PLACES)


def placed(text: str, lower: str) -> Iterator[Span]:
    """Spans of secrets that their surroundings give away, in no order; `lower`: `text` lowered."""
    for hint, shape, drawn in PLACES:
        at = lower.find(hint)
        while at >= 0:
            match = shape.match(text, at)
            if match is not None:
                span = match.span("s" if shape.groupindex else 0)
                if not drawn or _drawn(text[slice(*span)]):
                    yield span
            at = lower.find(hint, match.end() if match else at + 1)


def _drawn(value: str) -> bool:
    """Is it no word, and no name in a program?"""
    return solid(value, 0, len(value)) and not worded(value)

"""Shows what a stream has said so far. For display only: never executed, never stored as final.

Knows nothing about how a stream is received.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from taofold.parsing.coercion import Misfit
from taofold.parsing.feedback import refusal
from taofold.parsing.fitting import fit
from taofold.parsing.outcome import Parsed, Repair, Unparsed
from taofold.parsing.spans import scan
from taofold.parsing.target import target_of

_MARK = (Repair("partial", "syntax", content=True, cost=100),)


def parse_partial(text: str, type_: Any) -> Parsed[Any] | Unparsed:
    """The value that a text shows so far.

    Returns:
        The typed value when what is there already satisfies the type, else plain JSON data with
        the members and the beginnings of strings that have arrived. It always carries the repair
        `partial`, so nothing that respects receipts can run it.
    """
    target = target_of(type_)
    found = scan(text, target.plan)
    span = found.cut or (found.spans[-1] if found.spans else None)
    if span is None:
        return refusal("no_candidate" if text.strip() else "empty", text)
    value = span.reading.value
    if span is found.cut:
        with suppress(
            ValueError, TypeError
        ):  # else what the reader understood, without the open string
            value = from_json(text[span.start :], allow_partial="trailing-strings")
    try:
        return Parsed(fit(target, value).value, _MARK)
    except Misfit:
        return Parsed(value, _MARK)

"""Records as displays show them, with guessed secrets masked; certain ones never reach the log.

The log keeps the output of models and tools unchanged, apart from certain secrets, because runs,
replays and files need it byte for byte. Log views, traces and exports pass through here. The answer
of a run, and calls to be approved, are shown unmasked because decisions depend on them. Pure.
"""

from operator import is_
from typing import Any, Final, TypeVar, cast

import msgspec

from taofold.core import events as e
from taofold.policy.redaction.redactor import Redactor

T = TypeVar("T")
_VIEW: Final = Redactor(guesses=True)
_EXACT: Final = frozenset(("output",))
"""Fields that hold the answer of a run."""


def shown(record: e.Record) -> e.Record:
    """Returns the record for displays: `Record.public` with guesses masked."""
    public = record.public
    event = shown_value(public.event)
    return public if event is public.event else e.Record(record.run, record.seq, record.at, event)


def shown_value(value: T) -> T:
    """Returns `value`, a struct or JSON, with guessed secrets masked; itself if there are none."""
    masked: T = _masked(value)
    return masked


def _masked(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        changed: dict[str, Any] = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            new = old if name in _EXACT else _masked(old)
            if new is not old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        parts = cast("tuple[Any, ...]", value)
        members = tuple(map(_masked, parts))
        return parts if all(map(is_, members, parts)) else members
    if isinstance(value, (str, dict, list)):
        return _VIEW.json(value)
    return value

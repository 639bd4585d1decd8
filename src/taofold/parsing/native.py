"""Reads the tool calls that a provider returns apart from the text.

Knows nothing about which tools exist.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from taofold.parsing.decision import arguments_of
from taofold.parsing.strict import is_finite
from taofold.parsing.turn import Call
from taofold.parsing.typed import is_cut


def read_call(
    name: str,
    arguments: str | dict[str, Any],
    id: str = "",  # noqa: A002
    *,
    finish_reason: str | None = None,
) -> Call:
    """Reads a provider's native tool call; unreadable arguments become `Call.error`.

    No text at all stands for no arguments, unless the output limit ended it (`finish_reason`).
    """
    if isinstance(arguments, str) and not arguments.strip() and is_cut(finish_reason):
        return Call(name, {}, "", id, (), f"the arguments of {name!r} were cut off: send it again")
    parameters, repairs, error = arguments_of(name, arguments, ())
    call = Call(name, parameters, "", id, repairs, error)
    return call if isinstance(arguments, str) else finite(call)  # what text holds is finite


def finite(call: Call) -> Call:
    """The call, or its refusal if it holds a number that JSON has not."""
    if is_finite(call.parameters):
        return call
    error = f"the arguments of {call.tool!r} hold a number that is not finite: JSON has none"
    return replace(call, parameters={}, error=error)

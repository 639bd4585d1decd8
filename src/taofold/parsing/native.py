"""Reads the tool calls that a provider returns apart from the text.

Knows nothing about which tools exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from taofold.parsing.decision import NAMELESS, arguments_of
from taofold.parsing.strict import is_finite
from taofold.parsing.turn import Call
from taofold.parsing.typed import is_cut

WHOLE: Final = "tool_calls"
"""The finish reason that says that the model has made its calls."""


def read_call(
    name: str,
    arguments: str | dict[str, Any],
    id: str = "",  # noqa: A002
    *,
    finish_reason: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> Call:
    """Reads a provider's native tool call; unreadable arguments become `Call.error`.

    No text at all stands for no arguments, unless the output limit ended it (`finish_reason`),
    or the tool takes some (`schema`) and the provider does not say that the calls are whole:
    then they were lost, and a call with nothing but defaults is not what the model asked for.
    """
    if not name.strip():
        return Call("", {}, "", id, (), f"{NAMELESS}: call one that is on offer, by its name")
    if isinstance(arguments, str) and not arguments.strip():
        if is_cut(finish_reason):
            lost = f"the arguments of {name!r} were cut off: send it again"
            return Call(name, {}, "", id, (), lost)
        if finish_reason != WHOLE and schema and schema.get("properties"):
            lost = f"no arguments of {name!r} arrived: send them, or {{}} to call it without any"
            return Call(name, {}, "", id, (), lost)
    parameters, repairs, error = arguments_of(name, arguments, ())
    call = Call(name, parameters, "", id, repairs, error)
    return call if isinstance(arguments, str) else finite(call)  # what text holds is finite


def finite(call: Call) -> Call:
    """The call, or its refusal if it holds a number that JSON has not."""
    if is_finite(call.parameters):
        return call
    error = f"the arguments of {call.tool!r} hold a number that is not finite: JSON has none"
    return replace(call, parameters={}, error=error)

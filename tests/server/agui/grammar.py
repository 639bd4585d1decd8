"""The order that AG-UI 1.0 demands of a run's events, as far as a reader can check it."""

from copy import deepcopy
from typing import Any

from ag_ui.core.events import BaseEvent, Event
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def wire(events: list[BaseEvent]) -> list[dict[str, Any]]:
    """Returns the events as sent. Each must also be valid for the protocol's own models."""
    sent = [event.model_dump(mode="json", by_alias=True) for event in events]
    for one in sent:
        again = _EVENT.validate_python(one)
        assert again.model_dump(mode="json", by_alias=True) == one
        assert not again.model_extra, f"fields unknown to the protocol: {one}"
    return sent


def check(events: list[dict[str, Any]]) -> None:
    """Raise AssertionError at the first event that may not stand where it stands."""
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    open_: dict[tuple[str, str], str] = {}
    children: set[str] = set()
    gone: set[str] = set()
    for place, event in enumerate(events):
        kind, child = event["type"], event.get("subagentRunId", "")
        assert (kind in ("RUN_FINISHED", "RUN_ERROR")) == (place == len(events) - 1), kind
        assert (kind == "RUN_STARTED") == (place == 0)
        if kind == "SUBAGENT_STARTED":
            assert child not in children | gone
            parent = event.get("parentSubagentRunId")
            assert parent is None or parent in children
            children.add(child)
            continue
        if kind in ("SUBAGENT_FINISHED", "SUBAGENT_ERROR"):
            assert child in children
            left = [key for key, owner in open_.items() if owner == child]
            assert not left, f"{child} leaves {left} open"
            children.remove(child)
            gone.add(child)
            continue
        assert not child or child in children, f"{kind} of {child}, which is not at work"
        _pair(open_, kind, event, child)
    if events[-1]["type"] == "RUN_FINISHED":
        assert not open_, f"still open: {open_}"
        assert not children


_PAIRS = {
    "STEP": ("stepName", "STARTED", "FINISHED"),
    "TEXT_MESSAGE": ("messageId", "START", "END"),
    "TOOL_CALL": ("toolCallId", "START", "END"),
    "REASONING": ("messageId", "START", "END"),
    "REASONING_MESSAGE": ("messageId", "START", "END"),
}


def _pair(open_: dict[tuple[str, str], str], kind: str, event: dict[str, Any], child: str) -> None:
    if kind == "TOOL_CALL_RESULT":
        return
    for family in sorted(_PAIRS, key=len, reverse=True):
        name, begin, end = _PAIRS[family]
        if not kind.startswith(f"{family}_"):
            continue
        key = (family, event[name] + (child if family == "STEP" else ""))
        part = kind.removeprefix(f"{family}_")
        if part == begin:
            assert key not in open_, f"{kind} twice for {key}"
            open_[key] = child
        else:
            assert open_.get(key) == child, f"{kind} for {key}, which is not open"
            if part == end:
                del open_[key]
        return


def types(events: list[dict[str, Any]], *without: str) -> list[str]:
    """Returns the types of the events in order, without state deltas and the given names."""
    return [e["type"] for e in events if e["type"] not in ("STATE_DELTA", *without)]


def apply(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The state that a client has after the events."""
    state: dict[str, Any] = {}
    for event in events:
        if event["type"] == "STATE_SNAPSHOT":
            state = deepcopy(event["snapshot"])
        if event["type"] == "STATE_DELTA":
            for operation in event["delta"]:
                state = _applied(state, deepcopy(operation))
    return state


def _applied(state: Any, operation: dict[str, Any]) -> Any:
    names = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
    if not names:
        return operation["value"]
    holder = state
    for name in names[:-1]:
        holder = holder[name]
    if operation["op"] == "remove":
        del holder[names[-1]]
    else:
        assert (names[-1] in holder) == (operation["op"] == "replace"), operation
        holder[names[-1]] = operation["value"]
    return state

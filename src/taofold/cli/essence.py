"""One event on one line: what happened, without the details. Pure."""

from typing import Any

from taofold.cli.clean import duration, line, number, parameters, value
from taofold.core import events as e


def kind(event: e.Event) -> str:
    """The event's name, as in its JSON form."""
    return str(event.__struct_config__.tag)


def essence(event: e.Event, width: int = 100) -> str:
    """The event in at most about `width` characters."""
    return line(_said(event), width)


def _said(event: e.Event) -> str:
    match event:
        case e.RunStarted():
            return f"{event.agent} ({event.strategy}) with {event.model}: {event.goal}"
        case e.Proposed():
            calls = "; ".join(f"{a.tool} {parameters(a.parameters, 60)}" for a in event.actions)
            return f"{event.thought.type}: {line(event.thought.content, 70)} → {calls}"
        case e.Decided():
            return _decided(event)
        case e.Observed():
            seen = event.observation
            said = seen.extraction or value(seen.result)
            return f"[{event.index}] {seen.status} {duration(seen.duration_ms)}: {said}"
        case e.Started():
            return f"[{event.index}]"
        case e.Replied():
            tokens = f"{number(event.usage.tokens)} tokens, {duration(event.ms)}"
            said = event.text or ", ".join(call.name for call in event.calls)
            return f"{tokens}{' (cached)' * event.cached}: {said}"
        case _:
            return _rest(event)


def _decided(event: e.Decided) -> str:
    by = "" if event.by == "policy" else f" by {event.decider}"
    return f"[{event.index}] {event.verdict}{by} (tier {event.tier}) {event.reason}"


def _rest(event: e.Event) -> str:
    match event:
        case e.RunFinished():
            said = event.error or ("" if event.output is None else value(event.output))
            return f"{event.status} ({event.stop_reason}) {said}"
        case e.Steered():
            return f"by {event.by}: {event.text}"
        case e.LimitHit():
            return f"{event.limit}{' (last turn)' if event.value < 0 else ''}"
        case e.Violated():
            return f"{event.rule}: {event.detail}"
        case e.Updated():
            return f"{event.name} = {value(event.value)}"
        case _:
            return _world(event)


def _world(event: Any) -> str:
    match event:
        case e.AskFailed():
            return f"{event.kind}: {event.message}"
        case e.Forked():
            return f"from {event.run} at {event.seq}"
        case e.Resumed():
            return f"epoch {event.epoch}"
        case e.Parked():
            return str(event.reason)
        case e.Rewound():
            return f"to {event.to}"
        case e.PromptChanged():
            return f"{event.recorded} → {event.requested}"
        case e.Cut():
            return f"{event.reason}: {event.messages} messages {event.detail}".rstrip()
        case e.Compacted():
            return f"up to step {event.upto}: {event.chars_before} → {event.chars_after} characters"
        case e.Noted():
            return f"{event.kind} {value(event.data)}"
        case e.DecisionRefused():
            return f"{event.id} by {event.by}: {event.why}"
        case _:
            return ""

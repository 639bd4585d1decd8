"""One iteration of a TAO log ⇄ one turn. It knows nothing about YAML or what is around it.

Read are both shapes of an action: `parameters` as a mapping, or the arguments beside `tool`.
"""

from typing import Any

from taofold.core.instant import iso
from taofold.core.trace import Call, Turn
from taofold.core.values import Action, Observation, Thought
from taofold.store.fields import Fault, Fields, Path, is_list, is_mapping
from taofold.store.imported import Writer, by_default_started


def write(turn: Turn) -> dict[str, Any]:
    """The turn as an iteration; what holds its default is left out."""
    told: dict[str, Any] = {"iteration": turn.number, "thought": _thought(turn)}
    if turn.calls and not turn.complete:
        told["interrupted"] = True
    actions = [_action(call, turn.at) for call in turn.calls]
    seen = [_observation(call) for call in turn.calls]
    if len(turn.calls) == 1:
        told["action"] = actions[0]
        if seen[0] is not None:
            told["observation"] = seen[0]
    elif turn.calls:
        told["actions"], told["observations"] = actions, seen
    return told


def _thought(turn: Turn) -> dict[str, Any]:
    thought = turn.thought
    told: dict[str, Any] = {"type": thought.type, "content": thought.content}
    if thought.confidence is not None:
        told["confidence"] = thought.confidence
    told |= without_empty(
        because=list(thought.because), critical=thought.critical, synthesized=thought.synthesized
    )
    return {**told, "timestamp": iso(turn.at)}


def _action(call: Call, proposed: int) -> dict[str, Any]:
    action = call.action
    told: dict[str, Any] = {"tool": action.tool, "parameters": action.parameters}
    told |= without_empty(
        rationale=action.rationale,
        id=action.id,
        repairs=list(action.repairs),
        guessed=action.guessed,
        error=action.error,
        effect=call.effect,
    )
    if call.started != by_default_started(call):
        told["started"] = call.started
    return {**told, "timestamp": iso(call.started_at if call.started else proposed)}


def _observation(call: Call) -> dict[str, Any] | None:
    seen = call.observation
    if seen is None:
        return None
    told = {"result": seen.result, "status": seen.status}
    told |= without_empty(
        extraction=seen.extraction,
        auto=seen.auto,
        options=list(seen.options),
        blob=seen.blob,
        refused=seen.refused,
        cut=seen.cut,
    )
    return {**told, "duration_ms": seen.duration_ms, "timestamp": iso(call.observed_at)}


def without_empty(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value}


def read(writer: Writer, fields: Fields, number: int) -> None:
    """Put one iteration on the record as turn `number`.

    Raises:
        Fault: a field is missing, unknown or of the wrong kind.
    """
    said = fields.whole("iteration", "iteration_number", default=number)
    if said != number:
        raise Fault(fields.path, f"is iteration {said} where {number} must follow: number from 1")
    fields.flag("interrupted")
    thought, at = _read_thought(writer, fields.take("thought"), number, (*fields.path, "thought"))
    calls = _read_calls(writer, fields, number, at)
    fields.close()
    writer.turn(number, at, thought, calls)


def _read_thought(writer: Writer, value: Any, number: int, path: Path) -> tuple[Thought, int]:
    if value is None:
        return Thought(""), writer.at
    fields = Fields({"content": value} if isinstance(value, str) else value, path)
    confidence = fields.number("confidence")
    thought = Thought(
        content=fields.text("content"),
        because=fields.numbers("because"),
        confidence=None if confidence is None else float(confidence),
        critical=fields.flag("critical"),
        synthesized=fields.flag("synthesized"),
    )
    thought = writer.typed(thought, fields.text("type"), number, (*path, "type"))
    at = fields.instant("timestamp", writer.at)
    fields.close()
    return thought, at


def _read_calls(writer: Writer, fields: Fields, number: int, at: int) -> list[Call]:
    actions = _listed(fields, "action", "actions")
    seen = _listed(fields, "observation", "observations")
    if len(seen) > len(actions):
        raise Fault(seen[len(actions)][1], "an observation without an action")
    calls: list[Call] = []
    for index, (value, path) in enumerate(actions):
        observation, observed_at = None, 0
        call = _read_action(value, path, at)
        if index < len(seen) and seen[index][0] is not None:
            shown, place = seen[index]
            observation, observed_at = _read_observation(
                writer, shown, place, number, call.started_at
            )
        calls.append(_settled(call, observation, observed_at, value))
    return calls


def _listed(fields: Fields, one: str, many: str) -> list[tuple[Any, Path]]:
    """The values under either key, each with its path."""
    key = many if fields.has(many) else one
    value = fields.take(one, many)
    if is_list(value):
        return [(item, (*fields.path, key, index)) for index, item in enumerate(value)]
    return [] if value is None else [(value, (*fields.path, key))]


def _read_action(value: Any, path: Path, at: int) -> Call:
    """The action; `started_at` is its time, whether it started or not."""
    if isinstance(value, str):
        return Call(Action("", error=f"names no tool: {value!r}"), started_at=at)
    fields = Fields(value, path)
    tool, rationale = fields.text("tool"), fields.text("rationale")
    time = fields.instant("timestamp", at)
    if not fields.has("parameters"):
        fields.take("parameters")
        return Call(Action(tool, fields.rest(), rationale), started_at=time)
    action = Action(
        tool=tool,
        parameters=fields.mapping("parameters"),
        rationale=rationale,
        id=fields.text("id"),
        repairs=fields.strings("repairs"),
        guessed=fields.flag("guessed"),
        error=fields.text("error"),
    )
    effect = fields.text("effect")
    fields.flag("started")
    fields.close()
    return Call(action, started_at=time, effect=effect)


def _settled(call: Call, observation: Observation | None, observed_at: int, value: Any) -> Call:
    """The call with its observation; whether it started stands in the document, or is likely."""
    whole = Call(call.action, observation, call.started_at, observed_at, effect=call.effect)
    started = by_default_started(whole)
    if is_mapping(value) and "parameters" in value:
        started = value.get("started", started)
    at = call.started_at if started else 0
    return Call(call.action, observation, at, observed_at, started=started, effect=call.effect)


def _read_observation(
    writer: Writer, value: Any, path: Path, number: int, at: int
) -> tuple[Observation, int]:
    fields = Fields(value if is_mapping(value) else {"result": value}, path)
    observation = Observation(
        result=fields.json("result"),
        status=writer.status(fields.text("status"), number, (*path, "status")),
        extraction=fields.text("extraction"),
        auto=fields.flag("auto"),
        duration_ms=float(fields.number("duration_ms") or 0),
        options=fields.strings("options"),
        blob=fields.text("blob"),
        refused=fields.text("refused"),
        cut=fields.flag("cut"),
    )
    time = fields.instant("timestamp", at)
    fields.close()
    return observation, time

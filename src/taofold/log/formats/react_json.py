"""The ReAct trace of the seed: `{steps: [{step, thought, action, action_input, observation}],
final_answer}`.

A batch is several entries with one step number. The format has no types, statuses, rationales or
times: an export loses them, and an import marks their absence. An entry without an action or an
observation is imported as a broken triplet.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.rule_names import INCOMPLETE, UNTYPED
from taofold.core.state import ending, live, opening
from taofold.core.trace import TracedCall, turns
from taofold.core.values import FINISH, Action, Observation, Thought
from taofold.log.formats import yaml_document as yaml
from taofold.log.formats.imported_turns import (
    STRATEGY,
    WITHOUT_ACTION,
    Gaps,
    RecordWriter,
    by_default_started,
    untimed,
)
from taofold.log.formats.yaml_document import DocumentFault, Fields, config_error

_ANSWERED: Final = "The trace ends with this answer."
_FINAL: Final = "final_answer"
_ABSENT: Final = object()


def dumps(records: Iterable[e.Record]) -> str:
    """Returns the complete steps of the run, and its output if it has one."""
    live_records = live(records)
    start = opening(live_records)
    steps = [
        {
            "step": turn.number,
            "thought": turn.thought.content,
            "action": call.action.tool,
            "action_input": call.action.parameters,
            "observation": call.observation.result,
        }
        for turn in turns(live_records)
        if turn.complete
        for call in turn.calls
        if call.observation is not None and not _closes(call)
    ]
    end = ending(live_records)
    answer = end.output if end is not None else None
    if start is not None and start.strategy == "flow" and is_object(answer):
        answer = answer.get("reasoning_answer", answer)
    trace: dict[str, Any] = {"steps": steps, _FINAL: answer}
    if start is not None and start.goal:
        trace = {"goal": start.goal, **trace}
    return msgspec.json.format(msgspec.json.encode(trace), indent=2).decode() + "\n"


def _closes(call: TracedCall) -> bool:
    """Returns whether the call only ends the work. Its answer is in `final_answer`."""
    return call.action.tool in (FINISH, "reason.react", "reason.plan") and (
        call.local or call.action.tool == FINISH
    )


def loads(text: str, *, run: str = "", at: int = 0, source: str = "react-json") -> list[e.Record]:
    """Returns synthetic records for a ReAct trace; all have the time `at`.

    Raises:
        ConfigError: The text is not such a trace; the path is `source` and the line.
    """
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"not readable JSON: {error}", path=source) from None
    writer = RecordWriter(run or "imported", at, strict=False)
    try:
        _trace(writer, Fields(document, ()))
    except DocumentFault as fault:
        raise config_error(fault, source, yaml.line(text, fault.path)) from None
    return writer.records


def _trace(writer: RecordWriter, fields: Fields) -> None:
    writer.put(e.RunStarted(goal=fields.text("goal"), strategy=STRATEGY))
    entries = [
        _entry(Fields(value, ("steps", index)), index + 1)
        for index, value in enumerate(fields.listed("steps"))
    ]
    answer = fields.json(_FINAL)
    fields.close()
    numbers: list[int] = []
    closed = False
    # Only adjacent entries with one number are a batch; a number that recurs is a new turn.
    for number, (_, batch) in enumerate(groupby(entries, key=lambda entry: entry.number), 1):
        group = list(batch)
        calls = [_timed(entry.call, writer.at) for entry in group if entry.call is not None]
        closed = any(call.action.tool == FINISH for call in calls)
        stray = tuple([result for entry in group for result in entry.stray])
        for _ in stray:
            writer.mended(INCOMPLETE, WITHOUT_ACTION, number, ("steps", number - 1))
        thought = Thought(group[0].thought, synthesized=True)
        gaps = replace(untimed(len(calls)), stray=stray)
        writer.turn(number, writer.at, thought, calls, gaps)
        numbers.append(number)
    if numbers:
        detail = "the format names no thought types"
        writer.put(e.Violated(key="", rule=UNTYPED, detail=detail, steps=tuple(numbers)))
    writer.lacks("", Gaps(log=True, outcome=answer is not None))
    if answer is not None:
        _answer(writer, len(numbers) + 1, answer, closed)


@dataclass(frozen=True)
class _Entry:
    number: int
    thought: str
    call: TracedCall | None
    stray: tuple[Any, ...] = ()
    """The observation, if there is no action."""


def _entry(fields: Fields, position: int) -> _Entry:
    number = fields.whole("step", default=position)
    thought = fields.text("thought")
    acted, tool = fields.has("action"), fields.text("action")
    document = fields.json("action_input")
    parameters: dict[str, Any] = (
        document if is_object(document) else {} if document is None else {"input": document}
    )
    # A tool may return null. A missing key is an observation that was never made.
    observed = fields.take("observation", default=_ABSENT) is not _ABSENT
    result = fields.json("observation")
    fields.close()
    if not acted and not parameters:
        return _Entry(number, thought, None, (result,) if observed else ())
    action = Action(FINISH if tool == _FINAL else tool, parameters)
    return _Entry(number, thought, TracedCall(action, Observation(result) if observed else None))


def _timed(call: TracedCall, at: int) -> TracedCall:
    started = by_default_started(call)
    observed_at = 0 if call.observation is None else at
    return TracedCall(
        call.action, call.observation, at if started else 0, observed_at, started=started
    )


def _answer(writer: RecordWriter, number: int, answer: Any, closed: bool) -> None:
    """Writes the end of the run, with a closing step if the trace has none (so that R2 holds)."""
    # R2 requires an action after each thought; an answer without one would break it on import.
    if not closed:
        thought = Thought(_ANSWERED, type="synthesis", synthesized=True)
        action = Action(FINISH, {"answer": answer})
        call = TracedCall(action, Observation(answer), observed_at=writer.at)
        writer.turn(number, writer.at, thought, [call], untimed(1))
    writer.put(
        e.RunFinished(status="finished", stop_reason="final_answer", success=True, output=answer)
    )

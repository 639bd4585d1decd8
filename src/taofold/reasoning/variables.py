"""The state variables and the JSON-lines trace of reasoning, as projections of the log.

They are the same on success and failure, live and from an old log, because nothing is stored for
them. The names come from the first version (`reasoning_trace`, `react_steps`, `improvement_history`
…).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from taofold.core import events as e
from taofold.core.json_values import is_object
from taofold.core.state import ending, live, opening
from taofold.core.trace import TracedCall, TracedTurn, TraceSpan, trace, turns
from taofold.core.values import RESERVED

_VERSIONS: Final = ("draft", "revise")
_ANSWERS: Final = ("finish", "synthesize", *_VERSIONS, "solve")


def variables(records: Iterable[e.Record]) -> dict[str, Any]:
    """Returns the reasoning variables of a run, finished or not.

    Always present: `reasoning_trace`, `reasoning_thinking`, `reasoning_answer` (None without one),
    `reasoning_success`, `reasoning_error`. The variables of a strategy are present if the run used
    it, with empty values if it did not get that far.
    """
    # Without rewound records.
    current = live(records)
    start = opening(current)
    steps = turns(current)
    end = ending(current)
    variables: dict[str, Any] = {
        "reasoning_trace": trace_entries(current),
        "reasoning_thinking": _thinking(steps),
        "reasoning_answer": None,
        "reasoning_success": False,
        "reasoning_error": "",
    }
    if end is not None:
        variables["reasoning_answer"] = end.output
        variables["reasoning_success"] = end.success
        variables["reasoning_error"] = end.error

    names = {call.action.tool for turn in steps for call in turn.calls if call.local}
    used = start.strategy if start is not None else ""
    for strategy, marks, project in _PROJECTIONS:
        # Also if the strategy was nested in another.
        if used == strategy or names & marks:
            variables |= project(steps)

    variables |= _stopped(current)
    if used == "react" or any([not call.local for turn in steps for call in turn.calls]):
        variables["react_steps"] = react_steps(steps)
    return variables


def trace_entries(records: Iterable[e.Record]) -> list[dict[str, Any]]:
    """Returns the trace as plain JSON, each branch in one piece."""
    # A stable sort by key: concurrent branches are listed one after another.
    return [msgspec.to_builtins(entry) for entry in sorted(trace(records), key=_place)]


def _place(entry: TraceSpan) -> tuple[int, ...]:
    """Returns the sort key of an entry: the place of its effect, branches in order."""
    return tuple([int(part) for part in entry.key.split(".")]) if entry.key else ()


def trace_ndjson(records: Iterable[e.Record]) -> str:
    """Returns the same trace as JSON lines."""
    encode = msgspec.json.encode
    return "".join([encode(entry).decode() + "\n" for entry in trace_entries(records)])


def react_steps(all_turns: Sequence[TracedTurn]) -> list[dict[str, Any]]:
    """Returns the tool calls in the documented form; a batch is several entries with one number."""
    return [
        {
            "step": turn.number,
            "thought": turn.thought.content,
            "action": call.action.tool,
            "action_input": call.action.parameters,
            "observation": None if call.observation is None else call.observation.result,
        }
        for turn in all_turns
        for call in turn.calls
        if not call.local
    ]


def _own(all_turns: Sequence[TracedTurn], *names: str) -> list[tuple[TracedTurn, TracedCall]]:
    """Returns the strategy's own named steps, in order, with their only call."""
    return [
        (turn, turn.calls[0])
        for turn in all_turns
        if turn.calls and turn.calls[0].action.tool in names
        # Excludes tools that happen to have such a name.
        if turn.calls[0].local or turn.calls[0].action.tool in RESERVED
    ]


def _thinking(all_turns: Sequence[TracedTurn]) -> str:
    """Returns the thinking behind the answer: that of the newest step with its own thought."""
    for turn, _ in reversed(_own(all_turns, *_ANSWERS)):
        if not turn.thought.synthesized:
            return turn.thought.content
    return ""


def _result(call: TracedCall) -> Any:
    return None if call.observation is None else call.observation.result


def _ok(call: TracedCall) -> bool:
    return call.observation is not None and call.observation.status == "success"


def improvement_history(steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns `improvement_history` and `rounds_completed` of a self-correction.

    A version has `round`, `version` (0 is the draft), `step`, `output` and `thinking`, and of its
    critique `improvement_score`, `issues_found` and `suggestions`. A critic or a reviser that
    failed has an entry with `round`, `step` and `error`.

    Args:
        steps: `action`, `action_input`, `observation`, `status` and `thought` of each step. Steps
            with other names are skipped.
    """
    history: list[dict[str, Any]] = []
    versions: dict[int, dict[str, Any]] = {}
    done = 0
    for step in steps:
        name, parameters, result = step["action"], step["action_input"], step["observation"]
        if name != "critique" and name not in _VERSIONS:
            continue
        if step["status"] != "success":
            history.append({"round": parameters.get("round"), "step": name, "error": result})
        elif name == "critique":
            versions.get(parameters.get("version"), {}).update(
                improvement_score=result["score"],
                issues_found=result["issues"],
                suggestions=result["suggestions"],
            )
        else:
            done += name == "revise"
            entry = {"round": parameters.get("round"), "version": len(versions), "step": name}
            entry |= {"output": result, "thinking": step["thought"]}
            versions[len(versions)] = entry
            history.append(entry)
    return {"improvement_history": history, "rounds_completed": done}


def _corrected(all_turns: Sequence[TracedTurn]) -> dict[str, Any]:
    return improvement_history(
        {
            "action": call.action.tool,
            "action_input": call.action.parameters,
            "observation": _result(call),
            "status": "success" if _ok(call) else "failure",
            "thought": turn.thought.content,
        }
        for turn, call in _own(all_turns, "critique", *_VERSIONS)
    )


def _stopped(kept: Iterable[e.Record]) -> dict[str, Any]:
    """Returns the best version and the stop reason that a self-correction noted at its end."""
    for record in kept:
        if isinstance(record.event, e.Noted) and record.event.kind == "corrected":
            data = record.event.data
            return {"best_version": data["best"], "stopped": data["stopped"]}
    return {}


def _decomposed(all_turns: Sequence[TracedTurn]) -> dict[str, Any]:
    """Returns the parts of the whole problem with their answers, and the depth reached."""
    splits = {
        call.action.parameters.get("path", ""): call
        for _, call in _own(all_turns, "decompose")
        if _ok(call) and _result(call)
    }
    solved = {call.action.parameters.get("path"): (t, call) for t, call in _own(all_turns, "solve")}
    top = splits.get("")
    parts = cast("list[dict[str, Any]]", _result(top)) if top is not None else []
    depth = max([call.action.parameters.get("level", 0) for call in splits.values()], default=0)
    answers = [_sub_answer(part, solved.get(part["id"])) for part in parts]
    return {"sub_problems": parts, "sub_answers": answers, "depth_used": depth}


def _sub_answer(
    part: dict[str, Any], solved: tuple[TracedTurn, TracedCall] | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": part["id"], "description": part["description"]}
    if solved is None:
        return entry | {"answer": None, "error": "not solved"}
    turn, call = solved
    if not _ok(call):
        return entry | {"answer": None, "error": _result(call)}
    thinking = "" if turn.thought.synthesized else turn.thought.content
    return entry | {"answer": _result(call), "reasoning": thinking}


def _planned(all_turns: Sequence[TracedTurn]) -> dict[str, Any]:
    """Returns the plans, the results of their tasks, and the evaluator's verdicts."""
    # TAgent's action of that name returns a list of steps, and fails if no plan could be read.
    outcomes = [_result(call) for _, call in _own(all_turns, "plan") if _ok(call)]
    plans = [plan["tasks"] if is_object(plan) else plan for plan in outcomes]
    results = {
        call.action.id: {
            "tool": call.action.tool,
            "status": call.observation.status if call.observation else "interrupted",
            "output": _result(call),
        }
        for turn in all_turns
        for call in turn.calls
        if call.action.id and call.action.tool not in RESERVED
    }
    verdicts = [_result(call) for _, call in _own(all_turns, "evaluate")]
    return {"plans": plans, "task_results": results, "evaluations": verdicts}


_PROJECTIONS: Final[
    tuple[tuple[str, frozenset[str], Callable[[Sequence[TracedTurn]], dict[str, Any]]], ...]
] = (
    ("self_correct", frozenset({"critique", *_VERSIONS}), _corrected),
    ("decompose", frozenset({"decompose", "synthesize"}), _decomposed),
    ("plan", frozenset({"plan", "evaluate"}), _planned),
)

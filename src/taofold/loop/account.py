"""What the log of an iteration's run says, for the loop's own record of it. Pure.

A model's words are reported; nothing here decides anything.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from taofold.core import events as run
from taofold.core.state import RunState, fold, live
from taofold.core.text import clip, key_line
from taofold.core.values import FINISH, Action, Observation, Step, Value
from taofold.loop.events import FailedAction
from taofold.loop.values import Spent

COMMANDS: Final = frozenset({"run_command"})
"""Tools that execute something."""
_SAID: Final = 4000
_SHOWN: Final = 160
_MOST: Final = 20


class Account(Value, frozen=True):
    """What an iteration's run did."""

    status: str = ""
    stop_reason: str = ""
    said: str = ""
    confidence: float | None = None
    failed: tuple[FailedAction, ...] = ()
    executed: bool = False
    tools: dict[str, int] = {}
    spent: Spent = Spent()


def account(records: Sequence[run.Record]) -> Account:
    """Read the log of a run, finished or not."""
    if not records:
        return Account(status="failed", stop_reason="error", said="the run left no log")
    state = fold(records)
    counted = live(list(records))
    steps = tuple(state.steps)
    sure = [step.thought.confidence for step in steps if step.thought.confidence is not None]
    return Account(
        status=state.status,
        stop_reason=state.stop_reason or state.waiting_for,
        said=_said(state, counted),
        confidence=sure[-1] if sure else None,
        failed=_failed(steps),
        executed=_executed(steps, state),
        tools=dict(Counter([a.tool for step in steps for a in step.actions if a.tool != FINISH])),
        spent=Spent(
            state.usage,
            len(steps),
            state.model_calls + state.child_model_calls,
            state.tool_calls + state.child_tool_calls,
            state.active_ms,
        ),
    )


def _said(state: RunState, records: Sequence[run.Record]) -> str:
    output = state.output
    if output is not None:
        answer = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        return answer[:_SAID]
    ended = [record.event for record in records if isinstance(record.event, run.RunFinished)]
    return (state.error or (ended[-1].error if ended else ""))[:_SAID]


def _calls(steps: Sequence[Step]) -> list[tuple[Action, Observation]]:
    return [pair for step in steps for pair in zip(step.actions, step.observations, strict=False)]


def _failed(steps: Sequence[Step]) -> tuple[FailedAction, ...]:
    """Actions that did not do what they were for. Commands that found failing tests are none."""
    # A dict for its order: the same failure counts once, at its first place.
    failures: dict[FailedAction, None] = {}
    for action, observation in _calls(steps):
        if action.tool in COMMANDS or action.tool == FINISH:
            continue
        if observation.status in ("failure", "timeout"):
            failures[FailedAction(action.tool, _short(action.parameters), _why(observation))] = None
    return tuple(failures)[-_MOST:]


def _why(observation: Observation) -> str:
    result = observation.result if isinstance(observation.result, str) else observation.refused
    reason = observation.extraction or result
    return key_line(reason or observation.status, failed=True)[:_SHOWN]


def _short(parameters: dict[str, Any]) -> str:
    return clip(json.dumps(parameters, ensure_ascii=False), _SHOWN)


def _executed(steps: Sequence[Step], state: RunState) -> bool:
    """Did a command run after the last call that may have changed something?"""
    started = state.started
    effects: dict[str, str] = {} if started is None else started.settings.get("effects", {})
    ran = changed = -1
    for number, (action, observation) in enumerate(_calls(steps)):
        # A refused action never ran, whatever its tool is.
        if observation.refused:
            continue
        if action.tool in COMMANDS:
            ran = number
        # A tool without a declared effect counts as reading.
        elif effects.get(action.tool, "read") != "read":
            changed = number
    # By position, not by time: actions of one step run at the same time.
    return ran > changed

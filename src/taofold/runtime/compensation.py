"""Undoing effects outside of the files, when a run is rewound.

A tool may have a function that undoes a call (`compensate=`). It is asked about like a call, run at
most once, and recorded before and after. The last call is undone first. An undoing that was
interrupted is never tried again: it may have happened.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.file_states import OutsideEffect
from taofold.core.json_values import copied
from taofold.core.text import error_text, utf8
from taofold.core.values import Tier
from taofold.foreign_code import contained
from taofold.policy.redaction import Redactor
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, Approver, Decision
from taofold.runtime.time_travel import PastStep
from taofold.tools import Tool
from taofold.tools.threads import WORKERS

Append = Callable[[e.Event], Awaitable[None]]
"""Appends an event to the run, durable when it returns."""
_ALLOWS: Final = ("allow", "approve")


def tool_of(effect: OutsideEffect, tools: Mapping[str, Tool]) -> Tool | None:
    """Returns the tool of a call, also of one that a child run made; None if it is not certain.

    Args:
        effect: The call.
        tools: The tools of the rewound run's agent.
    """
    for name in effect.path:
        caller = tools.get(name)
        if caller is None or caller.agent is None:
            return None
        tools = _tools_of(caller.agent)
    return tools.get(effect.action.tool)


def _tools_of(agent: Any) -> dict[str, Tool]:
    """Returns the tools of an agent and its team, without names that several of them have."""
    found: dict[str, list[Tool]] = {}
    for member in agent.team.values():
        for name, tool in member.toolset.items():
            found.setdefault(name, []).append(tool)
    return {name: tools[0] for name, tools in found.items() if len(tools) == 1}


def undoable(effect: OutsideEffect, run: str, tools: Mapping[str, Tool]) -> bool:
    """Returns whether the effect can be undone: the whole call is known, and its tool undoes it."""
    tool, seen = tool_of(effect, tools), effect.observation
    return (
        (effect.run == run or bool(effect.path))
        and effect.undo == ""
        and tool is not None
        and tool.compensate is not None
        and seen is not None
        and seen.status == "success"
        and not (seen.masked or seen.cut)
    )


async def compensate(
    past: PastStep,
    tools: Mapping[str, Tool],
    approve: Approver,
    append: Append,
    redactor: Redactor,
) -> tuple[OutsideEffect, ...]:
    """Undoes the effects after a step, also of child runs, the last one first.

    Returns those that stay. All events are recorded in the run that is rewound.

    Args:
        past: The step, of a run that is rewound and has no driver.
        tools: The tools of the run's agent.
        approve: Decides about each of them.
        append: Appends the events.
        redactor: Removes secrets from errors.
    """
    kept: list[OutsideEffect] = []
    # By time, as the events of child runs have numbers of their own; the list is in order, too.
    ordered = sorted(past.effects, key=lambda it: it.at)
    for effect in reversed(ordered):
        tool = tool_of(effect, tools)
        if tool is None or not undoable(effect, past.run, tools):
            kept.append(effect)
            continue
        event = e.Compensated(
            key=effect.key,
            index=effect.index,
            start=effect.seq,
            status="asked",
            run="" if effect.run == past.run else effect.run,
            call=utf8(effect.name),
        )
        try:
            answer = approve(_question(effect, tool))
            decision: Any = await answer if inspect.isawaitable(answer) else answer
        except Park:
            kept.append(effect)  # a missing answer is no decision
            continue
        allowed, by = _allowed(decision)
        if not allowed:
            await append(_with(event, "declined", by))
            kept.append(effect)
            continue
        # Before the call: after a crash it is known that it may have happened.
        await append(_with(event, "started", by))
        try:
            await _undo(tool, effect)
        except Exception as error:  # noqa: BLE001 - of a foreign function: recorded, and shown
            await append(_with(event, "failed", by, redactor.text(error_text(error))))
            kept.append(effect)
            continue
        await append(_with(event, "done", by))
    return tuple(reversed(kept))


async def _undo(tool: Tool, effect: OutsideEffect) -> None:
    undo, seen = tool.compensate, effect.observation
    if undo is None or seen is None:
        return
    arguments = copied(effect.action.parameters), copied(seen.result)
    with contained():
        async with asyncio.timeout(tool.timeout):
            if inspect.iscoroutinefunction(undo) or not tool.thread:
                result = undo(*arguments)
            else:
                result = await WORKERS.run(undo, *arguments)
            if inspect.isawaitable(result):
                await result


def _with(event: e.Compensated, status: str, by: str, why: str = "") -> e.Compensated:
    return replace(event, status=status, by=by, why=why)


def _question(effect: OutsideEffect, tool: Tool) -> Approval:
    return Approval(
        id=f"{effect.run}:{effect.seq}",
        run=effect.run,
        key=effect.key,
        index=effect.index,
        action=effect.action,
        tier=Tier.CONFIRM,
        reason="it undoes an effect",
        preview=f"undo {effect.line}",
        digest=tool.definition,
        policy="",
        requester="",
        asked_at=0,
        tool=tool,
    )


def _allowed(decision: Any) -> tuple[bool, str]:
    """Returns whether an approver allows it, and who decided."""
    if isinstance(decision, list | tuple):
        answers = cast("Sequence[Any]", decision)
        decision = answers[0] if answers else False
    if isinstance(decision, Decision):
        return decision.verdict in _ALLOWS and decision.parameters is None, decision.by
    return decision is True, "local"

"""`RemoteTask`: a call of an MCP server that became a task there, followed until it has ended.

A server of the era of 2026 may answer any call with a task's id instead of a result, and is then
asked for it (`tasks/get`), told the answers to its questions (`tasks/update`), or told that nobody
waits any more (`tasks/cancel`). The id is put on record before the first look at the task, so that
it is found again after a crash.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from taofold.bridges.mcp.client.connection import ServerConnection, Unreachable
from taofold.bridges.mcp.client.questions import (
    KEY,
    Ask,
    PendingQuestions,
    Sample,
    ServerInputs,
    put,
    questions_of,
)
from taofold.bridges.mcp.sdk import TASK, code, load, messages
from taofold.core.json_values import is_object
from taofold.core.text import clip, visible
from taofold.tools import RunContext

QUICK_S: Final = 0.05
SLOW_S: Final = 30.0
"""Seconds between two looks at a task, at least and at most, whatever the server suggests."""
USUAL_S: Final = 1.0
"""The most of them if it suggests nothing."""
MISSES: Final = 10
"""So often in a row the server may be away before a task is given up; a minute at most."""
_LEAVE_S: Final = 5.0
_SHOWN: Final = 500
"""Characters of what a task says of its state."""


def task_of(ctx: RunContext[Any]) -> str:
    """The id of the task that this very call became in an earlier life; "" if it became none."""
    state: Any = None if ctx.answer is None else ctx.answer.state
    questions: Any = state.get(KEY) if is_object(state) else None
    if is_object(questions) and questions.get(TASK):
        return str(questions[TASK])
    stored: Any = ctx.kept
    return str(stored.get(TASK, "")) if is_object(stored) else ""


class TaskGone(Exception):
    """The task gave no result. The message is for the model."""


class RemoteTask:
    """A task of the server `name`, followed until it has ended.

    Whoever cancels `ended` at `until` (of the monotonic clock) or later has lost patience, and the
    task is cancelled too.
    """

    def __init__(
        self,
        name: str,
        connection: ServerConnection,
        task: str,
        until: float,
        offer: ServerInputs = ServerInputs(),
        sample: Sample | None = None,
    ) -> None:
        self.name, self.id = name, task
        self._connection, self._until = connection, until
        self._offer, self._sample = offer, sample
        self._answered: set[str] = set()

    async def ended(
        self, report: Callable[[str], None], ask: Ask | None, question: PendingQuestions | None
    ) -> Any:
        """The result of the call, once the task has one.

        `question` holds what a person has answered since the task asked.

        Raises:
            InputRequired: the task asks, and nobody is there to answer.
            Unaskable: it asks for what must not be asked.
            TaskGone: it failed or was cancelled, or the server does not know it.
            Unreachable: the server stays away.
        """
        try:
            return await self._followed(report, ask, question)
        except asyncio.CancelledError:
            # A deadline: nobody will ask for the result. If the process stops instead, the task
            # works on, and the run that is resumed asks for it again.
            if monotonic() >= self._until:
                with suppress(Exception):
                    async with asyncio.timeout(_LEAVE_S):
                        await self._send("tasks/cancel", "done")
            raise

    async def _followed(
        self, report: Callable[[str], None], ask: Ask | None, question: PendingQuestions | None
    ) -> Any:
        if question is not None:
            await self._answer(question)
        pause, last_report = QUICK_S, ""
        while True:
            status = await self._seen()
            message = visible(clip(status.status_message or "", _SHOWN))
            if message and message != last_report:
                last_report = message
                report(f"{message}\n")
            match status.status:
                case "completed":
                    return load("mcp.types").CallToolResult.model_validate(status.result or {})
                case "failed":
                    reason = _reason(status) or message or "no reason"
                    raise TaskGone(f"the server {self.name!r}: the task failed: {reason}")
                case "cancelled":
                    raise TaskGone(f"the server {self.name!r} cancelled the task {message}".strip())
                case "input_required":
                    if await self._asked(status.task_requests or {}, ask):
                        pause = QUICK_S
                case _:
                    pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, _longest_pause(status.poll_interval_ms))

    async def _asked(self, requests: Mapping[str, Any], ask: Ask | None) -> bool:
        """Put what the task wants to know to a person; False if it is all answered already."""
        # What was answered may be listed until the server has looked at it.
        asks = {key: whole for key, whole in requests.items() if key not in self._answered}
        if not asks:
            return False
        question = questions_of(self.name, asks, self._offer, task=self.id)
        if ask is None:
            question.next()
        else:
            begin = monotonic()
            await put(question, ask)
            self._until += monotonic() - begin  # the deadline waits for a person, too
        await self._answer(question)
        return True

    async def _answer(self, question: PendingQuestions) -> None:
        """Tell the server what a person has answered."""
        responses = await question.responses(self._sample)
        await self._send("tasks/update", "done", inputResponses=responses)
        self._answered |= set(question.done)

    async def _seen(self) -> Any:
        """The task as the server sees it now, also across a connection that breaks."""
        for miss in range(MISSES):
            try:
                return await self._send("tasks/get", "seen")
            except Unreachable:
                # Asking again changes nothing there, so no doubt arises from it.
                if miss == MISSES - 1:
                    raise
                await asyncio.sleep(min(QUICK_S * 4 * 2**miss, USUAL_S * 10))
        raise AssertionError("unreachable")

    async def _send(self, method: str, result: str, **more: Any) -> Any:
        models = messages()
        request = models["request"](method=method, params={"taskId": self.id, **more})
        try:
            return await self._connection.use(
                lambda session: session.inner.send_request(request, models[result])
            )
        except Unreachable:
            raise
        except Exception as error:
            number = code(error)
            kind = type(error).__name__ if number is None else f"error {number}"
            raise TaskGone(
                f"the server {self.name!r} does not tell what became of the task {self.id[:80]!r}: "
                f"{kind}: {clip(str(error), 500)}; it may have happened"
            ) from error


def _reason(status: Any) -> str:
    """Why the task failed, in the server's words; "" if it says nothing."""
    fault: Mapping[str, Any] = status.error or {}
    return str(fault.get("message", ""))[:2000]


def _longest_pause(suggested_ms: float | None) -> float:
    """Seconds between two looks at a task at most: what the server suggests, within our bounds."""
    suggested = USUAL_S if not suggested_ms or suggested_ms < 0 else suggested_ms / 1000
    return max(QUICK_S, min(suggested, SLOW_S))

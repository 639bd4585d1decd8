"""`RemoteTask`: follows a call that an MCP server turned into a task.

A server of the 2026 protocol may answer any call with a task id instead of a result. The client
then polls the task (`tasks/get`), sends answers to its questions (`tasks/update`), or cancels it
(`tasks/cancel`). The id is recorded before the first poll, so that the task is found after a crash.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from taofold.bridges.mcp.client.connection import ServerConnection, Unreachable
from taofold.bridges.mcp.client.questions import (
    KEY,
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
"""Minimum and maximum seconds between two polls of a task."""
USUAL_S: Final = 1.0
"""Maximum seconds between two polls if the server suggests none."""
MISSES: Final = 10
"""Failed polls in a row before a task is given up; at most a minute."""
_LEAVE_S: Final = 5.0
_SHOWN: Final = 500
"""Maximum characters of a task's status message."""


def task_of(ctx: RunContext[Any]) -> str:
    """Returns the id of the task that this call became before a resume; "" if none."""
    state: Any = None if ctx.answer is None else ctx.answer.state
    questions: Any = state.get(KEY) if is_object(state) else None
    if is_object(questions) and questions.get(TASK):
        return str(questions[TASK])
    stored: Any = ctx.kept
    return str(stored.get(TASK, "")) if is_object(stored) else ""


class TaskGone(Exception):
    """The task gave no result. The message is for the model."""


class RemoteTask:
    """A task of the server `name`.

    Cancelling `ended` at `until` (monotonic clock) or later is a timeout, which also cancels the
    task.
    """

    def __init__(
        self,
        name: str,
        connection: ServerConnection,
        task: str,
        until: float,
        offer: ServerInputs,
    ) -> None:
        self.name, self.id = name, task
        self._connection, self._until = connection, until
        self._offer = offer
        self._answered: set[str] = set()

    async def ended(self, ctx: RunContext[Any], question: PendingQuestions | None) -> Any:
        """Waits for the task and returns the result of the call.

        `question` holds the user's answers since the task asked.

        Raises:
            InputRequired: The task asks, and no user is present.
            Unaskable: The task asks for input that is not allowed.
            TaskGone: The task failed, was cancelled or is unknown.
            Unreachable: The server stays unreachable.
        """
        try:
            return await self._followed(ctx, question)
        except asyncio.CancelledError:
            # After the deadline the result is not needed. If the process stops instead, the task
            # continues, and the resumed run polls it again.
            if monotonic() >= self._until:
                with suppress(Exception):
                    async with asyncio.timeout(_LEAVE_S):
                        await self._send("tasks/cancel", "done")
            raise

    async def _followed(self, ctx: RunContext[Any], question: PendingQuestions | None) -> Any:
        if question is not None:
            await self._answer(question, ctx.sample)
        pause, last_report = QUICK_S, ""
        while True:
            status = await self._seen()
            message = visible(clip(status.status_message or "", _SHOWN))
            if message and message != last_report:
                last_report = message
                ctx.report(f"{message}\n")
            match status.status:
                case "completed":
                    return load("mcp.types").CallToolResult.model_validate(status.result or {})
                case "failed":
                    reason = _reason(status) or message or "no reason"
                    raise TaskGone(f"the server {self.name!r}: the task failed: {reason}")
                case "cancelled":
                    raise TaskGone(f"the server {self.name!r} cancelled the task {message}".strip())
                case "input_required":
                    if await self._asked(status.task_requests or {}, ctx):
                        pause = QUICK_S
                case _:
                    pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, _longest_pause(status.poll_interval_ms))

    async def _asked(self, requests: Mapping[str, Any], ctx: RunContext[Any]) -> bool:
        """Asks the user the task's questions. Returns False if all are answered."""
        # Answered questions may stay listed until the server reads the answers.
        asks = {key: whole for key, whole in requests.items() if key not in self._answered}
        if not asks:
            return False
        question = questions_of(self.name, asks, self._offer, task=self.id)
        if ctx.ask is None:
            question.next()
        else:
            begin = monotonic()
            await put(question, ctx.ask)
            self._until += monotonic() - begin  # the time of the user's answer does not count
        await self._answer(question, ctx.sample)
        return True

    async def _answer(self, question: PendingQuestions, sample: Sample | None) -> None:
        """Sends the user's answers to the server."""
        responses = await question.responses(sample)
        await self._send("tasks/update", "done", inputResponses=responses)
        self._answered |= set(question.done)

    async def _seen(self) -> Any:
        """Polls the task; retries after a lost connection."""
        for miss in range(MISSES):
            try:
                return await self._send("tasks/get", "seen")
            except Unreachable:
                # A poll changes nothing, so it can be repeated.
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
    """Returns the server's reason for the failure of the task; "" if it has none."""
    fault: Mapping[str, Any] = status.error or {}
    return str(fault.get("message", ""))[:2000]


def _longest_pause(suggested_ms: float | None) -> float:
    """Returns the maximum seconds between two polls: the server's suggestion within limits."""
    suggested = USUAL_S if not suggested_ms or suggested_ms < 0 else suggested_ms / 1000
    return max(QUICK_S, min(suggested, SLOW_S))

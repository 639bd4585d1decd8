"""`RunTasks`: runs that outlive a request, as tasks of the MCP extension.

A client that lost a response polls it by the run's id. A task's state comes from the log, so it
survives a restart of this process, which then resumes the run. `server` decides which requests
become tasks.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from mcp.types import ElicitRequest, ElicitRequestFormParams, EmptyResult, RequestParams
from pydantic import Field

from taofold.bridges.mcp.sdk import EXTENSION, TASK
from taofold.bridges.mcp.server.offers import Offers
from taofold.bridges.mcp.server.translation import (
    answer_form,
    final_result,
    news_of,
    question_text,
)
from taofold.core.errors import Conflict, Refused
from taofold.core.happenings import Happening, Progress
from taofold.core.state import ENDED
from taofold.core.text import iso
from taofold.log.log import RunRow
from taofold.runtime import control
from taofold.runtime import run as runs
from taofold.runtime.endings import RESUMABLE
from taofold.runtime.setup import Approval

SOON_S: Final = 1.0
"""Seconds for which a call stays open. A longer run becomes a task."""
LOOK_MS: Final = 1000
"""Suggested milliseconds between two polls of a task."""
_MESSAGE: Final = 200


class TaskParams(RequestParams):
    """Parameters of every request about a task."""

    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(None, alias="inputResponses")


def takes_tasks(context: Any) -> bool:
    """Returns whether the client supports tasks."""
    able = context.session.client_capabilities
    extensions: Mapping[str, Any] = getattr(able, "extensions", None) or {}
    return str(context.protocol_version) >= "2026" and EXTENSION in extensions


class RunTasks:
    """The runs that this process drives for tasks."""

    def __init__(self) -> None:
        self._driven: dict[str, asyncio.Task[Any]] = {}
        self._news: dict[str, str] = {}
        """Last progress message of each driven run."""
        self._asked: dict[str, tuple[int, list[Approval]]] = {}
        """Open questions of each waiting run, with its number of events when they were read."""

    def drive(
        self, offers: Offers, run: str, agent: Any, hear: Callable[[Happening], None] | None = None
    ) -> "asyncio.Task[Any]":
        """Drives a run in the background. Returns the running task if there is one."""
        driving = self._driven.get(run)
        if driving is not None:
            return driving

        def listener(happening: Happening) -> None:
            news = news_of(happening)
            if news is not None:
                self._news[run] = news
            if hear is not None:
                hear(happening)

        advancing = agent.advance(run, principal=offers.principal, listener=listener)
        driving = self._driven[run] = asyncio.create_task(advancing)
        driving.add_done_callback(lambda _: self._over(run))
        return driving

    def _over(self, run: str) -> None:
        self._news.pop(run, None)
        driving = self._driven.pop(run)
        if not driving.cancelled():
            driving.exception()  # the run's log has the error

    async def soon(self, offers: Offers, run: str, hear: Callable[[Happening], None]) -> bool:
        """Drives the run. Returns whether it ends or waits within `SOON_S` seconds.

        Cancelling the call interrupts the run.
        """
        offer = await offers.first(run)
        hear(Progress(run, offer.name, f"run {run}"))
        driving = self.drive(offers, run, offer.agent, hear)
        try:
            await asyncio.wait([driving], timeout=SOON_S)
        except asyncio.CancelledError:
            driving.cancel()
            raise
        if driving.done() and not driving.cancelled() and (error := driving.exception()):
            raise error
        return (await offers.log.row(run)).status in (*ENDED, "waiting")

    async def reopen(self, offers: Offers, run: str) -> None:
        """Continues a run that was interrupted or has its answers.

        Raises:
            Refused: The run belongs to another principal.
        """
        offer = await offers.first(run)
        row = await offers.log.row(run)
        if row.status in ENDED and (await offer.agent.result(run)).stop_reason in RESUMABLE:
            with suppress(Conflict, Refused):  # another process reopened it
                await runs.reopen(offers.log, run)
        self.drive(offers, run, offer.agent)

    async def cancel(self, offers: Offers, run: str) -> Any:
        """Requests the cancellation of a run; does nothing if it has ended.

        Raises:
            Refused: The run belongs to another principal.
        """
        await offers.first(run)
        with suppress(Refused):
            await control.request_cancel(
                offers.log, run, by=offers.principal, redactor=offers.redactor
            )
        return EmptyResult()

    async def created(self, offers: Offers, run: str) -> dict[str, Any]:
        """Returns the response to a call that became a task."""
        row = await offers.log.row(run)
        return {**self._described(row, "working"), "resultType": TASK, "_meta": _marked(run)}

    async def seen(self, offers: Offers, run: str, *, asks: bool) -> dict[str, Any]:
        """Returns the task for a client. `asks`: the client can ask its user questions.

        Raises:
            Refused: The run belongs to another principal.
        """
        offer = await offers.first(run)
        row = await offers.log.row(run)
        if row.status in ENDED:
            result = await offer.agent.result(run)
            if result.stop_reason == "interrupted":  # by the end of a process, not by a user
                await self.reopen(offers, run)
                return self._described(row, "working")
            self._asked.pop(run, None)
            if result.status == "cancelled":
                return self._described(row, "cancelled", result.error)
            final = final_result(offer, result).model_dump(
                by_alias=True, mode="json", exclude_none=True
            )
            return {**self._described(row, "completed"), "result": final}
        self.drive(offers, run, offer.agent)
        if row.status != "waiting":
            return self._described(row, "working")
        waiting = await self._waiting(offers, row)
        if not waiting:
            return self._described(row, "working")
        first = question_text(waiting[0])[:_MESSAGE]
        if not asks:
            how = f"taofold approvals approve {waiting[0].id}, or deny"
            return self._described(row, "working", f"waits for a person ({how}): {first}")
        return {
            **self._described(row, "input_required", first),
            "inputRequests": {approval.id: _elicitation(approval) for approval in waiting},
        }

    async def _waiting(self, offers: Offers, row: RunRow) -> list[Approval]:
        """Returns the open questions; reads them again only after new events."""
        cached = self._asked.get(row.run)
        if cached is None or cached[0] != row.events:
            self._asked[row.run] = cached = row.events, await control.pending(offers.log, row.run)
        return cached[1]

    def _described(self, row: RunRow, status: str, message: str = "") -> dict[str, Any]:
        text = message or self._news.get(row.run, "")
        return {
            "taskId": row.run,
            "status": status,
            "createdAt": iso(row.created_at),
            "lastUpdatedAt": iso(row.updated_at),
            "ttlMs": None,  # runs are kept
            "pollIntervalMs": LOOK_MS,
            **({"statusMessage": text} if text else {}),
        }


def _elicitation(approval: Approval) -> dict[str, Any]:
    params = ElicitRequestFormParams(
        message=question_text(approval), requested_schema=answer_form(approval)
    )
    return ElicitRequest(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)


def _marked(run: str) -> dict[str, Any]:
    return {"taofold/run": run}

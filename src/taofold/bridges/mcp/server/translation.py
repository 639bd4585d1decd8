"""Conversion between taofold's values and MCP messages.

To a client: tool definitions (`described`), results of runs, questions of runs with their forms,
and the progress of a call (`ProgressReporter`). From a client: a user's answer as a decision. Knows
nothing about requests, rights or the log.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import mcp.types as types
import msgspec

from taofold.agent import RunResult
from taofold.bridges.mcp.server.offers import RESUME, McpOffer, run_outcome
from taofold.core import events as e
from taofold.core.errors import Refused
from taofold.core.happenings import Happening, Progress
from taofold.core.json_values import not_finite, render
from taofold.core.text import quoted, visible_line
from taofold.core.values import Tier
from taofold.runtime.setup import Approval, Decision, DecisionWord

LAST_WORDS: Final = 2.0
"""Seconds for which a result waits until all progress is sent."""
_NEWS: Final = 200
"""Maximum characters of a progress message."""
_CONSENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "description": "Let it happen?"},
        "reason": {"type": "string", "description": "For the record; the agent reads it."},
    },
    "required": ["approve"],
}
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}


def news_of(happening: Happening) -> str | None:
    """Returns the progress message for a tool's report or a step's thought; else None."""
    if isinstance(happening, Progress):
        return happening.text.strip()[:_NEWS]
    if isinstance(happening, e.Record) and isinstance(happening.event, e.Proposed):
        return happening.event.thought.content[:_NEWS]
    return None


class ProgressReporter:
    """A listener that sends thoughts and tool reports to the client as progress."""

    def __init__(self, context: Any) -> None:
        self._context, self._count = context, 0
        self._last: asyncio.Task[None] | None = None

    def __call__(self, happening: Happening) -> None:
        """Sends the progress of a step or a tool."""
        text = news_of(happening)
        if text is not None:
            self._say(text)

    def _say(self, text: str) -> None:
        self._count += 1
        # Each message waits for the one before, because progress must increase.
        self._last = asyncio.ensure_future(self._tell(float(self._count), text, self._last))

    async def _tell(self, count: float, text: str, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await before  # in order
        try:
            await self._context.session.report_progress(count, None, text)
        except Exception:  # noqa: BLE001 - a lost progress message must not stop the run
            return

    async def close(self) -> None:
        """Waits until all progress is sent, at most `LAST_WORDS` seconds."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=LAST_WORDS)
            self._last.cancel()


def described(offer: McpOffer) -> Any:
    return types.Tool(
        name=offer.name,
        description=offer.description,
        input_schema=offer.schema,
        output_schema=None if offer.result_schema is None else dict(offer.result_schema),
        annotations=types.ToolAnnotations(
            read_only_hint=offer.reads,
            destructive_hint=not offer.reads and offer.tier >= Tier.CONFIRM,
            idempotent_hint=offer.repeatable,
            open_world_hint=not offer.tool,
        ),
        _meta={"tier": int(offer.tier)},
    )


def can_ask(context: Any) -> bool:
    able = context.session.client_capabilities
    asking = None if able is None else able.elicitation
    if asking is None:
        return False
    return asking.form is not None or asking.url is None  # older clients do not declare a mode


def question_text(approval: Approval) -> str:
    if approval.question:
        return f"{approval.action.tool} asks:\n{quoted(approval.question)}"
    why = f"tier {int(approval.tier)}: {visible_line(approval.reason)}"
    return f"{approval.action.tool} ({why}):\n{quoted(approval.preview)}"


def answer_form(approval: Approval) -> dict[str, Any]:
    if approval.form:
        return dict(approval.form)
    return _ANSWER if approval.wants_text else _CONSENT


def decision_of(approval: Approval, action: str, content: Mapping[str, Any]) -> Decision | None:
    """Returns the user's decision; None if the user dismissed the question.

    Raises:
        Refused: The answer has NaN or Infinity.
    """
    for path in not_finite(dict(content)):
        raise Refused(f"{path}: NaN and Infinity are no numbers of JSON")
    by = approval.requester
    if action == "decline":
        return Decision("deny", by=by, reason="declined at the MCP client")
    if action != "accept":
        return None
    if approval.form:
        return Decision("answer", by=by, answer=msgspec.json.encode(dict(content)).decode())
    if approval.wants_text:
        return Decision("answer", by=by, answer=str(content.get("answer", "")))
    # Only `true` is an approval.
    verdict: DecisionWord = "approve" if content.get("approve") is True else "deny"
    return Decision(verdict, by=by, reason=str(content.get("reason", "")))


def waiting_result(result: RunResult[Any]) -> Any:
    approval = result.pending[0] if result.pending else None
    what = "" if approval is None else f": {question_text(approval)[:500]} [id {approval.id}]"
    how = (
        "taofold approvals approve ID, or deny"
        if approval is None
        else (f"taofold approvals approve {approval.id}, or deny")
    )
    text = (
        f"run {result.run_id} waits for a person{what}\n"
        f"Decide with `{how}`, then call {RESUME} with run_id {result.run_id!r}."
    )
    return tool_result(text, failed=True, run=result.run_id)


def tool_result(
    value: Any, *, failed: bool = False, run: str = "", structured: dict[str, Any] | None = None
) -> Any:
    text = "" if value is None else render(value)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        # The protocol has structured content for objects only.
        structured_content=None if failed else structured,
        is_error=failed,
        _meta={"taofold/run": run} if run else None,
    )


def final_result(offer: McpOffer, result: RunResult[Any]) -> Any:
    """Returns the result of an ended run for the client."""
    if not result.success:
        return tool_result(run_outcome(result).result, failed=True, run=result.run_id)
    value = result.output if offer.tool else result.state.output
    return tool_result(value, run=result.run_id, structured=offer.structured(value))

"""What a call of an MCP server comes to: an observation, at once or by way of a task.

`outcome` makes the observation, and is pure; `resource` and `message` are texts of what else a
server hands out. Images, sounds and PDFs are media of it; whatever else
is no text is described. A flood is cut before anybody has to read it.

A server of the era of 2026 may answer any call with a task's id instead of a result, and is then
asked for it (`tasks/get`), told the answers to its questions (`tasks/update`), or told that nobody
waits any more (`tasks/cancel`). `RemoteTask` is one such call. Its id is put on record before the
first look at it, so that it is found again after a crash.
"""

import asyncio
from base64 import b64decode
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
from taofold.bridges.mcp.sdk import TASK, code, get, load, messages, plain
from taofold.core.content import MediaPart, TextPart
from taofold.core.content import text_with_media as shown_as_text
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.text import clip, excerpt, visible
from taofold.core.values import ObservationStatus
from taofold.tools import Outcome, RunContext
from taofold.tools.attachments import Attachment, Showing, showing

FLOOD: Final = 1_000_000
"""Characters of a result that are kept; more is cut to an excerpt."""
_QUARTER: Final = 4 / 3


def outcome(result: Any) -> Outcome:
    """The outcome of a call that is complete."""
    blocks = list(get(result, "content", ()) or ())
    media = [medium(block) for block in blocks]
    failed = bool(get(result, "is_error", False))
    if any(media):
        return _shown(blocks, media, "failure" if failed else "success")
    texts = [block_text(block) for block in blocks]
    text = bounded("\n".join(texts))
    if failed:
        return Outcome(text or "the server reports an error and does not say which", "failure")
    value = get(result, "structured_content")
    if value is None:
        return Outcome(text)
    if is_object(value) and set(value) == {"result"}:
        value = value["result"]  # how results that are no objects are wrapped
    pairs = zip(blocks, texts, strict=True)
    attached = [rest for block, rest in pairs if get(block, "type") != "text"]
    if attached:
        value = {"result": value, "attached": attached}
    return Outcome(_small(value, text))


def _shown(blocks: list[Any], media: list[Showing | None], status: ObservationStatus) -> Outcome:
    """Blocks of which some are media: the others are text between them."""
    parts: list[TextPart | MediaPart] = []
    blobs: dict[str, bytes] = {}
    for block, held in zip(blocks, media, strict=True):
        if held is None:
            parts.append(TextPart(block_text(block)))
        else:
            parts += held.parts
            blobs |= held.blobs
    return Outcome(bounded(shown_as_text(parts)), status, parts=tuple(parts), blobs=blobs)


def medium(block: Any) -> Showing | None:
    """The medium that a block holds; None if it holds none, or one that nobody could look at."""
    held = get(block, "resource") if get(block, "type") == "resource" else block
    data = get(held, "blob") or (get(held, "data") if held is block else None)
    if not isinstance(data, str):
        return None
    try:
        content = b64decode(data, validate=True)
        name = str(get(held, "uri", "") or "").rpartition("/")[2]
        attached = showing([Attachment(data=content, name=name)])
    except (ValueError, ConfigError):
        return None
    return attached if attached.media else None


def _small(value: Any, text: str) -> Any:
    # Its length stands for the JSON's, which would cost an encoding.
    literal = repr(value)
    return value if len(literal) <= FLOOD else text or bounded(literal)


def bounded(text: str) -> str:
    """`text`, or its excerpt if it is a flood."""
    return text if len(text) <= FLOOD else excerpt(text, FLOOD)


def block_text(block: Any) -> str:
    """One block of content as text."""
    match get(block, "type", ""):
        case "text":
            return str(get(block, "text", ""))
        case "image" | "audio" as kind:
            size = round(len(str(get(block, "data", ""))) / _QUARTER)
            return f"[{kind} {get(block, 'mime_type', '?')}, {size} bytes, not shown]"
        case "resource_link":
            more = get(block, "description", "")
            heading = f"[resource {get(block, 'name', '')!r} at {get(block, 'uri', '')}]"
            return f"{heading} {more}" if more else heading
        case "resource":
            return resource(get(block, "resource"))
        case kind:
            return f"[{kind or 'something'} that cannot be shown: {str(plain(block))[:200]}]"


def resource(held: Any) -> str:
    """The contents of a resource: its text, or what it is."""
    text = get(held, "text")
    if text is not None:
        return str(text)
    kind = get(held, "mime_type", "unknown type")
    size = round(len(str(get(held, "blob", ""))) / _QUARTER)
    return f"[resource {get(held, 'uri', '')}: {kind}, {size} bytes, not shown]"


def message(said: Any) -> str:
    """One message of a prompt."""
    content = get(said, "content")
    return f"{get(said, 'role', 'user')}: {block_text(content)}"


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
                    fault: Mapping[str, Any] = status.error or {}
                    reason = str(fault.get("message", "")) or message or "no reason"
                    raise TaskGone(f"the server {self.name!r}: the task failed: {reason[:2000]}")
                case "cancelled":
                    raise TaskGone(f"the server {self.name!r} cancelled the task {message}".strip())
                case "input_required":
                    if await self._asked(status.task_requests or {}, ask):
                        pause = QUICK_S
                case _:
                    pass
            await asyncio.sleep(pause)
            suggested = status.poll_interval_ms
            longest = USUAL_S if not suggested or suggested < 0 else suggested / 1000
            pause = min(pause * 2, max(QUICK_S, min(longest, SLOW_S)))

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

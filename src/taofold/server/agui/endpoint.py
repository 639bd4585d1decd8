"""`POST /ag-ui`: a conversation with an agent, for AG-UI 1.0 clients.

A thread is a session of its principal. Each request starts a run, continues a waiting one, or
reconnects to one that it began. The response is a stream of the run's events, from the log. History
and roles in the request are ignored, because the log has them. The request's tools run in the
client (`client_tools`); its state is passed to the new run's tools. Results and answers among its
messages become decisions of the run; `translation` converts them. A client that disconnects ends
the run only if it requested that (`abortRun`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, cast, get_args

import msgspec
from ag_ui.core import BaseEvent, ResumeEntry, RunAgentInput, ToolMessage, UserMessage
from ag_ui.core.events import CustomEvent
from ag_ui.encoder import EventEncoder
from pydantic import ValidationError
from starlette.responses import Response

from taofold.agent.activation import UI_CONTEXT
from taofold.agent.options import IfWaiting
from taofold.agent.sessions import waiting_run
from taofold.core import events as e
from taofold.core.errors import Conflict, LogError
from taofold.core.json_values import is_object
from taofold.core.state import ENDED, opening
from taofold.log.log import RunRow
from taofold.runtime.run import new_id
from taofold.server.agui.projection import Projection, RecordReader
from taofold.server.agui.translation import decision
from taofold.server.api import approvals
from taofold.server.api.attachments import from_ag_ui
from taofold.server.api.runs import framed_context, offered_agent, session_question, withdraw
from taofold.server.api.schemas import LONGEST_GOAL, Decide
from taofold.server.catalog import SETTINGS
from taofold.server.client_tools import CLIENT_TOOLS, definitions
from taofold.server.endpoint import ApiCall, Problem, Routes
from taofold.server.server import Server
from taofold.server.streams.channel import LONGEST_REPORT
from taofold.server.streams.response import event_response, leave, while_allowed
from taofold.tools.attachments import Attachment, Prompt

routes: Final = Routes("ag-ui")

LOOK_S: Final = 0.5
"""Seconds between two reads of the log without a notification."""
_LONGEST_NAME: Final = 150
LARGEST_STATE: Final = 65_536
"""Maximum bytes of a client's state."""
_OVER: Final = (404, 409, 410)
"""Refusals after which the run continues without this answer: it was resolved or is too late."""
ASKED: Final = "ag-ui"
"""Key in the server's settings of a run for the request that began it."""
_ENCODER: Final = EventEncoder()


@dataclass(frozen=True, slots=True)
class _StreamSource:
    """The source of one response stream."""

    projection: Projection
    reader: RecordReader
    notes: list[BaseEvent] = field(default_factory=list[BaseEvent])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Messages of the whole thread, for a reconnecting client."""
    end: e.Record | None = None
    """The last record of a run that had already ended."""


@routes.post(
    "/ag-ui",
    right="start",
    body=RunAgentInput,
    answers={200: "text/event-stream"},
    errors=(403, 409, 503),
    upload=True,
)
async def talk(call: ApiCall) -> Response:
    """Runs an agent by AG-UI 1.0. The response is the stream of the protocol's events."""
    body: RunAgentInput = call.body
    server = call.server
    thread, name = _named(body.thread_id), _named(body.run_id)
    # Checked before anything is written, so that no run begins whose stream is refused.
    cancel = _cancels(body)
    if cancel:
        server.require(call.principal, "cancel")
    server.watching.room(call.principal.id)
    session = await server.session_to_continue(call.principal, f"ag-ui/{thread}")
    # Only the newest run can be open: the log refuses two open runs in a session.
    rows = await server.log.rows(session=session, limit=1)
    last = rows[0] if rows else None
    source = await _source(call, last, session, thread, name)
    source.notes.extend(await _ignored_tools(server, source.reader.run, body))
    frames = _frames(call, source, cancel=cancel)
    return event_response(server, while_allowed(call, source.reader.run, frames))


async def _source(
    call: ApiCall, last: RunRow | None, session: str, thread: str, name: str
) -> _StreamSource:
    """Answers the thread's `last` run, reconnects to it, or begins a new run.

    Raises:
        Problem: 409, the thread is busy, or no run waits for the answers.
    """
    body: RunAgentInput = call.body
    server = call.server
    if body.resume and not _answered(last, body.resume):
        answers = {entry.interrupt_id: decision(entry) for entry in body.resume}
        return await _resumed(call, last, answers, thread, name)
    if last is not None:
        if results := await _client_results(server, last, body):
            return await _resumed(call, last, results, thread, name)
        if body.resume or await _same(server, last, body):
            return await _back(server, last, body)
        if last.status == "waiting":
            source = await _told(call, session, thread, name)
            if source is not None:
                return source
        elif last.status not in ENDED:
            if await _answered_in(server, last, body):
                return await _back(server, last, body)
            raise Problem(409, "session_busy", "the thread has a run that has not ended")
    run = await _start(call, body, session)
    return _StreamSource(Projection(run, thread, name), RecordReader(server.log, run))


async def _told(call: ApiCall, session: str, thread: str, name: str) -> _StreamSource | None:
    """Applies a message to the thread's waiting run. Returns None if the run was withdrawn.

    Raises:
        Problem: 403, the caller may not do that; 409, the run waits for something else.
    """
    body: RunAgentInput = call.body
    log = call.server.log
    last = await waiting_run(log, session)
    if last is None:  # it was continued at this moment
        raise Problem(409, "session_busy", "the thread has a run that has not ended")
    if not body.messages or not isinstance(body.messages[-1], UserMessage):
        # There is no answer, so the client gets the open questions again.
        source = _StreamSource(Projection(last.run, thread, name), RecordReader(log, last.run))
        source.projection.before([record async for record in source.reader.pull()])
        return source
    goal = _goal(body)
    if_waiting = _if_waiting(body)
    if if_waiting == "answer" and not isinstance(goal, str):
        if_waiting = "withdraw"  # an answer is text, and its files must not be lost
    question = await session_question(call, last, if_waiting)
    if question is None:
        await withdraw(call, last)
        return None
    answer = Decide.model_validate({"decision": "answer", "answer": str(goal)})
    return await _resumed(call, last, {question.id: answer}, thread, name)


async def _answered_in(server: Server, last: RunRow, body: RunAgentInput) -> bool:
    """Returns whether the newest message already answered the running run."""
    message = body.messages[-1] if body.messages else None
    if not isinstance(message, UserMessage):
        return False
    records = await server.log.read(last.run)
    words = [r.event.reason for r in records if isinstance(r.event, e.Resolved)]
    return words[-1:] == [message.content]


def _if_waiting(body: RunAgentInput) -> IfWaiting:
    """Returns how a message applies to a waiting run.

    Raises:
        Problem: 422, the value is unknown.
    """
    props: Any = body.forwarded_props
    wish = props.get("if_waiting", "answer") if is_object(props) else "answer"
    if wish not in get_args(IfWaiting):
        raise Problem(422, "forwardedProps", "if_waiting is answer, withdraw or refuse")
    return cast("IfWaiting", wish)


async def _ignored_tools(server: Server, run: str, body: RunAgentInput) -> list[BaseEvent]:
    """Returns events that name client tools that the run does not have."""
    if not body.tools:
        return []
    offers: Any = (await _settings(server, run)).get(CLIENT_TOOLS, ())
    offered = {definition["name"] for definition in offers}
    ignored = [tool.name for tool in body.tools if tool.name not in offered]
    return [CustomEvent(name="tools_ignored", value=ignored)] if ignored else []


async def _settings(server: Server, run: str) -> dict[str, Any]:
    """Returns this server's settings of the run."""
    started = opening(await server.log.read(run, limit=1))
    settings: Any = None if started is None else started.settings.get(SETTINGS)
    return settings if is_object(settings) else {}


def _cancels(body: RunAgentInput) -> bool:
    """Returns whether the run is cancelled when the client disconnects (`abortRun`).

    Raises:
        Problem: 422, the value is unknown.
    """
    props: Any = body.forwarded_props
    wish = props.get("on_disconnect", "continue") if is_object(props) else "continue"
    if wish not in ("continue", "cancel"):
        raise Problem(422, "forwardedProps", "on_disconnect is continue or cancel")
    return wish == "cancel"


def _answered(last: RunRow | None, resume: Iterable[ResumeEntry]) -> bool:
    """Returns whether the answers are for a run that has ended, so that they were given before."""
    runs = {entry.interrupt_id.rpartition(":")[0] for entry in resume}
    return (
        last is not None
        and last.status in ENDED
        and all(run == last.run or run.startswith(f"{last.run}.") for run in runs)
    )


async def _same(server: Server, last: RunRow, body: RunAgentInput) -> bool:
    """Returns whether this request began the thread's last run.

    Compared by runId, also after the end of the run, so that a repeated request acts once. During
    the run also by the user's message, because a disconnected client may retry under another runId.
    """
    request: Any = (await _settings(server, last.run)).get(ASKED)
    if not is_object(request):
        return False
    if request.get("run") == body.run_id:
        return True
    newest = body.messages[-1] if body.messages else None
    # A repeated result of a call of this run.
    if isinstance(newest, ToolMessage) and newest.tool_call_id.startswith(f"{last.run}:"):
        return True
    message = _said(body)
    return (
        last.status not in ENDED
        and message is not None
        and request.get("message") == _identity(message)
    )


def _said(body: RunAgentInput) -> UserMessage | None:
    users = [message for message in body.messages if isinstance(message, UserMessage)]
    return users[-1] if users else None


def _identity(message: UserMessage) -> str:
    text = message.model_dump_json(by_alias=True, exclude_none=True)
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


async def _back(server: Server, last: RunRow, body: RunAgentInput) -> _StreamSource:
    """Sends a client the past events, and continues with the run if it has not ended."""
    reader = RecordReader(server.log, last.run)
    projection = Projection(last.run, body.thread_id, body.run_id)
    records = [record async for record in reader.pull()]
    ends = records and records[-1].run == last.run and isinstance(records[-1].event, e.RunFinished)
    end = records.pop() if ends else None
    return _StreamSource(
        projection, reader, messages=_thread(body, projection.before(records)), end=end
    )


def _thread(body: RunAgentInput, recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the thread's messages: the client's own up to the last user message, then the
    log's.
    """
    users = [n for n, message in enumerate(body.messages) if isinstance(message, UserMessage)]
    own = body.messages[: users[-1] + 1] if users else []
    dumped = [m.model_dump(mode="json", by_alias=True, exclude_none=True) for m in own]
    return [*dumped, *recorded]


async def _client_results(server: Server, last: RunRow, body: RunAgentInput) -> dict[str, Decide]:
    """Returns the client's results of the calls that the waiting run left to it."""
    newest = body.messages[-1] if body.messages else None
    if last.status != "waiting" or not isinstance(newest, ToolMessage):
        return {}
    reader = RecordReader(server.log, last.run)
    projection = Projection(last.run, body.thread_id, body.run_id)
    projection.before([record async for record in reader.pull()])
    return _results(body.messages, projection.client_calls)


def _results(messages: Sequence[Any], open_calls: Mapping[str, str]) -> dict[str, Decide]:
    """Returns the results at the end of the client's messages, as answers to the open calls.

    `open_calls` maps ids of calls to ids of questions.

    Raises:
        Problem: 422, a result is not valid.
    """
    answers: dict[str, Decide] = {}
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        question = open_calls.get(message.tool_call_id)
        if question is None:
            continue
        if message.error:
            word = {"decision": "deny", "reason": message.error[:2000]}
        else:
            content = message.content if isinstance(message.content, str) else str(message.content)
            text = msgspec.json.encode({"result": content}).decode()
            word = {"decision": "answer", "answer": text}
        try:
            answers[question] = Decide.model_validate(word)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise Problem(422, "messages", f"the result of a tool: {fault}") from None
    return answers


async def _resumed(
    call: ApiCall, last: RunRow | None, answers: dict[str, Decide], thread: str, name: str
) -> _StreamSource:
    """Continues the run that waits for the answers."""
    body: RunAgentInput = call.body
    run = _asking(None if last is None or last.status in ENDED else last, answers)
    # Read before the answers are written, so that their effects are sent as new events.
    reader = RecordReader(call.server.log, run)
    records = [record async for record in reader.pull()]
    taken, notes = await _decide(call, answers)
    # `taken` questions are not asked again. The log still has them as open until the run reads its
    # inbox.
    projection = Projection(run, thread, name, taken)
    earlier = projection.before(records)
    # A client that answers again reconnects, and may have missed the events after its first answer.
    return _StreamSource(projection, reader, notes, _thread(body, earlier) if notes else [])


async def _frames(call: ApiCall, source: _StreamSource, *, cancel: bool) -> AsyncIterator[bytes]:
    try:
        with call.server.watching.place(call.principal.id):
            async for event in _events(call.server, source):
                yield _ENCODER.encode(event).encode()
    finally:
        if cancel and not source.projection.ended:
            leave(call.server, source.reader.run, call.principal)


async def _events(server: Server, source: _StreamSource) -> AsyncIterator[BaseEvent]:
    projection, reader = source.projection, source.reader
    for event in (*projection.open(source.messages), *source.notes, *projection.waiting()):
        yield event
    if source.end is not None:
        for event in projection.tell(source.end):
            yield event
        return
    async with server.hub.watch(projection.run) as channel:
        heard = channel.reports
        while not projection.ended:
            # Taken before the log is read, so that later publications set this event.
            change, reports, progress = channel.change, channel.reports, channel.progress
            if channel.live:
                for event in projection.draft(channel.answer, channel.thought):
                    yield event
            # The draft comes first, because the following records make it final.
            async for event in _recorded(projection, reader):
                yield event
            if projection.ended:
                return
            # A report taken before the log was read comes after the start of its call.
            if reports != heard and progress is not None:
                heard = reports
                for event in projection.report(
                    progress.run, progress.tool, progress.text[:LONGEST_REPORT]
                ):
                    yield event
            # The log is read without a notification, too, because another process may drive the
            # run.
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await change.wait()


async def _recorded(projection: Projection, reader: RecordReader) -> AsyncIterator[BaseEvent]:
    """Yields events for the records that were not sent yet."""
    try:
        async for record in reader.pull():
            for event in projection.tell(record):
                yield event
    except LogError as error:
        for event in projection.fail(str(error), "unavailable"):
            yield event


async def _start(call: ApiCall, run_input: RunAgentInput, session: str) -> str:
    """Starts a run with the last user message.

    Raises:
        Problem: 422, there is no message or the agent is unknown; 409, the thread is busy.
    """
    server = call.server
    props: Any = run_input.forwarded_props
    agent_name = props.get("agent") if is_object(props) else None
    name, agent = offered_agent(server, str(agent_name or ""))
    run, goal = new_id(), _goal(run_input)
    settings: dict[str, Any] = {"agent": name, ASKED: _asked(run_input)}
    theirs = definitions(
        [(tool.name, tool.description, tool.parameters) for tool in run_input.tools or ()],
        agent.toolset,
    )
    if theirs:
        settings[CLIENT_TOOLS] = theirs
        agent = server.catalog.with_tools(agent, theirs)
    context = "; ".join(f"{entry.description}: {entry.value}" for entry in run_input.context or ())
    try:
        await server.worker.begin(
            server.engine,
            agent,
            run,
            goal,
            principal=call.principal,
            session=session,
            ui_context=framed_context(context)[:UI_CONTEXT],
            data=_data(run_input),
            settings={SETTINGS: settings},
        )
    except Conflict:
        # Two requests may both see a free thread; the log accepts only one run.
        raise Problem(409, "session_busy", "the thread has a run that has not ended") from None
    server.audit("start", call.principal.id, run=run, agent=name)
    return run


def _data(run_input: RunAgentInput) -> dict[str, Any]:
    """Returns the `data` of the client's state, which the new run's tools can read.

    A client returns the state that it received. It may change only `data`.

    Raises:
        Problem: 422, the state is too large.
    """
    state: Any = run_input.state
    data: Any = state.get("data") if is_object(state) else None
    if not is_object(data):
        return {}
    if len(msgspec.json.encode(data)) > LARGEST_STATE:
        raise Problem(422, "state", f"the shared state has at most {LARGEST_STATE} bytes")
    return data


def _asked(run_input: RunAgentInput) -> dict[str, str]:
    """Returns the request's identity, stored with the run."""
    message = _said(run_input)
    return {"run": run_input.run_id, "message": "" if message is None else _identity(message)}


async def _decide(call: ApiCall, answers: dict[str, Decide]) -> tuple[list[str], list[BaseEvent]]:
    """Records the answers in the run's inbox. Returns the accepted ones, and events for the others.

    Raises:
        Problem: The caller may not decide, or an answer does not match its question.
    """
    taken: list[str] = []
    notes: list[BaseEvent] = []
    for action, body in answers.items():
        try:
            await approvals.decide(replace(call, path={"action": action}, body=body))
            taken.append(action)
        except Problem as refusal:
            if refusal.status not in _OVER:
                raise
            value = {"actionId": action, "code": refusal.code, "detail": refusal.detail}
            notes.append(CustomEvent(name="decision_refused", value=value))
    return taken, notes


def _asking(last: RunRow | None, answers: Iterable[str]) -> str:
    """Returns the run that the answers are for.

    Raises:
        Problem: 409, nothing in the thread waits for them.
    """
    for action in answers:
        # An action's id is `<run>:<seq>`; a child run's id begins with its parent's and a dot.
        run = action.rpartition(":")[0]
        if last is None or not (run == last.run or run.startswith(f"{last.run}.")):
            raise Problem(409, "resume", f"nothing in this thread waits for {action[:80]!r}")
    assert last is not None
    return last.run


def _goal(run_input: RunAgentInput) -> Prompt:
    """Returns the last user message with its media.

    Raises:
        Problem: 422, it is missing, without text, too long, or of an unknown kind.
    """
    last = run_input.messages[-1] if run_input.messages else None
    if not isinstance(last, UserMessage):
        raise Problem(422, "messages", "the last message must be the user's")
    content, files = last.content, list[Attachment]()
    if not isinstance(content, str):
        content, files = from_ag_ui(content)
    if not content.strip() or len(content) > LONGEST_GOAL:
        raise Problem(422, "messages", f"a message has 1 to {LONGEST_GOAL} characters")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise Problem(422, "messages", "the text is not valid Unicode") from None
    return [content, *files] if files else content


def _named(name: str) -> str:
    """Checks a client's name for a thread or a run.

    Raises:
        Problem: 422, the name is not valid.
    """
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        raise Problem(422, "name", f"threadId and runId have 1 to {_LONGEST_NAME} characters")
    return name

"""Projects the logs of a run and its child runs to AG-UI 1.0 events.

One AG-UI run is one activation. It ends when the run ends or waits for an answer (an interrupt); a
new AG-UI run with the answers continues. `Projection` is pure: no clock, no I/O. `RecordReader`
reads the records: a child's records come between the start of its call and the result. The client's
messages (`Messages`) and the shared state (`view`), which is sent as JSON patches, are also
computed here.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ag_ui.core import events as ag

from taofold.core import events as e
from taofold.core.call_ids import child_id
from taofold.core.json_values import is_object, render
from taofold.core.state import RunState
from taofold.core.values import FINISH, JSON, Action, Thought, Usage
from taofold.core.watched import WatchedChange, WatchedRun
from taofold.log.log import Log
from taofold.policy.redaction.views import shown_value
from taofold.server.agui import translation
from taofold.server.client_tools import asks_client

VERSION: Final = "1.0"
CallKey = tuple[str, str, int]
"""Run, key and index of a call."""


class Projection:
    """Turns the records of one run and its children into events. Feed it every record, in order.

    Args:
        run: The run's id.
        thread: The client's name for the conversation.
        name: The client's name for this AG-UI run.
        answered: Interrupts whose answers are already in the run's inbox.
    """

    def __init__(self, run: str, thread: str, name: str, answered: Iterable[str] = ()) -> None:
        self.run, self.thread, self.name = run, thread, name
        self.ended = False
        self._answered = frozenset(answered)
        self._runs = defaultdict[str, WatchedRun](WatchedRun)
        self._shown: dict[str, Any] = {}
        self._spent: Mapping[str, Usage] = {}
        self._calls: dict[CallKey, tuple[str, Action]] = {}
        self._steps: dict[tuple[str, str], None] = {}
        """Open steps, in order: run and key."""
        self._children: dict[str, str] = {}
        """Open child runs, with their agents' names."""
        self._spawned: dict[str, str] = {}
        self._brought: set[CallKey] = set()
        """Calls whose results the client already has."""
        self._message, self._text, self._messages = "", "", 0
        self._thought = ""
        """The model's thinking that was sent before its record."""

    def before(self, records: Iterable[e.Record]) -> list[dict[str, Any]]:
        """Reads records of earlier activations without sending events. Returns their messages."""
        messages = Messages()
        for record in records:
            # The generator only updates this object; its events were sent before.
            for event in self._told(record):
                messages.take(event)
        # An open message belongs to an ended AG-UI run, so its id is not used again.
        self._message, self._text, self.ended = "", "", False
        return messages.all

    def open(self, messages: Sequence[Mapping[str, Any]] = ()) -> Iterator[ag.BaseEvent]:
        """Yields the first events: names, the state, and open parts of an earlier activation.

        `messages`: all messages of the thread, for a client that may have missed some.
        """
        yield ag.RunStartedEvent(thread_id=self.thread, run_id=self.name, protocol_version=VERSION)
        if messages:
            snapshot = {"messages": [dict(message) for message in messages]}
            yield ag.MessagesSnapshotEvent.model_validate(snapshot)
        state = self._runs[self.run].state
        self._shown, self._spent = view(self.run, state), state.usage_by_model
        yield ag.StateSnapshotEvent(snapshot=self._shown)
        for child in self._children:
            yield self._child_started(child)
        for run, key in self._steps:
            yield self._of(run, ag.StepStartedEvent(step_name=_step(key)))

    def tell(self, record: e.Record) -> Iterator[ag.BaseEvent]:
        """Yields the events of `record`. After `ended` is set there are none."""
        if not self.ended:
            for event in self._told(record):
                event.timestamp = record.at
                yield event

    def draft(self, text: str, thought: str = "") -> Iterator[ag.BaseEvent]:
        """Yields the new part of the draft answer.

        `thought` is sent first, because clients show messages in the order of their beginnings.
        """
        if self.ended:
            return
        # A delta can only append, so changed text begins a new message.
        if self._message and not text.startswith(self._text):
            yield from self._message_ended()
        sent = len(self._text) if self._message else 0
        if len(text) == sent:
            return
        if not self._message:
            self._messages += 1
            self._message = f"{self.name}:{self._messages}"
            if thought and thought != self._thought:
                self._thought = thought
                here = f"{self._message}:thought"
                yield from translation.thought_events(here, Thought(thought))
            yield ag.TextMessageStartEvent(message_id=self._message, role="assistant")
        self._text = text
        yield ag.TextMessageContentEvent(message_id=self._message, delta=text[sent:])

    def report(self, run: str, tool: str, text: str) -> Iterator[ag.BaseEvent]:
        """Yields a tool's progress report, while the call is running. It is not in the log."""
        if self.ended or (run != self.run and run not in self._children):
            return
        value = {"tool": tool, "text": text}
        calls = self._working(run, tool)
        if not calls:  # reports are delayed, and the result has been sent
            return
        if len(calls) == 1:  # with several calls the reporting one is unknown
            value["toolCallId"] = calls[0]
        yield self._of(run, ag.CustomEvent(name="progress", value=value))

    @property
    def client_calls(self) -> dict[str, str]:
        """The calls that the client must perform: question ids by call ids."""
        return {
            self._calls[position][0]: f"{record.run}:{record.seq}"
            for position, record in self._questions()
            if isinstance(record.event, e.Decided) and asks_client(record.event)
        }

    def waiting(self) -> Iterator[ag.BaseEvent]:
        """Yields the end of this activation if a question is unanswered."""
        yield from self._parked(self.run)

    def fail(self, message: str, code: str) -> Iterator[ag.BaseEvent]:
        """Yields an error that is not in the log, as the end."""
        if not self.ended:
            self.ended = True
            yield ag.RunErrorEvent(message=message, code=code)

    def _working(self, run: str, tool: str) -> list[str]:
        """Returns the running calls of a tool."""
        return [
            self._calls[run, key, index][0]
            for key, step in self._runs[run].state.open.items()
            for index, slot in enumerate(step.slots)
            if slot.action.tool == tool and slot.started and slot.observation is None
        ]

    def _told(self, record: e.Record) -> Iterator[ag.BaseEvent]:
        run, event = record.run, record.event
        watched = self._runs[run]
        change = watched.feed(record.public)
        state = watched.state
        yield from self._happened(change, state)
        # `_shown` is empty until `open` has sent the snapshot, so there is nothing to patch.
        if run == self.run and self._shown:
            now = view(run, state)
            changed = patch(self._shown, now)
            if changed:
                self._shown = now
                yield ag.StateDeltaEvent.model_validate({"delta": changed})
        match event:
            case e.Parked():
                yield from self._parked(run)
            case e.RunFinished():
                yield from self._finished(run, event, state)
            case e.Rewound():
                yield from self._closed(run)
            case _:
                pass

    def _happened(self, change: WatchedChange, state: RunState) -> Iterator[ag.BaseEvent]:
        record = change.record
        run, event = record.run, record.event
        match event:
            case e.RunStarted() | e.Resumed():
                if run != self.run and run not in self._children and state.started is not None:
                    self._children[run] = state.started.agent
                    yield self._child_started(run)
            case e.Proposed():
                for part in self._proposed(record, event):
                    yield self._of(run, part)
            case e.Decided():
                yield from self._decided(change, event)
            case e.StartedOnce():
                yield from self._autonomous(change, event)
            case e.Observed():
                for part in self._observed(run, event, change):
                    yield self._of(run, part)
            # A run may hit a limit more than once; a client gets one event.
            case e.LimitHit() if not change.limit:
                pass
            case _:
                note = translation.side_event(event)
                if note is not None:
                    yield self._of(run, note)

    def _proposed(self, record: e.Record, event: e.Proposed) -> Iterator[ag.BaseEvent]:
        run, here = record.run, f"{record.run}:{record.seq}"
        self._steps[run, event.key] = None
        yield ag.StepStartedEvent(step_name=_step(event.key))
        # Unless the draft already sent the thought or has the same text.
        drafted = self._message != "" and self._text.strip().startswith(event.thought.content)
        if run != self.run or not (drafted or event.thought.content == self._thought):
            yield from translation.thought_events(here, event.thought)
        if run == self.run:
            self._thought = ""
        for index, action in enumerate(event.actions):
            name = f"{here}:{index}"
            self._calls[run, event.key, index] = (name, action)
            # A child run's id is derived from its call, so its parent is known before it begins.
            self._spawned[child_id(run, event.key, index)] = name
            # `finish` is not shown as a call: its answer is a text message.
            if action.tool != FINISH:
                yield from translation.call_events(here, name, action)

    def _decided(self, change: WatchedChange, event: e.Decided) -> Iterator[ag.BaseEvent]:
        record, question = change.record, change.question
        if question is None or not isinstance(question.event, e.Decided):
            return
        if asks_client(question.event):
            # A client that sent the result already has its message.
            if f"{question.run}:{question.seq}" in self._answered:
                self._brought.add((record.run, event.key, event.index))
        else:
            yield self._of(record.run, translation.resolved_event(question, event))

    def _autonomous(self, change: WatchedChange, event: e.StartedOnce) -> Iterator[ag.BaseEvent]:
        """Yields an event for a write without approval."""
        run, decided = change.record.run, change.slot.decided
        # Decided by the policy only. A `Resolved` has an approver or a rule in `by`.
        if event.kept is None and (decided is None or decided.by == "policy"):
            name, action = self._calls[run, event.key, event.index]
            value = {"toolCallId": name, "tool": action.tool, "effect": event.effect}
            yield self._of(run, ag.CustomEvent(name="autonomous_action", value=value))

    def _observed(
        self, run: str, event: e.Observed, change: WatchedChange
    ) -> Iterator[ag.BaseEvent]:
        call = (run, event.key, event.index)
        if change.limit:
            value = {"limit": change.limit, "value": -1 if change.last else 0}
            yield ag.CustomEvent(name="limit_reached", value=value)
        name, action = self._calls[call]
        if action.tool != FINISH and not (call in self._brought and self._shown):
            yield translation.result_event(name, event.observation)
        # A step ends with its last observation.
        if change.closes and (run, event.key) in self._steps:
            del self._steps[run, event.key]
            yield ag.StepFinishedEvent(step_name=_step(event.key))

    def _parked(self, run: str) -> Iterator[ag.BaseEvent]:
        """Yields the interrupt of a waiting run if a question is unanswered."""
        if run != self.run:
            return
        unanswered = {
            position: record
            for position, record in self._questions()
            if f"{record.run}:{record.seq}" not in self._answered
        }
        if not unanswered:
            return
        interrupts = [
            translation.interrupt(
                record, *self._calls[position], child="" if position[0] == run else position[0]
            )
            for position, record in unanswered.items()
            if not (isinstance(record.event, e.Decided) and asks_client(record.event))
        ]
        yield from self._paused()
        self.ended = True
        yield ag.RunFinishedEvent(
            thread_id=self.thread,
            run_id=self.name,
            # With only client calls the protocol's run is over: the client performs them and
            # returns with the results.
            outcome=ag.RunFinishedInterruptOutcome(interrupts=interrupts)
            if interrupts
            else ag.RunFinishedSuccessOutcome(),
            usage=translation.usage(self._spent, self._runs[run].state) or None,
        )

    def _paused(self) -> Iterator[ag.BaseEvent]:
        """Closes open parts for this activation; they stay open in the log."""
        for run, key in self._steps:
            yield self._of(run, ag.StepFinishedEvent(step_name=_step(key)))
        yield from self._message_ended()
        # Innermost first: `_children` is in order of start.
        for child in reversed(self._children):
            ids = [f"{child}:{record.seq}" for record in self._runs[child].questions.values()]
            outcome = ag.SubagentFinishedSuspendedOutcome(interrupt_ids=ids)
            yield ag.SubagentFinishedEvent(subagent_run_id=child, outcome=outcome)

    def _finished(self, run: str, event: e.RunFinished, state: RunState) -> Iterator[ag.BaseEvent]:
        yield from self._closed(run)
        if run != self.run:
            if self._children.pop(run, None) is not None:
                yield translation.child_end(run, event)
            return
        # Children without an end: dropped by a rewind, or cancelled with the run.
        for child in reversed(list(self._children)):
            yield from self._closed(child)
            yield ag.SubagentFinishedEvent(subagent_run_id=child)
        if event.output is not None:
            yield from self.draft(render(event.output))
        yield from self._message_ended()
        self.ended = True
        spent = translation.usage(self._spent, state)
        yield translation.final_event(run, self.thread, self.name, event, spent)

    def _message_ended(self) -> Iterator[ag.BaseEvent]:
        if self._message:
            yield ag.TextMessageEndEvent(message_id=self._message)
        self._message, self._text = "", ""

    def _closed(self, run: str) -> Iterator[ag.BaseEvent]:
        """Closes the open steps of a dropped branch of `run`."""
        for here, key in [step for step in self._steps if step[0] == run]:
            del self._steps[here, key]
            yield self._of(run, ag.StepFinishedEvent(step_name=_step(key)))

    def _questions(self) -> Iterator[tuple[CallKey, e.Record]]:
        """Yields the open questions of the run and its children, with their calls."""
        asked = [
            ((run, *call), record)
            for run, watched in self._runs.items()
            for call, record in watched.questions.items()
        ]
        return iter(sorted(asked, key=lambda question: question[1].at))

    def _child_started(self, run: str) -> ag.SubagentStartedEvent:
        parent = run.rpartition(".")[0]
        return ag.SubagentStartedEvent(
            subagent_run_id=run,
            name=self._children[run],
            parent_subagent_run_id=parent if parent in self._children else None,
            parent_tool_call_id=self._spawned.get(run),
        )

    def _of(self, run: str, event: ag.BaseEvent) -> ag.BaseEvent:
        """Returns `event`, attributed to `run` if that is a child."""
        if run == self.run:
            return event
        return event.model_copy(update={"subagent_run_id": run})


def _step(key: str) -> str:
    return f"step {key}"


BATCH: Final = 500
"""Number of records read at once."""


class RecordReader:
    """Reads the records of a run and its children; `pull` continues."""

    def __init__(self, log: Log, run: str) -> None:
        self.run, self._log = run, log
        self._heads: dict[str, int] = {run: -1}
        self._open: dict[str, dict[str, None]] = {}
        """Running calls of each run, as ids of possible child runs."""

    async def pull(self) -> AsyncIterator[e.Record]:
        """Yields the records that are new since the last call."""
        async for record in self._drain(self.run):
            yield record

    async def _drain(self, run: str) -> AsyncIterator[e.Record]:
        # The required order: a call's `Started`, its child's records, then its result.
        going = self._open.setdefault(run, {})
        while True:
            records = await self._log.read(run, after=self._heads.get(run, -1), limit=BATCH)
            for record in records:
                event = record.event
                # The child's records come before the record that closes the call or the run.
                if isinstance(event, e.Observed | e.Parked | e.RunFinished):
                    async for inner in self._children(run):
                        yield inner
                # Set before `yield`, so that a consumer that stops here continues with the next
                # record.
                self._heads[run] = record.seq
                yield record
                match event:
                    case e.Started():
                        going[child_id(run, event.key, event.index)] = None
                    case e.Observed():
                        going.pop(child_id(run, event.key, event.index), None)
                    case e.Rewound():
                        going.clear()
                    case _:
                        pass
            if len(records) < BATCH:
                break
        async for inner in self._children(run):
            yield inner

    async def _children(self, run: str) -> AsyncIterator[e.Record]:
        if not self._open.get(run):
            return
        # Most calls start no child run; only rows with events are read.
        begun = {row.run for row in await self._log.rows(parent=run, limit=0) if row.events}
        for child in [child_run for child_run in self._open[run] if child_run in begun]:
            async for record in self._drain(child):
                yield record


def view(run: str, state: RunState) -> dict[str, JSON]:
    """Returns the shared state: small plain JSON without the texts of steps."""
    return {
        "run": run,
        "goal": shown_value(state.goal),
        "status": state.status,
        "stopReason": state.stop_reason,
        "waitingFor": state.waiting_for,
        "steps": len(state.steps),
        "modelCalls": state.model_calls + state.child_model_calls,
        "toolCalls": state.tool_calls + state.child_tool_calls,
        "tokens": state.usage.tokens,
        "usd": state.usage.shown_usd,
        "limits": list(state.limits_hit),
        "data": dict(state.data),
    }


def patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """Returns RFC 6902 operations from `before` to `after`. Lists are replaced as a whole."""
    if is_object(before) and is_object(after):
        gone = [{"op": "remove", "path": _at(path, name)} for name in before if name not in after]
        new = [
            {"op": "add", "path": _at(path, name), "value": value}
            for name, value in after.items()
            if name not in before
        ]
        changed: list[dict[str, Any]] = []
        for name, value in after.items():
            if name in before:
                changed += patch(before[name], value, _at(path, name))
        return [*gone, *new, *changed]
    if type(before) is type(after) and before == after:
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _at(path: str, name: str) -> str:
    """Returns `path` extended by `name`, as a JSON Pointer (RFC 6901)."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


class Messages:
    """The messages that a client builds from the events of the main run."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}

    @property
    def all(self) -> list[dict[str, Any]]:
        """All messages in the protocol's form, in order of start."""
        return list(self._by_id.values())

    def take(self, event: ag.BaseEvent) -> None:
        """Adds the content of `event`."""
        if getattr(event, "subagent_run_id", None) is not None:
            return
        match event:
            case ag.ReasoningMessageStartEvent():
                self._open(event.message_id, "reasoning", content="")
            case ag.TextMessageStartEvent():
                self._open(event.message_id, "assistant", content="")
            case ag.ReasoningMessageContentEvent() | ag.TextMessageContentEvent():
                self._by_id[event.message_id]["content"] += event.delta
            case ag.ToolCallStartEvent():
                name = event.parent_message_id or event.tool_call_id
                function = {"name": event.tool_call_name, "arguments": ""}
                call = {"id": event.tool_call_id, "type": "function", "function": function}
                self._calls[event.tool_call_id] = function
                self._open(name, "assistant", toolCalls=[])["toolCalls"].append(call)
            case ag.ToolCallArgsEvent():
                self._calls[event.tool_call_id]["arguments"] += event.delta
            case ag.ToolCallResultEvent():
                call_id, content = event.tool_call_id, event.content
                self._open(event.message_id, "tool", content=content, toolCallId=call_id)
            case _:
                pass

    def _open(self, name: str, role: str, **fields: Any) -> dict[str, Any]:
        return self._by_id.setdefault(name, {"id": name, "role": role, **fields})

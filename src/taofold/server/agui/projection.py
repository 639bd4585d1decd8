"""A run and its child runs as AG-UI 1.0 events: a projection of their logs, and of nothing else.

One AG-UI run is one activation: it ends when the run ends, or when it waits for a person (an
interrupt); a new AG-UI run with the answers carries on. `Projection` is pure: no clock, no I/O.
`RecordReader` reads the records: a child's come after the call that began it and before the result
that it became. What the client holds by then is computed here, too: its messages (`Messages`), and
the shared state (`view`), of which it is sent JSON patches.
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
    """Tells the records of one run and its children. Feed it every record, in order.

    Args:
        run: the run's id.
        thread: the client's name for the conversation.
        name: the client's name for this AG-UI run.
        answered: interrupts whose answers are in the run's inbox already.
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
        """Child runs that are at work or wait, with their agents' names."""
        self._spawned: dict[str, str] = {}
        self._brought: set[CallKey] = set()
        """Calls of which the client has the result already."""
        self._message, self._text, self._messages = "", "", 0
        self._thought = ""
        """What was told of the model's thinking before its record came."""

    def before(self, records: Iterable[e.Record]) -> list[dict[str, Any]]:
        """Take in what earlier activations told, without telling it again; the messages of it."""
        messages = Messages()
        for record in records:
            # The generator is run for what it does to us; its events were sent long ago.
            for event in self._told(record):
                messages.take(event)
        # A message that was open then belongs to an AG-UI
        # run that is over: its id is not used again.
        self._message, self._text, self.ended = "", "", False
        return messages.all

    def open(self, messages: Sequence[Mapping[str, Any]] = ()) -> Iterator[ag.BaseEvent]:
        """The beginning: names, the state, and what an earlier activation left open.

        `messages`: all of the thread, for a client that may have missed some.
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
        """What `record` means to a client. Nothing more follows once `ended` is set."""
        if not self.ended:
            for event in self._told(record):
                event.timestamp = record.at
                yield event

    def draft(self, text: str, thought: str = "") -> Iterator[ag.BaseEvent]:
        """The answer as far as it is known; what was told of it before is not repeated.

        `thought` is told before it: clients show messages in the order in which they began.
        """
        if self.ended:
            return
        # A delta can only append. Text that changed before its end begins a new message.
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
        """What a tool says while it works. It is in no log, so nothing else depends on it."""
        if self.ended or (run != self.run and run not in self._children):
            return
        value = {"tool": tool, "text": text}
        calls = self._working(run, tool)
        if len(calls) == 1:  # of several calls at once it is not known which one speaks
            value["toolCallId"] = calls[0]
        yield self._of(run, ag.CustomEvent(name="progress", value=value))

    @property
    def client_calls(self) -> dict[str, str]:
        """The calls that wait for the client to do them: their questions by their ids."""
        return {
            self._calls[position][0]: f"{record.run}:{record.seq}"
            for position, record in self._questions()
            if isinstance(record.event, e.Decided) and asks_client(record.event)
        }

    def waiting(self) -> Iterator[ag.BaseEvent]:
        """The end of this activation, if somebody is asked who has not answered."""
        yield from self._parked(self.run)

    def fail(self, message: str, code: str) -> Iterator[ag.BaseEvent]:
        """The end, because of something that is not in the log."""
        if not self.ended:
            self.ended = True
            yield ag.RunErrorEvent(message=message, code=code)

    def _working(self, run: str, tool: str) -> list[str]:
        """The calls of the tool that have begun and not ended."""
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
        # `_shown` is empty until `open` has sent the
        # snapshot: there is nothing to patch before it.
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
            # A run may meet a limit more than once; a client gets one event.
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
        # Unless it was told with the draft of the answer, or is what the draft says.
        drafted = self._message != "" and self._text.strip().startswith(event.thought.content)
        if run != self.run or not (drafted or event.thought.content == self._thought):
            yield from translation.thought_events(here, event.thought)
        if run == self.run:
            self._thought = ""
        for index, action in enumerate(event.actions):
            name = f"{here}:{index}"
            self._calls[run, event.key, index] = (name, action)
            # A child run's id follows from its call, so its parent is known before it begins.
            self._spawned[child_id(run, event.key, index)] = name
            # `finish` is no call to a client: its answer comes as a text message.
            if action.tool != FINISH:
                yield from translation.call_events(here, name, action)

    def _decided(self, change: WatchedChange, event: e.Decided) -> Iterator[ag.BaseEvent]:
        record, question = change.record, change.question
        if question is None or not isinstance(question.event, e.Decided):
            return
        if asks_client(question.event):
            # A client that brought the result along has a message of it already.
            if f"{question.run}:{question.seq}" in self._answered:
                self._brought.add((record.run, event.key, event.index))
        else:
            yield self._of(record.run, translation.resolved_event(question, event))

    def _autonomous(self, change: WatchedChange, event: e.StartedOnce) -> Iterator[ag.BaseEvent]:
        """A write that nobody was asked about."""
        run, decided = change.record.run, change.slot.decided
        # Decided by the policy alone. A `Resolved` has a person's or a rule's name in `by`.
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
        # The fold closes a step with its last observation;
        # only then is it finished for the client.
        if change.closes and (run, event.key) in self._steps:
            del self._steps[run, event.key]
            yield ag.StepFinishedEvent(step_name=_step(event.key))

    def _parked(self, run: str) -> Iterator[ag.BaseEvent]:
        """The run waits for a person, if anybody is asked who has not answered yet."""
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
            # With calls for the client alone it is over as far as the protocol goes: the client
            # does them, and comes back with the results.
            outcome=ag.RunFinishedInterruptOutcome(interrupts=interrupts)
            if interrupts
            else ag.RunFinishedSuccessOutcome(),
            usage=translation.usage(self._spent, self._runs[run].state) or None,
        )

    def _paused(self) -> Iterator[ag.BaseEvent]:
        """Close everything for this activation; in the log it stays open."""
        for run, key in self._steps:
            yield self._of(run, ag.StepFinishedEvent(step_name=_step(key)))
        yield from self._message_ended()
        # Innermost first: `_children` has them in the order in which they began.
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
        # Children without an end of their own: cut off by a rewind, or cancelled with the run.
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
        """Close what `run` left open for good: the steps of a cut branch."""
        for here, key in [step for step in self._steps if step[0] == run]:
            del self._steps[here, key]
            yield self._of(run, ag.StepFinishedEvent(step_name=_step(key)))

    def _questions(self) -> Iterator[tuple[CallKey, e.Record]]:
        """The open questions of the run and its children, with the calls that they are about."""
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
        """`event`, attributed to `run` if that is a child."""
        if run == self.run:
            return event
        return event.model_copy(update={"subagent_run_id": run})


def _step(key: str) -> str:
    return f"step {key}"


BATCH: Final = 500
"""Records read at once."""


class RecordReader:
    """What was read of a run so far. `pull` reads on."""

    def __init__(self, log: Log, run: str) -> None:
        self.run, self._log = run, log
        self._heads: dict[str, int] = {run: -1}
        self._open: dict[str, dict[str, None]] = {}
        """By run: its calls that have begun and not ended, as the ids of possible child runs."""

    async def pull(self) -> AsyncIterator[e.Record]:
        """The records that are new since the last time."""
        async for record in self._drain(self.run):
            yield record

    async def _drain(self, run: str) -> AsyncIterator[e.Record]:
        # The order a client relies on: a call's `Started`, its child's records, then its result.
        going = self._open.setdefault(run, {})
        while True:
            records = await self._log.read(run, after=self._heads.get(run, -1), limit=BATCH)
            for record in records:
                event = record.event
                # Before the record that closes the call or the
                # run: what the child did belongs in front.
                if isinstance(event, e.Observed | e.Parked | e.RunFinished):
                    async for inner in self._children(run):
                        yield inner
                # Set before `yield`: a consumer that stops here
                # gets the next record next time, not this one.
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
        # Most calls start no child run; only those that have a row with events are read.
        begun = {row.run for row in await self._log.rows(parent=run, limit=0) if row.events}
        for child in [child_run for child_run in self._open[run] if child_run in begun]:
            async for record in self._drain(child):
                yield record


def view(run: str, state: RunState) -> dict[str, JSON]:
    """The state that is shared with a client: plain JSON, small, without the steps' texts."""
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
    """The RFC 6902 operations that make `after` of `before`. Lists are replaced whole."""
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
    """`path` and then `name`, as a JSON Pointer (RFC 6901)."""
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


class Messages:
    """The messages that a client makes of the events, the main run's only."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}

    @property
    def all(self) -> list[dict[str, Any]]:
        """As the protocol writes them, in the order in which they began."""
        return list(self._by_id.values())

    def take(self, event: ag.BaseEvent) -> None:
        """What `event` adds."""
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

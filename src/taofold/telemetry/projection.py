"""Makes spans from records, one record at a time. A span is returned when it ends.

`SpanProjection` is for a run in progress, `spans_of` for a stored one. `core.trace.TurnFold`
follows the calls. If an application started the run, its spans join the application's trace
(`context_of`), and `SpanProjection.sampled` is True if that trace is recorded.

Rewound work stays in the trace, because it was done and paid for. (`core.trace.trace` has the run's
current state without it.) Records copied by a fork belong to the trace of the original run, to
which the fork has a link. A log does not hold prompts, so without the sent prompt it is rebuilt
from the log. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.content import Message, result_message
from taofold.core.json_values import render
from taofold.core.reply import Usage
from taofold.core.trace import OpenTurn, TurnFold
from taofold.core.values import Action, Observation, Principal
from taofold.runtime.trace_context import TRACE_SETTING, TraceContext
from taofold.telemetry.prompt import Prompt
from taofold.telemetry.spans import (
    AgentSpan,
    ApprovalSpan,
    Link,
    Mark,
    ModelSpan,
    Span,
    ToolSpan,
    call_part,
    parent_part,
    root_run,
    span_id,
    trace_id,
)

_FAILED: Final = frozenset({"failure", "timeout"})


class Origin:
    """The place of a run's spans in the trace, and the fields that all of them share."""

    __slots__ = ("agent", "parent", "root", "run", "session", "trace", "user")

    def __init__(self, run: str) -> None:
        self.run, self.root = run, span_id(run, "run")
        self.trace, self.parent = trace_id(run), ""
        self.agent = self.session = self.user = ""

    @property
    def shared(self) -> dict[str, Any]:
        """The fields that are equal in all spans of the run."""
        return {
            "run": self.run,
            "trace": self.trace,
            "agent": self.agent,
            "session": self.session,
            "user": self.user,
        }


def moment(record: e.Record) -> float:
    """Returns the time of a record, so that records of one millisecond keep their order."""
    return _moment(record.at, record.seq)


def _moment(at: int, seq: int) -> float:
    # Thousandths of a millisecond. From record 1000 on, equal times stay equal.
    return at + min(seq, 999) / 1000


def figures(facts: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers among the facts of an event or a result, which are not content."""
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, int | float) and name != "elapsed"
    }


_TICK: Final = 0.001
"""Milliseconds between events of one millisecond, so that a request begins after its run."""
_LOCAL: Final = Principal().id
_MARKS: Final = 128
"""Maximum marks of a run: the default of OpenTelemetry spans."""


Roots: TypeAlias = dict[str, TraceContext | None]
"""The application's span above the first run of each trace, or None."""


def _trace(root: str, context: TraceContext | None) -> str:
    """Returns the id of the trace whose eldest run is `root`."""
    return trace_id(root) if context is None else context.trace


class SpanProjection:
    """The spans of one run, from its records, which are fed in order.

    `roots` is shared by the runs of one trace. The first run adds itself. Without `rebuild` no
    prompt is rebuilt from the log, for exporters without content.
    """

    def __init__(self, run: str, roots: Roots | None = None, *, rebuild: bool = True) -> None:
        self._rebuild = rebuild
        self.head = -1
        """Number of the last record that was fed."""
        self._origin = Origin(run)
        self._turns = TurnFold()
        self._asked: dict[tuple[str, int], tuple[e.Record, e.Decided]] = {}
        """Open questions to users."""
        self._steps = 0
        self._last: e.Record | None = None
        self._opened = e.RunStarted(goal="")
        self._active: e.RunStarted | e.HandedOff = self._opened
        self._begun = 0.0
        self._roots = {} if roots is None else roots
        self._links: tuple[Link, ...] = ()
        self._forked = ""
        self._usage = Usage()
        self._marks: list[Mark] = []
        self._conversations: dict[str, list[Message]] = {}

    @property
    def sampled(self) -> bool:
        """False if the application's trace is not recorded."""
        context = self._roots.get(root_run(self._origin.run, self._opened.parent))
        return context is None or context.sampled

    def place(self, key: str, index: int) -> TraceContext | None:
        """Returns the place of an open call's span in the trace, or None if it is unknown."""
        turn = self._turns.open.get(key)
        if turn is None:
            return None
        span = span_id(self._origin.run, call_part(key, index, turn.again))
        return TraceContext(self._origin.trace, span, self.sampled)

    def feed(self, record: e.Record, prompt: Prompt | None = None) -> Span | None:
        """Takes a record. Returns the span that it ends, or None.

        `prompt` is the sent prompt, if the record ends a model call.
        """
        record = record.public
        previous, self._last = self._last or record, record
        self.head = record.seq
        event = record.event
        turn = self._turns.feed(record)
        match event:
            case e.Replied():
                return self._replied(record, event, prompt)
            case e.Proposed() | e.Started():
                pass
            case e.Decided():
                return self._decided(record, event)
            case e.Observed():
                return None if turn is None else self._observed(record, event, turn)
            case e.AskFailed():
                return self._failed(previous, record, event, prompt)
            case e.RunFinished():
                return self._agent(moment(record), event)
            case e.RunStarted():
                self._open(record, event)
            case e.Forked():
                self._fork(record, event)
            case _:
                self._aside(record)
        return None

    def rest(self) -> tuple[Span, ...]:
        """Returns the open spans as if the last record ended them; the run's comes last."""
        if self._last is None or isinstance(self._last.event, e.RunFinished):
            return ()
        end = moment(self._last)
        approvals = [self._approval(*asked, end) for asked in self._asked.values()]
        started = [
            self._tool(turn, index, end)
            for turn in self._turns.open.values()
            for index, call in enumerate(turn.calls)
            if call.started and call.observation is None
        ]
        return (*approvals, *started, self._agent(end, None))

    def _open(self, record: e.Record, event: e.RunStarted) -> None:
        origin = self._origin
        self._opened, self._begun = event, moment(record)
        self._active = event
        origin.agent, origin.session = event.agent, event.session
        origin.user = "" if event.principal.id == _LOCAL else event.principal.id
        self._root(root_run(origin.run, event.parent), context_of(event))
        if event.parent:
            origin.parent = span_id(event.parent, parent_part(origin.run, event.parent))
        self._conversations[""] = _opening(event)

    def _fork(self, record: e.Record, event: e.Forked) -> None:
        """Begins a separate trace, with a link to the run that was forked.

        It joins the application's trace of that run, if there is one. Its log has the first records
        of the original run, but does not record whether a fork was forked.
        """
        origin = self._origin
        before = root_run(event.run, self._opened.parent)
        context = context_of(self._opened)
        eldest = _trace(before, context or self._roots.get(before))
        self._links = (Link(eldest, span_id(event.run, "run"), "forked_from"),)
        origin.parent = ""
        self._root(origin.run, context)
        self._forked, self._begun = event.run, moment(record)
        self._marks = []
        # The copied records' spans, and the open calls, belong to the other run.
        self._turns = TurnFold()
        self._asked.clear()

    def _root(self, root: str, context: TraceContext | None) -> None:
        """Sets the trace: that of the run `root`, or the application's."""
        origin = self._origin
        # The first run of its trace, in which the others look up the trace.
        if root == origin.run:
            self._roots[root] = context
            origin.parent = "" if context is None else context.span
        origin.trace = _trace(root, self._roots.get(root))

    def _aside(self, record: e.Record) -> None:
        """Adds an event to the run's span."""
        event = record.event
        match event:
            case e.Violated():
                self._mark(record, "violated", event.detail, rule=event.rule)
                self._add_message(event.key, Message("user", event.detail))
            case e.Steered():
                self._mark(record, "steered", event.text)
                self._add_message(event.key, Message("user", event.content))
            case e.LimitHit():
                self._mark(record, "limit", limit=event.limit)
            case e.Parked():
                self._mark(record, "parked", reason=event.reason)
            case e.Cut():
                self._mark(record, "cut", event.detail, reason=event.reason)
            case e.Hooked():
                self._mark(record, "hook", event.rejected, hook=event.hook, point=event.point)
                if event.message:
                    self._add_message(event.key, Message("user", event.message))
            case e.HandedOff():
                # The following spans are those of the next agent.
                self._origin.agent, self._active = event.agent, event
                facts = {"from": event.before, "to": event.agent}
                self._mark(record, "handed_off", event.reason, **facts)
                self._new_instructions(event)
            case e.Rewound():
                self._mark(record, "rewound", to=event.to)
            case _ if event.announcement is not None:
                self._mark(
                    record, event.tag, event.summary, **figures(msgspec.structs.asdict(event))
                )
            case _:
                pass

    def _mark(self, record: e.Record, name: str, quoted: str = "", **facts: str | float) -> None:
        # A run may be parked and resumed for months, and its span is sent whole each time.
        if len(self._marks) < _MARKS:
            self._marks.append(Mark(name, moment(record), dict(facts), quoted))

    def _add_message(self, key: str, message: Message) -> None:
        if message.content and self._rebuild:
            self._conversation(key).append(message)

    def _new_instructions(self, event: e.HandedOff) -> None:
        """Begins the conversation with the instructions of the next agent."""
        talk = self._conversations.get("", [])
        rest = [message for message in talk if message.role != "system"]
        instructions = _instructions(event)
        system = [Message("system", instructions)] if instructions else []
        self._conversations[""] = [*system, *rest]

    def _conversation(self, key: str) -> list[Message]:
        """Returns the conversation of a branch. A new one begins with the goal."""
        position = branch(key)
        talk = self._conversations.get(position)
        if talk is None:
            talk = self._conversations[position] = [Message("user", self._opened.content)]
        return talk

    def _rebuilt(self, key: str) -> Prompt:
        """Returns the prompt that the log implies."""
        return Prompt(tuple(self._conversation(key))) if self._rebuild else Prompt()

    def _decided(self, record: e.Record, event: e.Decided) -> ApprovalSpan | None:
        """Returns the span of the approval that a decision closes, if it closes one."""
        position = event.key, event.index
        if event.verdict == "ask":
            self._asked[position] = record, event
            return None
        question = self._asked.pop(position, None)
        return None if question is None else self._approval(*question, moment(record), event)

    def _approval(
        self, question: e.Record, decision: e.Decided, end: float, answer: e.Decided | None = None
    ) -> ApprovalSpan:
        origin, turn = self._origin, self._turns.open.get(decision.key)
        action = turn.calls[decision.index].action if turn is not None else Action("", {}, "")
        refused = answer is not None and answer.verdict not in ("allow", "done")
        return ApprovalSpan(
            **origin.shared,
            id=span_id(origin.run, f"approval {question.seq}"),
            parent=origin.root,
            start=moment(question),
            end=end,
            error=answer.verdict if answer is not None and refused else "",
            message=answer.reason if answer is not None else "",
            tool=action.tool,
            call=f"{decision.key}[{decision.index}]",
            parameters=action.parameters,
            tier=decision.tier,
            reason=decision.reason,
            verdict=answer.verdict if answer is not None else "open",
            by=answer.by if answer is not None else "",
        )

    def _observed(self, record: e.Record, event: e.Observed, turn: OpenTurn) -> ToolSpan | None:
        call = turn.calls[event.index]
        if event.usage is not None:
            self._usage += event.usage
        observation = event.observation
        if self._rebuild:
            result = observation.parts or render(observation.result)
            self._add_message(event.key, result_message(call.action.id, result))
        if turn.complete:
            # A batch has ended and counts as a step, with its last result.
            self._steps += 1
            del self._turns.open[event.key]
        if call.local:
            self._mark(record, "step", turn.event.thought.content, action=call.action.tool)
            return None
        return self._tool(turn, event.index, moment(record))

    def _tool(self, turn: OpenTurn, index: int, end: float) -> ToolSpan:
        """Returns the span of a call. Without an observation its end is unknown."""
        origin, call, key = self._origin, turn.calls[index], turn.event.key
        observation = call.observation or Observation()
        error, message = "interrupted", ""
        if call.observation is not None:
            failure = observation.status if observation.status in _FAILED else ""
            error = observation.refused or failure
            message = render(observation.result) if error else ""
        start = _moment(turn.at, turn.seq)
        if call.started:
            start = _moment(call.started_at, call.started_seq)
        if observation.duration_ms:
            # The duration is measured around the tool. `Started` is written slightly earlier.
            start = max(start, end - observation.duration_ms)
        return ToolSpan(
            **origin.shared,
            id=span_id(origin.run, call_part(key, index, turn.again)),
            parent=origin.root,
            start=start,
            end=end,
            error=error,
            message=message,
            tool=call.action.tool,
            call=call.action.id or f"{key}[{index}]",
            parameters=call.action.parameters,
            thought=turn.event.thought.content,
            thought_type=turn.event.thought.type,
            result=observation.result,
            refused=observation.refused,
            figures=figures(observation.facts),
        )

    def _replied(self, record: e.Record, event: e.Replied, prompt: Prompt | None) -> ModelSpan:
        origin = self._origin
        self._usage += event.usage
        sent = prompt or self._rebuilt(event.key)
        if self._rebuild:
            self._add_message(event.key, Message("assistant", event.content, event.issuer))
        return ModelSpan(
            **origin.shared,
            id=span_id(origin.run, f"reply {record.seq}"),
            parent=origin.root,
            # `ms` comes from another clock than the log's. A call never begins before its run.
            start=max(moment(record) - event.ms, self._begun + _TICK),
            end=moment(record),
            requested=self._active.model,
            model=event.model or self._active.model,
            role=event.role,
            prompt=sent,
            text=event.text,
            reasoning=event.reasoning,
            calls=event.calls,
            finish=event.finish,
            usage=event.usage,
            cached=event.cached,
            issuer=event.issuer,
        )

    def _failed(
        self, previous: e.Record, record: e.Record, event: e.AskFailed, prompt: Prompt | None
    ) -> ModelSpan:
        origin = self._origin
        return ModelSpan(
            **origin.shared,
            id=span_id(origin.run, f"reply {record.seq}"),
            parent=origin.root,
            # A failed call has no duration. It began after the event before it.
            start=moment(previous),
            end=moment(record),
            error=event.kind,
            message=event.message,
            requested=self._active.model,
            model=self._active.model,
            role="",
            prompt=prompt or self._rebuilt(event.key),
        )

    def _agent(self, end: float, event: e.RunFinished | None) -> AgentSpan:
        origin, opened = self._origin, self._opened
        parked = self._last is not None and isinstance(self._last.event, e.Parked)
        # For an unfinished run, an end without facts.
        ended = event or e.RunFinished("waiting" if parked else "open", "", False)
        failed = event is not None and event.status != "finished"
        return AgentSpan(
            # The run is that of its first agent.
            **{**origin.shared, "agent": opened.agent},
            id=origin.root,
            parent=origin.parent,
            start=self._begun,
            end=end,
            error=(ended.stop_reason or ended.status) if failed else "",
            message=ended.error,
            model=opened.model,
            strategy=opened.strategy,
            goal=opened.goal,
            instructions=_instructions(opened),
            root=not opened.parent or bool(self._forked),
            status=ended.status,
            output=ended.output,
            stop_reason=ended.stop_reason,
            success=ended.success,
            forked_from=self._forked,
            links=self._links,
            marks=tuple(self._marks),
            usage=self._usage,
            steps=self._steps,
        )


def spans_of(
    records: Iterable[e.Record],
    roots: Roots | None = None,
    prompts: Mapping[str, Prompt] | None = None,
) -> tuple[Span, ...]:
    """Returns the spans of a stored run in the order of their end, without a fork's copies.

    Pass the same `roots` for a run and then for its children. `prompts` are the sent prompts, by
    the digest of the conversation that the reply records.
    """
    spans: list[Span] = []
    projection: SpanProjection | None = None
    for record in records:
        projection = projection or SpanProjection(record.run, roots)
        digest = record.event.prompt if isinstance(record.event, e.Replied) else ""
        span = projection.feed(record, None if prompts is None else prompts.get(digest))
        if isinstance(record.event, e.Forked):
            spans.clear()
        if span is not None:
            spans.append(span)
    return (*spans, *projection.rest()) if projection is not None else ()


def context_of(event: e.RunStarted) -> TraceContext | None:
    """Returns the application's span in which the run was started, or None."""
    noted = event.settings.get(TRACE_SETTING)
    return TraceContext.parse(noted) if isinstance(noted, str) else None


def _opening(event: e.RunStarted) -> list[Message]:
    instructions = _instructions(event)
    system = [Message("system", instructions)] if instructions else []
    return [*system, *event.history, Message("user", event.content)]


def _instructions(event: e.RunStarted | e.HandedOff) -> str:
    noted = event.settings.get("instructions")
    return noted if isinstance(noted, str) else ""

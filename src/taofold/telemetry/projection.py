"""From records to spans, one record at a time: a span comes out when it is over.

Pure. What was rewound is part of the trace: it was done, and paid for. What a fork copied is
not: it is in the trace of the run that did it.
"""

from collections.abc import Iterable
from typing import Final

from taofold.core import events as e
from taofold.core.content import Message, Usage, result_message
from taofold.core.trace import branch
from taofold.telemetry.calls import Calls, Origin, moment, text
from taofold.telemetry.ids import dated, parent_part, root_run, span_id, trace_id
from taofold.telemetry.spans import AgentSpan, Mark, ModelSpan, Span

_TICK: Final = 0.001
"""Milliseconds by which events of one millisecond are apart: a request begins after its run."""
_MARKS: Final = 128
"""Marks of a run that are kept: what every OpenTelemetry span holds by default."""


class Projection:
    """The spans of one run. Feed it every record, in order.

    `starts` is shared by the runs of one trace: when the eldest of them began.
    """

    def __init__(self, run: str, starts: dict[str, int] | None = None) -> None:
        self.head = -1
        """Number of the last record it was fed."""
        self._origin = Origin(run)
        self._calls = Calls(self._origin)
        self._records: list[e.Record] = []
        self._opened = e.RunStarted(goal="")
        self._begun = 0.0
        self._starts = {} if starts is None else starts
        self._forked = ""
        self._usage = Usage()
        self._marks: list[Mark] = []
        self._heard: dict[str, list[Message]] = {}

    def feed(self, record: e.Record) -> Span | None:
        """What is over with this record."""
        self._records.append(record)
        self.head = record.seq
        event = record.event
        match event:
            case e.Replied():
                return self._replied(record, event)
            case e.Proposed():
                self._calls.propose(record, event)
            case e.Decided():
                return self._calls.decide(record, event)
            case e.Started():
                self._calls.start(record, event)
            case e.Observed():
                return self._observed(record, event)
            case e.AskFailed():
                return self._failed(record, event)
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
        """What is open, as if it ended with the last record; the run itself comes last."""
        if not self._records or isinstance(self._records[-1].event, e.RunFinished):
            return ()
        end = moment(self._records[-1])
        return (*self._calls.rest(end), self._agent(end, None))

    def _open(self, record: e.Record, event: e.RunStarted) -> None:
        origin = self._origin
        self._opened, self._begun = event, moment(record)
        self._root(root_run(origin.run, event.parent), record.at)
        if event.parent:
            origin.parent = span_id(event.parent, parent_part(origin.run, event.parent))
        self._heard[""] = _opening(event)

    def _fork(self, record: e.Record, event: e.Forked) -> None:
        origin = self._origin
        origin.parent = ""
        self._root(origin.run, record.at)
        self._forked, self._begun = event.run, moment(record)
        self._marks = []
        self._calls.forget()

    def _root(self, root: str, at: int) -> None:
        """Which trace this is: that of the run `root`."""
        origin = self._origin
        origin.trace = trace_id(root)
        began = dated(root)
        if root == origin.run:
            self._starts[root] = at
        origin.began = self._starts.get(root, at) if began is None else began

    def _aside(self, record: e.Record) -> None:
        """What is a moment of the run rather than a span."""
        event = record.event
        match event:
            case e.Violated():
                self._mark(record, "violated", event.detail, rule=event.rule)
                self._hear(event.key, Message("user", event.detail))
            case e.Steered():
                self._mark(record, "steered", event.text)
                self._hear(event.key, Message("user", event.content))
            case e.LimitHit():
                self._mark(record, "limit", limit=event.limit)
            case e.Parked():
                self._mark(record, "parked", reason=event.reason)
            case e.Resumed():
                self._mark(record, "resumed", epoch=event.epoch)
            case e.Cut():
                self._mark(record, "cut", event.detail, reason=event.reason)
            case e.Compacted():
                self._mark(record, "compacted", upto=event.upto)
            case e.Rewound():
                self._mark(record, "rewound", to=event.to)
            case _:
                pass

    def _mark(self, record: e.Record, name: str, said: str = "", **facts: str | int) -> None:
        if len(self._marks) < _MARKS:
            self._marks.append(Mark(name, moment(record), dict(facts), said))

    def _hear(self, key: str, message: Message) -> None:
        if message.content:
            self._heard.setdefault(branch(key), []).append(message)

    def _observed(self, record: e.Record, event: e.Observed) -> Span | None:
        action = self._calls.action(event)
        if action is None:
            return None
        if event.usage is not None:
            self._usage += event.usage
        said = text(event.observation.result)
        self._hear(event.key, result_message(action.id, said))
        span = self._calls.observe(record, event)
        if span is None:
            self._mark(record, "step", self._calls.thought(event), action=action.tool)
        return span

    def _replied(self, record: e.Record, event: e.Replied) -> ModelSpan:
        origin = self._origin
        self._usage += event.usage
        return ModelSpan(
            run=origin.run,
            trace=origin.trace,
            began=origin.began,
            id=span_id(origin.run, f"reply {record.seq}"),
            parent=origin.root,
            start=max(moment(record) - event.ms, self._begun + _TICK),
            end=moment(record),
            requested=self._opened.model,
            model=event.model or self._opened.model,
            role=event.role,
            heard=self._take(event.key),
            text=event.text,
            reasoning=event.reasoning,
            calls=event.calls,
            finish=event.finish,
            usage=event.usage,
            cached=event.cached,
        )

    def _failed(self, record: e.Record, event: e.AskFailed) -> ModelSpan:
        origin = self._origin
        return ModelSpan(
            run=origin.run,
            trace=origin.trace,
            began=origin.began,
            id=span_id(origin.run, f"reply {record.seq}"),
            parent=origin.root,
            start=moment(self._records[-2] if len(self._records) > 1 else record),
            end=moment(record),
            error=event.kind,
            message=event.message,
            requested=self._opened.model,
            model=self._opened.model,
            role="",
            heard=self._take(event.key),
        )

    def _take(self, key: str) -> tuple[Message, ...]:
        heard = self._heard.pop(branch(key), None)
        return tuple(heard) if heard is not None else (Message("user", self._opened.content),)

    def _agent(self, end: float, event: e.RunFinished | None) -> AgentSpan:
        origin, opened = self._origin, self._opened
        parked = isinstance(self._records[-1].event, e.Parked)
        failed = event is not None and event.status != "finished"
        return AgentSpan(
            run=origin.run,
            trace=origin.trace,
            began=origin.began,
            id=origin.root,
            parent=origin.parent,
            start=self._begun,
            end=end,
            error=(event.stop_reason or event.status) if event is not None and failed else "",
            message=event.error if event is not None else "",
            agent=opened.agent,
            model=opened.model,
            strategy=opened.strategy,
            session=opened.session,
            goal=opened.goal,
            status=event.status if event is not None else "waiting" if parked else "open",
            output=event.output if event is not None else None,
            stop_reason=event.stop_reason if event is not None else "",
            success=event is not None and event.success,
            forked_from=self._forked,
            marks=tuple(self._marks),
            usage=self._usage,
            steps=self._calls.steps,
            records=tuple(self._records),
        )


def spans_of(records: Iterable[e.Record], starts: dict[str, int] | None = None) -> tuple[Span, ...]:
    """The spans of a stored run, in the order of their end; those of a fork's past are left out.

    Give the same `starts` to a run and then to its children.
    """
    found: list[Span] = []
    projection: Projection | None = None
    for record in records:
        projection = projection or Projection(record.run, starts)
        span = projection.feed(record)
        if isinstance(record.event, e.Forked):
            found.clear()
        if span is not None:
            found.append(span)
    return (*found, *projection.rest()) if projection is not None else ()


def _opening(event: e.RunStarted) -> list[Message]:
    said = event.settings.get("instructions")
    system = [Message("system", said)] if isinstance(said, str) else []
    return [*system, *event.history, Message("user", event.content)]

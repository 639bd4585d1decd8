"""The calls of a run on their way, from `Proposed` to `Observed`: tool and approval spans.

Pure. Knows nothing about model calls or the run as a whole.
"""

from typing import Any, Final

import msgspec

from taofold.core import events as e
from taofold.core.values import RESERVED, Action, Thought
from taofold.telemetry.ids import call_part, span_id, trace_id
from taofold.telemetry.spans import ApprovalSpan, ToolSpan

_FAILED: Final = frozenset({"failure", "timeout"})
_SILENT: Final = Thought("")


class Origin:
    """Where the spans of a run hang, and what all of them say."""

    __slots__ = ("agent", "began", "parent", "root", "run", "session", "trace", "user")

    def __init__(self, run: str) -> None:
        self.run, self.root = run, span_id(run, "run")
        self.trace, self.parent, self.began = trace_id(run), "", 0
        self.agent = self.session = self.user = ""

    @property
    def shared(self) -> dict[str, Any]:
        """The fields that all spans of the run have alike."""
        return {
            "run": self.run,
            "trace": self.trace,
            "began": self.began,
            "agent": self.agent,
            "session": self.session,
            "user": self.user,
        }


class _Call:
    __slots__ = ("action", "began", "started", "thought", "time")

    def __init__(self, action: Action, thought: Thought, began: float, time: int) -> None:
        self.action, self.thought, self.began, self.time = action, thought, began, time
        self.started = False


class Calls:
    """What was proposed and is not over."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._known: dict[tuple[str, int], _Call] = {}
        self._asked: dict[tuple[str, int], tuple[e.Record, e.Decided]] = {}
        self._left: dict[str, int] = {}
        self.steps = 0
        """Batches that are over."""

    def propose(self, record: e.Record, event: e.Proposed) -> None:
        """A batch. Its place may be known from before a rewind; the new calls are others."""
        self._left[event.key] = len(event.actions)
        for index, action in enumerate(event.actions):
            before = self._known.get((event.key, index))
            time = 0 if before is None else before.time + 1
            self._known[event.key, index] = _Call(action, event.thought, moment(record), time)

    def start(self, record: e.Record, event: e.Started) -> None:
        """The tool is about to be called."""
        call = self._known.get((event.key, event.index))
        if call is not None:
            call.started, call.began = True, moment(record)

    def decide(self, record: e.Record, event: e.Decided) -> ApprovalSpan | None:
        """A ruling: the span of an approval that it closes, if it does."""
        place = event.key, event.index
        call = self._known.get(place)
        if event.action is not None and call is not None:
            call.action = event.action
        if event.verdict == "ask":
            self._asked[place] = record, event
            return None
        asked = self._asked.pop(place, None)
        return None if asked is None else self._approval(*asked, moment(record), event)

    def observe(self, record: e.Record, event: e.Observed) -> ToolSpan | None:
        """The span of the call, None for a strategy's own step, which calls nothing."""
        call = self._known.get((event.key, event.index))
        if call is not None:
            left = self._left[event.key] = self._left[event.key] - 1
            self.steps += left == 0
        if call is None or call.action.tool in RESERVED:
            return None
        if not call.started and not event.observation.refused:
            return None
        span = self._tool(event.key, event.index, call, moment(record), event)
        call.started = False
        return span

    def action(self, event: e.Observed) -> Action | None:
        """What was done, as it was allowed."""
        call = self._known.get((event.key, event.index))
        return None if call is None else call.action

    def thought(self, event: e.Observed) -> str:
        """Why."""
        call = self._known.get((event.key, event.index))
        return "" if call is None else call.thought.content

    def rest(self, end: float) -> tuple[ApprovalSpan | ToolSpan, ...]:
        """What is open at `end`."""
        asked = [self._approval(one, said, end) for one, said in self._asked.values()]
        started = [
            self._tool(key, index, call, end)
            for (key, index), call in self._known.items()
            if call.started
        ]
        return (*asked, *started)

    def forget(self) -> None:
        """The calls so far were another run's."""
        self._known.clear()
        self._asked.clear()
        self._left.clear()

    def _approval(
        self, asked: e.Record, said: e.Decided, end: float, answer: e.Decided | None = None
    ) -> ApprovalSpan:
        origin, call = self._origin, self._known.get((said.key, said.index))
        refused = answer is not None and answer.verdict not in ("allow", "done")
        return ApprovalSpan(
            **origin.shared,
            id=span_id(origin.run, f"approval {asked.seq}"),
            parent=origin.root,
            start=moment(asked),
            end=end,
            error=answer.verdict if answer is not None and refused else "",
            message=answer.reason if answer is not None else "",
            tool=call.action.tool if call is not None else "",
            call=f"{said.key}[{said.index}]",
            parameters=call.action.parameters if call is not None else {},
            tier=said.tier,
            reason=said.reason,
            verdict=answer.verdict if answer is not None else "open",
            by=answer.by if answer is not None else "",
        )

    def _tool(
        self, key: str, index: int, call: _Call, end: float, event: e.Observed | None = None
    ) -> ToolSpan:
        """The span of a call; without an event nobody knows how it ended."""
        origin, error, start = self._origin, "interrupted", call.began
        seen = None if event is None else event.observation
        if seen is not None:
            error = seen.refused or (seen.status if seen.status in _FAILED else "")
            start = max(start, end - seen.duration_ms) if seen.duration_ms else start
        return ToolSpan(
            **origin.shared,
            id=span_id(origin.run, call_part(key, index, call.time)),
            parent=origin.root,
            start=start,
            end=end,
            error=error,
            message=text(seen.result) if seen is not None and error else "",
            tool=call.action.tool,
            call=call.action.id or f"{key}[{index}]",
            parameters=call.action.parameters,
            thought=call.thought.content,
            thought_type=call.thought.type,
            result=seen.result if seen is not None else None,
            refused=seen.refused if seen is not None else "",
        )


def moment(record: e.Record) -> float:
    """When it happened; what happened in the same millisecond keeps its order."""
    return record.at + min(record.seq, 999) / 1000


def text(value: object) -> str:
    """A value as text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""A run as displays see it: the changes of each record, computed once for all displays.

`WatchedRun` takes the records of one run in order and returns a `WatchedChange` for each: the call
that it concerns, its step, the question that it answers, and a limit that it is first to name. The
event stream, AG-UI and the terminal render these changes and keep no fold of their own. Pure.
"""

from typing import Any, Final

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.content import parts_of, thoughts
from taofold.core.errors import LogError
from taofold.core.state import ActionSlot, RunState, fold, live, reduce
from taofold.core.values import ASK_USER, Action, Value

_DECISIONS: Final = {"allow": "approved", "deny": "denied"}
_REFUSING: Final = {"limit": "tool_calls", "time_limit": "seconds"}
"""The limit of the run that causes a refusal of a call."""
UNKNOWN: Final = ActionSlot(Action("?"))
"""The call of a record that belongs to no open step."""


class WatchedChange(Value, frozen=True):
    """The changes that one record causes in a display of its run."""

    record: e.Record
    slot: ActionSlot = UNKNOWN
    """The call that the record concerns, in its state before the record."""
    step: int = 0
    """The number of the step that the record belongs to, from 1; 0 = none."""
    batch: int = 0
    """The number of calls in that step."""
    reasoning: str = ""
    """The readable thinking before the step that the record proposes."""
    question: e.Record | None = None
    """The question that the record answers, or makes void."""
    decision: str = ""
    """The answer: approved, denied, edited, answered, void, or another verdict."""
    limit: str = ""
    """The limit that the record is the first to name."""
    last: bool = False
    """True if one last turn is allowed after that limit."""
    closes: bool = False
    """True if the record is the last observation of its step."""


class WatchedRun:
    """The view of one run, built from its records in order.

    Example:
        view = WatchedRun()
        for record in records:
            change = view.feed(record)
    """

    def __init__(self) -> None:
        self.state = RunState()
        """The run's state after the newest record."""
        self.questions: dict[tuple[str, int], e.Record] = {}
        """The records of the open questions, by key and index of their calls."""
        self.failed = ""
        """The error kind of the newest failed model call."""
        self._records: list[e.Record] = []
        self._steps: dict[str, int] = {}
        self._thinking: dict[str, str] = {}
        """The readable thinking by branch, until its step begins."""
        self._limits: set[str] = set()

    def feed(self, record: e.Record) -> WatchedChange:
        """Takes the next record and returns its changes."""
        self._records.append(record)
        event = record.event
        match event:
            case e.Proposed(key=key):
                self._steps[key] = len(self._steps) + 1
                thinking = self._thinking.pop(branch(key), "")
                reasoning = thinking if thinking.strip() else ""
                change = WatchedChange(
                    record, step=self._steps[key], batch=len(event.actions), reasoning=reasoning
                )
            case e.Decided():
                change = self._decided(record, event)
            case e.Started():
                change = self._of_call(record, event)
            case e.Observed():
                change = self._observed(record, event)
            case e.LimitHit():
                change = WatchedChange(record, limit=self._first(event.limit), last=event.value < 0)
            case _:
                change = WatchedChange(record)
        self._fold(record)
        return change

    def _of_call(
        self, record: e.Record, event: e.Decided | e.Started | e.Observed, **more: Any
    ) -> WatchedChange:
        opened = self.state.open.get(event.key)
        slots = () if opened is None else opened.slots
        slot = slots[event.index] if 0 <= event.index < len(slots) else UNKNOWN
        return WatchedChange(record, slot, self._steps.get(event.key, 0), len(slots), **more)

    def _decided(self, record: e.Record, event: e.Decided) -> WatchedChange:
        call = event.key, event.index
        if event.verdict == "ask":
            self.questions[call] = record
            return self._of_call(record, event)
        question = self.questions.pop(call, None)
        change = self._of_call(record, event, question=question)
        return change if question is None else _answered(change, event)

    def _observed(self, record: e.Record, event: e.Observed) -> WatchedChange:
        question = self.questions.pop((event.key, event.index), None)
        limit = self._first(_REFUSING.get(event.observation.refused, ""))
        opened = self.state.open.get(event.key)
        others = () if opened is None else opened.slots
        closes = all(
            [
                slot.observation is not None or index == event.index
                for index, slot in enumerate(others)
            ]
        )
        return self._of_call(
            record, event, question=question, limit=limit, last=bool(limit), closes=closes
        )

    def _first(self, limit: str) -> str:
        """Returns `limit` the first time the run meets it, then ""."""
        if not limit or limit in self._limits:
            return ""
        self._limits.add(limit)
        return limit

    def _fold(self, record: e.Record) -> None:
        event = record.event
        match event:
            case e.Replied():
                self._thinking[branch(event.key)] = thoughts(parts_of(event.content))
            case e.AskFailed():
                self.failed = event.kind
            case e.RunFinished():
                self.questions.clear()
            case e.Rewound():
                self._rewind()
                return
            case _:
                pass
        try:
            self.state = reduce(self.state, record)
        except LogError:
            # The view began in the middle of the run: records about unseen steps are skipped.
            return

    def _rewind(self) -> None:
        """Rebuilds the view from the records that still count; rewinds are rare."""
        self.state = fold(self._records)
        self.questions.clear()
        keys = [r.event.key for r in live(self._records) if isinstance(r.event, e.Proposed)]
        self._steps = {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}
        self.failed = ""
        self._limits.clear()


def _answered(change: WatchedChange, event: e.Decided) -> WatchedChange:
    """Returns the change with the name of the answer."""
    decision = _DECISIONS.get(event.verdict, event.verdict)
    if event.verdict == "allow" and change.slot.action.tool == ASK_USER:
        decision = "answered"
    elif not isinstance(event, e.Resolved):
        # Closed by the policy, not by an approver: the subject of the question has changed.
        decision = "void"
    elif event.verdict == "allow" and event.action is not None:
        decision = "edited"
    return replace(change, decision=decision)

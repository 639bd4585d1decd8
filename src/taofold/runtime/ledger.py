"""The ledger of one activation: what happens is written here, over what the tape already has.

Every part of a drive goes through it: it decides whether an event is new or recorded, compares
the two, says when the past ends and the present begins, and refuses the world to an exact replay.
The *tape* is what an earlier life of the run recorded, by the place of each effect. The signals
(`Park`, `Cancelled`, `Denied`, `EndOfTape`) are how a drive ends other than by an answer: no
errors, `run` turns them into events. Knows nothing about strategies.
"""

from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from taofold.core import events as e
from taofold.core.content import Conversation
from taofold.core.effects import Ask
from taofold.core.errors import LogError, ModelError, ReplayDiverged
from taofold.core.rules import fingerprint
from taofold.core.state import live
from taofold.core.values import Action, Step
from taofold.log.store import Store
from taofold.policy import Repetition
from taofold.policy.limits import Held
from taofold.policy.repetition import CallIdentity
from taofold.runtime.hooks import HookContext
from taofold.runtime.inbox import Inbox
from taofold.runtime.setup import Setup

E = TypeVar("E", bound=e.Happened)

WORLD: Final = (
    *(e.Resumed, e.Parked, e.Forked, e.PromptChanged),
    *(e.Rewound, e.RunStarted, e.Updated, e.DecisionRefused, e.RunFinished),
)
"""Written by whoever drives the run. No effect derives them, so a replay skips them."""
CALL: Final = (e.Decided, e.Resolved, e.Started, e.Observed)
"""What becomes of one action."""


def place(event: e.Event) -> tuple[str, str, int]:
    """Where an event belongs: effect key, kind and index."""
    kind = type(event)
    if issubclass(kind, e.Started):
        kind = e.Started
    return getattr(event, "key", ""), kind.__name__, getattr(event, "index", 0)


class Tape:
    """The records of a run, to be consumed by re-driving it."""

    def __init__(self, records: Iterable[e.Record] = ()) -> None:
        self._order = deque(records)
        self._at: dict[tuple[str, str, int], deque[e.Record]] = {}
        self._steered: list[e.Record] = []
        self._last: dict[str, int] = {}
        self._left: dict[str, int] = {}
        # What a rewind took back is not on the tape, but still in `_order`:
        # the state counts its cost.
        for record in live(self._order):
            if isinstance(record.event, e.Steered):
                self._steered.append(record)
            elif not isinstance(record.event, WORLD):
                self._at.setdefault(place(record.event), deque()).append(record)
                self._count(getattr(record.event, "key", ""), 1)

    # An effect inside a fork counts for every fork around it, so that `behind` needs no search.
    def _count(self, key: str, change: int) -> None:
        while key:
            branch, _, position = key.rpartition(".")
            self._last[branch] = max(self._last.get(branch, -1), int(position))
            self._left[key] = self._left.get(key, 0) + change
            # Two segments less: "3.1.0" is effect 0 of branch 1 of the fork at "3".
            key = branch.rpartition(".")[0]

    def behind(self, key: str) -> bool:
        """Does the tape hold anything that this branch did at `key` or later?"""
        if not self._last:
            return False
        branch, _, position = key.rpartition(".")
        return int(position) < self._last.get(branch, -1) or self._left.get(key, 0) > 0

    def peek(self, kind: type[E], key: str, index: int = 0) -> E | None:
        """The next recorded event of `kind` at this place, left on the tape."""
        if not self._at:
            return None
        queue = self._at.get((key, kind.__name__, index))
        return queue[0].event if queue else None  # type: ignore[return-value]

    def take(self, kind: type[e.Happened], key: str, index: int = 0) -> e.Record | None:
        """The next recorded record of `kind` at this place, off the tape."""
        if not self._at:
            return None
        queue = self._at.get((key, kind.__name__, index))
        if not queue:
            return None
        self._count(key, -1)
        return queue.popleft()

    def attempts(self, key: str, index: int) -> list[e.Record]:
        """What became of one action up to its last `Started`, off the tape, in order.

        What stays on the tape came after it: only that is about the start that counts now.
        """
        started = self._at.get((key, e.Started.__name__, index))
        # A decision behind the last start is the answer to a question about that start: it stays.
        last = started[-1].seq if started else -1
        taken: list[e.Record] = []
        for kind in (e.Decided, e.Resolved, e.Started):
            queue = self._at.get((key, kind.__name__, index))
            while queue and queue[0].seq <= last:
                self._count(key, -1)
                taken.append(queue.popleft())
        return sorted(taken, key=lambda record: record.seq)

    def call(self, key: str, index: int) -> list[e.Record]:
        """Everything that became of one action, off the tape, in order."""
        taken: list[e.Record] = []
        for kind in CALL:
            while (record := self.take(kind, key, index)) is not None:
                taken.append(record)
        return sorted(taken, key=lambda record: record.seq)

    def steering(self, key: str) -> list[e.Record]:
        """What people said up to the turn at `key` of its branch, off the tape."""
        if not self._steered:
            return []
        branch, _, position = key.rpartition(".")
        heard: list[e.Record] = []
        for record in tuple(self._steered):
            branch_key, _, at = getattr(record.event, "key", "").rpartition(".")
            if branch_key == branch and int(at) <= int(position):
                self._steered.remove(record)
                heard.append(record)
        return heard

    def until(self, seq: int | None = None) -> Iterator[e.Record]:
        """The records not yet given out, in the order of the log, up to `seq` (None: all)."""
        # Taken off the left: each record is restored once, over the whole activation O(n).
        while self._order and (seq is None or self._order[0].seq <= seq):
            yield self._order.popleft()

    def rest(self) -> list[e.Record]:
        """What was never asked for, in order."""
        if not self._at:
            return []
        left = [record for queue in self._at.values() for record in queue]
        return sorted(left, key=lambda record: record.seq)


def essence(event: e.Event) -> Any:
    """What must be equal on resume: kind, key and, for a step, what would be done (D13)."""
    if isinstance(event, e.Proposed):
        return event.key, [said(action) for action in event.actions]
    return place(event)


def said(action: Action) -> tuple[str, dict[str, Any]]:
    """Tool and parameters."""
    return action.tool, action.parameters


# BaseException, like the three below: no `except Exception` of a strategy or a tool may swallow it.
class Park(BaseException):
    """The run must wait: `reason` is awaiting_approval or awaiting_input."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Cancelled(BaseException):
    """A person cancelled the run through its inbox."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class Denied(BaseException):
    """An action was denied and the agent says `on_denial="stop"`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EndOfTape(BaseException):
    """An exact replay came to the end of what was recorded."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Ledger:
    """Setup, store, tape and inbox of one activation of one run."""

    def __init__(
        self,
        setup: Setup,
        store: Store,
        tape: Tape,
        inbox: Inbox,
        *,
        exact: bool = False,
        resumed: bool = False,
    ) -> None:
        self.setup, self.store, self.tape, self.inbox = setup, store, tape, inbox
        self.exact, self.resumed = exact, resumed
        self.held: dict[str, Held] = {}
        """What calls under way may still consume, by place."""
        self.queue: set[str] = set()
        """Places of child runs that are about to start."""
        self.people: list[str] = []
        """What people wrote to the run since its last model call, for hooks."""
        self.others = 0
        """How many branches run beside the one that asks."""
        self.fresh = False
        """No event is left on the tape (steering may be): what comes now happens now."""
        # A copy as a dict: looking a tool up is done several times in each step.
        self.tools = dict(setup.tools)
        self.media: dict[str, bytes] = {}
        """The bytes of media that models may be shown, base64, by digest."""
        self._offers: dict[tuple[tuple[str, ...], int], tuple[object, str]] = {}
        self._live = False
        self._late: list[e.Event] = []
        self._guards: dict[str, Repetition] = {}
        self._timeouts: set[str] = set()
        """Fingerprints of the calls that timed out, in the first `_looked` steps."""
        self._looked = self._rewinds = 0
        self._mutating = frozenset([t.name for t in self.tools.values() if t.effect != "read"])

    def sharing(self, key: str) -> int:
        """The number of consumers that the remaining limits are divided by, at least 1.

        They are the branch of `key`, the child runs that are queued, and the other branches that
        are not counted already by child runs of theirs, queued or at work.
        """
        # Keys of calls end in "]" (`3[0]`), those of model calls do not.
        working = [location for location in self.held if location.endswith("]")]
        served = {_branch(location) for location in (*self.queue, *working)} - {_branch(key)}
        return 1 + len(self.queue) + max(0, self.others - len(served))

    def offer(self, effect: Ask) -> str:
        """16 hex digits that stand for the tools and the schema of a call."""
        offer_key = effect.tools, id(effect.schema)
        offer = self._offers.get(offer_key)
        if offer is None:
            encoded = msgspec.json.encode((self.setup.specs(effect.tools), effect.schema))
            offer = effect.schema, blake2b(encoded, digest_size=8).hexdigest()
            # Tools and schema seldom change in a run: they are encoded once.
            self._offers[offer_key] = offer  # holding the schema keeps its id from being used again
        return offer[1]

    async def fetch(self, talk: Conversation) -> None:
        """Have the bytes of all media in `talk` at hand.

        Raises:
            ModelError: of kind "request", if they are not in the log.
        """
        for part in talk.media[talk.fetched :]:
            if part.digest and part.digest not in self.media:
                try:
                    content = await self.store.blob(part.digest)
                except LogError as error:
                    message = f"the bytes of {part.line} are not in the log: {error}"
                    raise ModelError(message, kind="request") from error
                self.media[part.digest] = b64encode(content)
        talk.fetched = len(talk.media)

    def put(self, event: e.Event) -> e.Record:
        """Record `event`, or find that the tape already has it.

        Raises:
            ReplayDiverged: the tape has something else there.
        """
        # The common case, and the only one in a run that is not resumed: nothing
        # is left to compare with.
        if self.fresh:
            return self.store.record(event)
        key: str = getattr(event, "key", "")
        record = self.tape.take(_kind(event), key, getattr(event, "index", 0))
        if record is None:
            if self.exact:
                self._unrecorded(key, event)
            return self.new(event)
        # A replay compares everything; a resume only what would be done, so that a reworded prompt
        # or another clock strands no run.
        if self.exact and record.event.timeless() != event.timeless():
            raise ReplayDiverged(key, record.event, event)
        if not self.exact and essence(record.event) != essence(event):
            raise ReplayDiverged(key, essence(record.event), essence(event))
        self.replayed(record)
        return record

    def new(self, event: e.Event) -> e.Record:
        """Record what never happened before."""
        if not self._live:
            self.live()
        return self.store.record(event)

    def overruled(self, key: str, index: int) -> None:
        """On resume the policy says something else about an action that did not start yet."""
        for kind in (e.Decided, e.Resolved):
            while (record := self.tape.take(kind, key, index)) is not None:
                self.replayed(record)

    def replayed(self, record: e.Record) -> None:
        """Take in a recorded record, and whatever lies before it in the log."""
        for earlier in self.tape.until(record.seq):
            # Folded into the state, not written: it is in the log already.
            self.store.restore(earlier)

    def live(self) -> None:
        """From here on it happens now: take in the rest of the log and say who resumed it."""
        if self._live or self.exact:
            return
        # Before the rest: `dispatch` below must not come back here.
        self._live = True
        for earlier in self.tape.until():
            self.store.restore(earlier)
        if self.resumed:
            self.store.dispatch(e.Resumed(epoch=self.store.epoch))
        # Noticed while the tape was read, when nothing may be written; now it may.
        for event in self._late:
            self.store.dispatch(event)
        # Parallel branches reach the present one after the other: for some
        # there may be a past left.
        self.fresh = not self.tape.rest()

    def reworded(self, key: str, recorded: str, requested: str) -> None:
        """This code builds another prompt than the one recorded: said once per activation."""
        if not self._late:
            self._late.append(e.PromptChanged(key=key, recorded=recorded, requested=requested))

    def touch(self, key: str) -> None:
        """Call before touching the world: an exact replay never does."""
        if self.exact:
            raise EndOfTape(key)
        if not self._live:
            self.live()

    def steered(self, key: str) -> list[e.Steered]:
        """The messages that are recorded as read at `key`."""
        heard: list[e.Steered] = []
        for record in self.tape.steering(key):
            self.replayed(record)
            if isinstance(record.event, e.Steered):
                heard.append(record.event)
                self.people.append(record.event.text)
        return heard

    def past(self, key: str) -> bool:
        """Is what happens at `key` recorded, or nobody's to add to?"""
        return not self.fresh and (self.exact or self.tape.behind(key))

    def hear(self, key: str) -> list[e.Steered]:
        """Put what people said on the record; the next turn at or after `key` tells the model."""
        heard: list[e.Steered] = []
        for signal in self.inbox.steers():
            text = self.setup.redactor.text(str(signal.data.get("text", "")))
            name = self.setup.redactor.text(signal.id)  # it holds what its sender called it
            # Put on record and taken from the inbox in one flush: neither lost nor read twice.
            event = e.Steered(key=key, id=name, text=text, by=signal.by)
            self.new(event)
            heard.append(event)
            self.people.append(text)
            self.inbox.take(signal)
        return heard

    async def save(self) -> None:
        """Make what happened so far durable; honour a cancellation that arrived meanwhile."""
        await self.store.flush(consume=self.inbox.spend())
        if self.inbox.news:
            await self.heed()

    async def heed(self) -> None:
        """Honour a cancellation that arrived while the world was waited for."""
        if self.inbox.stale:
            await self.inbox.refresh()
        by = self.inbox.cancelled()
        if by:
            raise Cancelled(by)

    async def flush(self) -> None:
        """Make what happened so far durable, and what the inbox held of it gone."""
        await self.store.flush(consume=self.inbox.spend())

    def _unrecorded(self, key: str, event: e.Event) -> None:
        if self.tape.behind(key):
            raise ReplayDiverged(key, None, event)
        raise EndOfTape(key)

    def call(self, action: Action) -> CallIdentity:
        """The action as the guard knows it: by what it says, or as its tool tells calls apart."""
        plain = fingerprint(action)
        tool = self.tools.get(action.tool)
        own = tool.loop_key(action.parameters) if tool is not None and tool.loop_key else ""
        return CallIdentity(plain, own or plain)

    def timed_out(self, action: Action) -> bool:
        """Has the same call, whatever its `timeout_s`, timed out in this run?"""
        state = self.store.state
        if state.rewinds != self._rewinds:
            # What was taken back never happened: what is left is looked at once more.
            self._timeouts.clear()
            self._rewinds, self._looked = state.rewinds, 0
        # Each step once, however many calls ask.
        for step in state.steps[self._looked :]:
            for past, observation in zip(step.actions, step.observations, strict=True):
                if observation.status == "timeout":
                    self._timeouts.add(fingerprint(past))
        self._looked = len(state.steps)
        identity = fingerprint(action)
        return identity in self._timeouts or any(
            slot.observation is not None
            and slot.observation.status == "timeout"
            and fingerprint(slot.action) == identity
            for step in state.open.values()
            for slot in step.slots
        )

    def guard(self, key: str) -> Repetition:
        """The repetition guard of the branch in which `key` stands."""
        branch = _branch(key)
        guard = self._guards.get(branch)
        if guard is None:
            guard = self._guards[branch] = Repetition(self.tools)
        return guard

    def show(self, guard: Repetition, step: Step, calls: Sequence[CallIdentity | None]) -> None:
        """Show the `guard` a step that is complete; `calls` are those that it has judged."""
        judged = list(filter(None, calls))
        if len(judged) < len(calls):
            judged = [call or self.call(step.actions[index]) for index, call in enumerate(calls)]
        guard.seen(step, mutating=self._mutating, calls=judged)


def hook_context(ledger: Ledger, key: str, people: Sequence[str] = ()) -> HookContext:
    """What hooks are told about the call at `key`."""
    setup, store = ledger.setup, ledger.store
    return HookContext(
        run_id=store.run,
        key=key,
        principal=setup.principal,
        usage=store.state.usage,
        deps=setup.deps,
        people=tuple(people),
    )


def _kind(event: e.Event) -> type[e.Happened]:
    return e.Started if isinstance(event, e.Started) else type(event)


def _branch(place: str) -> str:
    """The branch of a fork that an effect stands in: "3.1" of "3.1.0"."""
    return place.rpartition(".")[0]

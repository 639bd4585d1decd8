"""The ledger of one activation: what happens is written here, over what the tape already has.

Every part of a drive goes through it: it decides whether an event is new or recorded,
compares the two, says when the past ends and the present begins, and refuses the world
to an exact replay. It knows nothing about strategies.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from taofold.core import events as e
from taofold.core.conversation import Conversation
from taofold.core.effects import Ask
from taofold.core.errors import LogError, ModelError, ReplayDiverged
from taofold.core.rules import fingerprint
from taofold.core.values import Action, Step
from taofold.policy import Repetition
from taofold.policy.limits import Held
from taofold.policy.repetition import Call
from taofold.runtime.inbox import Inbox
from taofold.runtime.setup import Setup
from taofold.runtime.signals import Cancelled, EndOfTape
from taofold.runtime.tape import Tape, essence
from taofold.store.store import Store


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
        self.others = 0
        """How many branches run beside the one that asks."""
        self.fresh = False
        """No event is left on the tape (steering may be): what comes now happens now."""
        self.tools = dict(setup.tools)
        self.media: dict[str, bytes] = {}
        """The bytes of media that models may be shown, base64, by digest."""
        self._offers: dict[tuple[tuple[str, ...], int], tuple[object, str]] = {}
        self._live = False
        self._late: list[e.Event] = []
        self._guards: dict[str, Repetition] = {}
        self._mutating = frozenset([t.name for t in self.tools.values() if t.effect != "read"])

    def sharing(self, key: str) -> int:
        """How many may want a share of what is left now: who asks at `key`, and all who have none.

        A branch whose child runs are queued or at work counts by these.
        """
        working = [place for place in self.held if place.endswith("]")]
        served = {_branch(place) for place in (*self.queue, *working)} - {_branch(key)}
        return 1 + len(self.queue) + max(0, self.others - len(served))

    def offer(self, effect: Ask) -> str:
        """16 hex digits that stand for the tools and the schema of a call."""
        place = effect.tools, id(effect.schema)
        known = self._offers.get(place)
        if known is None:
            said = msgspec.json.encode((self.setup.specs(effect.tools), effect.schema))
            known = effect.schema, blake2b(said, digest_size=8).hexdigest()
            self._offers[place] = known  # holding the schema keeps its id from being used again
        return known[1]

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
                    said = f"the bytes of {part.line} are not in the log: {error}"
                    raise ModelError(said, kind="request") from error
                self.media[part.digest] = b64encode(content)
        talk.fetched = len(talk.media)

    def put(self, event: e.Event) -> e.Record:
        """Record `event`, or find that the tape already has it.

        Raises:
            ReplayDiverged: the tape has something else there.
        """
        if self.fresh:
            return self.store.record(event)
        key: str = getattr(event, "key", "")
        record = self.tape.take(_kind(event), key, getattr(event, "index", 0))
        if record is None:
            if self.exact:
                self._unrecorded(key, event)
            return self.new(event)
        if self.exact and record.event != event:
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
        for one in self.tape.until(record.seq):
            self.store.restore(one)

    def live(self) -> None:
        """From here on it happens now: take in the rest of the log and say who resumed it."""
        if self._live or self.exact:
            return
        self._live = True
        for one in self.tape.until():
            self.store.restore(one)
        if self.resumed:
            self.store.dispatch(e.Resumed(epoch=self.store.epoch))
        for event in self._late:
            self.store.dispatch(event)
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
            event = e.Steered(key=key, id=name, text=text, by=signal.by)
            self.new(event)
            heard.append(event)
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

    def call(self, action: Action) -> Call:
        """The action as the guard knows it: by what it says, or as its tool tells calls apart."""
        plain = fingerprint(action)
        tool = self.tools.get(action.tool)
        own = tool.loop_key(action.parameters) if tool is not None and tool.loop_key else ""
        return Call(plain, own or plain)

    def guard(self, key: str) -> Repetition:
        """The repetition guard of the branch in which `key` stands."""
        branch = _branch(key)
        guard = self._guards.get(branch)
        if guard is None:
            guard = self._guards[branch] = Repetition()
        return guard

    def show(self, guard: Repetition, step: Step, calls: Sequence[Call | None]) -> None:
        """Show the `guard` a step that is complete; `calls` are those that it has judged."""
        known = list(filter(None, calls))
        if len(known) < len(calls):
            known = [call or self.call(step.actions[index]) for index, call in enumerate(calls)]
        guard.seen(step, mutating=self._mutating, calls=known)


def _kind(event: e.Event) -> type[e.Happened]:
    return e.Started if isinstance(event, e.Started) else type(event)


def _branch(place: str) -> str:
    """The branch of a fork that an effect stands in: "3.1" of "3.1.0"."""
    return place.rpartition(".")[0]

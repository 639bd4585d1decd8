"""The ledger of one activation: writes events unless they are already on record.

Every part of a drive uses it. It queries the recording, marks the transition from past to present,
and denies world access to an exact replay. It therefore also holds the shared lookups: the current
tools, the bytes of media, user messages, and the repetition guard of each branch. The signals
(`Park`, `Cancelled`, `Denied`) end a drive without an answer; they are not errors, and `run` turns
them into events. Knows nothing about strategies.
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import msgspec

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.content import Conversation
from taofold.core.effects import Ask
from taofold.core.errors import LogError, ModelError
from taofold.core.json_values import copied
from taofold.core.rules import fingerprint
from taofold.core.values import Action, Step
from taofold.foreign_code import contained
from taofold.log.run_store import Store
from taofold.policy import Repetition
from taofold.policy.repetition import CallIdentity
from taofold.runtime.allowance import Allowance
from taofold.runtime.budgets import RunBudgets
from taofold.runtime.hooks import HookContext
from taofold.runtime.inbox import Inbox
from taofold.runtime.recording import EndOfTape, Recording
from taofold.runtime.redaction import is_masked
from taofold.runtime.setup import Setup
from taofold.tools import Tool


# BaseException, like the next two: an `except Exception` of a strategy or tool must not catch it.
class Park(BaseException):
    """The run must wait: `reason` is awaiting_approval or awaiting_input."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Cancelled(BaseException):
    """A user cancelled the run through its inbox."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class Denied(BaseException):
    """An action was denied, and the agent has `on_denial="stop"`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def call_place(key: str, index: int) -> str:
    """Returns the place of one call of the batch at `key`."""
    return f"{key}[{index}]"


class Ledger:
    """Setup, store, recording and inbox of one activation of one run."""

    def __init__(
        self,
        setup: Setup,
        store: Store,
        recording: Recording,
        inbox: Inbox,
        *,
        resumed: bool = False,
    ) -> None:
        self.setup, self.store, self.recording, self.inbox = setup, store, recording, inbox
        self.resumed = resumed
        self.allowance = Allowance(setup, store)
        self.budgets = RunBudgets(setup, store)
        self.merging = asyncio.Lock()
        """Held while the files of a child run are merged."""
        self.people: list[str] = []
        """User messages since the last model call, for hooks."""
        self.narrowed: dict[str, frozenset[str] | None] = {}
        """By branch: the tools to which a hook limited the newest model call; None = no limit."""
        # A copy as a dict: each step looks tools up several times.
        self.tools = dict(setup.tools)
        self.media: dict[str, bytes] = {}
        """The bytes of media that models may be shown, base64, by digest."""
        self._offers: dict[tuple[object, ...], tuple[object, str]] = {}
        self._live = False
        self._late: list[e.Event] = []
        self._guards: dict[str, Repetition] = {}
        self._timeouts: set[str] = set()
        """Fingerprints of the calls that timed out in the first `_looked` steps."""
        self._looked = self._rewinds = 0
        self._mutating = self._mutating_tools()

    def _mutating_tools(self) -> frozenset[str]:
        return frozenset([tool.name for tool in self.tools.values() if tool.effect != "read"])

    def change_agent(self, setup: Setup) -> None:
        """Continues the run with the plan of another agent."""
        self.setup = setup
        self.allowance.change_agent(setup)
        self.budgets.change_agent(setup)
        # In place: the repetition guard, which judges the run as a whole, looks tools up here.
        self.tools.clear()
        self.tools.update(setup.tools)
        self._mutating = self._mutating_tools()
        # The cached descriptions are those of the other agent's tools.
        self._offers.clear()

    def tool(self, name: str) -> Tool | None:
        """Returns the current version of the tool, or None if no tool has this name.

        Call it for each judgement of a call: the tool may change while a run is active or waits.
        """
        current = self.tools.get(name)
        if current is None or current.renew is None or self.recording.exact:
            return current
        tool = self.tools[name] = current.renewed()
        if tool is not current:
            self._mutating = self._mutating_tools()
        return tool

    def narrowed_at(self, key: str) -> frozenset[str] | None:
        """Returns the tools to which a hook limited the model call before `key`; None = all."""
        at = branch(key)
        while at and at not in self.narrowed:
            # Two segments less: the branch around the fork.
            at = branch(branch(at))
        return self.narrowed.get(at)

    def offer(self, effect: Ask) -> str:
        """Returns 16 hex digits over the tools and the schema of a call."""
        offer_key = effect.tools, effect.deferred, id(effect.schema)
        offer = self._offers.get(offer_key)
        if offer is None:
            encoded = msgspec.json.encode(self._offered(effect))
            offer = effect.schema, blake2b(encoded, digest_size=8).hexdigest()
            # Tools and schema seldom change in a run: they are encoded once.
            self._offers[offer_key] = offer  # holding the schema keeps its id from being reused
        return offer[1]

    def _offered(self, effect: Ask) -> Any:
        """Returns the data of the digest of an offer."""
        if not effect.deferred:
            return self.setup.specs(effect.tools), effect.schema
        # Found tools are loaded by the conversation and change no earlier byte of the request.
        away = frozenset(effect.deferred)
        first = tuple([name for name in effect.tools if name not in away])
        deferred = self.setup.deferred_specs(effect.deferred)
        return self.setup.specs(first), effect.schema, deferred, effect.search

    async def fetch(self, talk: Conversation) -> None:
        """Loads the bytes of all media in `talk`.

        Raises:
            ModelError: Of kind "request": they are not in the log.
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
        """Records `event`, or finds it recorded.

        Raises:
            ReplayDiverged: Another event is recorded there.
        """
        # The common case, and the only one in a run that is not resumed: nothing is left to
        # compare.
        if self.recording.fresh:
            return self.store.record(event)
        return self.recording.match(event) or self.new(event)

    def annotate(self, event: e.Event) -> None:
        """Records a note about the effect at the event's `key`, or finds it recorded.

        The past is not written again: a note that an earlier release did not record stays
        unrecorded.
        """
        if self.recording.expects(event, getattr(event, "key", "")):
            self.put(event)

    def new(self, event: e.Event) -> e.Record:
        """Records a new event."""
        if not self._live:
            self.live()
        return self.store.record(event)

    def live(self) -> None:
        """Switches to the present: restores the rest of the log and records the resume."""
        if self._live or self.recording.exact:
            return
        # Before the rest: `dispatch` below must not come back here.
        self._live = True
        self.recording.restore_rest()
        if self.resumed:
            self.store.dispatch(e.Resumed(epoch=self.store.epoch))
        # Noticed while the past was read, when nothing may be written.
        for event in self._late:
            self.store.dispatch(event)
        self.recording.enter_present()

    def reworded(self, key: str, recorded: str, requested: str) -> None:
        """Notes a prompt that differs from the recorded one, once per activation."""
        if not self._late:
            self._late.append(e.PromptChanged(key=key, recorded=recorded, requested=requested))

    def touch(self, key: str) -> None:
        """Must be called before any contact with the world. Raises in an exact replay."""
        if self.recording.exact:
            raise EndOfTape(key)
        if not self._live:
            self.live()

    def recorded_steering(self, key: str) -> list[e.Steered]:
        """Returns the messages that are recorded as read at `key`."""
        heard: list[e.Steered] = []
        for record in self.recording.tape.steering(key):
            self.recording.restore(record)
            if isinstance(record.event, e.Steered):
                heard.append(record.event)
                self.people.append(record.event.text)
        return heard

    def record_steering(self, key: str) -> list[e.Steered]:
        """Records new steering messages, which the model reads at the next turn from `key` on."""
        heard: list[e.Steered] = []
        for signal in self.inbox.steers():
            given = str(signal.data.get("text", ""))
            text = self.setup.redactor.text(given)
            masked = is_masked(given, text) or signal.data.get("masked") is True
            name = self.setup.redactor.text(signal.id)  # the id contains the sender's own text
            # Recorded and taken from the inbox in one flush: neither lost nor read twice.
            event = e.Steered(key=key, id=name, text=text, by=signal.by, masked=masked)
            self.new(event)
            heard.append(event)
            self.people.append(text)
            self.inbox.take(signal)
        return heard

    async def save(self) -> None:
        """Makes all events durable and applies a cancellation that has arrived."""
        await self.store.flush(consume=self.inbox.spend())
        if self.inbox.news:
            await self.raise_if_cancelled()

    async def raise_if_cancelled(self) -> None:
        """Applies a cancellation that arrived while the run waited for the world."""
        if self.inbox.stale:
            await self.inbox.refresh()
        by = self.inbox.cancelled()
        if by:
            raise Cancelled(by)

    async def flush(self) -> None:
        """Makes all events durable and removes their messages from the inbox."""
        await self.store.flush(consume=self.inbox.spend())

    def call(self, action: Action) -> CallIdentity:
        """Returns the guard's identity of the action: by content, or by the tool's `loop_key`."""
        plain = fingerprint(action)
        tool = self.tools.get(action.tool)
        if tool is None or tool.loop_key is None:
            return CallIdentity(plain, plain)
        own: Any = ""
        # A failing function distinguishes no calls: the plain identity is the stricter one.
        with suppress(Exception), contained():
            own = tool.loop_key(copied(action.parameters))
        return CallIdentity(plain, own if isinstance(own, str) and own else plain)

    def timed_out(self, action: Action) -> bool:
        """Returns whether the same call, with any `timeout_s`, timed out in this run."""
        state = self.store.state
        if state.rewinds != self._rewinds:
            # Rewound steps no longer count: the remaining ones are read again.
            self._timeouts.clear()
            self._rewinds, self._looked = state.rewinds, 0
        # Each step once, independent of the number of calls.
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
        """Returns the repetition guard of the branch of `key`."""
        branch_key = branch(key)
        guard = self._guards.get(branch_key)
        if guard is None:
            guard = self._guards[branch_key] = Repetition(self.tools)
        return guard

    def tell_guard(
        self, guard: Repetition, step: Step, calls: Sequence[CallIdentity | None]
    ) -> None:
        """Passes a complete step to the `guard`; `calls` are the identities it has judged."""
        judged = list(filter(None, calls))
        if len(judged) < len(calls):
            judged = [call or self.call(step.actions[index]) for index, call in enumerate(calls)]
        guard.seen(step, mutating=self._mutating, calls=judged)


def hook_context(ledger: Ledger, key: str, people: Sequence[str] = ()) -> HookContext:
    """Returns the hook context of the call at `key`."""
    setup, store = ledger.setup, ledger.store
    return HookContext(
        run_id=store.run,
        key=key,
        principal=setup.principal,
        usage=store.state.usage,
        deps=setup.deps,
        people=tuple(people),
    )

"""Tool calls that may have happened without an observation: none is repeated unasked (D9).

Either an earlier activation started the call and was interrupted, or it timed out and may still
finish. The effect in the log counts, not the tool's current declaration.
"""

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.call_ids import effect_id
from taofold.core.imported_runs import provenance_of
from taofold.core.rules import fingerprint
from taofold.core.state import ActionSlot, RunState
from taofold.core.text import error_text, excerpt
from taofold.core.values import Action, Observation, Tier
from taofold.foreign_code import contained, in_own_task
from taofold.policy import Ruling
from taofold.runtime.approvals import OpenQuestion
from taofold.runtime.endings import MOST_LOST
from taofold.runtime.ledger import Ledger, call_place
from taofold.runtime.tool_calls import Invocation
from taofold.tools import Bound, Outcome, PersonAnswer, Tool
from taofold.tools.result import outcome_of
from taofold.tools.threads import WORKERS


@dataclass(frozen=True, slots=True)
class Attempts:
    """The starts of one call, at least one."""

    count: int
    action: Action
    """The action as an approver edited it last."""
    once: bool
    """True if any start was made by code that declared the call not repeatable."""
    answer: PersonAnswer | None
    """The answer to the tool's own question, with which it was started last."""
    kept: Any = None
    """The state with which the tool continues the call, if it kept one."""
    failures: int = 0
    """Number of recorded retries after the call raised."""


AGAIN: Final = "this very call timed out before and may have happened, or may still finish"
WHY: Final = 300
"""Maximum characters of a `verify` error that an approver is shown."""
BEGUN: Final = "where this run was imported from this very call was begun, and may have happened"


class PastCall:
    """A call that an earlier activation, or an earlier step, may have started."""

    def __init__(
        self, ledger: Ledger, key: str, index: int, action: Action, tool: Tool | None
    ) -> None:
        self.ledger, self.key, self.index = ledger, key, index
        self.action, self.tool = action, tool

    def attempts(self) -> Attempts | None:
        """Returns the attempts on record; None if the call was never started."""
        events = self.ledger.recording.attempts(self.key, self.index)
        if not events:
            return None
        # From all attempts, including voided ones: the last start used the last edit.
        edits = [event.action for event in events if isinstance(event, e.Decided) and event.action]
        starts = [event for event in events if isinstance(event, e.Started)]
        return Attempts(
            count=len(starts),
            action=edits[-1] if edits else self.action,
            # One start under "once" is enough: a later release may declare the tool idempotent, but
            # it may not have been when it was started.
            once=any(
                [isinstance(start, e.StartedOnce) and start.effect == "once" for start in starts]
            ),
            answer=_answer(events),
            kept=starts[-1].kept,
            failures=max([start.retry for start in starts]),
        )

    def rule(self, ruling: Ruling) -> Ruling:
        """Returns `ruling`, or a question if the call is such a repetition."""
        tool, action, state = self.tool, self.action, self.ledger.store.state
        # A child run's own log shows what it has done.
        if tool is None or ruling.verdict == "deny" or tool.agent is not None:
            return ruling
        begun = _begun_elsewhere(state, action)
        if ruling.verdict == "ask":
            return replace(ruling, reason=f"{ruling.reason}; {BEGUN}") if begun else ruling
        if tool.effect != "once" and not begun:
            return ruling
        recorded = self.ledger.recording.event(e.Decided, self.key, self.index)
        # The reason at that time is on record, because branches may now meet in another order. Only
        # the reason is compared, so `AGAIN` must never change: logs contain it.
        again = recorded.reason.startswith(AGAIN) if recorded else self.ledger.timed_out(action)
        if again or begun:
            return Ruling("ask", max(ruling.tier, Tier.CONFIRM), AGAIN if again else BEGUN)
        return ruling

    async def answer_lost(self, why: Observation) -> Observation:
        """Returns the answer to a call that cannot be made: `why`, if it was never started.

        A started call must not be reported as never run: its tool is gone or its parameters
        changed.
        """
        attempts = self.attempts()
        if attempts is None:
            return why
        action = attempts.action
        text = (
            f"{action.tool} was started before an interruption and may already have happened; "
            f"it cannot be called again: {why.result}"
        )
        if attempts.once:
            settled = await self._ask(action, text)
            if isinstance(settled, Observation):
                return settled
        # Not `refused`: that would mean that it never ran.
        return Observation(text, "failure")

    async def doubt(self, bound: Bound, attempts: Attempts) -> tuple[Action, e.Observed]:
        """Determines the outcome of a call that was started earlier and never observed.

        Returns the action, perhaps edited by an approver, and its observation.
        """
        tool, action = self.tool, self.action
        assert tool is not None
        invocation = Invocation(self.ledger, self.key, self.index, action, tool)
        invocation.kept = attempts.kept
        if tool.agent is not None:
            # A child run has a log of its own: it is continued, not restarted.
            return action, await invocation.delegate()
        since = await invocation.answered_since()
        # A call that asked after its last start was suspended, not active, so nothing is in doubt.
        # The same holds for a call that the tool continues by itself.
        doubtful = since is None and attempts.kept is None
        settled: Action | e.Observed | None = None
        if doubtful and (tool.effect == "once" or attempts.once):
            settled = await self._happened(tool, invocation, bound)
        if settled is None and since is None and self._lost() >= MOST_LOST:
            settled = await self._worn_out(tool)
        if isinstance(settled, e.Observed):
            return action, settled
        if settled is not None:
            action, bound = settled, tool.bind(settled.parameters)
            invocation = Invocation(self.ledger, self.key, self.index, action, tool)
            invocation.kept = attempts.kept
        refused = self._over_limit(tool)
        if refused is not None:
            return action, refused

        # A recorded start of its own: the answer above covered only the earlier ones.
        invocation.start()
        answer = since or attempts.answer
        return action, await invocation.perform(bound, answer, failures=attempts.failures)

    def _lost(self) -> int:
        """Returns the number of activations that ended during the call without a record."""
        return self._slot().lost

    def _slot(self) -> ActionSlot:
        return self.ledger.store.state.open[self.key].slots[self.index]

    async def _worn_out(self, tool: Tool) -> Action | e.Observed:
        """Asks for an approval of a call that repeatedly ended its process, even a harmless one."""
        lost = self._lost()
        text = (
            f"{tool.name} was at work {lost} times when the process of the run ended without an "
            "error on record (out of memory? os._exit?). Allow it to be started once more, deny "
            "it to go on without it, or cancel the run"
        )
        settled = await self._ask(self.action, text)
        if isinstance(settled, Observation):
            return e.Observed(key=self.key, index=self.index, observation=settled)
        return settled

    def _over_limit(self, tool: Tool) -> e.Observed | None:
        """Returns the answer to a call whose further start a limit forbids; None if it may start.

        Only a start that replaces a lost one counts.
        """
        if not self._slot().cut:
            return None
        blocked = self.ledger.allowance.for_tool(tool.name, call_place(self.key, self.index))
        if blocked is None:
            return None
        # Not `refused`: that would mean that it never ran.
        text = f"{tool.name} was started before an interruption and may have happened"
        observation = Observation(f"{text}; {blocked.why}", "failure")
        return e.Observed(key=self.key, index=self.index, observation=observation)

    async def _happened(
        self, tool: Tool, invocation: Invocation, bound: Bound
    ) -> Action | e.Observed | None:
        """Determines whether the call happened, by the tool's `verify`, else by an approver.

        Returns its observation, or the action that an approver wants to repeat, or None if the tool
        reports that it did not happen.
        """
        text = (
            f"{tool.name} was started before an interruption and may already have "
            "happened; its old process may even still finish it"
        )
        if tool.verify is not None:
            try:
                return await self._verify(invocation, bound)
            except Exception as error:  # noqa: BLE001 - an unreachable provider gives no answer
                late = isinstance(error, TimeoutError)
                why = "it did not answer in time" if late else error_text(error)
                text = f"{text}. Its verify could not say: {excerpt(why, WHY)}"
        settled = await self._ask(self.action, text)
        if isinstance(settled, Observation):
            return e.Observed(key=self.key, index=self.index, observation=settled)
        return settled

    async def _ask(self, action: Action, text: str) -> Action | Observation:
        question = OpenQuestion(self.ledger, self.key, self.index, action, self.tool, text)
        return await question.settle(None)

    async def _verify(self, invocation: Invocation, bound: Bound) -> e.Observed | None:
        """Returns the result of `verify` for the interrupted call; None: it did not happen.

        It is called like the tool: in a thread if it blocks, and within the time of a call.
        """
        tool, store = invocation.tool, self.ledger.store
        if tool.verify is None:
            return None
        name = effect_id(store.run, store.state, self.key, self.index)
        verified: Any
        with contained():
            async with asyncio.timeout(invocation.deadline(bound)):
                if tool.thread and not inspect.iscoroutinefunction(tool.verify):
                    verified = await WORKERS.run(tool.verify, name)
                else:
                    verified = tool.verify(name)
                if inspect.isawaitable(verified):
                    verified = await in_own_task(verified)
        # None and False alike: only True or a result prevents the repetition.
        if verified is False or verified is None:
            return None
        happened = Outcome("verified: it had already happened")
        outcome = happened if verified is True else outcome_of(verified)
        return invocation.observed(outcome, 0.0)


def _answer(events: Sequence[e.Event]) -> PersonAnswer | None:
    """Returns the last answer to the tool's own question."""
    answer: PersonAnswer | None = None
    request: dict[str, object] | None = None
    for event in events:
        # Before `Decided`, of which it is a subclass.
        if isinstance(event, e.Resolved):
            if request is not None and event.verdict != "void":
                allowed = event.verdict == "allow"
                answer = PersonAnswer(event.reason, allowed, request["state"], event.by)
        elif isinstance(event, e.Decided):
            request = event.request
    return answer


def _begun_elsewhere(state: RunState, action: Action) -> bool:
    """Returns whether the run's import file claims that it had started this call."""
    origin = provenance_of(state.started)
    if origin is None or not origin.claims:
        return False
    identity = fingerprint(action)
    return any(claim.started and claim.fingerprint == identity for claim in origin.claims)

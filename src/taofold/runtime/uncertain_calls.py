"""Tool calls that may have happened without an observation: nothing is repeated unasked (D9).

Either an earlier life started the call and was cut off, or it timed out and may still finish.
What the log says of its effect counts, whatever this code says of the tool.
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
    """As a person edited it last."""
    once: bool
    """Was it ever started by code that said it must not be repeated?"""
    answer: PersonAnswer | None
    """A person's answer to the tool's own question, with which it was started last."""
    kept: Any = None
    """How the tool goes on with the call, if it said so."""
    failures: int = 0
    """How often it is on record that the call raised, and was made once more."""


AGAIN: Final = "this very call timed out before and may have happened, or may still finish"
WHY: Final = 300
"""Characters of what `verify` raised that a person is told."""
BEGUN: Final = "where this run was imported from this very call was begun, and may have happened"


class PastCall:
    """A call of which an earlier life of the run, or an earlier step, may have made a start."""

    def __init__(
        self, ledger: Ledger, key: str, index: int, action: Action, tool: Tool | None
    ) -> None:
        self.ledger, self.key, self.index = ledger, key, index
        self.action, self.tool = action, tool

    def attempts(self) -> Attempts | None:
        """The attempts on record; None if the call was never started."""
        events = self.ledger.recording.attempts(self.key, self.index)
        if not events:
            return None
        # Of all attempts, also voided ones: the last edit is what the last start was made with.
        edits = [event.action for event in events if isinstance(event, e.Decided) and event.action]
        starts = [event for event in events if isinstance(event, e.Started)]
        return Attempts(
            count=len(starts),
            action=edits[-1] if edits else self.action,
            # One start under "once" is enough: a tool that a later release calls idempotent may
            # have been less so when it was started.
            once=any(
                [isinstance(start, e.StartedOnce) and start.effect == "once" for start in starts]
            ),
            answer=_answer(events),
            kept=starts[-1].kept,
            failures=max([start.retry for start in starts]),
        )

    def rule(self, ruling: Ruling) -> Ruling:
        """`ruling`, or the question to a person that the repetition of such a call needs."""
        tool, action, state = self.tool, self.action, self.ledger.store.state
        # A child run knows from its own log what it has done.
        if tool is None or ruling.verdict == "deny" or tool.agent is not None:
            return ruling
        begun = _begun_elsewhere(state, action)
        if ruling.verdict == "ask":
            return replace(ruling, reason=f"{ruling.reason}; {BEGUN}") if begun else ruling
        if tool.effect != "once" and not begun:
            return ruling
        recorded = self.ledger.recording.event(e.Decided, self.key, self.index)
        # What was known at the time is on record: branches may meet in another order now.
        # Only the reason is compared, which is why `AGAIN` must stay as it is: logs hold it.
        again = recorded.reason == AGAIN if recorded else self.ledger.timed_out(action)
        if again or begun:
            return Ruling("ask", max(ruling.tier, Tier.CONFIRM), AGAIN if again else BEGUN)
        return ruling

    async def answer_lost(self, why: Observation) -> Observation:
        """The answer to a call that cannot be made: `why`, if no earlier life has started it.

        If one has, nobody may say that it never ran: its tool is gone or takes something else now.
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
        # Not `refused`: that would say that it never ran.
        return Observation(text, "failure")

    async def doubt(self, bound: Bound, attempts: Attempts) -> tuple[Action, e.Observed]:
        """A call that was started in an earlier life and never observed: did it happen?

        Returns the action, which a person may have edited, and what was observed of it.
        """
        tool, action = self.tool, self.action
        assert tool is not None
        invocation = Invocation(self.ledger, self.key, self.index, action, tool)
        if tool.agent is not None:
            # A child run has a log of its own: it is carried on, not begun anew.
            return action, await invocation.delegate()
        invocation.kept = attempts.kept
        since = await invocation.answered_since()
        # What asked a person after its last start was waiting, not at work: nothing is in doubt.
        # Nor is what the tool goes on with by itself.
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

        # A start of its own on record: the answer given above was about the earlier ones only.
        invocation.start()
        answer = since or attempts.answer
        return action, await invocation.perform(bound, answer, failures=attempts.failures)

    def _lost(self) -> int:
        """How many activations ended during the call without a record, as by a kill."""
        return self._slot().lost

    def _slot(self) -> ActionSlot:
        return self.ledger.store.state.open[self.key].slots[self.index]

    async def _worn_out(self, tool: Tool) -> Action | e.Observed:
        """A person's word on a call that takes its process with it, however harmless it is."""
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
        """The answer to a call whose further start a limit forbids; None if it may start.

        Only a start that takes the place of a lost one counts.
        """
        if not self._slot().cut:
            return None
        blocked = self.ledger.budget.for_tool(tool.name, call_place(self.key, self.index))
        if blocked is None:
            return None
        # Not `refused`: that would say that it never ran.
        text = f"{tool.name} was started before an interruption and may have happened"
        observation = Observation(f"{text}; {blocked.why}", "failure")
        return e.Observed(key=self.key, index=self.index, observation=observation)

    async def _happened(
        self, tool: Tool, invocation: Invocation, bound: Bound
    ) -> Action | e.Observed | None:
        """What became of the call, asked of the tool itself (`verify`), else of a person.

        Returns what is observed of it; the action as which a person has it made once more; or
        None: the tool says that it did not happen.
        """
        text = (
            f"{tool.name} was started before an interruption and may already have "
            "happened; its old process may even still finish it"
        )
        if tool.verify is not None:
            try:
                return await self._verify(invocation, bound)
            except Exception as error:  # noqa: BLE001 - a provider that is down has said nothing
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
        """What `verify` says of the interrupted call; None: it did not happen, or there is none.

        It is called as the tool is: in a thread if it blocks, and within the time of a call.
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
        # None and False alike: only a clear yes, or what it returned, spares the call.
        if verified is False or verified is None:
            return None
        happened = Outcome("verified: it had already happened")
        outcome = happened if verified is True else outcome_of(verified)
        return invocation.observed(outcome, 0.0)


def _answer(events: Sequence[e.Event]) -> PersonAnswer | None:
    """The last answer to what the tool asked in the middle of its call."""
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
    """Does the file that the run was imported from say that it had begun this very call?"""
    origin = provenance_of(state.started)
    if origin is None or not origin.claims:
        return False
    identity = fingerprint(action)
    return any(claim.started and claim.fingerprint == identity for claim in origin.claims)

"""Approvals: a question about one action, from its record to its resolution (D10).

An approval is the `Decided(ask)` event in the log. It is bound to the action's digest, the policy's
version and the tool's definition, is used once, and may expire. It is closed by a recorded
resolution, by the inbox (from anywhere), by expiry, or by an `approve` callback in the process. If
its bounds changed, it is void and asked again. All decisions are checked here, from any source:
edits hold no secrets and fit the tool. Questions of tools and of `ask_user` take the same path.
`control` lists and answers questions from outside; `approvers` has the built-in callbacks.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.errors import ReplayDiverged
from taofold.core.json_values import copied, is_object
from taofold.core.text import error_text, utf8
from taofold.core.values import (
    ASK_USER,
    Action,
    Deciders,
    Observation,
    Principal,
    Tier,
    Verdict,
)
from taofold.foreign_code import contained
from taofold.policy import Ruling, digest
from taofold.policy.policy import refusal
from taofold.policy.redaction import MARK, Redactor
from taofold.runtime.ledger import Ledger, Park, call_place
from taofold.runtime.redaction import is_masked, mask_places, redact_json
from taofold.runtime.setup import Approval, Decision, DecisionWord, cut_preview
from taofold.tools import Tool
from taofold.tools.arguments import quote
from taofold.tools.result import jsonable

VERDICTS: Final[dict[DecisionWord, Verdict]] = {
    "allow": "allow",
    "approve": "allow",
    "edit": "allow",
    "answer": "allow",
    "deny": "deny",
    "done": "done",
}
"""The recorded verdict for each verdict of a `Decision`."""
# Half a second is fast enough for users and costs the log two queries a second.
LOOK = 0.5
"""Seconds between two checks of the inbox while a callback waits for its answer."""
_EDITED_IN_PLACE: Final = (
    "approve changed the parameters that it was shown; to edit a call return "
    "Decision('approve', parameters=…)"
)
MOST_VOIDED: Final = 8
"""Maximum number of repeated questions about one call."""
_OWNER: Final = Principal().id
"""The id of the owner of a process, who may decide in another name."""
_NEVER_THE_SAME: Final = (
    "it was not called: each time a person approved it, it would have done something else by then"
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """A recorded question: the record, whose number answers refer to, and its event."""

    record: e.Record
    event: e.Decided

    @property
    def id(self) -> str:
        """The action id, as users give it."""
        return f"{self.record.run}:{self.record.seq}"


class OpenQuestion:
    """A question about one action, from asking to its resolution.

        settled = await OpenQuestion(ledger, key, index, action, tool).settle(ruling)

    `text` is the question if it is not about a ruling: from `ask_user`, about an action that may
    already have happened, or from a tool in the middle of its call (`request` then has its form).
    """

    def __init__(
        self,
        ledger: Ledger,
        key: str,
        index: int,
        action: Action,
        tool: Tool | None,
        text: str = "",
        request: dict[str, Any] | None = None,
    ) -> None:
        self.ledger, self.key, self.index = ledger, key, index
        self.action, self.tool = action, tool
        self.text, self.request = text, request
        self.behind: tuple[OpenQuestion, ...] = ()
        """Questions about later calls of the same step, which are asked already."""
        self.changed = False
        """True if a hook changed the action, which the question then records."""
        self._voided = 0
        self._asked: _Asked | None = None
        self._resolved: e.Resolved | None = None
        """The resolution if it was recorded before the question's turn."""

    def ask(self, ruling: Ruling) -> None:
        """Records the question before its turn; `settle` waits for the answer."""
        self._asked = self._ask(ruling)

    async def settle(
        self, ruling: Ruling | None, *, rule: Callable[[], Ruling] | None = None
    ) -> Action | Observation:
        """Returns the approved action to run, perhaps edited, or the observation that answers it.

        If the approval is void, `rule` is evaluated again. Parks the run if there is no answer now.
        """
        while True:
            # Used once: a void question is asked again.
            question, self._asked = self._asked or self._ask(ruling), None
            resolved = await self._resolve(question)
            if resolved.verdict != "void":
                return _consequence(resolved, self.action, self.tool, doubt=ruling is None)
            self._voided += 1
            if self._voided > MOST_VOIDED:
                return Observation(_NEVER_THE_SAME, "failure", refused="denied")
            self._renew()
            if ruling is not None and rule is not None:
                ruling = rule()
                if ruling.verdict == "deny":
                    return Observation(ruling.reason, "failure", refused="denied")
                if ruling.verdict == "allow":
                    return self.action

    async def answer(self) -> e.Resolved:
        """Returns the answer to a tool's question. Parks the run if there is no answer now."""
        while True:
            resolved = await self._resolve(self._ask(None))
            if resolved.verdict != "void":
                return resolved
            self._renew()

    def _renew(self) -> None:
        """Updates the tool: a repeated question concerns its current version."""
        if self.tool is not None:
            self.tool = self.ledger.tool(self.tool.name) or self.tool

    def _attempts(self) -> int:
        """Returns the number of starts of the call so far."""
        # Not for a recorded question: in a fork the state may be ahead of one branch's records.
        step = self.ledger.store.state.open.get(self.key)
        # None in the replay of a modified log: the following events are compared with it.
        return 0 if step is None else step.slots[self.index].attempts

    def _ask(self, ruling: Ruling | None) -> _Asked:
        """Records the question, or finds it recorded."""
        ledger, setup, tool = self.ledger, self.ledger.setup, self.tool
        seconds = setup.policy.approve_seconds
        recorded = ledger.recording.event(e.Decided, self.key, self.index)
        tier = ruling.tier if ruling else (tool.tier if tool else Tier.CARD)
        event = e.Decided(
            key=self.key,
            index=self.index,
            verdict="ask",
            tier=int(tier),
            reason=ruling.reason if ruling else self.text,
            digest=digest(self.action, tool.definition if tool else ""),
            policy=setup.policy.version,
            preview=self._preview(),
            # The real clock, read once: the recorded value stays.
            expires_at=setup.now() + round(seconds * 1000) if seconds else 0,
            action=self.action if self.changed else None,
            request=self.request,
            attempt=recorded.attempt if recorded is not None else self._attempts(),
            deciders=self._deciders(),
        )
        if recorded is not None and recorded.verdict == "ask":
            # The policy's version may have changed without a change of the ruling; preview and time
            # come from the world. The number of starts comes from the log: if a replay meets
            # parallel branches in another order, the state may count a later start.
            event = replace(
                event,
                expires_at=recorded.expires_at,
                policy=recorded.policy,
                preview=recorded.preview,
                attempt=recorded.attempt,
                deciders=self._derived_deciders(recorded),
            )
        else:
            ledger.recording.overrule(self.key, self.index, "ask")

        record = ledger.put(event)
        assert isinstance(record.event, e.Decided)
        return _Asked(record, record.event)

    def _preview(self) -> str:
        """Returns the current preview of the call, to which an approval is bound."""
        preview: str = redact_json(self.ledger.setup.redactor, _preview(self.action, self.tool))
        # After redaction: a changed cut mark would not be recognised.
        return cut_preview(preview)

    def _deciders(self) -> Deciders | None:
        """Returns the permitted deciders. A question of the model (`ask_user`) is no approval."""
        if self.tool is None:
            return None
        return self.ledger.setup.policy.deciders(self.tool.name, self.tool.role)

    def _derived_deciders(self, recorded: e.Decided) -> Deciders | None:
        """Returns the recorded deciders; in an exact replay the derived ones, if they follow."""
        now, stored, setup = self._deciders(), recorded.deciders, self.ledger.setup
        if not self.ledger.recording.exact or recorded.policy != setup.policy.version:
            return stored
        if now is None or stored is None or now.own is None or stored.own is None:
            return now
        # The role of `approve_own` does not belong to the version of a policy.
        return replace(now, own=stored.own)

    async def _resolve(self, asked: _Asked) -> e.Resolved:
        """Returns the resolution: recorded, or from the inbox, by expiry, or from the callback."""
        ledger, event = self.ledger, asked.event
        key, index = event.key, event.index
        if self._resolved is not None:
            early, self._resolved = self._resolved, None
            return self._void_if_changed(event, early) or early
        recorded = ledger.recording.recall_next(e.Resolved, key, index)
        if recorded is not None:
            if ledger.recording.exact:
                self._check_answer(event, recorded)
            voided = ledger.recording.event(e.Resolved, key, index)
            # The void directly follows the decision that it revokes: both count, in this order.
            if voided is not None and voided.verdict == "void":
                ledger.put(voided)
                return voided
            return self._void_if_changed(event, recorded) or recorded

        ledger.touch(call_place(key, index))
        await ledger.inbox.refresh(ledger.store)
        # The inbox first, then expiry, then a callback or parking. A decision posted in time counts
        # even if it is read after the question expired.
        resolved = self._from_inbox(asked) or self._expiry(event)
        if resolved is None:
            try:
                resolved = await self._from_callback_or_inbox(asked)
            except Park:
                # Steering in the inbox is recorded first: no run is parked over unread messages.
                ledger.record_steering(key)
                for question in self.behind:
                    question._hear()
                raise

        ledger.put(resolved)
        return self._void_if_changed(event, resolved) or resolved

    def _check_answer(self, asked: e.Decided, recorded: e.Resolved) -> None:
        """Raises `ReplayDiverged` if the recorded answer cannot be one to the question."""
        setup = self.ledger.setup
        derived = self._as_recorded(asked, recorded)
        if not self.ledger.recording.agree(recorded, derived):
            raise ReplayDiverged(asked.key, recorded, derived)
        if recorded.verdict == "expired" and not asked.expires_at:
            raise ReplayDiverged(asked.key, recorded, "no expiry: the question has none")
        # Another policy may have ranked the roles, so only the facts that need no rank count.
        levels = setup.policy.roles if asked.policy == setup.policy.version else None
        why = unfounded(asked, recorded, setup.principal, levels)
        if why:
            wanted = f"no decision by {recorded.by!r}: {why}"
            raise ReplayDiverged(asked.key, recorded, wanted)

    def _as_recorded(self, asked: e.Decided, recorded: e.Resolved) -> e.Resolved:
        """Returns the answer as it follows from the question and the choice of its decider."""
        edited = recorded.action
        if edited is not None:
            edited = replace(self.action, parameters=edited.parameters)
        derived = _resolution(
            asked, recorded.verdict, recorded.by, recorded.reason, edited, self.tool
        )
        return replace(
            derived,
            imported=recorded.imported,
            masked=recorded.masked,
            principal=recorded.principal,
            deciders=recorded.deciders,
        )

    def _hear(self) -> None:
        """Records a posted decision before this question's turn.

        The run waits for another answer, and a message left in the inbox would wake it needlessly.
        """
        if self._asked is None or self._resolved is not None or self._is_recorded():
            return
        self._resolved = self._from_inbox(self._asked)
        if self._resolved is not None:
            self.ledger.put(self._resolved)

    def _is_recorded(self) -> bool:
        """Returns whether the resolution is on record."""
        return self.ledger.recording.event(e.Resolved, self.key, self.index) is not None

    async def _from_callback_or_inbox(self, asked: _Asked) -> e.Resolved:
        """Returns the callback's answer, or a decision that was posted elsewhere while it ran.

        Parks the run if there is no callback, or if it leaves the question open.
        """
        ledger = self.ledger
        if ledger.setup.approve is None:
            await ledger.raise_if_cancelled()
            raise Park(self._approval(asked).waits_for)
        # The question must be durable before it is shown: an answer refers to its number.
        await ledger.save()
        try:
            with ledger.store.idle():
                answer = await self._callback(asked)
        except _NoAnswer as failure:
            self._leave_open(asked, failure)
        # A callback may take minutes: check again, or a posted decision would be overridden.
        ledger.inbox.stale = True
        await ledger.inbox.refresh(ledger.store)
        if isinstance(answer, e.Resolved):
            self._from_inbox(asked)
            return answer
        decisions = self._each(answer)
        self._require(asked, decisions[0])
        for question, decision in zip(self.behind, decisions[1:], strict=False):
            question._decide_early(decision)
        return self._reconcile(asked, decisions[0])

    def _leave_open(self, asked: _Asked, failure: "_NoAnswer") -> NoReturn:
        """Records why the callback failed, and leaves the question open for other deciders."""
        setup = self.ledger.setup
        why = setup.redactor.text(f"the approve function failed: {failure}")
        failed = e.DecisionRefused(id=asked.id, by="approve", why=why, at=setup.now())
        self.ledger.store.dispatch(failed)
        raise Park(self._approval(asked).waits_for) from failure

    def _require(self, asked: _Asked, decision: Decision) -> None:
        """Leaves the question open if the callback allows what `_refusal` forbids."""
        why = self._refusal(asked, decision)
        if not why:
            return
        setup, name = self.ledger.setup, asked.id
        by = setup.redactor.text(utf8(decision.by))
        refused = e.DecisionRefused(id=name, by=by, why=why, at=setup.now())
        self.ledger.store.dispatch(refused)
        raise Park("awaiting_approval")

    def _refusal(self, asked: _Asked, decision: Decision) -> str:
        """Returns the reason why this decision cannot allow the call: no permission, or a misfit
        edit.

        The callback's author is responsible for the identity of other deciders.
        """
        event, requester = asked.event, self.ledger.setup.principal
        if flaw(decision):
            return ""
        if VERDICTS[decision.verdict] != "allow":
            return self._approval(asked).mismatch(decision)
        wrong = self._approval(asked).unfit(decision)
        if wrong:
            return wrong
        return _misnamed(event.deciders, decision.by, requester, self.ledger.setup.policy.roles)

    def _each(self, answer: Any) -> list[Decision]:
        """Returns the callback's answer as decisions on this question, or on all of its batch."""
        if not isinstance(answer, list | tuple):
            return [self._decision(answer)]
        answers = cast("Sequence[Any]", answer)
        if len(answers) != 1 + len(self.behind):
            # The assignment of answers to calls is ambiguous, so nothing is approved.
            calls = f"{1 + len(self.behind)} call" + ("s" if self.behind else "")
            wrong = f"approve gave {len(answers)} answers about {calls}"
            refusal = Decision("deny", by=self.ledger.setup.principal.id, reason=wrong)
            return [refusal] * (1 + len(self.behind))
        return [self._decision(each) for each in answers]

    def _decide_early(self, decision: Decision) -> None:
        """Records the callback's decision before this question's turn."""
        if self._asked is None or self._resolved is not None or self._is_recorded():
            return
        if not self._refusal(self._asked, decision):
            self._resolved = self._reconcile(self._asked, decision)
            self.ledger.put(self._resolved)

    def _reconcile(self, asked: _Asked, decision: Decision) -> e.Resolved:
        """Combines the decisions of a callback and of another interface.

        If there are both, a denial takes precedence, and the other one is recorded as refused.
        """
        ledger, event = self.ledger, asked.event
        posted = self._from_inbox(asked)
        resolved = self._from_decision(event, decision)
        if posted is None:
            return resolved
        # The stricter decision wins: a race must not allow what one decider denied.
        heard, lost = (resolved, posted) if posted.verdict == "allow" else (posted, resolved)
        why = f"{heard.by} decided {heard.verdict} at the same time"
        refusal = e.DecisionRefused(id=asked.id, by=lost.by, why=why, at=ledger.setup.now())
        ledger.store.dispatch(refusal)
        return heard

    def _approval(self, asked: _Asked) -> Approval:
        ledger = self.ledger
        requester = ledger.setup.principal.id
        question = approval(ledger.store.run, asked.record, self.action, requester, self.text)
        return dataclasses.replace(question, tool=self.tool)

    async def _callback(self, asked: _Asked) -> Any:
        """Returns the callback's answer, or a resolution that came from elsewhere before it."""
        approve = self.ledger.setup.approve
        assert approve is not None
        request = self._approval(asked)
        if self.behind:
            others = [q._approval(q._asked) for q in self.behind if q._asked is not None]
            request = dataclasses.replace(request, batch=(request, *others))
        actions = [each.action for each in (request, *(request.batch or ()))]
        before = [copied(action.parameters) for action in actions]

        decision: Any
        with _callback_contained():
            decision = approve(request)
        if inspect.isawaitable(decision):
            asking = asyncio.ensure_future(_contained_answer(decision))
            ended = await self._ended_before(asking, asked)
            if ended is not None:
                return ended
            with _callback_contained():
                decision = asking.result()
        if [action.parameters for action in actions] != before:
            by = self.ledger.setup.principal.id
            return Decision("deny", by=by, reason=_EDITED_IN_PLACE)
        return decision

    async def _ended_before(
        self, asking: "asyncio.Future[Any]", asked: _Asked
    ) -> e.Resolved | None:
        """Returns a posted decision or the expiry that precedes the callback, or None."""
        ledger = self.ledger
        try:
            # asyncio.wait with a timeout, not wait_for, which would cancel the callback at each
            # check.
            while not (await asyncio.wait({asking}, timeout=LOOK))[0]:
                await ledger.inbox.refresh(ledger.store)
                ended = self._from_inbox(asked) or self._expiry(asked.event)
                if ended is not None:
                    return ended
                await ledger.raise_if_cancelled()
            return None
        finally:
            if not asking.done():
                # The callback's prompt must not stay open after the question was answered
                # elsewhere.
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    def _decision(self, answer: Any) -> Decision:
        requester = self.ledger.setup.principal.id
        if isinstance(answer, Decision):
            return answer
        if isinstance(answer, bool):
            return Decision("allow" if answer else "deny", by=requester)
        # Fail closed: a callback that returns anything else (None, "yes") has approved nothing.
        wrong = f"approve gave {quote(answer)}, not a bool or a Decision"
        return Decision("deny", by=requester, reason=wrong)

    def _from_decision(self, asked: e.Decided, decision: Decision) -> e.Resolved:
        """Returns the resolution for the callback's decision. An unusable decision denies."""
        setup = self.ledger.setup
        wrong = flaw(decision)
        if not wrong and decision.digest and decision.digest != asked.digest:
            wrong = "the decision is about another action than the one it was asked about"
        if wrong:
            return _resolution(asked, "deny", setup.principal.id, utf8(wrong))
        expiry = self._expiry(asked)
        if expiry is not None:
            return expiry
        words = decision.answer if decision.answer is not None else decision.reason
        verdict = VERDICTS[decision.verdict]
        if asked.request is not None and decision.parameters is not None:
            words = _form(decision.parameters)
            decision = dataclasses.replace(decision, parameters=None)
        parameters = decision.parameters if verdict == "allow" else None
        by = setup.redactor.text(utf8(decision.by))
        return self._as_edited(asked, verdict, by, utf8(words), parameters)

    def _from_inbox(self, asked: _Asked) -> e.Resolved | None:
        """Returns the resolution from a message in the inbox, or None."""
        inbox, event = self.ledger.inbox, asked.event
        # By the number of the question's record, so an answer to an earlier question about the same
        # action does not count for this one.
        signal = inbox.find("decide", asked.record.seq) or inbox.find("answer", asked.record.seq)
        if signal is None:
            return None
        inbox.take(signal)
        data = signal.data
        parameters, text = data.get("parameters"), str(data.get("text") or data.get("reason") or "")
        if event.request is not None and parameters is not None:
            text, parameters = _form(parameters), None
        verdict = data.get("verdict", "allow")
        resolved = self._as_edited(event, verdict, signal.by, text, parameters)
        masked = resolved.masked or data.get("masked") is True
        return replace(resolved, masked=masked, **self._rights(data))

    def _rights(self, data: dict[str, Any]) -> dict[str, Any]:
        """Returns the checked principal of a message and the deciders that permit it."""
        rights: dict[str, Any] = {}
        if data.get("principal") is not None:
            shown = redact_json(self.ledger.setup.redactor, data["principal"])
            rights["principal"] = msgspec.convert(shown, Principal)
        if data.get("deciders") is not None:
            rights["deciders"] = msgspec.convert(data["deciders"], Deciders)
        return rights

    def _as_edited(
        self, asked: e.Decided, verdict: str, by: str, text: str, parameters: dict[str, Any] | None
    ) -> e.Resolved:
        """Returns the resolution by `by`, with edited `parameters` or unchanged ones (None)."""
        redactor = self.ledger.setup.redactor
        reason = redactor.text(text)
        masked = is_masked(text, reason)
        if parameters is None:
            return _resolution(asked, verdict, by, reason, masked=masked)
        # After redaction the call would run with other parameters than the approved ones.
        lost = secret(redactor, parameters)
        if lost:  # the sender of a message was informed when deciding
            return _resolution(asked, "deny", by, lost)
        edited = replace(self.action, parameters=dict(parameters))
        return _resolution(asked, verdict, by, reason, edited, self.tool, masked=masked)

    def _expiry(self, asked: e.Decided) -> e.Resolved | None:
        """Returns the resolution of an expired question, or None."""
        if not asked.expires_at or self.ledger.setup.now() <= asked.expires_at:
            return None
        return _resolution(asked, "expired", "clock")

    def _void_if_changed(self, asked: e.Decided, resolved: e.Resolved) -> e.Resolved | None:
        """Checks an approval again directly before its use.

        It is void if a bound property has changed, or if its edited parameters do not fit.
        """
        ledger, action = self.ledger, self.action
        # Only "allow" is bound: a denial always stands. A replay trusts the log.
        if resolved.verdict != "allow" or ledger.recording.exact:
            return None
        tool = ledger.tool(action.tool)
        if tool is None:
            return None
        changed = ""

        # Checked when the approval is used, not when it was given: the tool may have been replaced
        # while the run was waiting.
        if digest(action, tool.definition) != asked.digest:
            changed = "the tool or its parameters changed after the approval was asked for"
        elif ledger.setup.policy.version != asked.policy:
            changed = "the policy changed after the approval was asked for"
        elif asked.request is None and self._preview() != asked.preview:
            # For example, the file whose change was shown.
            changed = "the effect of the call changed after its preview was shown"
        elif resolved.action is not None:
            # A decider without the tool at hand could not be warned, so the question is asked once
            # more.
            wrong = tool.misfit(resolved.action.parameters)
            changed = f"edited parameters: {wrong}" if wrong else ""

        if not changed:
            return None
        # A void edit is revoked: the next question concerns the original action.
        original = action if resolved.action is not None else None
        void = _resolution(asked, "void", "runtime", changed, original, tool)
        ledger.put(void)
        return void


class _NoAnswer(Exception):
    """The callback raised: there is no decision."""


@contextmanager
def _callback_contained() -> Generator[None]:
    """Turns every exception of a callback into `_NoAnswer`; `Park` leaves the question open."""
    try:
        with contained(Park):
            yield
    except _NoAnswer:
        raise
    except Exception as error:
        raise _NoAnswer(error_text(error)) from error


async def _contained_answer(answer: Awaitable[Any]) -> Any:
    # Inside the task: the event loop itself lets SystemExit and KeyboardInterrupt through.
    with _callback_contained():
        return await answer


def flaw(decision: Decision) -> str:
    """Returns why `decision` is unusable, or "". It comes from code that may be faulty."""
    verdict: Any = decision.verdict
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        return f"a decision is approve, deny, edit or done, not {quote(verdict)}"
    texts: dict[str, Any] = {"by": decision.by, "reason": decision.reason}
    answer = "" if decision.answer is None else decision.answer
    texts |= {"answer": answer, "digest": decision.digest}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f"the {name} of a decision is text, not {quote(text)}"
    parameters = decision.parameters
    if parameters is None:
        return "an edit needs the parameters to use instead" if verdict == "edit" else ""
    if not is_object(parameters) or jsonable(parameters) != parameters:
        return f"edited parameters are a dict of JSON, not {quote(parameters)}"
    return ""


def unfounded(
    asked: e.Decided,
    resolved: e.Resolved,
    requester: Principal,
    levels: Mapping[str, int] | None,
) -> str:
    """Returns why the records do not give the recorded decider the right to decide, or "".

    Roles are those that the decision recorded: the log cannot tell who had them.

    Args:
        asked: The question.
        resolved: Its resolution.
        requester: The requester of the run.
        levels: The order of roles; None: unknown, so that every role reaches every other.
    """
    by, permitted = resolved.principal, resolved.deciders
    if resolved.imported or resolved.verdict in ("expired", "void"):
        return ""
    if by is None and permitted is not None:
        return "its deciders are recorded without a principal"
    if MARK in resolved.by and by is None:
        return ""  # a mask hides the name that code of the run's process gave
    # Only the owner of a process decides in the name of others.
    names_other = by is not None and by.id == _OWNER and not is_bound(resolved.by, requester)
    if by is not None and by.id != resolved.by and not names_other:
        return f"the rights of {by.id!r} were checked"
    if asked.deciders is None:
        return ""
    if by is None or permitted is None:
        if resolved.verdict != "allow":
            return ""
        return _misnamed(asked.deciders, resolved.by, requester, levels)
    # The policy of the deciding process may name others if that of the question names none.
    if permitted != replace(asked.deciders, others=asked.deciders.others or permitted.others):
        return "its deciders are not those of the question"
    if by.id != requester.id and not asked.deciders.others:
        levels = None  # the policy of the deciding process has ranked its role
    # A mask may hide the requester.
    names = [by, replace(by, id=requester.id)] if MARK in by.id else [by]
    whys = [refusal(permitted, it, requester, levels or _equal(it, permitted)) for it in names]
    return "" if "" in whys else whys[0]


def _misnamed(
    deciders: Deciders | None,
    by: str,
    requester: Principal,
    levels: Mapping[str, int] | None,
) -> str:
    """Returns why code of the run's process may not allow in the name of `by`, or "".

    The author of the code is responsible for the identity of other deciders.
    """
    if deciders is None or not is_bound(by, requester):
        return ""
    named = replace(requester, id=by)
    return refusal(deciders, named, requester, levels or _equal(requester, deciders))


def is_bound(by: str, requester: Principal) -> bool:
    """Returns whether the rules for the requester or for agents apply to the name `by`."""
    return by == requester.id or by.startswith("agent:")


def _equal(by: Principal, deciders: Deciders) -> dict[str, int]:
    """Returns an order in which every role reaches every other."""
    named = (deciders.own, deciders.others, *deciders.roles, *by.roles)
    return {role: 0 for role in named if role}


def _form(filled: dict[str, Any]) -> str:
    """Returns an answer to a tool's question that came as parameters, as text."""
    return msgspec.json.encode(filled).decode()


def secret(redactor: Redactor, parameters: dict[str, Any]) -> str:
    """Returns why edited parameters with a secret are refused, or "" if they hold none.

    The log keeps no secrets, so the call would run with other values than the approved ones.
    """
    redacted = redactor.json(parameters)
    if redacted == parameters:
        return ""
    # Compared per parameter, to name the one that holds it; the name may hold one, too.
    lost = {name: value for name, value in redacted.items() if parameters.get(name) != value}
    place = next(mask_places(lost), "")
    where = f"the parameter {place} holds" if place else "they hold"
    return f"edited parameters may hold no secret: {where} one, and a log keeps none"


def _resolution(
    asked: e.Decided,
    verdict: str,
    by: str,
    reason: str = "",
    edited: Action | None = None,
    tool: Tool | None = None,
    *,
    masked: bool = False,
) -> e.Resolved:
    """Returns the resolution of the question. Edited parameters get a new digest."""
    bound = asked.digest
    if edited is not None:
        bound = digest(edited, tool.definition if tool else "")
    return e.Resolved(
        key=asked.key,
        index=asked.index,
        verdict=verdict,  # type: ignore[arg-type]
        by=by,
        tier=asked.tier,
        reason=reason,
        digest=bound,
        action=edited,
        attempt=asked.attempt,
        masked=masked,
    )


def approval(
    run: str, asked: e.Record, action: Action, requester: str, question: str = ""
) -> Approval:
    """Returns the question in the log as an `Approval`."""
    event = asked.event
    assert isinstance(event, e.Decided)
    return Approval(
        id=f"{run}:{asked.seq}",
        run=run,
        key=event.key,
        index=event.index,
        action=action.apart(),
        tier=Tier(event.tier),
        reason=event.reason,
        preview=event.preview,
        digest=event.digest,
        policy=event.policy,
        requester=requester,
        asked_at=asked.at,
        expires_at=event.expires_at,
        question=question,
        form=None if event.request is None else event.request["form"],
        deciders=event.deciders,
    )


def _consequence(
    resolved: e.Resolved, action: Action, tool: Tool | None, *, doubt: bool
) -> Action | Observation:
    """Returns the action to run or its observation. `doubt`: the call may have happened."""
    if action.tool == ASK_USER:
        return Observation(resolved.reason or "(no answer)", extraction=resolved.reason, auto=True)
    match resolved.verdict:
        case "allow":
            return action if resolved.action is None else resolved.action
        case "done":
            return Observation("a person says that it had already happened", extraction="done")
        case "expired":
            return Observation("approval expired", "failure", refused="expired")
        case _:
            suffix = f": {resolved.reason}" if resolved.reason else ""
            if doubt:
                text = f"skipped by {resolved.by}: it may or may not have happened before{suffix}"
                return Observation(text, "failure", refused="denied")
            return Observation(f"denied by {resolved.by}{suffix}", "failure", refused="denied")


def _preview(action: Action, tool: Tool | None) -> str:
    """Returns a readable preview of the call."""
    if tool is not None and tool.preview is not None:
        # The plain form below is shown instead; an approval is bound by the digest, not the
        # preview.
        with suppress(Exception), contained():  # a bad preview must not stop the question
            shown: Any = tool.preview(copied(action.parameters))
            if isinstance(shown, str):
                return shown
    pairs = ", ".join(
        f"{name if name.isidentifier() else repr(name)}={value!r}"
        for name, value in action.parameters.items()
    )
    return f"{action.tool}({pairs})"

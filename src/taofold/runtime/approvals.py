"""Approvals: from the question to a person about one action to what became of it (D10).

An approval is the `Decided(ask)` event in the log; it is bound to the action's digest, the
policy's version and the tool's definition, is used once, and may expire. It is closed by what is
on record, the inbox (from anywhere), the clock, or an `approve` callback in process; one whose
bounds changed meanwhile is void and asked anew. What is decided is checked here too, by whomever it
was: edits hold no secrets and fit the tool. Questions of tools and of `ask_user` take the same way.
How people find and answer questions from outside is in `control`, callbacks of ours in `approvers`.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.json_values import copied, is_object
from taofold.core.text import error_text, utf8
from taofold.core.values import ASK_USER, Action, Deciders, Observation, Tier, Verdict
from taofold.foreign_code import contained
from taofold.policy import Ruling, digest
from taofold.policy.policy import refusal
from taofold.policy.redaction import Redactor
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
"""From the verdict of a `Decision` to the one that is recorded."""
# Half a second is soon enough for people and two queries a second for the log.
LOOK = 0.5
"""Seconds between two looks into the inbox while a callback waits for its person."""
_EDITED_IN_PLACE: Final = (
    "approve changed the parameters that it was shown; to edit a call return "
    "Decision('approve', parameters=…)"
)
MOST_VOIDED: Final = 8
"""How often one call is asked about again."""
_NEVER_THE_SAME: Final = (
    "it was not called: each time a person approved it, it would have done something else by then"
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """A question on record: the record, by whose number it is answered, and what it asks."""

    record: e.Record
    event: e.Decided

    @property
    def id(self) -> str:
        """As people name it."""
        return f"{self.record.run}:{self.record.seq}"


class OpenQuestion:
    """What a person is asked about one action: from the asking to what became of it.

        settled = await OpenQuestion(ledger, key, index, action, tool).settle(ruling)

    `text` is asked where it is not about a ruling: by `ask_user`, about an action that may
    already have happened, or by a tool in the middle of its call (then `request` has its form).
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
        self._voided = 0
        self._asked: _Asked | None = None
        self._resolved: e.Resolved | None = None
        """What became of it before it was its turn."""

    def ask(self, ruling: Ruling) -> None:
        """Put the question on record before its turn; `settle` waits for the answer."""
        self._asked = self._ask(ruling)

    async def settle(
        self, ruling: Ruling | None, *, rule: Callable[[], Ruling] | None = None
    ) -> Action | Observation:
        """The action to run as a person approved it, or the observation that answers it.

        If the approval is void, `rule` is asked anew. Parks the run if nobody answers now.
        """
        while True:
            # Asked once: what became void is asked anew.
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
        """What a person answered to a tool. Parks the run if nobody answers now."""
        while True:
            resolved = await self._resolve(self._ask(None))
            if resolved.verdict != "void":
                return resolved
            self._renew()

    def _renew(self) -> None:
        """What is asked anew is asked about the tool as it is now."""
        if self.tool is not None:
            self.tool = self.ledger.tool(self.tool.name) or self.tool

    def _attempts(self) -> int:
        """How often the call was started so far."""
        # Not in the past: in a fork the state may be ahead of what one branch recorded.
        step = self.ledger.store.state.open.get(self.key)
        # None in the replay of a log that was changed: what follows is compared with it.
        return 0 if step is None else step.slots[self.index].attempts

    def _ask(self, ruling: Ruling | None) -> _Asked:
        """Record that a person is asked, or find it recorded."""
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
            # The clock of the world, read once: what is recorded here decides for good.
            expires_at=setup.now() + round(seconds * 1000) if seconds else 0,
            request=self.request,
            attempt=recorded.attempt if recorded is not None else self._attempts(),
            deciders=self._deciders(),
        )
        if recorded is not None and recorded.verdict == "ask":
            # The policy's version may have changed without changing what it says; the preview
            # and the time are the world's. How often the call had started is the log's: while a
            # replay meets parallel branches in another order, the state may count a later start.
            event = replace(
                event,
                expires_at=recorded.expires_at,
                policy=recorded.policy,
                preview=recorded.preview,
                attempt=recorded.attempt,
                deciders=recorded.deciders,
            )
        else:
            ledger.recording.overrule(self.key, self.index, "ask")

        record = ledger.put(event)
        assert isinstance(record.event, e.Decided)
        return _Asked(record, record.event)

    def _preview(self) -> str:
        """The preview of the call as of now: an approval is bound to it."""
        preview: str = redact_json(self.ledger.setup.redactor, _preview(self.action, self.tool))
        # Only then: a mark of the cut that is changed would not be known.
        return cut_preview(preview)

    def _deciders(self) -> Deciders | None:
        """Who may answer. What the model asks (`ask_user`) is no approval."""
        if self.tool is None:
            return None
        return self.ledger.setup.policy.deciders(self.tool.name, self.tool.role)

    async def _resolve(self, asked: _Asked) -> e.Resolved:
        """What became of the question: recorded, or by the inbox, the clock or the callback."""
        ledger, event = self.ledger, asked.event
        key, index = event.key, event.index
        if self._resolved is not None:
            early, self._resolved = self._resolved, None
            return self._void_if_changed(event, early) or early
        recorded = ledger.recording.recall_next(e.Resolved, key, index)
        if recorded is not None:
            voided = ledger.recording.event(e.Resolved, key, index)
            # The void stands right behind the decision that it took back: both count, in this
            # order.
            if voided is not None and voided.verdict == "void":
                ledger.put(voided)
                return voided
            return self._void_if_changed(event, recorded) or recorded

        ledger.touch(call_place(key, index))
        await ledger.inbox.refresh(ledger.store)
        # First what a person posted, then the clock; only then a callback, or parking. A decision
        # that was posted in time counts, even if it is read after the question expired.
        resolved = self._from_inbox(asked) or self._expiry(event)
        if resolved is None:
            try:
                resolved = await self._from_callback_or_inbox(asked)
            except Park:
                # Steering in the inbox goes on record first: no run is parked over unread messages.
                ledger.record_steering(key)
                for question in self.behind:
                    question._hear()
                raise

        ledger.put(resolved)
        return self._void_if_changed(event, resolved) or resolved

    def _hear(self) -> None:
        """Take in what a person posted before it is this question's turn.

        The run waits for another answer: a message that stays would wake it for nothing.
        """
        if self._asked is None or self._resolved is not None or self._is_recorded():
            return
        self._resolved = self._from_inbox(self._asked)
        if self._resolved is not None:
            self.ledger.put(self._resolved)

    def _is_recorded(self) -> bool:
        """Is it on record what became of it?"""
        return self.ledger.recording.event(e.Resolved, self.key, self.index) is not None

    async def _from_callback_or_inbox(self, asked: _Asked) -> e.Resolved:
        """The callback's word, or that of a person who decided elsewhere meanwhile.

        Parks the run if there is no callback, or it leaves the question open.
        """
        ledger = self.ledger
        if ledger.setup.approve is None:
            await ledger.raise_if_cancelled()
            raise Park(self._approval(asked).waits_for)
        # The question is durable before anybody sees it: an answer refers to its number.
        await ledger.save()
        try:
            with ledger.store.idle():
                answer = await self._callback(asked)
        except _NoAnswer as failure:
            self._leave_open(asked, failure)
        # A callback may have taken minutes: look once more, or a decision
        # from elsewhere is overrun.
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
        """Record why the callback gave no answer, and leave the question to people elsewhere."""
        setup = self.ledger.setup
        why = setup.redactor.text(f"the approve function failed: {failure}")
        failed = e.DecisionRefused(id=asked.id, by="approve", why=why, at=setup.now())
        self.ledger.store.dispatch(failed)
        raise Park(self._approval(asked).waits_for) from failure

    def _require(self, asked: _Asked, decision: Decision) -> None:
        """Leave the question open where the callback allows what `_refusal` names."""
        why = self._refusal(asked, decision)
        if not why:
            return
        setup, name = self.ledger.setup, asked.id
        by = setup.redactor.text(utf8(decision.by))
        refused = e.DecisionRefused(id=name, by=by, why=why, at=setup.now())
        self.ledger.store.dispatch(refused)
        raise Park("awaiting_approval")

    def _refusal(self, asked: _Asked, decision: Decision) -> str:
        """Why it is not allowed by this decision: the requester may not, or the edit does not fit.

        Who else speaks through a callback is its author's word.
        """
        event, requester = asked.event, self.ledger.setup.principal
        if flaw(decision) or VERDICTS[decision.verdict] != "allow":
            return ""
        wrong = self._approval(asked).unfit(decision)
        if wrong:
            return wrong
        if event.deciders is None or decision.by != requester.id:
            return ""
        return refusal(event.deciders, requester, requester, self.ledger.setup.policy.roles)

    def _each(self, answer: Any) -> list[Decision]:
        """The callback's answer as decisions: on this question, or on it and on all behind it."""
        if not isinstance(answer, list | tuple):
            return [self._decision(answer)]
        answers = cast("Sequence[Any]", answer)
        if len(answers) != 1 + len(self.behind):
            # Which of them is about which call is anybody's guess: nothing is approved.
            calls = f"{1 + len(self.behind)} call" + ("s" if self.behind else "")
            wrong = f"approve gave {len(answers)} answers about {calls}"
            refusal = Decision("deny", by=self.ledger.setup.principal.id, reason=wrong)
            return [refusal] * (1 + len(self.behind))
        return [self._decision(each) for each in answers]

    def _decide_early(self, decision: Decision) -> None:
        """Record the callback's decision before it is this question's turn."""
        if self._asked is None or self._resolved is not None or self._is_recorded():
            return
        if not self._refusal(self._asked, decision):
            self._resolved = self._reconcile(self._asked, decision)
            self.ledger.put(self._resolved)

    def _reconcile(self, asked: _Asked, decision: Decision) -> e.Resolved:
        """What a callback and a person elsewhere come to.

        Where both spoke, whoever did not allow is heard; the other is on the record as refused.
        """
        ledger, event = self.ledger, asked.event
        posted = self._from_inbox(asked)
        resolved = self._from_decision(event, decision)
        if posted is None:
            return resolved
        # The stricter word is heard: a race between two people must not open
        # what one of them closed.
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
        """What the callback says; while it waits, a person elsewhere may decide or cancel."""
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
        """What a person elsewhere or the clock said before the callback; None: it was first."""
        ledger = self.ledger
        try:
            # asyncio.wait with a timeout, not wait_for: that would cancel the callback at each
            # look.
            while not (await asyncio.wait({asking}, timeout=LOOK))[0]:
                await ledger.inbox.refresh(ledger.store)
                ended = self._from_inbox(asked) or self._expiry(asked.event)
                if ended is not None:
                    return ended
                await ledger.raise_if_cancelled()
            return None
        finally:
            if not asking.done():
                # The prompt of a callback must not stay open when somebody else has answered.
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    def _decision(self, answer: Any) -> Decision:
        requester = self.ledger.setup.principal.id
        if isinstance(answer, Decision):
            return answer
        if isinstance(answer, bool):
            return Decision("allow" if answer else "deny", by=requester)
        # Fail closed: a callback that gives anything else (None, "yes") has approved nothing.
        wrong = f"approve gave {quote(answer)}, not a bool or a Decision"
        return Decision("deny", by=requester, reason=wrong)

    def _from_decision(self, asked: e.Decided, decision: Decision) -> e.Resolved:
        """What the callback's decision comes to. One that cannot be used as it stands denies."""
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
        """What a person's message in the inbox says."""
        inbox, event = self.ledger.inbox, asked.event
        # By the number of the question's record, so an answer to an earlier question about the same
        # action is not taken for this one.
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
        return replace(resolved, masked=True) if data.get("masked") is True else resolved

    def _as_edited(
        self, asked: e.Decided, verdict: str, by: str, text: str, parameters: dict[str, Any] | None
    ) -> e.Resolved:
        """The word of `by`, who edited the `parameters` or left them as they are (None)."""
        redactor = self.ledger.setup.redactor
        reason = redactor.text(text)
        masked = is_masked(text, reason)
        if parameters is None:
            return _resolution(asked, verdict, by, reason, masked=masked)
        # After redaction the call would run with other parameters than the person saw and approved.
        lost = secret(redactor, parameters)
        if lost:  # who posted a message was told when he decided
            return _resolution(asked, "deny", by, lost)
        edited = replace(self.action, parameters=dict(parameters))
        return _resolution(asked, verdict, by, reason, edited, self.tool, masked=masked)

    def _expiry(self, asked: e.Decided) -> e.Resolved | None:
        """What the clock says: the end of a question that has expired."""
        if not asked.expires_at or self.ledger.setup.now() <= asked.expires_at:
            return None
        return _resolution(asked, "expired", "clock")

    def _void_if_changed(self, asked: e.Decided, resolved: e.Resolved) -> e.Resolved | None:
        """Re-check an approval right before it is used.

        It is void if what it is bound to has changed, or if it brings parameters that do not fit.
        """
        ledger, action = self.ledger, self.action
        # Only "allow" is bound: a denial stands whatever has changed. A
        # replay takes the log's word.
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
            # For example the file whose change was shown.
            changed = "what the call would do changed after a person was shown it"
        elif resolved.action is not None:
            # Whoever decided where the tool is not known could not be told: he is asked once more.
            wrong = tool.misfit(resolved.action.parameters)
            changed = f"edited parameters: {wrong}" if wrong else ""

        if not changed:
            return None
        # A void edit is taken back: the question is asked anew about the action as it was.
        original = action if resolved.action is not None else None
        void = _resolution(asked, "void", "runtime", changed, original, tool)
        ledger.put(void)
        return void


class _NoAnswer(Exception):
    """The callback raised: there is no decision."""


@contextmanager
def _callback_contained() -> Generator[None]:
    """Turns all that a callback raises into `_NoAnswer`; `Park` is its way to leave a question."""
    try:
        with contained(Park):
            yield
    except _NoAnswer:
        raise
    except Exception as error:
        raise _NoAnswer(error_text(error)) from error


async def _contained_answer(answer: Awaitable[Any]) -> Any:
    # Inside of the task: the event loop itself lets SystemExit and KeyboardInterrupt through.
    with _callback_contained():
        return await answer


def flaw(decision: Decision) -> str:
    """Why nobody can act on `decision`, or "". It comes from code that may be wrong."""
    verdict: Any = decision.verdict
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        return f"a decision is approve, deny, edit or done, not {quote(verdict)}"
    texts: dict[str, Any] = {"by": decision.by, "reason": decision.reason}
    texts |= {"answer": decision.answer or "", "digest": decision.digest}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f"the {name} of a decision is text, not {quote(text)}"
    parameters = decision.parameters
    if parameters is None:
        return "an edit says which parameters to use instead" if verdict == "edit" else ""
    if not is_object(parameters) or jsonable(parameters) != parameters:
        return f"edited parameters are a dict of JSON, not {quote(parameters)}"
    return ""


def _form(filled: dict[str, Any]) -> str:
    """An answer to a tool's question that came as parameters instead of as text."""
    return msgspec.json.encode(filled).decode()


def secret(redactor: Redactor, parameters: dict[str, Any]) -> str:
    """Why edited parameters that hold a secret are refused, or "" if they hold none.

    The log keeps no secrets, so the call would run with something else than was approved.
    """
    redacted = redactor.json(parameters)
    if redacted == parameters:
        return ""
    # Values are compared per parameter to name the one that holds it; the name may hold one, too.
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
    """The end of the question. Edited parameters make a new digest."""
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
    """The question in the log as a person sees it."""
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
    """`doubt`: the question was whether an interrupted call had happened."""
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
    """What would happen, for a person to read."""
    if tool is not None and tool.preview is not None:
        # The plain form below is shown instead; what is approved is bound by the
        # digest, not the preview.
        with suppress(Exception), contained():  # a bad preview must not stop the question
            shown: Any = tool.preview(copied(action.parameters))
            if isinstance(shown, str):
                return shown
    pairs = ", ".join(
        f"{name if name.isidentifier() else repr(name)}={value!r}"
        for name, value in action.parameters.items()
    )
    return f"{action.tool}({pairs})"

"""Calls of a model: returns the recorded reply if there is one, else asks within the allowance.

A call involves hooks, the cache of replies, the run's seconds and dollars, and text that is
streamed without secrets. The cost is recorded with the reply, before it is parsed. If a provider
would refuse opaque parts that it once issued, the conversation is cut and continues without them.
`model` defines `Model`; requests and replies over HTTP are in `taofold.models`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, NoReturn

import msgspec

from taofold.core import events as e
from taofold.core.call_ids import branch
from taofold.core.content import (
    Content,
    Conversation,
    OpaquePart,
    Part,
    blob_digest,
    content_of,
    parts_of,
    without_issuer_parts,
)
from taofold.core.effects import Ask, Halt
from taofold.core.errors import LogError, ModelError, ReplayDiverged
from taofold.core.text import utf8
from taofold.core.values import ASIDE, Message, ModelSettings, Profile, Reply, Usage, Value
from taofold.foreign_code import contained, in_own_task
from taofold.policy.limits import STOP_REASON, Reserved
from taofold.policy.redaction.stream import Trickle
from taofold.runtime import metering
from taofold.runtime.budgets import WARNING
from taofold.runtime.endings import SPENT
from taofold.runtime.hooks import AddMessage, ChangeRequest, HookOutcome, offer_of
from taofold.runtime.ledger import Denied, Ledger, Park, hook_context
from taofold.runtime.model import (
    Model,
    OnText,
    Request,
    ToolSpec,
    ask,
    dearest,
    estimated_usage,
)
from taofold.runtime.redaction import check_reply, checked_usage, is_reply_masked, redact_reply
from taofold.runtime.setup import Setup

BYTES_PER_TOKEN = 3.0
"""A cautious estimate for the upper bound of a prompt's tokens."""
DEFAULT_MAX_TOKENS = 4096
"""Assumed length of a reply in tokens when a call without a bound is priced."""
THINKING_MAX_TOKENS = 16_384
"""The same for a model that thinks: its thoughts are part of the reply."""
INLINE = 4096
"""Maximum characters of an opaque part that is kept in the log itself."""
DETAIL = 500
"""Maximum characters of a provider's refusal that are kept with a cut."""
CHANGED = "changed"
"""In place of a digest: the newest reply was requested with a different prompt."""
UNREPORTED = "the provider reported no usage: it is estimated"
"""The note on a reply with an estimated usage."""
OTHER = "another one"
"""In place of the digest of a recorded offer that is not the present one."""
_ONE_CALL = Reserved(model_calls=1)


class SentDigests(Value, frozen=True):
    """The digests of a request: of its messages, and of its tools and schema."""

    prompt: str
    offer: str


class ModelCall:
    """One `Ask` in progress: at most one reply is recorded for it, after any number of attempts."""

    def __init__(self, ledger: Ledger, key: str, effect: Ask) -> None:
        self.ledger, self.key, self.effect = ledger, key, effect
        self.conversation = effect.conversation
        self.offer = ledger.offer(effect)
        """Digest of the tools and the schema that go with the prompt."""
        self._spent_usd = 0.0

    async def perform(self) -> Reply:
        """Returns the reply: the recorded one if there is one, else the model's.

        Raises:
            Halt: A limit forbids the call.
            ModelError: There is no reply, and the caller does not tolerate that.
            Park: An engine pauses its runs, or a batch has no more dollars.
        """
        ledger = self.ledger
        past = not ledger.recording.fresh
        if self.effect.tools:
            ledger.narrowed[branch(self.key)] = None
        spoken = self._as_before() if past else []
        hear = ledger.setup.on_request
        if hear is not None:
            hear(ledger.store.run, self.key, self._request(self._model()))
        if past:
            earlier = await self._earlier_reply() or self._earlier_end()
            if earlier is not None:
                return earlier

        ledger.touch(self.key)
        reason = ledger.setup.pause()
        if reason:
            raise Park(reason)
        model = self._model()
        request = await self._before(self._request(model), model, spoken)
        purse, most = ledger.setup.purse, 0.0
        priced = _most_usd(request, model) if self._is_priced() else 0.0
        if ledger.setup.policy.budgets:
            hit = await self._over_budget(request, priced)
            if hit is not None:
                return self._forbidden(hit)
        if purse is not None or ledger.allowance.limits.usd is not None:
            most = priced or 0.0
        if purse is not None and not await purse.take(most):
            if self.effect.dispensable:
                return self._failed("the batch has no more dollars")
            raise Park(SPENT)
        try:
            allowed = self._check_limits(request, most)
            if isinstance(allowed, e.LimitHit):
                return self._forbidden(allowed)
            # Held until the call ends: parallel branches count its reservation.
            ledger.allowance.reserved[self.key] = allowed
            reply = await self._live(request, model)
            self._spent_usd += reply.usage.priced_usd
        finally:
            ledger.allowance.reserved.pop(self.key, None)
            if purse is not None:
                purse.settle(most, self._spent_usd)

        await self._after(reply)
        return reply

    def _model(self) -> Model:
        return self.ledger.setup.model(self.effect.model or self.effect.role)

    @property
    def _on_delta(self) -> Callable[[str, str], None] | None:
        """The listener of the reply's text, unless the reply is no part of the answer."""
        return None if self.effect.role in ASIDE else self.ledger.setup.on_delta

    # Recorded results.

    def _as_before(self) -> list[str]:
        """Applies recorded cuts and hook verdicts to the conversation.

        Returns the names of the hooks with a recorded verdict.
        """
        recording = self.ledger.recording
        # Applied before the digests are compared: a cut changes the request.
        for _ in recording.recall(e.Cut, self.key):
            self.conversation.cut()
        while (note := recording.event(e.Noted, self.key)) is not None and note.kind == WARNING:
            recording.recall_next(e.Noted, self.key)
            data = note.data
            mark = data.get("name", ""), data.get("scope", ""), data.get("start", 0)
            self.ledger.budgets.warned.add(mark)
        spoken: list[str] = []
        while (past := recording.event(e.Hooked, self.key)) is not None:
            if past.point != "before_model":
                break
            spoken.append(past.hook)
            self._step_in(past)
        return spoken

    async def _earlier_reply(self) -> Reply | None:
        """Returns the recorded reply, or None."""
        ledger = self.ledger
        recorded = ledger.recording.event(e.Replied, self.key)
        if recorded is None:
            return None
        reply = self._recorded_reply(recorded)
        ledger.people.clear()
        if not ledger.recording.exact:  # nothing is sent back any more
            reply = await self._with_blobs(reply)
        await self._after_past(reply)
        return reply

    def _earlier_end(self) -> Reply | None:
        """Returns how the call ended without a reply, or None if it must be made now."""
        recording = self.ledger.recording
        # Each activation may have made an attempt: the last one counts.
        failures = recording.recall(e.AskFailed, self.key)
        failed = failures[-1] if failures else None
        limited = recording.event(e.LimitHit, self.key)
        # A limit after the failure means that the call was repeated and ran out of time.
        if failed is not None and limited is None:
            if failed.kind == "overflow":
                return Reply(finish="overflow")
            if self.effect.tolerant:
                return Reply(finish="error", reasoning=failed.message)
            # A replay ends as the run did; on resume a failed call is made again.
            if recording.exact:
                raise ModelError(failed.message, kind=failed.kind)
        if limited is not None:
            self.ledger.put(limited)
            raise Halt(STOP_REASON[limited.limit])
        return None

    def _recorded_reply(self, recorded: e.Replied) -> Reply:
        """Returns the recorded reply if this code would send the same request; on resume always."""
        ledger, key, conversation = self.ledger, self.key, self.conversation
        prompt, prefix = conversation.digest, prefix_of(conversation, self.offer)
        # The Rust runtime records no prefix.
        same = recorded.prompt == prompt and recorded.prefix in ("", prefix)
        if not same and ledger.recording.exact and not recorded.foreign:
            # The log holds no digest of the offer alone: with it the recorded sum must come out.
            sent = digest_of_all(recorded.prompt, conversation.bound_digest, self.offer)
            offer = self.offer if sent == recorded.prefix else OTHER
            requested = SentDigests(prompt, self.offer)
            raise ReplayDiverged(key, SentDigests(recorded.prompt, offer), requested)

        if recorded.prompt != prompt:
            ledger.reworded(key, recorded.prompt, prompt)
        # The next live call compares with this: signed reasoning is bound to its request.
        conversation.offer = self.offer if same else CHANGED
        ledger.recording.recall(e.AskFailed, key)  # a later activation repeated the failed calls
        ledger.recording.recall_next(e.Replied, key)
        return Reply(
            usage=recorded.usage,
            model=recorded.model,
            finish=recorded.finish,
            parts=recorded.content,
            issuer=recorded.issuer,
            notes=recorded.notes,
            found=recorded.found,
        )

    async def _with_blobs(self, reply: Reply) -> Reply:
        """Returns the reply with its blobs loaded, or without opaque parts if a blob is missing."""
        if not any([isinstance(part, OpaquePart) and part.digest for part in reply.parts]):
            return reply
        parts: list[Part] = []
        for part in reply.parts:
            if isinstance(part, OpaquePart) and part.digest:
                try:
                    data = await self.ledger.store.blob(part.digest)
                except LogError:
                    # The remaining opaque parts would not verify without this one.
                    return replace(reply, parts=parts_of(without_issuer_parts(reply.content)))
                part = OpaquePart(data.decode("utf-8", "surrogatepass"), part.kind, part.digest)
            parts.append(part)
        return replace(reply, parts=tuple(parts))

    def _store_long_parts(self, content: Content) -> Content:
        """Returns the content to record: long opaque parts are stored beside the log."""
        if isinstance(content, str):
            return content
        parts: list[Part] = []
        for part in content:
            if isinstance(part, OpaquePart) and len(part.data) > INLINE:
                data = part.data.encode("utf-8", "surrogatepass")
                # By content: the same item in a later reply is stored once.
                digest = blob_digest(data)
                self.ledger.store.keep(digest, data)
                part = OpaquePart("", part.kind, digest, len(data))
            parts.append(part)
        return content_of(parts)

    # Verdicts of hooks.

    def _step_in(self, event: e.Hooked) -> None:
        """Records a hook's verdict and applies it.

        Raises:
            Denied: The hook rejected the call.
        """
        self.ledger.put(event)
        if event.rejected:
            raise Denied(event.rejected)
        message = Message("user", event.message)
        if event.pinned:
            self.conversation.pin(message)
        elif event.message:
            self.conversation.append(message)
        if event.after is not None:
            self._change(event.after)

    def _change(self, after: dict[str, Any]) -> None:
        """Applies a hook's change to this call."""
        settings = ModelSettings.of(after.get("settings", {})).over(self.effect.settings)
        self.effect = msgspec.structs.replace(self.effect, settings=settings)
        names = after.get("tools")
        if names is not None:
            self.effect = msgspec.structs.replace(self.effect, allowed=tuple(names))
            self.ledger.narrowed[branch(self.key)] = frozenset(names)

    async def _before(self, request: Request, model: Model, spoken: list[str]) -> Request:
        """Returns the request with the additions of hooks. `spoken` are hooks with recorded
        verdicts.

        Raises:
            Denied: A hook rejected the call.
        """
        ledger, hooks = self.ledger, self.ledger.setup.hooks
        people, ledger.people = ledger.people, []
        if "before_model" not in hooks.points:
            return request
        if not ledger.store.state.model_calls:
            people = [ledger.store.state.goal, *people]
        outcomes = await hooks.call(
            "before_model",
            hook_context(ledger, self.key, people),
            request,
            seconds=ledger.allowance.seconds_left(),
            without=spoken,
        )
        for outcome in outcomes:
            self._record("before_model", outcome)
        if not outcomes:
            return request
        request = self._request(model)
        if ledger.setup.on_request is not None:
            ledger.setup.on_request(ledger.store.run, self.key, request)
        return request

    async def _after(self, reply: Reply) -> None:
        """Calls hooks on a reply before it is parsed; then it may be streamed.

        Raises:
            Denied: A hook rejected it.
        """
        setup, on_delta = self.ledger.setup, self._on_delta
        if "after_model" not in setup.hooks.points:
            return
        await self.ledger.flush()  # a hook may take long, and the reply is paid for
        context = hook_context(self.ledger, self.key)
        left = self.ledger.allowance.seconds_left()
        for outcome in await setup.hooks.call("after_model", context, reply, seconds=left):
            self._record("after_model", outcome)
        if on_delta is not None and reply.text:
            on_delta(self.ledger.store.run, reply.text)

    async def _after_past(self, reply: Reply) -> None:
        """Applies recorded verdicts of hooks to a recorded reply.

        Raises:
            Denied: A hook rejected it.
        """
        ledger = self.ledger
        past = ledger.recording.event(e.Hooked, self.key)
        late = ledger.recording.event(e.LimitHit, self.key)
        if past is not None:
            self._step_in(past)
        elif late is not None:  # a hook did not answer in time, so the reply was not passed
            ledger.put(late)
            raise Halt(STOP_REASON[late.limit])
        elif not ledger.recording.covers(self.key):
            # No record follows the reply: the process may have ended before its hooks had finished.
            await self._after(reply)

    def _record(self, point: str, outcome: HookOutcome) -> None:
        if outcome.late:
            self._end_out_of_time()
        redactor, verdict = self.ledger.setup.redactor, outcome.verdict
        message = verdict.text if isinstance(verdict, AddMessage) else ""
        event = e.Hooked(
            key=self.key,
            hook=outcome.hook,
            point=point,
            rejected=redactor.text(utf8(outcome.reason)),
            message=redactor.text(utf8(message)),
            pinned=bool(message),
        )
        if isinstance(verdict, ChangeRequest):
            event = self._changed(event, verdict)
        self._step_in(event)

    def _changed(self, event: e.Hooked, verdict: ChangeRequest) -> e.Hooked:
        """Returns the event with the call before and after the change."""
        redactor = self.ledger.setup.redactor
        request = self._request(self._model())
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        if verdict.settings:
            asked = request.asked()
            before["settings"] = {name: getattr(asked, name) for name in verdict.settings}
            after["settings"] = dict(verdict.settings)
        if verdict.tools is not None:
            before["tools"], after["tools"] = list(offer_of(request)), list(verdict.tools)
        # A replay would send other settings than the run did.
        if redactor.json(after) != after:
            why = f"the hook {event.hook} returned settings with a secret, and a log keeps none"
            return msgspec.structs.replace(event, rejected=why)
        return msgspec.structs.replace(event, before=redactor.json(before), after=after)

    # Parts that are no longer sent back.

    def _cut_conversation(self, reason: str, detail: str = "") -> None:
        """Stops issuer-bound data of all earlier messages from being sent again."""
        messages = len(self.conversation)
        self.ledger.put(e.Cut(key=self.key, reason=reason, messages=messages, detail=detail))
        self.conversation.cut()

    # The request, and its permission.

    def _request(self, model: Model) -> Request:
        setup, effect = self.ledger.setup, self.effect
        specs: tuple[ToolSpec, ...] = ()
        deferred: tuple[ToolSpec, ...] = ()
        if effect.tools and model.profile.native_tools:
            specs = setup.specs(effect.tools)
            deferred = setup.deferred_specs(effect.deferred) if effect.deferred else ()
        settings = setup.settings
        if self._is_priced():
            # Without a bound the price of the reply could not be known beforehand.
            settings = settings.over(ModelSettings(max_tokens=_most_output(model.profile)))
        return Request(
            conversation=effect.conversation,
            tools=specs,
            allowed=effect.allowed if specs else None,
            schema=effect.schema if model.profile.json_schema else None,
            settings=settings,
            overrides=effect.settings,
            role=effect.role,
            blobs=self.ledger.media,
            run=self.ledger.store.run,
            deferred=deferred,
            search=effect.search if deferred else "",
        )

    def _is_priced(self) -> bool:
        """Returns whether a bound in dollars applies to the call."""
        setup, limits = self.ledger.setup, self.ledger.allowance.limits
        return setup.purse is not None or limits.usd is not None or setup.policy.bounds_usd

    def _is_bounded(self) -> bool:
        """Returns whether a bound applies to the call, so that an unknown usage is estimated."""
        setup, limits = self.ledger.setup, self.ledger.allowance.limits
        return bool(setup.policy.budgets) or limits.tokens is not None or self._is_priced()

    async def _over_budget(self, request: Request, most_usd: float | None) -> e.LimitHit | None:
        """Returns the budget of many runs that forbids the call; records warnings."""
        # The run's own replies are part of the sums.
        await self.ledger.save()
        tokens = request.size / metering.BYTES_PER_TOKEN
        for event in await self.ledger.budgets.check(self.key, tokens, most_usd):
            if isinstance(event, e.LimitHit):
                return event
            self.ledger.put(event)
        return None

    def _forbidden(self, hit: e.LimitHit) -> Reply:
        """Records that `hit` forbids the call. Returns the reply of a dispensable call.

        Raises:
            Halt: The strategy needs the call.
        """
        if not self.effect.dispensable:
            self.ledger.put(hit)
            raise Halt(STOP_REASON[hit.limit])
        return self._failed(hit.why or f"the limit {hit.limit} forbids the call")

    def _failed(self, message: str) -> Reply:
        """Records why a dispensable call is not made."""
        message = self.ledger.setup.redactor.text(message)
        self.ledger.put(e.AskFailed(key=self.key, kind="limit", message=message))
        return Reply(finish="error", reasoning=message)

    def _check_limits(self, request: Request, most_usd: float) -> Reserved | e.LimitHit:
        """Returns the call's maximum consumption, as a reservation for parallel branches.

        If a limit forbids the call, or it may cost more than the rest of `usd`, returns the hit.
        """
        allowance = self.ledger.allowance
        prompt = 0.0 if allowance.limits.tokens is None else request.size / metering.BYTES_PER_TOKEN
        forbidden = allowance.for_model_call(prompt, most_usd)
        if forbidden is not None:
            hit, needed = forbidden
            allowed: float = getattr(allowance.limits, hit) or 0.0
            return e.LimitHit(key=self.key, limit=hit, value=1, needed=needed, allowed=allowed)
        if not most_usd and not prompt:
            return _ONE_CALL
        return Reserved(model_calls=1, tokens=round(prompt), usd=most_usd)

    # The call itself.

    async def _live(self, request: Request, model: Model) -> Reply:
        """Asks the model now, and records the result."""
        ledger, conversation, setup = self.ledger, self.conversation, self.ledger.setup
        changed = conversation.offer not in ("", self.offer)
        if conversation.bound and changed and model.profile.prefix_bound:
            # Cut before the request is sent: the provider would reject data it signed for another
            # prefix.
            rewritten = conversation.offer == CHANGED
            self._cut_conversation("prompt_changed" if rewritten else "tools_changed")

        # All events so far must survive a killed process before the world is asked.
        await ledger.save()
        await ledger.fetch(conversation)
        cache_key = ""
        if setup.cache is not None:
            cache_key = self._cache_key(request, model)
        cached = None if setup.cache is None else setup.cache.get(cache_key)
        started = setup.now()
        if cached is not None:
            # A reply from the cache costs nothing, so its usage is not counted again.
            reply = replace(cached, usage=Usage())
        else:
            try:
                reply = await self._metered(request, model)
            except ModelError as error:
                message = setup.redactor.text(str(error))
                # On record even if tolerated: a replay must fail the call in the same way.
                ledger.put(e.AskFailed(key=self.key, kind=error.kind, message=message))
                if error.kind == "overflow":
                    return Reply(finish="overflow")
                if self.effect.tolerant:
                    return Reply(finish="error", reasoning=message)
                raise
            except OutOfTime:
                self._end_out_of_time()
            if setup.cache is not None:
                setup.cache[cache_key] = reply

        # Messages may have arrived while the model was asked.
        ledger.inbox.stale = True
        # Before `_clean`: the prefix covers the request, not the reply.
        prefix, conversation.offer = prefix_of(conversation, self.offer), self.offer
        if cached is None and not reply.usage.tokens and self._is_bounded():
            reply = self._with_estimate(request, reply, model)
        raw, reply = reply, self._clean(reply, model)
        ledger.put(
            e.Replied(
                key=self.key,
                prompt=conversation.digest,
                content=self._store_long_parts(reply.content),
                usage=reply.usage,
                model=reply.model,
                finish=reply.finish,
                issuer=reply.issuer,
                notes=reply.notes,
                found=reply.found,
                prefix=prefix,
                role=request.role,
                ms=setup.now() - started,
                cached=cached is not None,
                masked=is_reply_masked(raw, reply),
                agent=setup.handed_to,
            )
        )
        return reply

    async def _metered(self, request: Request, model: Model) -> Reply:
        """Returns the model's reply; records what attempts without a reply consumed."""
        meter = metering.Meter(estimates=self._is_bounded())
        try:
            with metering.metered(meter):
                return await self._ask_model(request, model)
        finally:
            # Before the call's end, and also if the run is cancelled: the provider bills it.
            for attempt in meter.attempts:
                self._charge(attempt, request, model)

    def _charge(self, attempt: metering.Consumption, request: Request, model: Model) -> None:
        try:
            usage = checked_usage(attempt.usage)
        except ModelError:  # the model's own report is impossible
            attempt = attempt._replace(estimated=True)
            usage = estimated_usage(model, request.size, 0)
        if not usage.tokens and not usage.priced_usd:
            return
        self._spent_usd += usage.priced_usd
        setup = self.ledger.setup
        self.ledger.new(
            e.Charged(
                key=self.key,
                usage=usage,
                model=setup.redactor.text(attempt.model),
                estimated=attempt.estimated,
                agent=setup.handed_to,
            )
        )

    def _end_out_of_time(self) -> NoReturn:
        self.ledger.put(e.LimitHit(key=self.key, limit="seconds", value=1))
        raise Halt(STOP_REASON["seconds"]) from None

    def _cache_key(self, request: Request, model: Model) -> str:
        """Returns the cache key of this request; `offer` covers tools and schema."""
        prompt = f"{self.conversation.digest}:{self.offer}"
        return f"{model.name}:{prompt}:{request.asked()!r}:{request.allowed}"

    async def _ask_model(self, request: Request, model: Model) -> Reply:
        """Returns the model's reply. If the provider rejects its own signed data, asks once more
        without it.

        The conversation continues, the reasoning so far is lost, and the log records a cut.
        """
        try:
            return await self._reply(request, model)
        except ModelError as error:
            if error.kind != "binding" or not self.conversation.bound:
                raise
            self._cut_conversation("refused", self.ledger.setup.redactor.text(str(error))[:DETAIL])
            # The cut is made durable first: after a crash the opaque parts must not be sent again.
            await self.ledger.save()
            return await self._reply(request, model)

    async def _reply(self, request: Request, model: Model) -> Reply:
        """Makes one call of the model, within its seconds and the run's."""
        setup, run = self.ledger.setup, self.ledger.store.run
        on_text, on_delta = None, self._on_delta
        # Text that a hook may reject must not be shown: it is streamed after the hooks.
        if on_delta is not None and "after_model" not in setup.hooks.points:
            on_text = StreamedText(partial(on_delta, run), setup)

        async def asked() -> Reply:
            call = ask(model, request, on_text)
            if self.effect.seconds is not None:
                late = f"no reply within {self.effect.seconds} s"
                call = _within(call, self.effect.seconds, ModelError(late, kind="timeout"))
            left = self.ledger.allowance.seconds_left()
            return await (call if left is None else _within(call, left, OutOfTime()))

        try:
            with contained():
                return self._checked(await in_own_task(asked()), request, model)
        except ModelError:
            if on_text is not None and on_text.error is not None:
                raise on_text.error from None  # the listener's fault, not the model's
            raise
        finally:
            if on_text is not None:
                # Also after an error: text held back as the possible start of a secret is released.
                on_text.end()

    def _checked(self, reply: Reply, request: Request, model: Model) -> Reply:
        """Returns the reply of a model's own code; reports the usage of one that is unusable.

        Raises:
            ModelError: It is unusable.
        """
        try:
            return check_reply(reply)
        except ModelError:
            usage = getattr(reply, "usage", None)
            if isinstance(usage, Usage) and usage.tokens:
                metering.report_consumption(model.name, usage)
            elif self._is_bounded():
                usage = estimated_usage(model, request.size, 0)
                metering.report_consumption(model.name, usage, estimated=True)
            raise

    def _with_estimate(self, request: Request, reply: Reply, model: Model) -> Reply:
        """Returns the reply with an estimated usage: its provider reported no tokens.

        Without it, a bound would never be reached.
        """
        if not getattr(model, "consumes", True):
            return reply
        received = len(msgspec.json.encode(reply.parts))
        usage = estimated_usage(model, request.size, received)
        if reply.usage.usd:
            usage = msgspec.structs.replace(usage, usd=reply.usage.usd)
        return replace(reply, usage=usage, notes=(*reply.notes, UNREPORTED))

    def _clean(self, reply: Reply, model: Model) -> Reply:
        """Returns the reply without secrets, with its price and its model's name."""
        usage = reply.usage
        if not usage.usd and usage.tokens:
            usd = model.price(usage.input_tokens, usage.output_tokens)
            usage = msgspec.structs.replace(usage, usd=usd)
        return redact_reply(self.ledger.setup.redactor, reply, usage, model.name)


def prefix_of(conversation: Conversation, offer: str) -> str:
    """Returns 16 hex digits over everything that is sent: messages, opaque parts, tools, schema.

    Equal requests have equal digests across activations.
    """
    return digest_of_all(conversation.digest, conversation.bound_digest, offer)


def digest_of_all(prompt: str, bound: str, offer: str) -> str:
    """Returns `prefix_of` a conversation with these digests."""
    return blake2b(f"{prompt}:{bound}:{offer}".encode(), digest_size=8).hexdigest()


def _most_usd(request: Request, model: Model) -> float | None:
    """Returns the maximum cost of the call in US dollars, or None if a price is unknown."""
    # In many scripts a character is a token.
    most_tokens = int(request.size / BYTES_PER_TOKEN) + 8 * len(request.conversation) + 64
    return dearest(model, request, most_tokens)


def _most_output(profile: Profile) -> int:
    """Returns the bound of a reply whose price must be known before the call, in tokens."""
    thinks = profile.thinking in ("default", "always")
    return THINKING_MAX_TOKENS if thinks else DEFAULT_MAX_TOKENS


class StreamedText:
    """A relay of the text of a reply as it arrives, without secrets. Never logged."""

    def __init__(self, tell: OnText, setup: Setup) -> None:
        self._tell, self._trickle = tell, Trickle(setup.redactor)
        self.error: Exception | None = None
        """The exception that the listener raised."""

    def __call__(self, text: str) -> None:
        """Takes the next piece."""
        safe = self._trickle.feed(utf8(text))
        if safe:
            try:
                self._tell(safe)
            except Exception as error:
                self.error = error
                raise

    def end(self) -> None:
        """Passes on the text that was held back."""
        safe = self._trickle.end()
        if safe:
            self._tell(safe)


class OutOfTime(Exception):
    """The run's seconds ran out while a model was asked."""


async def _within(call: Awaitable[Reply], seconds: float, late: Exception) -> Reply:
    """Awaits `call` for at most `seconds`; then raises `late`."""
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            return await call
    except TimeoutError as error:
        # The call's own TimeoutError is not the deadline's.
        if timer.expired():
            raise late from error
        raise

"""Calls of a model: from the tape if it was asked before, else within the budget.

What the call cost is recorded with the reply, before anyone tries to read it.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from hashlib import blake2b

import msgspec

from taofold.core import events as e
from taofold.core.content import (
    Content,
    Conversation,
    OpaquePart,
    Part,
    blob_digest,
    content_of,
    parts_of,
    unbound,
)
from taofold.core.effects import Ask, Halt
from taofold.core.errors import LogError, ModelError, ReplayDiverged
from taofold.core.values import ModelSettings, Profile, Reply, Usage
from taofold.policy.limits import STOP_REASON, Held
from taofold.policy.redaction.stream import Trickle
from taofold.runtime.ledger import Ledger, Park
from taofold.runtime.model import Model, OnText, Request, ToolSpec, quote
from taofold.runtime.redaction import checked, clean
from taofold.runtime.setup import Setup
from taofold.tools.result import utf8

BYTES_PER_TOKEN = 3.0
"""A cautious estimate for the upper bound of a prompt's tokens."""
_USUAL_BYTES_PER_TOKEN = 4.0
"""Of plain English and JSON: a prompt has hardly fewer tokens than this says."""
DEFAULT_MAX_TOKENS = 4096
"""Assumed length of a reply when pricing a call that does not bound it."""
THINKING_MAX_TOKENS = 16_384
"""The same for a model that thinks: its thoughts are part of the reply."""
INLINE = 4096
"""Characters of an opaque part that are kept in the log itself."""
DETAIL = 500
"""Characters of a provider's refusal that are kept with a cut."""
CHANGED = "changed"
"""Instead of a digest: the newest reply was asked for with another prompt than this code's."""
_ONE_CALL = Held(model_calls=1)


async def ask(ledger: Ledger, key: str, effect: Ask) -> Reply:
    """Resolve an `Ask`."""
    talk = effect.conversation
    _cut_as_before(ledger, key, talk)
    hear = ledger.setup.on_request
    if hear is not None:
        asked_model = ledger.setup.model(effect.model or effect.role)
        hear(ledger.store.run, key, _request(ledger, effect, asked_model))
    offer = ledger.offer(effect)
    recorded = None if ledger.fresh else ledger.tape.peek(e.Replied, key)
    if recorded is not None:
        reply = _recorded(ledger, key, talk, offer, recorded)
        return reply if ledger.exact else await _whole(ledger, reply)
    past_reply = None if ledger.fresh else _past(ledger, key, effect)
    if past_reply is not None:
        return past_reply
    ledger.touch(key)
    reason = ledger.setup.pause()
    if reason:
        raise Park(reason)
    model = ledger.setup.model(effect.model or effect.role)
    request = _request(ledger, effect, model)
    ledger.held[key] = _check_limits(ledger, key, request, model)
    try:
        return await _live(ledger, key, effect, request, model, offer)
    finally:
        del ledger.held[key]


def _past(ledger: Ledger, key: str, effect: Ask) -> Reply | None:
    """How the call ended without a reply in an earlier life; None if it is to be made now."""
    failed = _failed(ledger, key)
    limited = ledger.tape.peek(e.LimitHit, key)
    if failed is not None and limited is None:
        if failed.kind == "overflow":
            return Reply(finish="overflow")
        if effect.tolerant:
            return Reply(finish="error", reasoning=failed.message)
        if ledger.exact:
            raise ModelError(failed.message, kind=failed.kind)
    if limited is not None:
        ledger.put(limited)
        raise Halt(STOP_REASON[limited.limit])
    return None


def _cut_as_before(ledger: Ledger, key: str, talk: Conversation) -> None:
    """What an earlier life stopped sending back is not sent back by this one either."""
    while not ledger.fresh and (record := ledger.tape.take(e.Cut, key)) is not None:
        ledger.replayed(record)
        talk.cut()


def _cut(ledger: Ledger, key: str, talk: Conversation, reason: str, detail: str = "") -> None:
    """From now on nothing that only a provider understands is sent back from what was said."""
    ledger.put(e.Cut(key=key, reason=reason, messages=len(talk), detail=detail))
    talk.cut()


def _failed(ledger: Ledger, key: str) -> e.AskFailed | None:
    """How the last attempt at this call failed: each life of the run may have made one."""
    failed: e.AskFailed | None = None
    while (record := ledger.tape.take(e.AskFailed, key)) is not None:
        ledger.replayed(record)
        if isinstance(record.event, e.AskFailed):
            failed = record.event
    return failed


def _recorded(
    ledger: Ledger, key: str, talk: Conversation, offer: str, recorded: e.Replied
) -> Reply:
    """The reply that is on the tape, if this code would ask the same; on resume in any case."""
    prompt, prefix = talk.digest, prefix_of(talk, offer)
    same = recorded.prompt == prompt and recorded.prefix in ("", prefix)
    if not same and ledger.exact:
        raise ReplayDiverged(
            key,
            f"prompt {recorded.prompt}, all that was sent {recorded.prefix}",
            f"prompt {prompt}, all that would be sent {prefix}",
        )
    if recorded.prompt != prompt:
        ledger.reworded(key, recorded.prompt, prompt)
    talk.offer = offer if same else CHANGED
    while ledger.tape.take(e.AskFailed, key) is not None:
        pass  # it was asked again in a later life
    record = ledger.tape.take(e.Replied, key)
    if record is not None:
        ledger.replayed(record)
    return Reply(
        usage=recorded.usage,
        model=recorded.model,
        finish=recorded.finish,
        parts=recorded.content,
        issuer=recorded.issuer,
        notes=recorded.notes,
    )


def prefix_of(talk: Conversation, offer: str) -> str:
    """16 hex digits that stand for everything that is sent: messages, opaque parts, tools, schema.

    A life that gets the same as the one before it sends the same.
    """
    parts = f"{talk.digest}:{talk.bound_digest}:{offer}"
    return blake2b(parts.encode(), digest_size=8).hexdigest()


def _stored(ledger: Ledger, content: Content) -> Content:
    """The content as it is recorded: long opaque parts lie beside the log."""
    if isinstance(content, str):
        return content
    parts: list[Part] = []
    for part in content:
        if isinstance(part, OpaquePart) and len(part.data) > INLINE:
            data = part.data.encode("utf-8", "surrogatepass")
            digest = blob_digest(data)
            ledger.store.keep(digest, data)
            part = OpaquePart("", part.kind, digest, len(data))
        parts.append(part)
    return content_of(parts)


async def _whole(ledger: Ledger, reply: Reply) -> Reply:
    """The reply with what lies beside the log. Bytes that are gone are a part that is gone."""
    if not any([isinstance(part, OpaquePart) and part.digest for part in reply.parts]):
        return reply
    parts: list[Part] = []
    for part in reply.parts:
        if isinstance(part, OpaquePart) and part.digest:
            try:
                data = await ledger.store.blob(part.digest)
            except LogError:
                return replace(reply, parts=parts_of(unbound(reply.content)))
            part = OpaquePart(data.decode("utf-8", "surrogatepass"), part.kind, part.digest)
        parts.append(part)
    return replace(reply, parts=tuple(parts))


def _request(ledger: Ledger, effect: Ask, model: Model) -> Request:
    setup = ledger.setup
    specs: tuple[ToolSpec, ...] = ()
    if effect.tools and model.profile.native_tools:
        specs = setup.specs(effect.tools)
    settings = setup.settings
    if setup.limits.usd is not None:
        settings = settings.over(ModelSettings(max_tokens=_most_output(model.profile)))
    return Request(
        conversation=effect.conversation,
        tools=specs,
        allowed=effect.allowed if specs else None,
        schema=effect.schema if model.profile.json_schema else None,
        settings=settings,
        overrides=effect.settings,
        role=effect.role,
        blobs=ledger.media,
        run=ledger.store.run,
    )


def _most_output(profile: Profile) -> int:
    """The bound of a reply whose price must be known before it is asked for."""
    thinks = profile.thinking in ("default", "always")
    return THINKING_MAX_TOKENS if thinks else DEFAULT_MAX_TOKENS


def _check_limits(ledger: Ledger, key: str, request: Request, model: Model) -> Held:
    """Stop before a call that a limit forbids, or whose upper bound does not fit `usd`.

    Returns what the call may consume, so that branches beside this one do not count on it.
    """
    limits, state = ledger.setup.limits, ledger.store.state
    hit = limits.hit(state)
    bound = needed = 0.0
    if hit is None and limits.tokens is not None:
        prompt = _bytes(request) / _USUAL_BYTES_PER_TOKEN
        if state.usage.tokens + prompt > limits.tokens:
            hit, needed = "tokens", round(prompt)
    if hit is None and limits.usd is not None:
        held = sum([call.usd for call in ledger.held.values()])
        asked_settings = request.asked()
        output = asked_settings.max_tokens or _most_output(model.profile)
        price = quote(model, _most_tokens(request), output, asked_settings.service_tier)
        bound = price or 0.0
        if state.usage.usd + held + bound > limits.usd:
            hit, needed = "usd", bound
    if hit is None and ledger.others and limits.calls is not None:
        asking = sum([call.model_calls for call in ledger.held.values()])
        if state.model_calls + asking >= limits.calls:
            hit = "model_calls"
    if hit is not None and hit != "steps":
        allowed: float = getattr(limits, hit) or 0.0
        ledger.put(e.LimitHit(key=key, limit=hit, value=1, needed=needed, allowed=allowed))
        raise Halt(STOP_REASON[hit])
    return Held(model_calls=1, usd=bound) if bound else _ONE_CALL


def _most_tokens(request: Request) -> int:
    """An upper bound of the prompt's tokens, from its bytes: in many scripts a character is one."""
    return int(_bytes(request) / BYTES_PER_TOKEN) + 8 * len(request.conversation) + 64


def _bytes(request: Request) -> int:
    """Of all that is sent, without the provider's own framing."""
    size = request.conversation.size
    if request.tools or request.schema is not None:
        size += len(msgspec.json.encode((request.tools, request.schema)))
    return size


async def _live(
    ledger: Ledger, key: str, effect: Ask, request: Request, model: Model, offer: str
) -> Reply:
    talk = effect.conversation
    if talk.bound and talk.offer not in ("", offer) and model.profile.prefix_bound:
        _cut(ledger, key, talk, "prompt_changed" if talk.offer == CHANGED else "tools_changed")
    await ledger.save()
    await ledger.fetch(talk)
    setup = ledger.setup
    cache_key = "" if setup.cache is None else _place(request, model, talk.digest)
    cached = None if setup.cache is None else setup.cache.get(cache_key)
    started = setup.now()
    if cached is not None:
        reply = replace(cached, usage=Usage())
    else:
        try:
            reply = await _asked(ledger, key, effect, request, model)
        except ModelError as error:
            message = setup.redactor.text(str(error))
            ledger.put(e.AskFailed(key=key, kind=error.kind, message=message))
            if error.kind == "overflow":
                return Reply(finish="overflow")
            if effect.tolerant:
                return Reply(finish="error", reasoning=message)
            raise
        except OutOfTime:
            ledger.put(e.LimitHit(key=key, limit="seconds", value=1))
            raise Halt("timeout") from None
        if setup.cache is not None:
            setup.cache[cache_key] = reply
    ledger.inbox.stale = True
    prefix, talk.offer = prefix_of(talk, offer), offer
    reply = _clean(ledger, reply, model)
    ledger.put(
        e.Replied(
            key=key,
            prompt=talk.digest,
            content=_stored(ledger, reply.content),
            usage=reply.usage,
            model=reply.model,
            finish=reply.finish,
            issuer=reply.issuer,
            notes=reply.notes,
            prefix=prefix,
            role=request.role,
            ms=setup.now() - started,
            cached=cached is not None,
        )
    )
    return reply


async def _asked(ledger: Ledger, key: str, effect: Ask, request: Request, model: Model) -> Reply:
    """The model's reply. If its provider will not have what it once signed, it is asked once
    more without: the conversation goes on, the reasoning so far is lost, and the log says so.
    """
    try:
        return await _reply(ledger, effect, request, model)
    except ModelError as error:
        if error.kind != "binding" or not effect.conversation.bound:
            raise
        detail = ledger.setup.redactor.text(str(error))[:DETAIL]
        _cut(ledger, key, effect.conversation, "refused", detail)
        await ledger.save()
        return await _reply(ledger, effect, request, model)


async def _reply(ledger: Ledger, effect: Ask, request: Request, model: Model) -> Reply:
    """One call of the model, within its seconds and the run's."""
    setup = ledger.setup
    on_text = None
    if setup.on_delta is not None:
        on_text = Heard(partial(setup.on_delta, ledger.store.run), setup)
    try:
        call = model.complete(request, on_text)
        if effect.seconds is not None:
            call = _bounded(call, effect.seconds)
        if setup.limits.seconds is not None:
            call = _within(ledger, call, setup.limits.seconds)
        return checked(await call)
    finally:
        if on_text is not None:
            on_text.end()


class Heard:
    """Passes on what a reply says while it arrives, without secrets. Never logged."""

    def __init__(self, tell: OnText, setup: Setup) -> None:
        self._tell, self._trickle = tell, Trickle(setup.redactor)

    def __call__(self, text: str) -> None:
        """Hear the next piece."""
        safe = self._trickle.feed(utf8(text))
        if safe:
            self._tell(safe)

    def end(self) -> None:
        """Say what was held back."""
        safe = self._trickle.end()
        if safe:
            self._tell(safe)


def _place(request: Request, model: Model, prompt: str) -> str:
    """Where the reply to this very request lies in the cache."""
    tools = ",".join([tool.name for tool in request.tools])
    schema = "" if request.schema is None else repr(request.schema)
    return f"{model.name}:{prompt}:{request.asked()!r}:{request.allowed}:{tools}:{schema}"


class OutOfTime(Exception):
    """The run's seconds ran out while a model was asked."""


async def _bounded(call: Awaitable[Reply], seconds: float) -> Reply:
    """Await `call`, for at most `seconds`."""
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            return await call
    except TimeoutError as error:
        if timer.expired():
            raise ModelError(f"no reply within {seconds} s", kind="timeout") from error
        raise


async def _within(ledger: Ledger, call: Awaitable[Reply], seconds: float) -> Reply:
    """Await `call`, for at most what is left of the run's `seconds`."""
    timer = asyncio.timeout(max(0.0, seconds - ledger.store.state.active_ms / 1000))
    try:
        async with timer:
            return await call
    except TimeoutError as error:
        if timer.expired():
            raise OutOfTime from error
        raise


def _clean(ledger: Ledger, reply: Reply, model: Model) -> Reply:
    """The reply without secrets, with its price and its model's name."""
    usage = reply.usage
    if not usage.usd and usage.tokens:
        usd = model.price(usage.input_tokens, usage.output_tokens)
        usage = msgspec.structs.replace(usage, usd=usd) if usd else usage
    return clean(ledger.setup.redactor, reply, usage, model.name)

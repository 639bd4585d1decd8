"""Asking a model: from the tape if it was asked before, else within the budget.

What the call cost is recorded with the reply, before anyone tries to read it.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

import msgspec
from msgspec.structs import replace as but

from taofold.core import events as e
from taofold.core.effects import Ask, Halt
from taofold.core.errors import ModelError, ReplayDiverged
from taofold.core.values import Reply, Usage
from taofold.policy.limits import STOP_REASON, Held
from taofold.policy.streaming import Trickle
from taofold.runtime.cleaning import checked, clean
from taofold.runtime.ledger import Ledger
from taofold.runtime.model import Model, OnText, Request, ToolSpec
from taofold.runtime.setup import Setup
from taofold.tools.result import utf8

BYTES_PER_TOKEN = 3.0
"""A cautious estimate for the upper bound of a prompt's tokens."""
DEFAULT_MAX_TOKENS = 4096
"""Assumed length of a reply when pricing a call that does not bound it."""
_ONE_CALL = Held(model_calls=1)


async def ask(ledger: Ledger, key: str, effect: Ask) -> Reply:
    """Resolve an `Ask`."""
    prompt = effect.conversation.digest
    known = None if ledger.fresh else _past(ledger, key, effect, prompt)
    if known is not None:
        return known
    ledger.touch(key)
    model = ledger.setup.model(effect.model or effect.role)
    request = _request(ledger, effect, model)
    ledger.held[key] = _check_limits(ledger, key, request, model)
    try:
        return await _live(ledger, key, effect, request, model, prompt)
    finally:
        del ledger.held[key]


def _past(ledger: Ledger, key: str, effect: Ask, prompt: str) -> Reply | None:
    """What became of the call in an earlier life; None if it is to be made now."""
    recorded = ledger.tape.peek(e.Replied, key)
    if recorded is not None:
        return _recorded(ledger, key, prompt, recorded)
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


def _failed(ledger: Ledger, key: str) -> e.AskFailed | None:
    """How the last attempt at this call failed: each life of the run may have made one."""
    failed: e.AskFailed | None = None
    while (record := ledger.tape.take(e.AskFailed, key)) is not None:
        ledger.replayed(record)
        if isinstance(record.event, e.AskFailed):
            failed = record.event
    return failed


def _recorded(ledger: Ledger, key: str, prompt: str, recorded: e.Replied) -> Reply:
    if recorded.prompt != prompt:
        if ledger.exact:
            raise ReplayDiverged(key, f"prompt {recorded.prompt}", f"prompt {prompt}")
        ledger.reworded(key, recorded.prompt, prompt)
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


def _request(ledger: Ledger, effect: Ask, model: Model) -> Request:
    setup = ledger.setup
    specs: tuple[ToolSpec, ...] = ()
    if effect.tools and model.profile.native_tools:
        specs = setup.specs(effect.tools)
    return Request(
        conversation=effect.conversation,
        tools=specs,
        schema=effect.schema if model.profile.json_schema else None,
        max_tokens=setup.max_tokens or (0 if setup.limits.usd is None else DEFAULT_MAX_TOKENS),
        temperature=setup.temperature if effect.temperature is None else effect.temperature,
        role=effect.role,
    )


def _check_limits(ledger: Ledger, key: str, request: Request, model: Model) -> Held:
    """Stop before a call that a limit forbids, or whose upper bound does not fit `usd`.

    Returns what the call may consume, so that branches beside this one do not count on it.
    """
    limits, state = ledger.setup.limits, ledger.store.state
    hit = limits.hit(state)
    bound = 0.0
    if hit is None and limits.usd is not None:
        held = sum([one.usd for one in ledger.held.values()])
        price = model.price(_most_tokens(request), request.max_tokens or DEFAULT_MAX_TOKENS)
        bound = price or 0.0
        if state.usage.usd + held + bound > limits.usd:
            hit = "usd"
    if hit is None and ledger.others and limits.calls is not None:
        asking = sum([one.model_calls for one in ledger.held.values()])
        if state.model_calls + asking >= limits.calls:
            hit = "model_calls"
    if hit is not None and hit != "steps":
        ledger.put(e.LimitHit(key=key, limit=hit, value=1))
        raise Halt(STOP_REASON[hit])
    return Held(model_calls=1, usd=bound) if bound else _ONE_CALL


def _most_tokens(request: Request) -> int:
    """An upper bound of the prompt's tokens, from its bytes: in many scripts a character is one."""
    size = 0
    for message in request.conversation:
        texts = [message.text]
        for call in message.calls:
            texts += (call.name, call.arguments)
        size += sum([len(text.encode("utf-8", "surrogatepass")) for text in texts])
    if request.tools or request.schema is not None:
        size += len(msgspec.json.encode((request.tools, request.schema)))
    size += sum([part.chars for part in request.conversation.media])
    return int(size / BYTES_PER_TOKEN) + 8 * len(request.conversation) + 64


async def _live(
    ledger: Ledger, key: str, effect: Ask, request: Request, model: Model, prompt: str
) -> Reply:
    await ledger.save()
    setup, run = ledger.setup, ledger.store.run
    place = "" if setup.cache is None else _place(request, model, prompt)
    cached = None if setup.cache is None else setup.cache.get(place)
    started = setup.now()
    if cached is not None:
        reply = replace(cached, usage=Usage())
    else:
        on_text = None if setup.on_delta is None else Heard(partial(setup.on_delta, run), setup)
        try:
            said = model.complete(request, on_text)
            if effect.seconds is not None:
                said = _bounded(said, effect.seconds)
            if setup.limits.seconds is not None:
                said = _within(ledger, said, setup.limits.seconds)
            reply = checked(await said)
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
        finally:
            if on_text is not None:
                on_text.end()
        if setup.cache is not None:
            setup.cache[place] = reply
    ledger.inbox.stale = True
    reply = _clean(ledger, reply, model)
    ledger.put(
        e.Replied(
            key=key,
            prompt=prompt,
            content=reply.content,
            usage=reply.usage,
            model=reply.model,
            finish=reply.finish,
            issuer=reply.issuer,
            notes=reply.notes,
            role=request.role,
            ms=setup.now() - started,
            cached=cached is not None,
        )
    )
    return reply


class Heard:
    """Passes on what a reply says while it arrives, without secrets. Never logged."""

    def __init__(self, tell: OnText, setup: Setup) -> None:
        self._tell, self._trickle = tell, Trickle(setup.redactor)

    def __call__(self, text: str) -> None:
        """Hear the next piece."""
        said = self._trickle.feed(utf8(text))
        if said:
            self._tell(said)

    def end(self) -> None:
        """Say what was held back."""
        said = self._trickle.end()
        if said:
            self._tell(said)


def _place(request: Request, model: Model, prompt: str) -> str:
    """Where the reply to this very request lies in the cache."""
    tools = ",".join([tool.name for tool in request.tools])
    schema = "" if request.schema is None else repr(request.schema)
    return f"{model.name}:{prompt}:{request.temperature}:{request.max_tokens}:{tools}:{schema}"


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
        usage = but(usage, usd=usd) if usd else usage
    return clean(ledger.setup.redactor, reply, usage, model.name)
